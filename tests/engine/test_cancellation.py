"""Withdrawing a request: at once while nothing was sent, otherwise once the authority has said what became of it."""

from runs import case
from runs.domain.compensation import LONGEST_KEY
from runs.models import Effect, Run
from tests.engine.conftest import Engine


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def test_before_anything_was_sent_it_ends_at_once(engine: Engine) -> None:
    run = engine.run("D586")

    run = engine.send(run, "cancel_requested", "alice", reason="customer changed their mind")

    assert stopped_as(run) == ("CANCELLED", "cancelled_unsent")
    assert engine.calls("D586", "submit") == []
    assert "was not submitted" in case.read(run)["customer_says"]["en"]
    assert run.due_at is None


def test_before_a_worker_took_it_up_nothing_is_read(engine: Engine) -> None:
    run = engine.start("B456")

    run = engine.send(run, "cancel_requested", "alice", reason="wrong order")

    assert stopped_as(run) == ("CANCELLED", "cancelled_unsent")
    assert engine.calls("B456", "orders") == []


def test_while_a_write_may_have_landed_the_cancellation_is_being_verified(engine: Engine) -> None:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")

    run = engine.send(run, "cancel_requested", "alice", reason="customer changed their mind")

    assert stopped_as(run) == ("WAITING", "cancellation_unverified")
    assert "still be cancelled" in case.read(run)["customer_says"]["en"]
    assert len(engine.calls("B456", "lookup")) == 1


def test_proven_absent_it_is_cancelled(engine: Engine) -> None:
    engine.back_office.fault("B456", "timeout_before_effect", seconds=1)
    run = engine.run("B456")
    run = engine.send(run, "cancel_requested", "alice", reason="customer changed their mind")
    assert stopped_as(run) == ("WAITING", "cancellation_unverified")

    run = engine.later(run)

    assert stopped_as(run) == ("CANCELLED", "cancelled_absent")
    assert engine.effects("B456") == []
    assert len(engine.calls("B456", "submit")) == 1
    assert "did not take effect" in case.read(run)["customer_says"]["en"]


def test_confirmed_it_goes_to_a_person_who_may_keep_it(engine: Engine) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_lags", lookups=1)
    run = engine.run("B456")

    run = engine.send(run, "cancel_requested", "alice", reason="customer changed their mind")

    assert stopped_as(run) == ("NEEDS_HUMAN", "cancelled_too_late")
    assert run.recovery == "manual"
    run = engine.send(run, "resumed_after_review", "alice", reason="the customer keeps it")
    assert stopped_as(run) == ("COMPLETED", "contract_met")


def test_the_longest_key_that_an_undoing_may_have_fits_the_record_of_a_write() -> None:
    assert Effect._meta.get_field("operation_key").max_length == LONGEST_KEY
