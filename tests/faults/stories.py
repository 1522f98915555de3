"""Runs from their start to their end, told so that any process can take them up where the rows say they stand.

A story is a table row: the faults of the service, what its people do when they see the run, and how it ends. `play`
carries it on in the process it is called in, by the same functions that workers, the sweeper and the screens call.
There is no broker: every wake-up is lost, and the sweeper alone finds what is due.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet

from runs.domain.budget import STOP_REASON
from runs.domain.effects import EffectState
from runs.domain.states import Move, Outcome, State, StopReason
from runs.engine.sweep import Sweeper
from runs.interventions import sending, starting
from runs.models import Run

PAST = "2000-01-01T00:00Z"
ROUNDS = 30  # passes of the sweeper after which a story that still moves will never end
APPROVED_BY_A_PERSON = {"amount_minor": 249_00}
LET_IN_BY_THE_ORGANISER = {"admission": "organiser"}

Event = tuple[str, Move, dict[str, Any], str]  # who sends, what, with which payload, in answer to which plan
Reaction = Callable[[Run], Event | None]


def nobody_acts(run: Run) -> Event | None:
    return None


def somebody_approves(run: Run) -> Event | None:
    """Whoever finds the plan undecided approves it; also the person whose browser never heard what became of that."""
    if run.state != State.AWAITING_APPROVAL or said(run, Move.APPROVAL_GRANTED).filter(stretch=run.stretch).exists():
        return None
    return "supervisor", Move.APPROVAL_GRANTED, {}, run.effects.latest("planned_at").plan_digest


def somebody_withdraws(run: Run) -> Event | None:
    if not run.outcome or said(run, Move.CANCEL_REQUESTED).exists():
        return None
    return "supervisor", Move.CANCEL_REQUESTED, {"reason": "The customer keeps it."}, ""


def somebody_withdraws_what_arrived(run: Run) -> Event | None:
    return somebody_withdraws(run) if run.effects.filter(state=EffectState.ACKNOWLEDGED).exists() else None


def somebody_undoes(run: Run) -> Event | None:
    """Withdraws what arrived, and has it undone once it turns out that it was accepted."""
    if run.stop_reason == "cancelled_too_late" and not said(run, Move.COMPENSATION_APPROVED).exists():
        return "supervisor", Move.COMPENSATION_APPROVED, {"reason": "The customer keeps it."}, ""
    return somebody_withdraws_what_arrived(run)


def somebody_undoes_what_waits(run: Run) -> Event | None:
    """Withdraws what waits for a decision, and has undone what was written by then."""
    if run.stop_reason == "cancelled_too_late":
        return somebody_undoes(run)
    return somebody_withdraws(run) if run.state == State.AWAITING_APPROVAL else None


def somebody_edits(run: Run) -> Event | None:
    """Approves what is put up, and grants more of what is used up, once of each budget."""
    limits = {reason: dimension for dimension, reason in STOP_REASON.items()}
    dimension = limits.get(StopReason(run.stop_reason)) if run.stop_reason else None
    if dimension and not said(run, Move.BUDGET_EXTENDED).filter(payload__dimension=dimension).exists():
        by = run.ledger.lines[dimension].limit
        return "supervisor", Move.BUDGET_EXTENDED, {"dimension": dimension, "by": by, "reason": "Go on."}, ""
    return somebody_approves(run)


def said(run: Run, move: Move) -> "QuerySet[Any]":
    return run.inbox.filter(name=move).exclude(result="refused")


@dataclass(frozen=True)
class Subject:
    """What the runs of a workflow are about. Each attempt has one of its own, made for it at the service."""

    workflow: str
    called: str  # the field of the input in which it stands
    controls: str  # of the service, by which it is made; none: it is files in the folder of documents
    others: Mapping[str, Any] = field(default_factory=dict)  # what else stands in the input


ORDER = Subject("refund_request", "order_id", "orders")
REPORT = Subject("research_report", "report_id", "assignments")
PAPERS = {"first": "originals/rain.md", "second": "originals/wells.md"}
DIGEST = Subject("document_digest", "digest", "", PAPERS)
HANDED_OVER = Subject("document_digest", "digest", "", {**PAPERS, "hand_over": True})
EVENT = Subject("workshop_booking", "event_id", "events", {"participant_id": "P-301"})


@dataclass(frozen=True)
class Story:
    ends: tuple[Outcome, str]  # and the stop's reason
    faults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of this order or event, by name
    order: Mapping[str, Any] = field(default_factory=dict)  # what is special about it
    reacts: Reaction = nobody_acts
    settings: Mapping[str, Any] = field(default_factory=dict)
    about: Subject = ORDER


COMPLETED = (Outcome.COMPLETED, "contract_met")
STORIES = {
    "write": Story(COMPLETED),
    "a hop a step": Story(COMPLETED, settings={"ENGINE_SLICE": 0}),
    "answer lost": Story(COMPLETED, {"answer_lost": {"times": 1}}),
    "never arrived": Story(COMPLETED, {"timeout_before_effect": {"times": 1, "seconds": 0}}),
    "read again": Story(COMPLETED, {"unavailable": {"times": 1, "where": "orders"}}),
    "pending": Story(COMPLETED, {"pending": {"lookups": 1}}),
    "rejected": Story((Outcome.DECLINED, "refused_by_service"), {"refused": {}}),
    "approval": Story(COMPLETED, order=APPROVED_BY_A_PERSON, reacts=somebody_approves),
    "cancelled before": Story(
        (Outcome.CANCELLED, "cancelled_unsent"), order=APPROVED_BY_A_PERSON, reacts=somebody_withdraws
    ),
    "cancelled after": Story(
        (Outcome.CANCELLED, "cancelled_absent"),
        {"timeout_before_effect": {"times": 1, "seconds": 0}},
        reacts=somebody_withdraws,
    ),
    "undone": Story(
        (Outcome.CANCELLED, "cancelled_compensated"),
        {"pending": {"lookups": 1}},
        reacts=somebody_undoes,
    ),
    "cancelled too late": Story(
        (Outcome.NEEDS_HUMAN, "cancelled_too_late"),
        {"pending": {"lookups": 1}},
        reacts=somebody_withdraws_what_arrived,
    ),
    "booking": Story(COMPLETED, about=EVENT),
    "booking, answer lost": Story(COMPLETED, {"answer_lost": {"times": 1}}, about=EVENT),
    "booking, never arrived": Story(COMPLETED, {"timeout_before_effect": {"times": 1, "seconds": 0}}, about=EVENT),
    "booking, let in": Story(COMPLETED, order=LET_IN_BY_THE_ORGANISER, reacts=somebody_approves, about=EVENT),
    "booking, undone": Story(
        (Outcome.CANCELLED, "cancelled_compensated"),
        {"pending": {"lookups": 1}},
        reacts=somebody_undoes,
        about=EVENT,
    ),
    "digest": Story(COMPLETED, about=DIGEST),
    "digest, handed over": Story(COMPLETED, reacts=somebody_approves, about=HANDED_OVER),
    "digest, undone": Story(
        (Outcome.CANCELLED, "cancelled_compensated"), reacts=somebody_undoes_what_waits, about=HANDED_OVER
    ),
    "report": Story(COMPLETED, reacts=somebody_edits, about=REPORT),
    "report, revised": Story(
        COMPLETED,
        {"answer_lost": {"times": 1}, "review_blocks": {"section": "findings", "revisions": 1}},
        reacts=somebody_edits,
        about=REPORT,
    ),
}


def play(story: Story, order_id: str, unseen: Callable[[], AbstractContextManager[None]]) -> None:
    """Carry the story of this order or event on until nothing moves any more.

    `unseen` covers what is the test's own doing: looking at the rows, and letting time pass.
    """
    for name, value in story.settings.items():
        setattr(settings, name, value)
    with unseen():
        people = {person.username: person for person in User.objects.all()}
    # Who got no answer asks again, under the same key.
    given = {story.about.called: order_id, **story.about.others}
    run, _ = starting.start(story.about.workflow, given, people["support"], request_key=order_id)
    for _ in range(ROUNDS):
        Sweeper().sweep()
        with unseen():
            run = Run.objects.get(pk=run.pk)
            event = story.reacts(run)
            moves = event is not None or time_passes(run)
        if event:
            sender, move, payload, answers = event
            sending.send(run.pk, move, people[sender], payload, answers)
        if not moves:
            return
    raise AssertionError(f"After {ROUNDS} passes the run is {run.state}, {run.outcome} and due at {run.due_at}.")


def time_passes(run: Run) -> bool:
    """Let the next thing happen that time alone brings; False where nothing is left to come."""
    if run.due_at is None or (run.state == State.AWAITING_APPROVAL and not run.owner):
        return False  # nothing is to come, or only the end of the time in which somebody may decide
    if not run.owner:  # a timer goes off; otherwise a lease runs out, which is sooner than any look-up proves absence
        run.effects.exclude(next_look_at=None).update(next_look_at=PAST, sent_at=PAST)
    Run.objects.filter(pk=run.pk, token=run.token).update(due_at=PAST)
    return True
