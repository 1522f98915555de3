"""Engines broken on purpose, one line of the law each, to see that the invariants notice. Called in a fork only."""

from typing import Any

from django.db import connection

from runs.domain import effects
from runs.domain.budget import Charge, Ledger
from runs.domain.effects import Answer, EffectState
from runs.engine import calls, commit
from runs.engine.held import Held
from runs.models import InboxEvent
from runs.models.run import RunQuerySet


def the_intent_is_committed_after_the_call() -> None:
    perform, keep = calls._perform, Held.keep

    def performed_first(held: Held, planned: calls.Planned, until: float) -> Any:
        result = perform(held, planned, until)
        keep(held, planned.tool.deadline + calls.MARGIN)
        return result

    Held.keep = lambda self, seconds: None  # type: ignore[method-assign]
    calls._perform = performed_first


def silence_is_taken_for_absence() -> None:
    effects.LIFE[EffectState.SENT, Answer.UNREACHABLE] = EffectState.ABSENT


def acceptance_is_taken_for_a_refusal() -> None:
    effects.LIFE[EffectState.SENT, Answer.ACCEPTED] = EffectState.REJECTED


def a_call_is_charged_once_it_is_over() -> None:
    settle, reserve = Ledger.settle, Ledger.reserve
    Ledger.reserve = lambda self, charge: self  # type: ignore[method-assign]

    def charged_late(self: Ledger, charge: Charge, used: Charge | None = None) -> Ledger:
        return settle(reserve(self, charge), charge, used)

    Ledger.settle = charged_late  # type: ignore[method-assign]


def commits_ask_for_no_token() -> None:
    fence = " AND token = %(token)s AND owner = %(owner)s AND revision = %(revision)s"
    assert fence in commit.COMMIT
    commit.COMMIT = commit.COMMIT.replace(fence, "")


def what_somebody_held_is_passed_over() -> None:
    due = RunQuerySet.due
    RunQuerySet.due = lambda self: due(self).filter(owner="")  # type: ignore[method-assign]


def an_interrupted_call_is_forgotten() -> None:
    calls.settle_interrupted = lambda held: None


def an_event_is_saved_before_its_run_is_told_of_it() -> None:
    create = InboxEvent.objects.create

    def saved_at_once(**fields: Any) -> InboxEvent:
        event = create(**fields)
        connection.connection.commit()
        return event

    InboxEvent.objects.create = saved_at_once  # type: ignore[method-assign]
