"""What an answer may still change that comes late, and when the authority is asked next.

A worker that lost its run keeps the answer in its hand as evidence; the next one holds it against what is known then.
"""

from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from runs import case
from runs.domain.effects import Answer
from runs.engine import calls, commit
from runs.engine.advance import advance
from runs.engine.calls import Planned
from runs.engine.events import read_inbox
from runs.engine.held import Held
from runs.interventions import sending
from runs.models import Run
from runs.tools.tool import Result
from runs.workflows.refund_request import WORKFLOW
from tests.engine.conftest import Engine
from tests.engine.dying import Died
from tests.engine.test_leases import interrupt, taken_over
from tests.people import person

PAST = "2000-01-01T00:00Z"


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def next_worker(run: Run) -> Run:
    """The lease, or the timer, ran out; another worker takes the run."""
    Run.objects.filter(pk=run.pk, due_at__isnull=False).update(due_at=PAST)
    advance(run.pk)
    run.refresh_from_db()
    return run


def late(run: Run) -> tuple[str, str]:
    event = run.inbox.get(name="late_result")
    return event.result, event.payload["answer"]


def send(run: UUID, event: str, reason: str) -> None:
    sending.send(run, event, person("alice"), {"reason": reason})


# A result whose worker had lost the run


def test_a_late_declaration_that_nothing_was_done_lets_a_cancelled_run_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    person("alice")
    engine.back_office.fault("B456", "rate_limited", times=1, retry_after=1)
    interrupt(monkeypatch, "write", lambda run: send(run, "cancel_requested", "customer withdrew"))
    run = engine.start("B456")
    advance(run.pk)

    run = next_worker(run)

    assert late(run) == ("applied", "not_executed")
    assert stopped_as(run) == ("CANCELLED", "cancelled_absent")
    assert len(engine.calls("B456", "submit")) == 1


def test_a_late_answer_that_nobody_answered_is_kept_and_changes_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_lags")
    interrupt(monkeypatch, "write", taken_over)
    run = engine.start("B456")
    advance(run.pk)

    run = next_worker(run)

    assert late(run) == ("refused", "unreachable")
    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert len(engine.calls("B456", "lookup")) == 1  # it brought nothing that would have to be looked at


def test_a_result_that_comes_after_the_end_is_kept_and_wakes_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, "write", taken_over)

    run = engine.run("B456")

    assert late(run) == ("refused", "accepted")
    assert run.inbox.get().result_reason == "The run had ended; kept as evidence."
    assert run.due_at is None


@pytest.fixture
def sent_twice(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Run:
    """One worker learnt that the first attempt is absent, and lost its run. Another one had learnt the same and sent
    it again; that answer was lost, and look-ups are answered by an index that lags."""
    engine.back_office.fault("B456", "timeout_before_effect", seconds=0, times=1)
    run = engine.run("B456")
    assert stopped_as(run) == ("WAITING", "effect_unknown")
    engine.back_office.fault("B456", "answer_lost", times=1)

    def another_one_takes_over(run: UUID) -> None:
        interrupt(monkeypatch, "write", lambda run: engine.back_office.fault("B456", "lookup_lags"))
        taken_over(run)

    interrupt(monkeypatch, "look_up", another_one_takes_over)
    run.effects.update(next_look_at=PAST, sent_at=PAST)
    run = next_worker(run)
    effect = run.effects.get()
    assert (effect.times_sent, effect.state) == (2, "unknown")
    assert late(run) == ("", "absent")
    return run


def test_a_late_proof_that_the_first_attempt_is_absent_does_not_end_a_run_that_was_sent_again(
    engine: Engine, sent_twice: Run
) -> None:
    send(sent_twice.pk, "cancel_requested", "customer withdrew")

    run = next_worker(sent_twice)

    assert late(run) == ("refused", "absent")
    assert stopped_as(run) == ("NEEDS_HUMAN", "outcome_unconfirmed")
    assert run.effects.get().state == "unknown"
    assert len(engine.effects("B456")) == 1


def test_one_proof_of_absence_permits_one_more_attempt(engine: Engine, sent_twice: Run) -> None:
    run = next_worker(sent_twice)

    assert late(run) == ("refused", "absent")
    assert stopped_as(run) == ("NEEDS_HUMAN", "outcome_unconfirmed")
    assert len(engine.calls("B456", "submit")) == 2


def test_a_late_word_that_it_is_not_there_is_no_proof_once_the_service_has_acknowledged_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "answer_lost", times=1)
    run = engine.start("B456")
    perform, look_ups = calls._perform, iter((Answer.ABSENT, Answer.PENDING))

    def performed(held: Held, planned: Planned, until: float) -> Any:
        answer = next(look_ups, None) if planned.tool.name == "look_up_refund" else None
        if answer is Answer.ABSENT:
            taken_over(held.lease.run)  # by one to whom it is acknowledged
        return Result({}, "as the test wants it", answer=answer) if answer else perform(held, planned, until)

    monkeypatch.setattr(calls, "_perform", performed)
    advance(run.pk)
    run.refresh_from_db()
    assert stopped_as(run) == ("WAITING", "effect_pending")

    run = next_worker(run)

    assert late(run) == ("applied", "absent")
    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    assert len(engine.calls("B456", "submit")) == 1


def test_a_late_declaration_that_nothing_was_done_is_no_proof_against_receipts_that_contradict(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "rate_limited", times=1, retry_after=1)
    perform = calls._perform

    def performed(held: Held, planned: Planned, until: float) -> Any:
        if planned.tool.name == "look_up_refund":
            return Result({}, "as the test wants it", answer=Answer.CONTRADICTORY)
        return perform(held, planned, until)

    monkeypatch.setattr(calls, "_perform", performed)
    interrupt(monkeypatch, "write", taken_over)
    run = engine.start("B456")
    advance(run.pk)

    run = next_worker(run)

    assert late(run)[1] == "not_executed"
    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    assert len(engine.calls("B456", "submit")) == 1


@pytest.mark.parametrize("between", [Answer.UNREACHABLE, Answer.NOT_FOUND_YET])
def test_what_was_acknowledged_is_not_forgotten_over_a_look_up_that_says_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, between: Answer
) -> None:
    perform, look_ups = calls._perform, iter((Answer.PENDING, Answer.ABSENT, between, Answer.ABSENT))

    def performed(held: Held, planned: Planned, until: float) -> Any:
        if planned.tool.name == "look_up_refund":
            return Result({}, "as the test wants it", answer=next(look_ups))
        return perform(held, planned, until)

    monkeypatch.setattr(calls, "_perform", performed)
    engine.back_office.fault("B456", "answer_lost", times=1)
    run = engine.later(engine.run("B456"))
    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    for _ in range(2):
        run = engine.send(run, "reconcile_requested", "alice")

        assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    assert len(engine.calls("B456", "submit")) == 1


# A request that may still be on its way


def test_a_worker_that_stood_still_after_its_intent_does_not_send(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = calls._mark_as_sent

    def marked(held: Held, planned: Planned) -> None:
        mark(held, planned)
        monkeypatch.setattr(calls, "MARGIN", 0.0)  # whatever the commit takes is too long

    monkeypatch.setattr(calls, "_mark_as_sent", marked)
    run = engine.start("B456")
    advance(run.pk)

    run.refresh_from_db()
    assert run.outcome == ""
    assert run.effects.get().state == "sent"
    assert engine.calls("B456", "submit") == []


def test_a_worker_that_stood_still_before_its_intent_was_saved_does_not_send(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the instant on that is saved as the sending's, others count the time in which it may still arrive."""
    intend, stood_still = calls._intend, 0.0

    def intended(held: Held, planned: Planned) -> dict[str, Any]:
        nonlocal stood_still
        stood_still = calls.MARGIN + 1 if planned.tool.name == "submit_refund" else 0.0
        return intend(held, planned)

    for module in (calls, commit):
        monkeypatch.setattr(module, "monotonic", lambda: monotonic() + stood_still)
    monkeypatch.setattr(calls, "_intend", intended)
    run = engine.start("B456")
    advance(run.pk)

    run.refresh_from_db()
    assert run.effects.get().state == "sent"
    assert engine.calls("B456", "submit") == []


@pytest.mark.parametrize(("seconds", "submits"), [(14, 1), (21, 2)])
def test_not_there_is_no_proof_while_the_worker_the_call_or_the_service_may_still_deliver_it(
    engine: Engine, seconds: int, submits: int
) -> None:
    engine.back_office.fault("B456", "timeout_before_effect", seconds=0, times=1)
    run = engine.run("B456")
    # 5 s until the worker may have sent it, 5 s for the call, 10 s in flight.
    run.effects.update(next_look_at=PAST, sent_at=timezone.now() - timedelta(seconds=seconds))

    next_worker(run)

    assert len(engine.calls("B456", "submit")) == submits


def test_a_write_that_declares_a_longer_flight_is_waited_for(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = replace(WORKFLOW.tools["submit_refund"], in_flight_grace=timedelta(hours=1))
    monkeypatch.setitem(WORKFLOW.tools, "submit_refund", submit)
    engine.back_office.fault("B456", "timeout_before_effect", seconds=0, times=1)
    run = engine.run("B456")
    run.effects.update(next_look_at=PAST, sent_at=timezone.now() - timedelta(minutes=30))

    run = next_worker(run)

    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert len(engine.calls("B456", "submit")) == 1


def test_a_cancellation_that_meets_a_refusal_says_that_it_took_no_effect(engine: Engine) -> None:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    refused = {"state": "rejected", "reason": "no_money"}
    path = f"/control/refunds/{run.effects.get().operation_key}"
    engine.back_office.client.put(path, json=refused).raise_for_status()

    run = engine.send(run, "cancel_requested", "alice", reason="customer withdrew")

    assert stopped_as(run) == ("CANCELLED", "cancelled_absent")
    assert case.read(run)["customer_says"]["en"] == "Your refund request for order B456 did not take effect."


# When the authority is asked next


@pytest.fixture
def lagging(engine: Engine) -> Run:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_lags")
    run = engine.run("B456")
    assert stopped_as(run) == ("WAITING", "effect_unknown")
    return run


@pytest.fixture
def followed_up(engine: Engine) -> Run:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    for _ in range(3):
        run = engine.later(run)
    assert stopped_as(run) == ("LIMIT_REACHED", "limit_status_checks")
    return run


def test_a_person_who_asks_does_not_put_off_what_was_due_anyway(engine: Engine, lagging: Run) -> None:
    due = lagging.due_at

    run = engine.send(engine.send(lagging, "reconcile_requested", "alice"), "reconcile_requested", "alice")

    assert run.due_at == due


def test_peoples_look_ups_do_not_take_the_scheduled_ones_away(engine: Engine, lagging: Run) -> None:
    run = lagging
    for _ in range(6):
        run = engine.send(run, "reconcile_requested", "alice")

    run = engine.send(run, "evidence_supplied", "alice", statement="customer called", reference="ticket 1")

    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert run.due_at is not None
    assert run.budget["follow_up_checks"][2] == 6


def test_one_follow_up_without_an_answer_does_not_end_them(engine: Engine, followed_up: Run) -> None:
    engine.back_office.fault("B456", "lookup_down", times=1)

    run = engine.later(followed_up)

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_status_checks")
    assert run.due_at is not None
    assert run.effects.get().state == "acknowledged"


def test_what_a_person_asked_for_survives_the_worker_that_did_it(
    engine: Engine, lagging: Run, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    def die(run: UUID) -> None:
        raise Died

    settings.ENGINE_SLICE = 0
    sending.send(lagging.pk, "reconcile_requested", person("alice"), {})
    interrupt(monkeypatch, "look_up", die)
    with pytest.raises(Died):
        advance(lagging.pk)
    engine.back_office.clear("B456")

    run = next_worker(lagging)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "lookup")) == 3


def test_an_event_that_arrives_as_the_timer_goes_off_is_carried_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    evidence = {"statement": "customer called", "reference": "ticket 1"}

    def read_just_before(held: Held) -> None:
        read_inbox(held)
        monkeypatch.setattr("runs.engine.advance.read_inbox", read_inbox)
        sending.send(run.pk, "evidence_supplied", person("alice"), evidence)

    monkeypatch.setattr("runs.engine.advance.read_inbox", read_just_before)
    run = next_worker(engine.later(run))

    assert run.inbox.get().result == "applied"
    assert stopped_as(run) == ("WAITING", "effect_pending")
