"""A paused run starts nothing new until somebody lets it go on; what is out there is still looked after."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from runs.engine.advance import advance
from runs.interventions import sending
from runs.interventions.refusals import Refused
from runs.models import Run
from tests.engine.conftest import Engine
from tests.engine.test_leases import interrupt
from tests.people import person


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def pause(run: UUID) -> None:
    sending.send(run, "paused", person("alice"), {"reason": "a fraud check"})


def until_read(engine: Engine, run: Run) -> Run:
    """Carried on until it has stopped with everything read that it was told."""
    return engine.carry_on(run, until=lambda run: bool(run.outcome) and not run.inbox.filter(result="").exists())


@pytest.fixture
def paused(engine: Engine) -> Run:
    """Paused before a worker took it up."""
    run = engine.start("B456")
    pause(run.pk)
    run = engine.carry_on(run)
    assert stopped_as(run) == ("NEEDS_HUMAN", "paused")
    return run


@pytest.fixture
def paused_while_sending(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Paused in the middle of a submission that never arrived; nobody knows that yet."""
    person("alice")
    engine.back_office.fault("B456", "timeout_before_effect", seconds=0, times=1)
    interrupt(monkeypatch, "write", pause)
    run = engine.start("B456")
    advance(run.pk)
    return until_read(engine, run)


def test_a_paused_run_reads_nothing_and_goes_on_when_it_is_let(engine: Engine, paused: Run) -> None:
    assert engine.calls("B456", "orders") == []
    assert paused.due_at is None

    run = engine.send(paused, "unpaused", "alice")

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert not run.paused


def test_going_on_is_refused_while_a_run_is_paused(engine: Engine, paused: Run) -> None:
    with pytest.raises(Refused, match="The run is paused: let it go on"):
        sending.send(paused.pk, "resumed_after_review", person("ann"), {"reason": "go on"})


def test_evidence_does_not_end_a_pause(engine: Engine, paused: Run) -> None:
    run = engine.send(paused, "evidence_supplied", "ann", statement="customer called", reference="ticket 1")

    assert stopped_as(run) == ("NEEDS_HUMAN", "paused")
    assert run.paused
    assert engine.calls("B456", "submit") == []


def test_an_extension_does_not_end_a_pause(engine: Engine, paused: Run) -> None:
    run = engine.send(paused, "budget_extended", "bob", dimension="steps", by=1, reason="to be sure")

    assert stopped_as(run) == ("NEEDS_HUMAN", "paused")
    assert run.paused


def test_a_write_under_way_is_looked_up_while_the_run_is_paused(engine: Engine, paused_while_sending: Run) -> None:
    run = paused_while_sending

    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert run.paused
    assert run.due_at is not None
    assert (
        run.inbox.get(name="late_result").result == "refused"
    )  # nobody had answered: no news, and no end of the pause


def test_a_write_proven_absent_during_a_pause_is_not_sent_again(engine: Engine, paused_while_sending: Run) -> None:
    run = engine.later(paused_while_sending)

    assert stopped_as(run) == ("NEEDS_HUMAN", "paused")
    assert run.effects.get().state == "absent"
    assert len(engine.calls("B456", "submit")) == 1

    run = engine.send(run, "unpaused", "alice")
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "submit")) == 2


def test_asking_again_about_a_paused_run_only_reads(engine: Engine, paused_while_sending: Run) -> None:
    paused_while_sending.effects.update(sent_at="2000-01-01T00:00Z")

    run = engine.send(paused_while_sending, "reconcile_requested", "alice")

    assert stopped_as(run) == ("NEEDS_HUMAN", "paused")
    assert run.paused
    assert len(engine.calls("B456", "submit")) == 1


def test_a_write_confirmed_during_a_pause_completes_the_run(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    person("alice")
    engine.back_office.fault("B456", "answer_lost")
    interrupt(monkeypatch, "write", pause)
    run = engine.start("B456")
    advance(run.pk)

    run = until_read(engine, run)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "submit")) == 1


def test_a_submission_refused_for_its_credential_while_the_pause_came_in_was_not_sent(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    person("alice")
    engine.back_office.fault("B456", "credential_refused", where="submit", times=1)
    interrupt(monkeypatch, "write", pause)
    run = engine.start("B456")
    advance(run.pk)

    run = until_read(engine, run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "paused")
    assert run.effects.get().state == "absent"
    assert run.effects_at_risk == 0


def test_paused_and_then_withdrawn_before_a_worker_came_is_withdrawn(engine: Engine) -> None:
    run = engine.start("B456")
    pause(run.pk)
    sending.send(run.pk, "cancel_requested", person("alice"), {"reason": "customer withdrew"})

    run = until_read(engine, run)

    assert stopped_as(run) == ("CANCELLED", "cancelled_unsent")
    assert engine.calls("B456", "orders") == []


def test_a_paused_run_can_be_withdrawn(engine: Engine, paused: Run) -> None:
    run = engine.send(paused, "cancel_requested", "ann", reason="customer withdrew")

    assert stopped_as(run) == ("CANCELLED", "cancelled_unsent")
    assert engine.calls("B456", "submit") == []


def test_going_on_does_not_give_a_run_more_time(engine: Engine) -> None:
    run = engine.start("B456")
    Run.objects.update(created_at=timezone.now() - timedelta(days=3))
    run = engine.carry_on(run)
    assert stopped_as(run) == ("LIMIT_REACHED", "limit_wall_time")

    run = engine.send(run, "resumed_after_review", "alice", reason="just go on")

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_wall_time")
    assert engine.calls("B456", "submit") == []
