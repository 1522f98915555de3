"""The refund request's story and its unhappy ends, against the service's own ledger.

The table holds the source case's own rows: what the service did, how the run has to end, what the customer may be told,
and how often the refund was submitted. What follows is about parts of an order, a supervisor's limit, withdrawing, and
that accepting is never told as paying.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from runs.agents import policies
from runs.domain.proposals import Act
from runs.domain.telling import Statement
from runs.engine import calls
from runs.engine.advance import advance
from runs.engine.calls import Planned
from runs.engine.held import Held
from runs.interventions import starting
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.workflows.definition import Context, Workflow
from runs.workflows.refund_request import CUSTOMER_SAYS
from tests.engine.dying import Died, die_after
from tests.people import person
from tests.processes import BackOffice
from tests.workflows.refunds import READ, Refunds, actions, at_the_desk, contract, handoff, stopped_as, told, values

PAST = "2000-01-01T00:00Z"


@pytest.fixture
def desk(
    transactional_db: None, back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Refunds:
    return at_the_desk(back_office, settings, monkeypatch)


def submitted(desk: Refunds, run: Run, times: int) -> None:
    """The refund was submitted so often, each time under the one key that this run made."""
    keys = {effect.operation_key for effect in run.effects.all() if not effect.undoes}
    sent = [call["operation_key"] for call in desk.calls(run.input["order_id"], "submit")]
    assert (len(sent), set(sent) | keys) == (times, keys)


def given(desk: Refunds, order_id: str = "B456") -> list[tuple[str, int]]:
    """The refunds that stand, by the service's books."""
    return [(effect["state"], effect["amount_minor"]) for effect in desk.effects(order_id)]


# The source case's table


@dataclass(frozen=True)
class Row:
    ends: tuple[str, str]
    tells: str
    submits: int
    contract: str  # the first letters of MET, UNMET and Unknown, in the contract's order
    order_id: str = "B456"
    given: dict[str, Any] = field(default_factory=dict)
    faults: tuple[tuple[str, dict[str, Any]], ...] = ()
    look_ups: int = 0  # that come due afterwards
    effects: int = 0


ROWS = {
    "accepted with a number completes": Row(
        ("COMPLETED", "contract_met"), "accepted under number R789", 1, "MMMM", effects=1
    ),
    "pending after three look-ups is a limit, and not acceptance": Row(
        ("LIMIT_REACHED", "limit_status_checks"),
        "not yet confirmed",
        1,
        "MM??",
        faults=(("pending", {}),),
        look_ups=3,
        effects=1,
    ),
    "a lost answer is found by the same key": Row(
        ("COMPLETED", "contract_met"),
        "accepted under number R789",
        1,
        "MMMM",
        faults=(("answer_lost", {"times": 1}),),
        effects=1,
    ),
    "not found is not failed": Row(
        ("WAITING", "effect_unknown"),
        "verifying whether",
        1,
        "MM??",
        faults=(("answer_lost", {"times": 1}), ("lookup_lags", {})),
        effects=1,
    ),
    "an opened order is declined, and pointed to an inspection": Row(
        ("DECLINED", "not_eligible"), "inspection", 0, "MU??", order_id="A123"
    ),
    "somebody else's order is declined before it is read": Row(
        ("DECLINED", "not_authorised"), "check the number", 0, "U???", given={"customer_id": "U-90"}
    ),
    "policies in conflict go to a person": Row(
        ("NEEDS_HUMAN", "facts_in_conflict"), "handed to a person", 0, "M???", faults=(("policy_conflict", {}),)
    ),
    "a claim of completion moves nothing": Row(
        ("NEEDS_HUMAN", "no_progress"), "handed to a person", 0, "MM??", given={"policy": "stubborn"}
    ),
    "the same failure again and again ends at its limit": Row(
        ("LIMIT_REACHED", "same_error_repeated"),
        "not yet confirmed",
        0,
        "M???",
        faults=(("unavailable", {"where": "orders"}),),
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_the_source_case_ends_as_it_says(desk: Refunds, row: Row) -> None:
    for name, parameters in row.faults:
        desk.back_office.fault(row.order_id, name, **parameters)
    run = desk.run(row.order_id, **row.given)
    for _ in range(row.look_ups):
        run = desk.later(run)

    assert stopped_as(run) == row.ends
    assert row.tells in told(run)
    assert "".join("?" if value == "UNKNOWN" else value[0] for value in values(run)) == row.contract
    submitted(desk, run, row.submits)
    assert len(desk.effects(row.order_id)) == row.effects
    if run.outcome == "COMPLETED":
        assert not run.handoffs.exists()
        return
    package = handoff(run)
    assert (package["stop_reason"], package["customer_says"]["en"]) == (run.stop_reason, told(run))
    assert run.is_final or run.answer_by or run.due_at, "it lies with nobody"
    assert row.submits == len([effect for effect in package["effects"] if effect["operation_key"]])


def test_two_clicks_make_one_request(desk: Refunds) -> None:
    first, made = starting.start("refund_request", {"order_id": "B456"}, person("support"))
    second, made_again = starting.start("refund_request", {"order_id": "B456"}, person("support"))
    assert (made, made_again, second) == (True, False, first)

    run = desk.carry_on(first)
    submitted(desk, run, 1)
    again, is_new = starting.start("refund_request", {"order_id": "B456"}, person("support"))
    again = desk.carry_on(again)
    assert (is_new, stopped_as(again)) == (True, ("DECLINED", "refused_by_service"))
    assert len(desk.effects("B456")) == 1


def test_a_crash_between_the_answer_and_its_record_is_reconciled_before_anything_else(
    desk: Refunds, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = desk.start("B456")
    die_after(monkeypatch, "submit_refund")
    with pytest.raises(Died):
        advance(run.pk)
    Run.objects.filter(pk=run.pk).update(due_at=PAST)

    run = desk.carry_on(run)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert actions(run) == [*READ, "submit_refund", "look_up_refund"]
    submitted(desk, run, 1)
    assert len(desk.effects("B456")) == 1


def test_a_policy_that_changes_during_the_review_is_the_one_that_counts(desk: Refunds) -> None:
    run = desk.run("C204")
    assert stopped_as(run) == ("NEEDS_HUMAN", "approval_required")
    desk.back_office.fault("C204", "policy_changed")

    run = desk.send(run, "approval_granted", "bob", run.effects.get().plan_digest)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert "policy v4 allows 2 days" in contract(run)["eligible"][1]
    submitted(desk, run, 0)


# In parts


def test_a_part_is_refunded_and_the_rest_stays(desk: Refunds) -> None:
    run = desk.run("B456", amount_minor=20_00)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert actions(run) == [*READ, "read_left", "submit_refund"]
    assert run.effects.get().receipt["amount_minor"] == 20_00  # type: ignore[index]
    assert given(desk) == [("accepted", 20_00)]
    assert desk.left("B456") == 39_00
    spent = {dimension: line[2] for dimension, line in run.budget.items() if line[2]}
    assert spent == {"steps": 5, "tool_attempts": 5, "external_writes": 1}, "what a part costs"


def test_parts_add_up_to_what_the_order_cost_and_no_further(desk: Refunds) -> None:
    for amount in (20_00, 39_00):
        assert stopped_as(desk.run("B456", amount_minor=amount)) == ("COMPLETED", "contract_met")

    run = desk.run("B456", amount_minor=1)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert contract(run)["eligible"] == ("UNMET", "0.01 EUR are asked for, and 0.00 EUR are left of the order")
    assert len(desk.calls("B456", "submit")) == 2
    assert desk.left("B456") == 0
    assert handoff(run)["stop_reason"] == "not_eligible"
    assert "does not qualify" in told(run)


def test_more_than_the_order_cost_is_refused_before_anything_else_is_asked(desk: Refunds) -> None:
    run = desk.run("B456", amount_minor=59_01)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert contract(run)["eligible"][1] == "59.01 EUR are asked for, and the order cost 59.00 EUR"
    assert actions(run) == READ


def test_what_somebody_else_took_meanwhile_is_refused_by_the_service(
    desk: Refunds, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = calls._perform

    def after_the_read(held: Held, planned: Planned, until: float) -> Any:
        answer = perform(held, planned, until)
        if planned.tool.name == "read_left":
            desk.back_office.submit("B456", "somebody-else", 50_00)
        return answer

    monkeypatch.setattr(calls, "_perform", after_the_read)
    run = desk.run("B456", amount_minor=20_00)

    assert stopped_as(run) == ("DECLINED", "refused_by_service")
    assert "more_than_is_left" in contract(run)["accepted"][1]
    assert given(desk) == [("accepted", 50_00)]


def test_a_part_of_an_order_whose_rest_cannot_be_read_is_not_sent(desk: Refunds) -> None:
    desk.back_office.fault("B456", "unavailable", where="refunds")

    run = desk.run("B456", amount_minor=20_00)

    assert run.outcome in {"NEEDS_HUMAN", "LIMIT_REACHED"}
    submitted(desk, run, 0)
    assert contract(run)["eligible"][0] == "UNKNOWN"


def test_an_agent_that_does_not_ask_what_is_left_writes_nothing(desk: Refunds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policies.POLICIES, "hasty", lambda workflow, context: Act("submit_refund", {}))

    run = desk.run("B456", amount_minor=20_00, policy="hasty")

    assert stopped_as(run) == ("NEEDS_HUMAN", "facts_missing")
    assert run.question.startswith("What is left of the order to refund was not read yet.")
    submitted(desk, run, 0)


def test_an_agent_that_sends_again_on_what_it_read_before_needs_a_person(
    desk: Refunds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hasty(workflow: Workflow, context: Context) -> Act:
        return Act("submit_refund" if "left" in context.facts else "read_left", {})

    monkeypatch.setitem(policies.POLICIES, "hasty", hasty)
    desk.back_office.fault("B456", "timeout_before_effect", seconds=1, times=1)
    run = desk.run("B456", amount_minor=20_00, policy="hasty")

    run = desk.later(run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "approval_required")
    assert run.effects.get().plan["needs_approval"] == "what is left of the order was not read again"
    assert actions(run).count("submit_refund") == 1


def test_the_part_of_an_answer_that_was_lost_is_found_in_its_amount(desk: Refunds) -> None:
    desk.back_office.submit("B456", "before", 30_00)
    desk.back_office.fault("B456", "answer_lost", times=1)
    desk.back_office.fault("B456", "lookup_lags", lookups=1)
    run = desk.run("B456", amount_minor=20_00)
    assert stopped_as(run) == ("WAITING", "effect_unknown")

    run = desk.later(run)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert values(run) == ["MET"] * 4, "what was left before it was sent is what counts"
    assert actions(run).count("submit_refund") == 1
    assert given(desk) == [("accepted", 30_00), ("accepted", 20_00)]


def test_a_part_that_never_arrived_is_sent_again_once_what_is_left_was_read_again(desk: Refunds) -> None:
    desk.back_office.fault("B456", "timeout_before_effect", seconds=1, times=1)
    run = desk.run("B456", amount_minor=20_00)
    desk.back_office.submit("B456", "somebody-else", 50_00)

    run = desk.later(run)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert "9.00 EUR are left" in contract(run)["eligible"][1]
    assert actions(run).count("submit_refund") == 1
    assert given(desk) == [("accepted", 50_00)]


@pytest.mark.parametrize("amount", [0, -1, True, False, "2000", 20.5, 1e30, None, [2000], 1_000_000_001, {"minor": 1}])
def test_an_amount_that_is_none_is_refused_by_its_name(desk: Refunds, amount: Any) -> None:
    with pytest.raises(Refused) as refused:
        desk.start("B456", amount_minor=amount)
    assert refused.value.field == "amount_minor"
    assert refused.value.message.startswith("amount_minor: ")
    assert not Run.objects.exists()


def test_a_whole_number_written_with_a_point_is_a_whole_number(desk: Refunds) -> None:
    run = desk.run("B456", amount_minor=2000.0)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert given(desk) == [("accepted", 20_00)]


# A supervisor's limit


def test_parts_do_not_get_past_a_supervisor_one_by_one(desk: Refunds) -> None:
    small = desk.run("D586", amount_minor=60_00)
    assert stopped_as(small) == ("COMPLETED", "contract_met")

    run = desk.run("D586", amount_minor=60_00)

    assert stopped_as(run) == ("NEEDS_HUMAN", "approval_required")
    waiting = run.effects.get().plan
    assert ["refunded of the order", "60.00 EUR", "120.00 EUR"] in waiting["difference"]
    assert waiting["needs_approval"] == "amounts above 100.00 EUR need a supervisor (policy v3)"
    assert run.question == "May a refund of 60.00 EUR be requested for order D586?"
    submitted_before = len(desk.calls("D586", "submit"))
    with pytest.raises(Refused, match="permission"):
        desk.send(run, "approval_granted", "alice", run.effects.get().plan_digest)

    run = desk.send(run, "approval_granted", "bob", run.effects.get().plan_digest)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(desk.calls("D586", "submit")) == submitted_before + 1
    assert given(desk, "D586") == [("accepted", 60_00), ("accepted", 60_00)]


def test_what_was_refunded_during_the_review_puts_the_plan_up_again(desk: Refunds) -> None:
    run = desk.run("D586", amount_minor=200_00)
    digest = run.effects.get().plan_digest
    desk.back_office.submit("D586", "somebody-else", 100_00)

    run = desk.send(run, "approval_granted", "bob", digest)

    assert stopped_as(run) == ("NEEDS_HUMAN", "approval_required")
    assert run.effects.get().plan_digest != digest
    assert ["refunded of the order", "100.00 EUR", "300.00 EUR"] in run.effects.get().plan["difference"]
    submitted_by_us = [call for call in desk.calls("D586", "submit") if call["operation_key"] != "somebody-else"]
    assert submitted_by_us == []


# Withdrawn


def test_withdrawn_before_it_was_sent_nothing_was_submitted(desk: Refunds) -> None:
    run = desk.run("D586", amount_minor=200_00)

    run = desk.send(run, "cancel_requested", "alice", reason="The customer keeps it.")

    assert stopped_as(run) == ("CANCELLED", "cancelled_unsent")
    submitted(desk, run, 0)
    assert "was not submitted" in told(run)


def withdrawn_too_late(desk: Refunds) -> Run:
    desk.back_office.fault("B456", "pending", lookups=0)
    run = desk.run("B456", amount_minor=20_00)
    assert stopped_as(run) == ("WAITING", "effect_pending")
    run = desk.send(run, "cancel_requested", "alice", reason="The customer keeps it.")
    assert stopped_as(run) == ("NEEDS_HUMAN", "cancelled_too_late")
    return run


def test_withdrawn_after_it_was_accepted_the_part_is_undone_and_left_again(desk: Refunds) -> None:
    run = withdrawn_too_late(desk)
    assert desk.left("B456") == 39_00

    run = desk.send(run, "compensation_approved", "bob", reason="Nothing is owed.")

    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")
    assert [effect["state"] for effect in desk.effects("B456")] == ["cancelled"]
    assert desk.left("B456") == 59_00
    assert "was undone" in told(run)


def test_what_is_being_paid_cannot_be_undone_and_stays_with_a_person(desk: Refunds) -> None:
    run = withdrawn_too_late(desk)
    desk.back_office.pay("R789", "processing")

    run = desk.send(run, "compensation_approved", "bob", reason="Nothing is owed.")

    assert stopped_as(run) == ("NEEDS_HUMAN", "not_reversible")
    assert "already_processing" in run.question
    assert [effect["state"] for effect in desk.effects("B456")] == ["accepted"]
    assert handoff(run)["recovery"] == "manual"


# Accepted is not paid


def test_a_paid_refund_is_told_as_accepted_and_no_further(desk: Refunds) -> None:
    run = desk.run("B456")
    desk.back_office.pay("R789")

    assert told(run) == (
        "Your refund request for order B456 was accepted under number R789. "
        "Please note that this does not yet mean that the money is on its way."
    )
    assert "paid" not in " ".join(f"{value} {says}" for value, says in contract(run).values())


@pytest.mark.parametrize("statement", list(Statement))
def test_no_statement_of_a_request_says_that_money_moved(statement: Statement) -> None:
    text = CUSTOMER_SAYS.texts[statement]
    for word in ("paid", "transferred", "credited", "bank", "on your account"):
        assert word not in text["en"]
    for word in ("已到账", "已付", "已打款", "已转账"):
        assert word not in text["zh"]


def test_the_payment_is_followed_by_a_run_of_its_own(desk: Refunds) -> None:
    accepted = desk.run("B456", amount_minor=20_00, customer_id="U-88")

    following, made = starting.follow_up(accepted.pk, "payment", person("support"))

    assert made
    assert (following.workflow, following.follows) == ("refund_payment", accepted)
    assert following.input == {
        "order_id": "B456",
        "request_id": "R789",
        "amount_minor": 20_00,
        "currency": "EUR",
        "customer_id": "U-88",
    }


@pytest.mark.parametrize(("order_id", "by"), [("A123", "declined"), ("D586", "withdrawn")])
def test_where_nothing_was_accepted_there_is_no_payment_to_follow(desk: Refunds, order_id: str, by: str) -> None:
    run = desk.run(order_id)
    if by == "withdrawn":
        run = desk.send(run, "cancel_requested", "alice", reason="The customer keeps it.")
    assert run.is_final

    with pytest.raises(Refused, match="no payment to follow"):
        starting.follow_up(run.pk, "payment", person("support"))
    assert Run.objects.count() == 1


def test_while_it_runs_there_is_no_follow_up(desk: Refunds) -> None:
    run = desk.run("D586")

    with pytest.raises(Refused, match="has ended"):
        starting.follow_up(run.pk, "payment", person("support"))
