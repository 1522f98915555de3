"""Approvals: proposed writes that wait for a decision, the most urgent first."""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import case
from runs.interventions.possible import why_not_approve
from runs.models import Effect, Run
from takeover.console import desk

MOST = 100


@dataclass(frozen=True)
class Proposal:
    run: Run
    title: str
    effect: Effect
    requester: str
    why_not: str  # why this person may not approve it; empty: they may

    @property
    def plan(self) -> dict[str, Any]:
        return dict(self.effect.plan)


def waiting(person: User) -> list[Proposal]:
    runs = Run.objects.awaiting_approval().most_urgent_first().select_related("requester", "holder")
    return [
        # The last write of each is the one that waits, whatever became of it before it was put up.
        Proposal(run, case.title(run), effects[-1], desk.name_of(run.requester), why_not_approve(run, person))
        for run in runs.prefetch_related("effects")[:MOST]
        if (effects := list(run.effects.all()))
    ]


@require_safe
@never_cache
def approvals(request: HttpRequest) -> HttpResponse:
    return render(request, "approvals.html", {"proposals": waiting(desk.visitor(request))})


@require_safe
@never_cache
def approvals_list(request: HttpRequest) -> HttpResponse:
    """The list alone: asked for again whenever a run changed."""
    return render(request, "approvals.html#list", {"proposals": waiting(desk.visitor(request))})
