"""Approvals: proposed writes that wait for a decision, the most urgent first, each decided on its own card."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.db.models import Count, Q, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from runs import case
from runs.domain.states import Move, State
from runs.interventions import together
from runs.interventions.possible import decisions
from runs.models import Effect, InboxEvent, Run
from takeover.console import desk, words
from takeover.console.queue.filters import FILTERS
from takeover.console.queue.paging import ORDERS, page
from takeover.console.queue.screen import stamps

MOST_SHOWN = 90  # cards that an open page follows: what is decided stays in its place, what is new comes after it
STAMP = len(f"{uuid.UUID(int=0)}.") + 12


@dataclass(frozen=True)
class Proposal:
    """One card: the write as it was put up, and what this person may do about it."""

    run: Run
    title: str
    effect: Effect
    requester: str
    waits: bool
    why_not: dict[Move, str]
    said: InboxEvent | None  # the last that somebody said about it, which a worker has still to carry out or has
    goes_together: bool
    is_new: bool = False
    has_changed: bool = False  # another plan than the one that the page showed

    @property
    def plan(self) -> dict[str, Any]:
        return dict(self.effect.plan)

    @property
    def is_open(self) -> bool:
        return self.waits and self.said is None and not self.has_changed

    @property
    def why_not_approve(self) -> str:
        return self.why_not[Move.APPROVAL_GRANTED]

    @property
    def why_not_reject(self) -> str:
        return self.why_not[Move.APPROVAL_REJECTED]

    @property
    def may_amend(self) -> bool:
        return not self.why_not[Move.PLAN_AMENDED]

    @property
    def said_by(self) -> str:
        return desk.name_of(self.said.actor) if self.said else ""

    @property
    def pair(self) -> str:
        return together.pair(self.run.pk, self.effect.plan_digest)

    @property
    def stamp(self) -> str:
        """Which run, and the beginning of which plan, the page shows."""
        return self.pair[:STAMP]


def proposals(found: list[Run], person: User, known: Mapping[uuid.UUID, str] = MappingProxyType({})) -> list[Proposal]:
    """A card for each of these. `known`: what a page shows already, by run; the others are new to it."""
    prefetch_related_objects(found, "effects")
    said = _said(found)
    return [
        Proposal(
            run=run,
            title=case.title(run),
            # The last write of each is the one that waits, whatever became of it before it was put up.
            effect=effects[-1],
            requester=desk.name_of(run.requester),
            waits=run.state == State.AWAITING_APPROVAL,
            why_not=decisions(run, person),
            said=said.get((run.pk, effects[-1].plan_digest)) or said.get((run.pk, "")),
            goes_together=together.may_go_together(run, effects[-1]),
            is_new=bool(known) and run.pk not in known,
            has_changed=run.pk in known and not effects[-1].plan_digest.startswith(known[run.pk]),
        )
        for run in found
        if (effects := list(run.effects.all()))
    ]


def _said(runs: list[Run]) -> dict[tuple[uuid.UUID, str], InboxEvent]:
    """The last event about each run that is not carried out yet; of one that waits no more, the decision that was."""
    over = [run.pk for run in runs if run.state != State.AWAITING_APPROVAL]
    decided = Q(run__in=over, result=InboxEvent.Result.APPLIED) & ~Q(answers="")
    events = InboxEvent.objects.filter(Q(run__in=runs, result="") | decided).select_related("actor").order_by("id")
    return {(event.run_id, event.answers): event for event in events}


# Which of them, and in which order


@dataclass(frozen=True)
class Place:
    """Where in the list somebody is: everything that its address says."""

    workflow: str = ""
    after: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> "Place":
        workflow = request.GET.get("workflow", "")
        if workflow and not FILTERS["workflow"].knows(workflow):
            raise BadRequest(_("There is no such workflow."))
        return cls(workflow, request.GET.get("after", ""))

    def query(self, **change: str) -> str:
        now = {"workflow": self.workflow, "after": self.after, **change}
        return urlencode({name: value for name, value in now.items() if value})

    def here(self) -> str:
        query = self.query()
        return f"?{query}" if query else ""

    def page(self) -> tuple[list[Run], str]:
        """The runs of this page, the most urgent first, and where the next one begins (empty: nowhere)."""
        found = Run.objects.awaiting_approval().select_related("requester")
        found = found.filter(workflow=self.workflow) if self.workflow else found
        return page(found, ORDERS["urgency"], self.after, all_stopped=False)


# Views


@require_safe
@never_cache
def approvals(request: HttpRequest) -> HttpResponse:
    person, place = desk.visitor(request), Place.of(request)
    by_workflow = Run.objects.awaiting_approval().values_list("workflow").annotate(n=Count("pk")).order_by("workflow")
    runs, behind = place.page()
    context = _context(place, proposals(runs, person)) | {
        "workflows": [(name, words.workflow(name), number) for name, number in by_workflow],
        "next": place.query(after=behind) if behind else "",
    }
    return render(request, "approvals.html", context)


@require_safe
@never_cache
def approvals_list(request: HttpRequest) -> HttpResponse:
    """The list alone, asked for again whenever a run changed. What the page shows stays where it is, decided or not."""
    person, place = desk.visitor(request), Place.of(request)
    known = stamps([stamp for stamp in request.GET.getlist("shown")[:MOST_SHOWN] if stamp])
    waiting = [] if len(known) >= MOST_SHOWN else place.page()[0]
    there = {run.pk: run for run in [*_these(known), *waiting]}
    wanted = [there[number] for number in dict.fromkeys([*known, *there]) if number in there]
    return render(request, "approvals.html#list", _context(place, proposals(wanted, person, known)))


def _these(numbers: Iterable[uuid.UUID]) -> list[Run]:
    return list(Run.objects.filter(pk__in=list(numbers)).select_related("requester", "holder"))


def _context(place: Place, shown: list[Proposal]) -> dict[str, Any]:
    return {
        "place": place,
        "proposals": shown,
        "some_go_together": any(one.goes_together and one.is_open and not one.why_not_approve for one in shown),
        "some_are_over": any(not one.waits or one.has_changed for one in shown),
        "back": f"{reverse('approvals')}{place.here()}",
    }


def card(request: HttpRequest, run_id: uuid.UUID, back: str) -> HttpResponse | None:
    """The card of one run as it stands after this person decided, in the place of the card that was there; None for a
    run that never proposed a write, and has none."""
    shown = proposals(_these([run_id]), desk.visitor(request))
    if not shown:
        return None
    answer = render(request, "_proposal.html", {"proposal": shown[0], "back": back, "just_decided": True})
    answer["HX-Retarget"], answer["HX-Reswap"] = f"#p-{run_id}", "outerHTML settle:0"  # its keys work at once
    return answer


@require_POST
@never_cache
def approve_together(request: HttpRequest) -> HttpResponse:
    """Approve the chosen plans, each by itself and as it was shown; what became of each."""
    person = desk.visitor(request)
    chosen = request.POST.getlist("plan")
    if len(chosen) > MOST_SHOWN:
        raise BadRequest(_("More plans were chosen than one page shows."))
    results = together.approve(chosen, person)
    told = [(one, case.title(one.run) if one.run else "") for one in results]
    recorded = sum(not one.refused for one in results)
    context = {"results": told, "recorded": recorded, "refused": len(results) - recorded}
    return render(request, "approved_together.html", context)
