"""The case: the question first, what may be done about it beside it, and what is known one glance below."""

import uuid
from copy import copy
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from runs import case as cases
from runs.domain.budget import STOP_REASON, Dimension, Line
from runs.domain.interventions import FROM_PEOPLE, EventKind, Permission
from runs.domain.states import Move, Outcome, State
from runs.interventions import claims, starting
from runs.interventions.possible import (
    PossibleEvent,
    possible_events,
    possible_follow_ups,
    proposals,
    standing_of,
)
from runs.models import InboxEvent, Run, Seal
from runs.timeline import timeline
from takeover.console import desk

KEYS = {Move.RECONCILE_REQUESTED: "r", Move.APPROVAL_GRANTED: "a", Move.APPROVAL_REJECTED: "x"}
REFUSED_AFTERWARDS = InboxEvent.Result.REFUSED
PROPOSED = InboxEvent.Result.PROPOSED
MOST_FOLLOWERS = 10  # shown


@dataclass(frozen=True)
class Action:
    """One event as a button: pressed at once, opening a form, or forbidden with the reason."""

    name: str
    label: str
    says: str
    why_not: str
    key: str
    at_once: bool  # nothing has to be filled in
    answers_plan: bool
    near: bool  # allowed by the run, or looked for in one that stands like this: a reason why not is worth reading
    only_held: bool  # forbidden only because somebody else has the case, which the page says once
    primary: bool = False


def _action(event: PossibleEvent, run: Run, near: bool, only_held: bool, primary: bool) -> Action:
    kind = event.kind
    return Action(
        name=kind.move.value,
        label=_(kind.label),
        says=says(kind, run),
        why_not=event.why_not,
        key=KEYS.get(kind.move, ""),
        at_once=not kind.payload.get("required"),
        answers_plan=kind.answers_plan,
        near=near,
        only_held=only_held,
        primary=primary,
    )


def says(kind: EventKind, run: Run) -> str:
    """What the event means, and what may still be asked where it makes somebody ask."""
    left = run.ledger.left(Dimension.FOLLOW_UP_CHECKS)
    if not kind.costs_a_look_up or left is None:
        return _(kind.says)
    checks = ngettext("%d follow-up check left.", "%d follow-up checks left.", left) % left
    return f"{_(kind.says)} {checks}"


def _concerns(kind: EventKind, person: User) -> bool:
    """Whether the event is any business of this person: who only looks is not told no for every single one."""
    return desk.may(person, Permission.OPERATE) or desk.may(person, kind.permission)


def _looked_for(run: Run) -> list[Move]:
    """What most likely moves this run on, the best first."""
    if run.state == State.AWAITING_APPROVAL:
        return [Move.APPROVAL_GRANTED]
    if run.state != State.BLOCKED:
        return []
    moves = [Move.RECONCILE_REQUESTED] if run.effects_at_risk else []
    moves += [kind.move for kind in FROM_PEOPLE.values() if run.stop_reason in kind.reasons]
    if run.paused:
        moves.append(Move.UNPAUSED)
    if run.outcome == Outcome.WAITING and not run.effects_at_risk:
        moves.append(Move.RESUMED_AFTER_REVIEW)  # it waits for the world: somebody may have news of it
    if run.outcome == Outcome.LIMIT_REACHED:
        moves.append(Move.BUDGET_EXTENDED)
    return [*moves, Move.EVIDENCE_SUPPLIED, *([] if run.paused else [Move.RESUMED_AFTER_REVIEW])]


def actions(case: dict[str, Any], run: Run, person: User) -> list[Action]:
    """Every event of the catalogue for this person, the one that most likely helps first."""
    events = possible_events(run, person)
    possible = _possible(events)
    only_held = _possible(possible_events(_as_if_free(run), person)) - possible
    looked_for = _looked_for(run)
    near = {event["name"] for event in case["allowed_events"]} | set(looked_for)
    primary = next((move for move in looked_for if move in possible), None)
    found = [
        _action(
            event,
            run,
            near=event.kind.move in near and _concerns(event.kind, person),
            only_held=event.kind.move in only_held,
            primary=event.kind.move is primary,
        )
        for event in events
    ]
    return sorted(found, key=lambda action: (not action.primary, action.name == Move.CANCEL_REQUESTED))


def _possible(events: list[PossibleEvent]) -> set[Move]:
    return {event.kind.move for event in events if not event.why_not}


def _as_if_free(run: Run) -> Run:
    free = copy(run)
    free.held_until = None
    return free


def undecided(case: dict[str, Any]) -> dict[str, Any] | None:
    """The proposed write that lies before a person: the last one, whatever became of it before it was put up."""
    return case["effects"][-1] if case["effects"] and case["state"] == State.AWAITING_APPROVAL else None


def _effects(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Each write with the look-ups that were made about it, the newest first."""
    looks: dict[str, list[dict[str, Any]]] = {}
    for step in reversed(case["steps"]):
        if step["kind"] == "look_up":
            looks.setdefault(step["operation_key"], []).append(step)
    return [effect | {"looks": looks.get(effect["operation_key"], [])} for effect in case["effects"]]


def _budgets(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Each line with how loud it is. One that is used up is bad news only where the run stopped for it."""

    def level(line: dict[str, Any]) -> str:
        if line["left"] <= 0 and case["stop_reason"] == STOP_REASON[Dimension(line["dimension"])]:
            return "out"
        return "soft" if Line(line["limit"], line["soft"], line["spent"]).past_soft else ""

    return [line | {"level": level(line), "used_up": line["spent"] >= line["limit"]} for line in case["budgets"]]


def context(run: Run, person: User) -> dict[str, Any]:
    """Everything that the body of the page shows."""
    case = cases.read(run)
    inbox = list(run.inbox.order_by("-id").select_related("actor")[:20])
    pending = [event for event in inbox if not event.result]
    # What a service said too late is on record, and nobody here was waiting for it.
    last = next((event for event in inbox if event.actor_id and event.result not in {"", PROPOSED}), None)
    not_done = last if last and last.result == REFUSED_AFTERWARDS and last.settled_at else None
    everything = actions(case, run, person)
    forbidden = [action for action in everything if action.why_not and action.near]
    follow_ups = possible_follow_ups(run) if desk.may(person, Permission.START) else []
    return {
        "run": run,
        "case": case,
        "pending": pending,
        "proposed": proposals(run),
        "not_carried_out": not_done if not pending else None,
        "offered": [action for action in everything if not action.why_not],
        "forbidden": forbidden,
        "explained": [action for action in forbidden if not action.only_held],
        "far_off": [action for action in everything if action.why_not and not action.near],
        "undecided": undecided(case),
        "effects": _effects(case),
        "budgets": _budgets(case),
        "unresolved": sum(effect["unresolved"] for effect in case["effects"]),
        "next_look_at": None if run.owner else case["next_look_at"],  # a worker that is at it answers sooner
        "resumes": max(0, run.events.filter(kind="stopped").count() - 1),
        "timeline": timeline(run),
        "seal": Seal.objects.latest_one(),
        "seen": standing_of(run),
        "holder": desk.name_of(run.holder) if run.is_held() else "",
        "mine": run.is_held() and run.holder_id == person.pk,
        "tab": _tab(run),
        "may_operate": desk.may(person, Permission.OPERATE),
        "follow_ups": follow_ups,
        "no_follow_ups": [follow_up for follow_up in follow_ups if follow_up.why_not],
        "follows": cases.title(run.follows) if run.follows else "",
        "followed_by": _followed_by(run),
    }


def _followed_by(run: Run) -> list[dict[str, Any]]:
    """The runs that came out of this one, the latest first."""
    if not run.is_final:
        return []
    after = run.followed_by.order_by("-created_at")[:MOST_FOLLOWERS]
    return [{"pk": one.pk, "title": cases.title(one), "outcome": one.outcome, "state": one.state} for one in after]


def _tab(run: Run) -> desk.Tab:
    """The pile in which this run lies."""
    if run.is_final:
        return desk.TABS["closed"]
    if run.state == State.AWAITING_APPROVAL:
        return desk.TABS["approval"]
    by_outcome = {Outcome.NEEDS_HUMAN: "human", Outcome.WAITING: "waiting", Outcome.LIMIT_REACHED: "limit"}
    return desk.TABS[by_outcome.get(Outcome(run.outcome), "open") if run.outcome else "open"]


@require_safe
@never_cache
def case(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    person, run = desk.case_for(request, run_id)
    return render(request, "case.html", context(run, person))


@require_safe
@never_cache
def case_body(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The same, without the frame: asked for again whenever the run changed."""
    person, run = desk.case_for(request, run_id)
    return render(request, "case.html#body", context(run, person))


@require_safe
@never_cache
def package(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The handoff package as it was written with the stop; for a run that has none, what is recorded now."""
    _person, run = desk.case_for(request, run_id)
    written = run.handoffs.filter(version=run.stretch).last() if run.outcome else None
    answer = JsonResponse(
        written.package if written else cases.read(run), json_dumps_params={"indent": 2, "ensure_ascii": False}
    )
    answer["Content-Disposition"] = f'attachment; filename="{run.workflow}-{run.pk}.json"'
    return answer


@require_POST
@desk.refusals_as_pages
def claim(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    claims.claim(run_id, desk.person(request))
    return redirect(desk.back(request, run_id))


@require_POST
@desk.refusals_as_pages
def release(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    claims.release(run_id, desk.person(request))
    return redirect(desk.back(request, run_id))


@require_POST
@desk.refusals_as_pages
def follow_up(request: HttpRequest, run_id: uuid.UUID, name: str) -> HttpResponse:
    """Start the run that comes out of this one, and go there; also where it was started before."""
    run, made = starting.follow_up(run_id, name, desk.person(request))
    if not made:
        messages.info(request, _("This run was under way already; nothing new was started."))
    return redirect("case", run_id=run.pk)
