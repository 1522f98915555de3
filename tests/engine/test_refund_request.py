"""The refund request's nine cases, against the back office's own ledger.

Each asserts the outcome, the stop reason, what the customer may be told, where the receipt's number came from, how
often the refund was submitted, and that one operation key was used throughout.
"""

from typing import Any

import pytest

from runs import case
from runs.models import Run
from runs.timeline import timeline
from tests.engine.conftest import Engine


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def one_key(engine: Engine, run: Run, submits: int) -> None:
    """The service was asked to refund `submits` times, always under the one key that this run made."""
    sent = [call["operation_key"] for call in engine.calls(run.input["order_id"], "submit")]
    assert sent == [run.effects.get().operation_key] * submits
    looked_up = {call["operation_key"] for call in engine.calls(run.input["order_id"], "lookup")}
    assert looked_up <= set(sent)


def receipt(run: Run) -> dict[str, Any]:
    found = run.effects.get().receipt
    assert found
    return dict(found)


def told(run: Run) -> str:
    says: str = case.read(run)["customer_says"]["en"]
    return says


def assertion(run: Run, name: str) -> dict[str, Any]:
    return next(row for row in case.read(run)["contract"] if row["name"] == name)


def test_case_1_an_accepted_refund_completes_with_the_receipts_number(engine: Engine) -> None:
    run = engine.run("B456")

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert run.state == "completed"
    one_key(engine, run, submits=1)
    [effect] = engine.effects("B456")
    assert receipt(run)["request_id"] == effect["request_id"] == "R789"
    assert assertion(run, "accepted")["reference"] == "R789"
    assert assertion(run, "accepted")["source"] == "refund service"
    assert "accepted under number R789" in told(run)
    assert "paid" not in told(run)
    assert "bank" not in told(run)


def test_what_a_clean_run_costs(engine: Engine) -> None:
    """The trial that the workflow's budgets come from: twice this, a second reading, the retries of one read."""
    run = engine.run("B456")

    spent = {dimension: line[2] for dimension, line in run.budget.items() if line[2]}
    assert spent == {"steps": 4, "tool_attempts": 4, "external_writes": 1}


def test_case_2_pending_after_three_look_ups_is_a_limit_and_keeps_its_key(engine: Engine) -> None:
    engine.back_office.fault("B456", "pending")

    run = engine.run("B456")
    assert stopped_as(run) == ("WAITING", "effect_pending")
    assert run.due_at is not None
    for look_ups in (1, 2):
        run = engine.later(run)
        assert stopped_as(run) == ("WAITING", "effect_pending")
        assert len(engine.calls("B456", "lookup")) == look_ups
    run = engine.later(run)

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_status_checks")
    assert len(engine.calls("B456", "lookup")) == 3
    assert "not yet confirmed" in told(run)
    assert "accepted" not in told(run)
    assert receipt(run).get("request_id") is None
    one_key(engine, run, submits=1)
    # Never an orphan: somebody's desk, a due time, and a follow-up from the separate allowance.
    assert run.role == "refunds desk"
    assert run.answer_by is not None
    assert run.due_at is not None
    run = engine.later(run)
    assert stopped_as(run) == ("LIMIT_REACHED", "limit_status_checks")
    assert run.budget["follow_up_checks"][2] == 1
    assert run.budget["status_checks"][2] == 3


def test_case_3_a_lost_answer_is_found_by_the_same_key_and_never_sent_again(engine: Engine) -> None:
    engine.back_office.fault("B456", "answer_lost")

    run = engine.run("B456")

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    one_key(engine, run, submits=1)
    assert len(engine.effects("B456")) == 1
    assert receipt(run)["request_id"] == "R789"
    assert "R789" in told(run)


def test_case_4_not_found_is_not_failed(engine: Engine) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_lags")

    run = engine.run("B456")

    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert "verifying whether" in told(run)
    run = engine.later(engine.later(run))
    assert stopped_as(run) == ("NEEDS_HUMAN", "outcome_unconfirmed")
    assert "handed to a person" in told(run)
    assert "R789" not in told(run)
    assert "Did the refund service receive" in run.question
    assert assertion(run, "accepted")["value"] == "UNKNOWN"
    one_key(engine, run, submits=1)


def test_case_5_an_opened_order_is_declined_and_never_submitted(engine: Engine) -> None:
    run = engine.run("A123")

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert engine.calls("A123", "submit") == []
    assert "inspection" in told(run)
    assert not run.effects.exists()


def test_case_6_somebody_elses_order_is_declined_before_it_is_read(engine: Engine) -> None:
    run = engine.run("B456", customer_id="U-90")

    assert stopped_as(run) == ("DECLINED", "not_authorised")
    assert engine.calls("B456", "orders") == []
    assert engine.calls("B456", "submit") == []
    package = run.handoffs.get().package
    assert "B456" not in told(run)
    for of_the_order in ("headphones", "5900", "2026-09-22", "U-88", "version 1"):
        assert of_the_order.lower() not in str(package).lower()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("policy_conflict", "facts_in_conflict"),
        ("policy_missing", "facts_missing"),
        ("order_incomplete", "facts_missing"),
    ],
)
def test_case_7_policies_in_conflict_or_missing_facts_go_to_a_person(engine: Engine, fault: str, reason: str) -> None:
    engine.back_office.fault("B456", fault)

    run = engine.run("B456")

    assert stopped_as(run) == ("NEEDS_HUMAN", reason)
    assert engine.calls("B456", "submit") == []
    if fault == "policy_conflict":
        assert "v3 and v4" in run.question
    assert "handed to a person" in told(run)


def test_case_8_a_claim_of_completion_moves_nothing(engine: Engine) -> None:
    run = engine.run("B456", policy="stubborn")

    assert stopped_as(run) == ("NEEDS_HUMAN", "no_progress")
    assert engine.calls("B456", "submit") == []
    assert run.acceptance == "unknown"
    quotes = [line["quote"] for line in timeline(run) if line["kind"] == "claimed_completion"]
    assert any("has been processed" in quote for quote in quotes)
    assert "processed" not in told(run)


def test_case_8_after_an_unproved_claim_the_script_still_does_the_work_once(engine: Engine) -> None:
    run = engine.run("B456", policy="overconfident")

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    one_key(engine, run, submits=1)
    assert run.budget["steps"][2] == 5  # the claim was charged as well
    moves = [e.text_row.content()["move"] for e in run.events.filter(kind="transition")]
    assert moves.index("contract_not_met") < moves.index("contract_met")


def test_case_9_the_same_failure_again_and_again_ends_at_its_limit(engine: Engine) -> None:
    engine.back_office.fault("B456", "unavailable", where="orders")

    run = engine.run("B456")

    assert stopped_as(run) == ("LIMIT_REACHED", "same_error_repeated")
    assert len(engine.calls("B456", "orders")) == 3
    assert engine.calls("B456", "submit") == []
    assert "not yet confirmed" in told(run)


def test_case_9_used_up_attempts_are_a_limit_and_not_a_success(engine: Engine) -> None:
    run = engine.start("B456")
    run.budget["tool_attempts"] = [2, 0, 0, 0]
    run.save(update_fields=["budget"])

    run = engine.carry_on(run)

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_tool_attempts")
    assert "not yet confirmed" in told(run)
    assert run.budget["tool_attempts"][2] == 2
    assert engine.calls("B456", "submit") == []
    assert run.acceptance == "unknown"
