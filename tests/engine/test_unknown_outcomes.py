"""Writes whose answer is lost, late, odd or contradictory: asked about by key, never sent again on a guess."""

import pytest

from runs.interventions import sending
from runs.interventions.refusals import Refused
from runs.models import Run
from tests.engine.conftest import Engine
from tests.people import person


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


@pytest.fixture
def unknown(engine: Engine) -> Run:
    """The answer was lost, the refund exists, and look-ups are answered by an index that lags."""
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_lags")
    run = engine.run("B456")
    assert stopped_as(run) == ("WAITING", "effect_unknown")
    return run


def test_a_person_asks_again_and_the_receipt_completes_the_run(engine: Engine, unknown: Run) -> None:
    engine.back_office.clear("B456")

    run = engine.send(unknown, "reconcile_requested", "alice")

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "submit")) == 1
    assert len(engine.effects("B456")) == 1
    assert run.budget["follow_up_checks"][2] == 1  # a person's look-up has its own allowance
    assert run.budget["status_checks"][2] == 1


def test_a_look_up_that_finds_nothing_leaves_the_write_unknown(engine: Engine, unknown: Run) -> None:
    due = unknown.due_at

    run = engine.send(unknown, "reconcile_requested", "alice")

    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert run.effects_at_risk == 1
    assert due is not None
    assert run.due_at is not None
    assert run.due_at >= due


def test_the_last_allowed_look_up_that_brings_the_receipt_completes_the_run(engine: Engine, unknown: Run) -> None:
    run = engine.later(unknown)
    engine.back_office.clear("B456")

    run = engine.later(run)

    assert run.budget["status_checks"][2] == run.budget["status_checks"][0] == 3
    assert stopped_as(run) == ("COMPLETED", "contract_met")


def test_peoples_look_ups_have_an_end_too(engine: Engine, unknown: Run) -> None:
    run = unknown
    for _ in range(6):
        run = engine.send(run, "reconcile_requested", "alice")

    with pytest.raises(Refused, match="used up"):
        sending.send(run.pk, "reconcile_requested", person("alice"), {})


def test_a_persons_word_does_not_complete_a_run_and_does_not_let_it_be_sent_again(engine: Engine, unknown: Run) -> None:
    run = engine.send(unknown, "effect_refuted", "alice", reference="phone call")
    assert stopped_as(run) == ("WAITING", "effect_unknown")
    run = engine.send(run, "effect_confirmed", "alice", reference="phone call")
    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert len(engine.calls("B456", "submit")) == 1


def test_going_on_by_hand_is_refused_while_a_write_is_unknown(engine: Engine, unknown: Run) -> None:
    run = engine.later(engine.later(unknown))
    assert stopped_as(run) == ("NEEDS_HUMAN", "outcome_unconfirmed")

    with pytest.raises(Refused, match="ask the service first"):
        sending.send(run.pk, "resumed_after_review", person("alice"), {"reason": "let it go on"})


def test_proven_absence_lets_the_same_key_be_sent_once_more(engine: Engine) -> None:
    engine.back_office.fault("B456", "timeout_before_effect", seconds=1, times=1)

    run = engine.run("B456")
    # Right after sending, "not there" proves nothing: the request could still arrive.
    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert run.effects.get().last_answer == "not_found_yet"
    run = engine.later(run)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    keys = [call["operation_key"] for call in engine.calls("B456", "submit")]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert len(engine.effects("B456")) == 1
    assert run.budget["external_writes"][2] == 1  # another attempt, not another write
    # Everything that permits a write was read again before the second attempt.
    assert len(engine.calls("B456", "policies")) == 2


def test_after_proven_absence_a_changed_policy_forbids_the_second_attempt(engine: Engine) -> None:
    engine.back_office.fault("B456", "timeout_before_effect", seconds=1, times=1)
    run = engine.run("B456")
    engine.back_office.fault("B456", "policy_changed")

    run = engine.later(run)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert len(engine.calls("B456", "submit")) == 1
    assert engine.effects("B456") == []


def test_queued_with_http_200_is_not_accepted(engine: Engine) -> None:
    engine.back_office.fault("B456", "queued", lookups=1)

    run = engine.run("B456")
    assert stopped_as(run) == ("WAITING", "effect_pending")
    run = engine.later(engine.later(run))

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "submit")) == 1


def test_an_explicit_refusal_declines(engine: Engine) -> None:
    engine.back_office.fault("B456", "refused", reason="not_refundable")

    run = engine.run("B456")

    assert stopped_as(run) == ("DECLINED", "refused_by_service")
    assert run.state == "failed"
    assert len(engine.calls("B456", "submit")) == 1


@pytest.mark.parametrize("fault", ["contradictory", "other_order"])
def test_receipts_that_do_not_fit_go_to_a_person_and_are_never_believed(engine: Engine, fault: str) -> None:
    if fault == "contradictory":
        engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", fault)

    run = engine.run("B456")

    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    assert run.effects.get().state == "unknown"
    assert len(engine.calls("B456", "submit")) == 1
    if fault == "other_order":
        assert "D041" in run.question
    # Once the authority's answer fits, the same press of a button completes the run.
    engine.back_office.clear("B456")
    assert stopped_as(engine.send(run, "reconcile_requested", "alice")) == ("COMPLETED", "contract_met")


def test_a_rate_limit_that_declares_nothing_was_done_is_tried_again_with_the_same_key(engine: Engine) -> None:
    engine.back_office.fault("B456", "rate_limited", times=1, retry_after=1)

    run = engine.run("B456")

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    keys = [call["operation_key"] for call in engine.calls("B456", "submit")]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert engine.calls("B456", "lookup") == []


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_server_fault_on_a_write_is_looked_up_first(engine: Engine, after_effect: bool) -> None:
    engine.back_office.fault("B456", "unavailable", where="submit", after_effect=after_effect, times=1)

    run = engine.run("B456")

    assert len(engine.calls("B456", "submit")) == 1
    assert len(engine.calls("B456", "lookup")) == 1
    assert stopped_as(run) == (("COMPLETED", "contract_met") if after_effect else ("WAITING", "effect_unknown"))
    run = run if after_effect else engine.later(run)
    assert run.outcome == "COMPLETED"
    assert len(engine.effects("B456")) == 1


@pytest.mark.parametrize("fault", ["malformed", "empty", "huge"])
def test_an_unreadable_answer_to_a_write_is_an_unknown_outcome(engine: Engine, fault: str) -> None:
    engine.back_office.fault("B456", fault, where="submit", times=1)

    run = engine.run("B456")

    assert stopped_as(run) == ("COMPLETED", "contract_met")  # by way of the look-up
    assert len(engine.calls("B456", "submit")) == 1
    assert len(engine.effects("B456")) == 1


def test_an_unreadable_answer_to_a_look_up_is_no_answer(engine: Engine) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "malformed", where="lookup")

    run = engine.run("B456")

    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert run.effects.get().last_answer == "unreachable"


def test_a_refused_credential_stops_at_once_and_is_tried_when_it_was_replaced(engine: Engine) -> None:
    engine.back_office.fault("B456", "credential_refused", where="orders")
    run = engine.run("B456")
    assert stopped_as(run) == ("NEEDS_HUMAN", "credential_refused")
    assert len(engine.calls("B456", "orders")) == 1

    # The cause is probed: one that is still there is reported as not fixed.
    run = engine.send(run, "credential_replaced", "alice", reference="back-office-2")
    assert stopped_as(run) == ("NEEDS_HUMAN", "credential_refused")
    engine.back_office.clear("B456")
    run = engine.send(run, "credential_replaced", "alice", reference="back-office-3")

    assert stopped_as(run) == ("COMPLETED", "contract_met")


def test_a_refused_credential_on_a_look_up_keeps_the_write_unknown(engine: Engine) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "credential_refused", where="lookup")

    run = engine.run("B456")

    assert stopped_as(run) == ("NEEDS_HUMAN", "credential_refused")
    assert run.effects_at_risk == 1
    engine.back_office.clear("B456")
    run = engine.send(run, "credential_replaced", "alice", reference="back-office-2")
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "submit")) == 1


def test_a_submission_that_was_refused_for_its_credential_was_not_sent(engine: Engine) -> None:
    engine.back_office.fault("B456", "credential_refused", where="submit")

    run = engine.run("B456")

    assert stopped_as(run) == ("NEEDS_HUMAN", "credential_refused")
    assert run.effects_at_risk == 0
    engine.back_office.clear("B456")
    run = engine.send(run, "credential_replaced", "alice", reference="back-office-2")
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.effects("B456")) == 1


def test_the_products_missing_access_is_not_the_customers_fault(engine: Engine) -> None:
    engine.back_office.fault("B456", "access_denied", where="policies")

    run = engine.run("B456")

    assert stopped_as(run) == ("NEEDS_HUMAN", "access_refused")


def test_a_service_that_is_away_is_never_counted_as_absent(engine: Engine) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_down")
    run = engine.run("B456")
    for _ in range(2):
        run = engine.later(run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "outcome_unconfirmed")
    assert len(engine.calls("B456", "submit")) == 1
