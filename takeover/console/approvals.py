"""Approvals: proposed writes that wait for a decision, the most urgent first."""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from runs.domain.effects import EffectState
from runs.domain.interventions import Permission
from runs.models import Effect, Run
from takeover.console import desk, words

MOST = 100


@dataclass(frozen=True)
class Proposal:
    run: Run
    title: str
    effect: Effect
    requester: str
    why_not: str  # why this person may not decide it; empty: they may

    @property
    def plan(self) -> dict[str, Any]:
        return dict(self.effect.plan)


def _why_not(run: Run, person: User, may_decide: bool) -> str:
    if not may_decide:
        return _("Your role may see it, but not decide it.")
    if run.requester_id == person.pk:
        return _("You asked for it yourself. You may reject it; somebody else must approve it.")
    return ""


def waiting(person: User) -> list[Proposal]:
    runs = {
        run.pk: run for run in Run.objects.awaiting_approval().most_urgent_first().select_related("requester")[:MOST]
    }
    effects = {effect.run_id: effect for effect in Effect.objects.filter(run__in=list(runs), state=EffectState.PLANNED)}
    may_decide = desk.may(person, Permission.APPROVE)
    return [
        Proposal(
            run,
            words.title(run),
            effects[number],
            desk.name_of(run.requester),
            _why_not(run, person, may_decide),
        )
        for number, run in runs.items()
        if number in effects
    ]


@require_GET
@never_cache
def approvals(request: HttpRequest) -> HttpResponse:
    return render(request, "approvals.html", {"proposals": waiting(desk.visitor(request))})


@require_GET
@never_cache
def approvals_list(request: HttpRequest) -> HttpResponse:
    """The list alone: asked for again whenever a run changed."""
    return render(request, "approvals.html#list", {"proposals": waiting(desk.visitor(request))})
