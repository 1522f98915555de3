"""Following the money of an accepted refund: only the payment service says that it was paid, and nothing is written."""

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from runs.engine.advance import advance
from runs.interventions import starting
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.workflows.refund_payment import WORKFLOW
from tests.people import person
from tests.processes import BackOffice
from tests.workflows.refunds import Refunds, actions, at_the_desk, contract, handoff, stopped_as, told, values

LOOK = ["check_authority", "read_payment"]
REQUEST = {"order_id": "B456", "request_id": "R789", "amount_minor": 59_00, "currency": "EUR"}


@pytest.fixture
def desk(
    transactional_db: None, back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Refunds:
    return at_the_desk(back_office, settings, monkeypatch)


def begin(desk: Refunds, **given: Any) -> Run:
    run, _ = starting.start("refund_payment", {**REQUEST, **given}, person("support"))
    return desk.carry_on(run)


def looks_now(desk: Refunds, run: Run) -> Run:
    return desk.send(run, "resumed_after_review", "alice", reason="The bank says that it went out.")


# The story


def test_an_accepted_refund_that_was_paid_completes(desk: Refunds) -> None:
    accepted = desk.run("B456")
    desk.back_office.pay("R789")

    run = desk.follow(accepted)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert contract(run)["paid"] == ("MET", "request R789 is paid")
    assert contract(run)["in_full"] == ("MET", "59.00 EUR paid, 59.00 EUR accepted")
    assert actions(run) == LOOK
    assert told(run).startswith("Your refund R789 was paid out.")
    assert run.follows == accepted


def test_accepted_is_not_paid(desk: Refunds) -> None:
    run = desk.follow(desk.run("B456"))

    assert stopped_as(run) == ("WAITING", "result_pending")
    assert contract(run)["paid"] == ("UNKNOWN", "request R789 is not paid yet")
    assert run.question == (
        "Nothing to decide yet: Request R789 is not paid yet. The payment service is asked again by itself."
    )
    assert told(run) == "We are verifying whether your refund R789 was paid out."
    assert handoff(run)["acceptance"] == "unknown"
    assert run.due_at, "nobody looks again"


def test_it_is_followed_from_accepted_over_being_paid_to_paid(desk: Refunds) -> None:
    run = desk.follow(desk.run("B456"))
    desk.back_office.pay("R789", "processing")
    for _ in range(2):
        run = desk.looks_again(run)
        assert stopped_as(run) == ("WAITING", "result_pending"), "the same answer once more is no end of it"
        assert contract(run)["paid"] == ("UNKNOWN", "request R789 is being paid")
    desk.back_office.pay("R789")

    run = desk.looks_again(run)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert actions(run) == LOOK * 4


def test_before_its_time_nobody_asks(desk: Refunds) -> None:
    run = desk.follow(desk.run("B456"))
    Run.objects.filter(pk=run.pk).update(due_at="2000-01-01T00:00Z")

    advance(run.pk)

    assert actions(run) == LOOK


def test_a_person_may_have_it_looked_at_before_its_time(desk: Refunds) -> None:
    run = desk.follow(desk.run("B456"))
    desk.back_office.pay("R789")

    assert stopped_as(looks_now(desk, run)) == ("COMPLETED", "contract_met")


def test_what_one_look_costs(desk: Refunds) -> None:
    """The trial that the workflow's budgets come from; that it was not the last is paid from the looks."""
    run = desk.follow(desk.run("B456"))

    spent = {name: line[2] for name, line in run.budget.items() if line[2]}
    assert spent == {"steps": 2, "tool_attempts": 2, "status_checks": 1}


def test_it_looks_ten_more_times_and_comes_to_a_person_with_nothing_confirmed(desk: Refunds) -> None:
    run = desk.follow(desk.run("B456"))
    for _ in range(20):
        if run.outcome != "WAITING":
            break
        run = desk.looks_again(run)

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_status_checks")
    assert len(desk.calls("B456", "payment")) == 11
    assert run.question.startswith("Request R789 is not paid yet, after as many looks as were planned.")
    assert told(run).startswith("Whether your refund R789 was paid out is not yet confirmed.")
    assert handoff(run)["stop_reason"] == "limit_status_checks"
    assert run.answer_by, "it lies with nobody"


def test_it_has_nothing_that_writes(desk: Refunds) -> None:
    assert {tool.kind for tool in WORKFLOW.tools.values()} == {"read"}
    assert not WORKFLOW.operations
    run = desk.follow(desk.run("B456"))
    assert not run.effects.exists()


# Read, and wrong


def test_a_payment_that_failed_is_put_to_a_person_with_its_reason(desk: Refunds) -> None:
    accepted = desk.run("B456")
    desk.back_office.pay("R789", "failed", reason="account_closed")

    run = desk.follow(accepted)

    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert contract(run)["paid"] == ("UNMET", "request R789 is not paid: the payment failed (account closed)")
    assert run.question.startswith("The payment of request R789 failed (account closed).")
    assert handoff(run)["acceptance"] == "failed"
    desk.back_office.pay("R789", "processing")
    desk.back_office.pay("R789", "paid")
    assert stopped_as(looks_now(desk, run)) == ("COMPLETED", "contract_met")


def test_less_than_was_accepted_is_not_paid_in_full(desk: Refunds) -> None:
    accepted = desk.run("B456")
    desk.back_office.fault("B456", "payment_short")

    run = desk.follow(accepted)

    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert values(run) == ["MET", "MET", "UNMET"]
    assert "58.99 EUR paid, 59.00 EUR accepted" in run.question
    assert "was paid out." not in told(run)


@pytest.mark.parametrize("given", [{"amount_minor": 60_00}, {"currency": "USD"}])
def test_paid_in_another_amount_or_currency_than_was_asked_about_is_not_in_full(
    desk: Refunds, given: dict[str, Any]
) -> None:
    desk.run("B456")
    desk.back_office.pay("R789")

    run = begin(desk, **given)

    assert values(run) == ["MET", "MET", "UNMET"]
    assert run.outcome == "NEEDS_HUMAN"


def test_what_was_cancelled_is_never_paid(desk: Refunds) -> None:
    desk.back_office.submit("B456", "k1", 59_00)
    desk.back_office.client.post(
        "/refunds/R789/cancel", headers={"Idempotency-Key": "c1", "Authorization": "Bearer demo-key"}
    ).raise_for_status()

    run = begin(desk)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert told(run) == "Your refund request R789 was cancelled, so nothing is paid out for it."


# Who asks, and about what


def test_somebody_else_is_told_nothing_about_the_payment(desk: Refunds) -> None:
    desk.run("B456")
    desk.back_office.pay("R789")

    run = begin(desk, customer_id="U-90")

    assert stopped_as(run) == ("DECLINED", "not_authorised")
    assert desk.calls("B456", "payment") == []
    assert told(run) == "We could not find a refund that you may ask about. Please check the number."


@pytest.mark.parametrize("number", ["R555", "T-1001"])
def test_a_number_that_nobody_gave_goes_to_a_person(desk: Refunds, number: str) -> None:
    run = begin(desk, request_id=number)

    assert stopped_as(run) == ("NEEDS_HUMAN", "not_found")
    assert run.question.startswith(f"The payment service knows no request {number}.")


def test_a_request_of_another_order_counts_for_nothing(desk: Refunds) -> None:
    desk.back_office.submit("C881", "k1", 42_50)
    desk.back_office.pay("R790")

    run = begin(desk, request_id="R790", amount_minor=42_50)

    assert run.outcome in {"NEEDS_HUMAN", "LIMIT_REACHED"}
    assert contract(run)["paid"][0] == "UNKNOWN"


@pytest.mark.parametrize("fault", ["unavailable", "malformed", "empty", "error_500", "huge"])
def test_a_service_that_answers_badly_says_nothing_about_the_money(desk: Refunds, fault: str) -> None:
    accepted = desk.run("B456")
    desk.back_office.pay("R789")
    desk.back_office.fault("B456", fault, where="payment")

    run = desk.follow(accepted)

    assert stopped_as(run) == ("LIMIT_REACHED", "same_error_repeated")
    assert contract(run)["paid"] == ("UNKNOWN", "not read yet")
    assert len(desk.calls("B456", "payment")) == 3


def test_a_service_that_is_away_for_a_moment_is_asked_once_more(desk: Refunds) -> None:
    accepted = desk.run("B456")
    desk.back_office.pay("R789")
    desk.back_office.fault("B456", "rate_limited", where="payment", times=1, retry_after=1)

    assert stopped_as(desk.follow(accepted)) == ("COMPLETED", "contract_met")


def test_an_agent_that_says_paid_moves_nothing(desk: Refunds) -> None:
    desk.run("B456")
    run, _ = starting.start("refund_payment", REQUEST, person("support"), policy="stubborn")

    run = desk.carry_on(run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "no_progress")
    assert contract(run)["paid"][0] == "UNKNOWN"


def test_a_payment_is_followed_once_at_a_time(desk: Refunds) -> None:
    accepted = desk.run("B456")
    first, made = starting.follow_up(accepted.pk, "payment", person("support"))
    again, made_again = starting.follow_up(accepted.pk, "payment", person("support"))
    assert (made, made_again, again) == (True, False, first)


def test_each_part_of_an_order_has_its_payment_followed_by_itself(desk: Refunds) -> None:
    parts = [desk.run("B456", amount_minor=amount) for amount in (20_00, 39_00)]
    desk.back_office.pay("R790")

    first, second = (desk.follow(part) for part in parts)

    assert (first.outcome, second.outcome) == ("WAITING", "COMPLETED")
    assert contract(second)["in_full"][1] == "39.00 EUR paid, 39.00 EUR accepted"


def test_following_is_withdrawn_without_touching_the_refund(desk: Refunds) -> None:
    run = desk.follow(desk.run("B456"))

    run = desk.send(run, "cancel_requested", "alice", reason="The customer saw the money.")

    assert stopped_as(run) == ("CANCELLED", "cancelled_unsent")
    assert "changes nothing about the refund" in told(run)
    assert [effect["state"] for effect in desk.effects("B456")] == ["accepted"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("request_id", ""),
        ("request_id", "R 789"),
        ("request_id", "../orders"),
        ("request_id", "\u202e987R"),
        ("request_id", "R" * 1_000_000),
        ("request_id", 789),
        ("currency", "eur"),
        ("currency", "EURO"),
        ("amount_minor", 0),
        ("amount_minor", "59"),
        ("amount_minor", True),
        ("order_id", "B456<script>"),
        ("paid", True),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(desk: Refunds, field: str, value: Any) -> None:
    with pytest.raises(Refused) as refused:
        begin(desk, **{field: value})
    assert refused.value.field in {field, "input"}
    assert not Run.objects.exists()
