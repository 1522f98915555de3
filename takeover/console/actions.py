"""What may be done about a run: each event of the catalogue as a button, behind a form, or forbidden, with why."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from runs.domain.budget import Dimension
from runs.domain.interventions import EventKind, Permission
from runs.domain.states import Move
from runs.interventions.claims import not_theirs
from runs.interventions.possible import PossibleEvent, possible_events
from runs.models import InboxEvent, Run
from takeover.console import asked_for, desk

KEYS = {Move.RECONCILE_REQUESTED: "r", Move.APPROVAL_GRANTED: "a", Move.APPROVAL_REJECTED: "x"}


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
    left = run.ledger.left(Dimension.FOLLOW_UP_CHECKS) if kind.costs_a_look_up else None
    if left is None:
        return _(kind.says)
    checks = ngettext("%d follow-up check left.", "%d follow-up checks left.", left) % left
    return f"{_(kind.says)} {checks}"


def _concerns(kind: EventKind, person: User) -> bool:
    """Whether the event is any business of this person: who only looks is not told no for every single one."""
    return desk.may(person, Permission.OPERATE) or desk.may(person, kind.permission)


def actions(
    case: dict[str, Any],
    run: Run,
    person: User,
    proposed: Mapping[str, InboxEvent],
    unread: Iterable[InboxEvent] | None = None,
) -> list[Action]:
    """Every event of the catalogue for this person, the one that the question asks for first. `proposed` and `unread`
    as for `possible_events`."""
    events = possible_events(run, person, proposed, unread)
    possible = {event.kind.move for event in events if not event.why_not}
    held = not_theirs(run, person)
    near = {event["name"] for event in case["allowed_events"]} | asked_for.worth_a_reason(run)
    primary = asked_for.first(run, possible, proposed)
    found = [
        _action(
            event,
            run,
            near=event.kind.move in near and _concerns(event.kind, person),
            only_held=bool(held) and event.why_not == held,  # the last thing that is looked at
            primary=event.kind.move is primary,
        )
        for event in events
    ]
    return sorted(found, key=lambda action: (not action.primary, action.name == Move.CANCEL_REQUESTED))
