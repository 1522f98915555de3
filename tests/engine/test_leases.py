"""Who holds a run may change it, and nobody else: claims, fences, late results, lost messages, poison."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from runs import case
from runs.engine import calls, commit
from runs.engine.advance import advance
from runs.engine.calls import Planned
from runs.engine.commit import LeaseLost, Pending
from runs.engine.held import Held
from runs.engine.sweep import Sweeper
from runs.interventions import sending
from runs.models import Run
from tests.engine.conftest import Engine
from tests.people import person


def interrupt(monkeypatch: pytest.MonkeyPatch, kind: str, happens: Any) -> None:
    """Let `happens` take place between a call's intent and its answer."""
    perform = calls._perform

    def performed(held: Any, planned: Any, until: float) -> Any:
        result = perform(held, planned, until)
        if planned.tool.kind == kind:
            monkeypatch.setattr(calls, "_perform", perform)
            happens(held.lease.run)
        return result

    monkeypatch.setattr(calls, "_perform", performed)


def taken_over(run: UUID) -> None:
    """The lease ran out while its holder was busy, and another worker finished the run."""
    Run.objects.filter(pk=run).update(due_at="2000-01-01T00:00Z")
    assert not advance(run)


def test_only_one_of_two_gets_a_run(engine: Engine) -> None:
    run = engine.start("B456")
    first, second = commit.claim(run.pk, 30), commit.claim(run.pk, 30)
    assert first
    assert second is None


def test_a_commit_under_an_old_token_changes_nothing(engine: Engine) -> None:
    run = engine.start("B456")
    old = commit.claim(run.pk, 30)
    assert old
    Run.objects.update(due_at="2000-01-01T00:00Z")
    assert commit.claim(run.pk, 30)
    run.refresh_from_db()
    run.state = "planning"
    event = {"kind": "stopped", "actor_id": None, "digest": "", "text": "{}"}

    with pytest.raises(LeaseLost):
        commit.commit(old, run, Pending(events=[event], moves=["started"]), inbox_seen=0, hold_for=5)

    run.refresh_from_db()
    assert run.state == "received"
    assert not run.events.filter(kind="stopped").exists()


def test_a_worker_that_lost_its_run_during_a_submission_changes_no_state(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, "write", taken_over)

    run = engine.run("B456")

    assert run.outcome == "COMPLETED"
    assert len(engine.calls("B456", "submit")) == 1
    assert len(engine.calls("B456", "lookup")) == 1  # the second worker asked first
    # The first one's answer is kept, and not applied a second time.
    late = run.inbox.get(name="late_result")
    assert late.payload["receipt"]["request_id"] == "R789"
    assert run.events.filter(kind="stopped").count() == 1


def test_a_late_answer_settles_a_write_that_was_still_unknown(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.back_office.fault("B456", "lookup_lags")
    interrupt(monkeypatch, "write", taken_over)

    run = engine.start("B456")
    advance(run.pk)
    run.refresh_from_db()
    assert run.outcome == "WAITING"
    assert run.inbox.filter(name="late_result", result="").exists()
    advance(run.pk)  # the late answer made the run due
    run.refresh_from_db()

    assert run.outcome == "COMPLETED"
    assert len(engine.calls("B456", "submit")) == 1


def test_a_cancellation_takes_the_run_away_from_a_worker_in_the_middle_of_a_call(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    person("alice")
    interrupt(
        monkeypatch,
        "read",
        lambda run: sending.send(run, "cancel_requested", person("alice"), {"reason": "stop it"}),
    )
    run = engine.start("B456")
    advance(run.pk)

    advance(run.pk)
    run.refresh_from_db()

    assert (run.outcome, run.stop_reason) == ("CANCELLED", "cancelled_unsent")
    assert engine.calls("B456", "orders") == []


def test_an_event_that_arrives_during_the_last_call_before_a_stop_makes_the_run_due_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    evidence = {"statement": "customer called", "reference": "ticket 1"}
    by = person("alice")
    interrupt(monkeypatch, "look_up", lambda pk: sending.send(pk, "evidence_supplied", by, evidence))

    run = engine.later(run)

    assert (run.outcome, run.stop_reason) == ("WAITING", "effect_pending")
    assert run.inbox.get().result == ""
    assert run.due_at is not None
    assert run.due_at <= timezone.now()  # it does not wait for its timer
    assert not advance(run.pk)
    assert run.inbox.get().result == "applied"
    assert len(engine.calls("B456", "lookup")) == 2


def test_an_event_that_arrived_during_a_call_is_looked_at_also_where_the_call_ends_in_a_defect(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    by, intend = person("alice"), calls._intend
    evidence = {"statement": "customer called", "reference": "ticket 1"}

    def intended(held: Held, planned: Planned) -> dict[str, Any]:
        if planned.tool.name == "read_order":  # before the intent's commit, which is the first to tell of it
            sending.send(held.lease.run, "evidence_supplied", by, evidence)
        return intend(held, planned)

    def settle(held: Held, planned: Planned, *rest: Any) -> None:
        if planned.tool.name == "read_order":
            raise ZeroDivisionError
        settled(held, planned, *rest)

    settled = calls._settle
    monkeypatch.setattr(calls, "_intend", intended)
    monkeypatch.setattr(calls, "_settle", settle)
    run = engine.start("B456")

    assert advance(run.pk)

    run.refresh_from_db()
    assert run.stop_reason == "unforeseen_error"
    monkeypatch.setattr(calls, "_intend", intend)
    monkeypatch.setattr(calls, "_settle", settled)
    advance(run.pk)
    run.refresh_from_db()
    assert run.inbox.get().result == "applied"
    assert run.outcome == "COMPLETED"


def test_a_run_begun_by_a_clock_that_was_set_back_since_goes_on(engine: Engine) -> None:
    """As after a fail-over to a database whose clock is behind: no time was spent, and not less than none."""
    run = engine.start("D586")
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() + timedelta(minutes=5))

    run = engine.carry_on(run)

    assert run.stop_reason == "approval_required"
    [wall_time] = [line for line in case.read(run)["budgets"] if line["dimension"] == "wall_time"]
    assert wall_time["spent"] == 0


def test_a_run_that_kills_its_workers_is_parked_with_a_reason(engine: Engine, settings: Settings) -> None:
    run = engine.start("B456")
    for _ in range(settings.ENGINE_MAX_DISPATCHES):
        assert commit.claim(run.pk, 0.001)
        Run.objects.update(due_at="2000-01-01T00:00Z")

    run = engine.carry_on(run)

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "cannot_dispatch")
    assert engine.calls("B456", "orders") == []
    assert "5 times" in run.question
    # Somebody looks at it, and it gets another chance.
    run = engine.send(run, "resumed_after_review", "alice", reason="the worker image was repaired")
    assert run.outcome == "COMPLETED"


def test_a_run_that_was_withdrawn_before_it_was_parked_ends_once_it_goes_on(engine: Engine, settings: Settings) -> None:
    run = engine.start("B456")
    for _ in range(settings.ENGINE_MAX_DISPATCHES):
        assert commit.claim(run.pk, 0.001)
        Run.objects.update(due_at="2000-01-01T00:00Z")
    sending.send(run.pk, "cancel_requested", person("alice"), {"reason": "customer withdrew"})
    run = engine.carry_on(run)
    assert run.stop_reason == "cannot_dispatch"

    run = engine.send(run, "resumed_after_review", "ann", reason="the worker image was repaired")

    assert (run.outcome, run.stop_reason) == ("CANCELLED", "cancelled_unsent")
    assert engine.calls("B456", "orders") == []


def test_a_workflow_that_is_not_installed_any_more_parks_its_runs(engine: Engine) -> None:
    run = engine.start("B456")
    Run.objects.update(workflow_version=99)

    run = engine.carry_on(run)

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "workflow_missing")
    assert "Version 99" in run.question
    assert run.handoffs.get().package["stop_reason"] == "workflow_missing"


def test_a_run_with_an_open_write_is_parked_too_when_its_workflow_is_gone(engine: Engine) -> None:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    Run.objects.update(workflow_version=99)

    run = engine.later(run)

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "workflow_missing")
    assert run.due_at is None
    assert run.effects_at_risk == 1


def test_a_slice_of_nothing_still_brings_a_run_through(engine: Engine, settings: Settings) -> None:
    settings.ENGINE_SLICE = 0
    run = engine.start("B456")
    hops = 0
    while advance(run.pk):
        hops += 1

    run.refresh_from_db()
    assert run.outcome == "COMPLETED"
    assert hops == 3  # four calls, three times given back between them
    assert len(engine.calls("B456", "submit")) == 1


def test_the_sweeper_carries_runs_on_by_itself_while_the_broker_is_away(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.engine.sweep.wake", lambda run: False)
    run = engine.start("B456")

    Sweeper().sweep()

    run.refresh_from_db()
    assert run.outcome == "COMPLETED"


def test_two_sweepers_do_no_harm(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[UUID] = []

    def wake(run: UUID) -> bool:
        woken.append(run)
        return True

    monkeypatch.setattr("runs.engine.sweep.wake", wake)
    run = engine.start("B456")
    first, second = Sweeper(), Sweeper()

    for sweeper in (first, second, first, second):
        sweeper.sweep()

    assert woken == [run.pk, run.pk]  # one each; the claim decides who gets it
    assert [advance(pk) for pk in woken] == [False, False]
    run.refresh_from_db()
    assert (run.outcome, run.token) == ("COMPLETED", 1)  # taken once
    assert len(engine.calls("B456", "submit")) == 1


def test_a_final_run_is_never_due_again(engine: Engine) -> None:
    run = engine.run("B456")
    assert run.due_at is None
    assert commit.claim(run.pk, 30) is None
    assert Sweeper().sweep() == 0


def test_what_arrives_while_a_run_ends_is_answered_with_that_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks into the inbox of a run that has ended, so the commit that ends it does."""
    run = engine.start("B456", customer_id="U-12")
    said = {"statement": "she is entitled", "reference": "ticket 17"}
    interrupt(monkeypatch, "read", lambda pk: sending.send(pk, "evidence_supplied", person("alice"), said, ""))

    run = engine.carry_on(run)

    assert run.stop_reason == "not_authorised"
    event = run.inbox.get()
    assert (event.result, event.result_reason) == ("refused", "The run had ended; kept as evidence.")
    assert event.settled_at
