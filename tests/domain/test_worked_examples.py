"""The examples, tables and hand calculations of the five source documents, held against the rules as values.

What needs services and a worker to be shown is in tests/engine; the plain observation loop, the three-valued contract,
the frontier and the compensation have their documents' examples in the tests of their own chapters.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from runs.domain.budget import FIRST_WRITE, READ, BudgetExceeded, Charge, Dimension, Ledger
from runs.domain.contract import Evidence, Judgement, Value, evaluate, met, unknown, unmet
from runs.domain.decision import FactsState, Kind, NextStep, OpenEffect, Situation, Verdict, decide
from runs.domain.effects import (
    Answer,
    Effect,
    EffectError,
    EffectState,
    KeyTerms,
    Permit,
    WritePlan,
    absence_is_proof,
    after,
    approval_is_valid,
    may_send,
)
from runs.domain.errors import Failure
from runs.domain.progress import Gain, Progress, attempt_fingerprint
from runs.domain.states import Move, Outcome, State, StopReason, TransitionRefused, transition

NOW = datetime(2026, 9, 25, 10, tzinfo=UTC)
READ_BACK = Evidence("as it was read", "refund service", NOW, "R789")
AT_WORK = Situation(
    contract=Value.UNKNOWN,
    authorised=Value.MET,
    facts=FactsState.COMPLETE,
    eligible=Value.MET,
    next_step=NextStep.WRITE,
)
MAY_HAVE_LANDED = OpenEffect(EffectState.UNKNOWN, look_up_due=False, can_pay=True)


def verdict(**differs: object) -> Verdict:
    return decide(replace(AT_WORK, **differs))  # type: ignore[arg-type]


def ends(**differs: object) -> tuple[Outcome | None, StopReason | None]:
    found = verdict(**differs).reason
    return (found.outcome, found) if found else (None, None)


# The first document: a refund request, its gate of completion and its six ways of stopping

GATE = ("authorised", "eligible", "policy_in_force", "accepted", "has_a_number", "receipt_names_order_and_key")


def gate(**differs: Judgement) -> Value:
    return evaluate(GATE, {name: met(READ_BACK) for name in GATE} | differs).value


def test_the_gate_opens_when_all_six_conditions_hold_together() -> None:
    assert gate() is Value.MET


@pytest.mark.parametrize("name", GATE)
def test_each_condition_alone_keeps_the_gate_shut(name: str) -> None:
    assert gate(**{name: unmet(READ_BACK)}) is Value.UNMET
    assert gate(**{name: unknown("not read yet")}) is Value.UNKNOWN


@pytest.mark.parametrize(
    ("differs", "expected"),
    [
        ({"contract": Value.MET}, StopReason.CONTRACT_MET),
        ({"open_effect": replace(MAY_HAVE_LANDED, state=EffectState.ACKNOWLEDGED)}, StopReason.EFFECT_PENDING),
        ({"open_effect": MAY_HAVE_LANDED}, StopReason.EFFECT_UNKNOWN),
        ({"authorised": Value.UNMET}, StopReason.NOT_AUTHORISED),
        ({"eligible": Value.UNMET}, StopReason.NOT_ELIGIBLE),
        ({"refused": True}, StopReason.REFUSED_BY_SERVICE),
        ({"facts": FactsState.CONFLICT}, StopReason.FACTS_IN_CONFLICT),
        ({"facts": FactsState.MISSING}, StopReason.FACTS_MISSING),
        ({"contradiction": True}, StopReason.RECEIPTS_CONTRADICT),
        ({"short_of": Dimension.STEPS}, StopReason.LIMIT_STEPS),
        ({"short_of": Dimension.COST}, StopReason.LIMIT_COST),
        ({"overdue": True}, StopReason.LIMIT_WALL_TIME),
        ({"cancel_requested": True}, StopReason.CANCELLED_UNSENT),
        ({"cancel_requested": True, "open_effect": MAY_HAVE_LANDED}, StopReason.CANCELLATION_UNVERIFIED),
    ],
)
def test_a_run_stops_in_one_of_six_ways_and_says_why(differs: dict[str, object], expected: StopReason) -> None:
    assert verdict(**differs).reason is expected


@pytest.mark.parametrize(
    ("third", "expected"),
    [
        (Answer.ACCEPTED, StopReason.CONTRACT_MET),
        (Answer.PENDING, StopReason.LIMIT_STATUS_CHECKS),
    ],
)
def test_the_third_look_up_completes_with_a_receipt_and_reaches_the_limit_without_one(
    third: Answer, expected: StopReason
) -> None:
    look_up: Charge = {Dimension.STATUS_CHECKS: 1}
    ledger, state, looked = Ledger.of({Dimension.STATUS_CHECKS: 3}), after(EffectState.SENT, Answer.PENDING), 0
    for answer in (Answer.PENDING, Answer.PENDING, third):
        due = OpenEffect(state, look_up_due=True, can_pay=ledger.short_of(look_up) is None)
        assert verdict(open_effect=due).kind is Kind.LOOK_UP
        ledger, state, looked = ledger.reserve(look_up).settle(look_up), after(state, answer), looked + 1
    accepted = state is EffectState.CONFIRMED
    last = verdict(
        contract=gate() if accepted else gate(accepted=unknown("pending")),
        effects=frozenset({state}),
        open_effect=None if accepted else OpenEffect(state, True, ledger.short_of(look_up) is None),
    )
    assert (last.reason, looked, ledger.left(Dimension.STATUS_CHECKS)) == (expected, 3, 0)


def test_past_the_deadline_an_unknown_write_waits_and_is_not_called_failed() -> None:
    assert ends(overdue=True, open_effect=MAY_HAVE_LANDED) == (Outcome.WAITING, StopReason.EFFECT_UNKNOWN)


def test_no_empty_answer_is_taken_for_never_submitted() -> None:
    assert after(EffectState.SENT, Answer.NOT_FOUND_YET) is EffectState.UNKNOWN
    with pytest.raises(EffectError):
        may_send(write(EffectState.UNKNOWN), KeyTerms(timedelta(seconds=20)), NOW)


def test_the_model_s_first_round_claim_is_checked_and_completes_nothing() -> None:
    assert verdict(next_step=NextStep.CLAIM).kind is Kind.VALIDATE


# The second document: the loop's own table, its four budgets, and its two cases


def write(state: EffectState, **more: object) -> Effect:
    plan = WritePlan("book", "workshop 7", {"participant": "P1"}, (), "v1", "one booking", "cancel it", "a seat")
    return Effect("booking-7-P1", state, plan, NOW, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observed", "next_action"),
    [
        ({}, Kind.ACT),  # new evidence, and the next step is authorised and paid for
        ({"next_step": NextStep.READ, "failure": Failure("rate_limited", ""), "errors_in_a_row": 1}, Kind.RETRY),
        ({"next_step": NextStep.READ, "failure": Failure("no_answer", ""), "errors_in_a_row": 1}, Kind.RETRY),
        ({"failure": Failure("invalid_input", "")}, StopReason.INPUT_INVALID),
        ({"failure": Failure("not_found", "")}, StopReason.NOT_FOUND),
        ({"failure": Failure("access_denied", "")}, StopReason.ACCESS_REFUSED),
        ({"repeats": 1, "new_path": True}, Kind.ACT),
        ({"repeats": 1}, StopReason.NO_PROGRESS),
        ({"open_effect": replace(MAY_HAVE_LANDED, look_up_due=True)}, Kind.LOOK_UP),
        ({"open_effect": replace(MAY_HAVE_LANDED, can_pay=False)}, StopReason.OUTCOME_UNCONFIRMED),
        ({"approval_needed": True}, Kind.ASK_APPROVAL),
        ({"remaining_short_of": Dimension.MODEL_TURNS}, StopReason.LIMIT_MODEL_TURNS),
        ({"overdue": True}, StopReason.LIMIT_WALL_TIME),
    ],
)
def test_every_row_of_the_loop_s_table(observed: dict[str, object], next_action: Kind | StopReason) -> None:
    found = verdict(**observed)
    assert next_action in {found.kind, found.reason}


MODEL_CALL: Charge = {Dimension.MODEL_TURNS: 1, Dimension.INPUT_TOKENS: 4000, Dimension.OUTPUT_TOKENS: 500}
FOUR_BUDGETS = Ledger.of(
    {
        Dimension.MODEL_TURNS: 6,
        Dimension.TOOL_ATTEMPTS: 8,
        Dimension.WALL_TIME: 600,
        Dimension.INPUT_TOKENS: 10_000,
        Dimension.OUTPUT_TOKENS: 4000,
    }
)


def test_the_four_budgets_are_kept_apart() -> None:
    read = FOUR_BUDGETS.reserve(READ).settle(READ)
    assert (read.left(Dimension.TOOL_ATTEMPTS), read.left(Dimension.MODEL_TURNS)) == (7, 6)
    asked = FOUR_BUDGETS.reserve(MODEL_CALL).settle(MODEL_CALL)
    assert (asked.left(Dimension.TOOL_ATTEMPTS), asked.left(Dimension.MODEL_TURNS)) == (8, 5)
    assert FOUR_BUDGETS.at(600).left(Dimension.WALL_TIME) == 0


def test_the_tokens_may_be_used_up_before_the_model_s_turns_are() -> None:
    ledger = FOUR_BUDGETS
    for _ in range(2):
        ledger = ledger.reserve(MODEL_CALL).settle(MODEL_CALL)
    assert ledger.left(Dimension.MODEL_TURNS) == 4
    assert ledger.short_of(MODEL_CALL) is Dimension.INPUT_TOKENS
    assert ends(short_of=Dimension.INPUT_TOKENS) == (Outcome.LIMIT_REACHED, StopReason.LIMIT_TOKENS)


KINDS = {"competitors": 2, "sales": 2}


def test_a_market_scan_that_finds_the_same_again_stops_searching_that_kind_and_then_altogether() -> None:
    progress = Progress().gained(Gain(evidence=["report A", "report B"]), "competitors", KINDS)
    for _ in range(2):
        progress = progress.gained(Gain(came="report A and report B again"), "competitors", KINDS)
    assert progress.open_kinds(KINDS) == ("sales",)
    for _ in range(2):
        progress = progress.gained(Gain(came="nothing on sales"), "sales", KINDS)
    assert ends(kinds_closed=progress.kinds_closed(KINDS)) == (Outcome.NEEDS_HUMAN, StopReason.NO_PROGRESS)


def test_the_same_search_with_a_new_result_is_not_stuck() -> None:
    first = attempt_fingerprint("search", "find", {"q": "market"}, {"reports": ["A"]})
    again = attempt_fingerprint("search", "find", {"q": "market"}, {"reports": ["A", "B"]})
    assert Progress().observed(first).observed(first).repeats == 1
    assert Progress().observed(first).observed(again).repeats == 0


def test_a_booking_whose_answer_was_lost_is_looked_up_and_sent_again_only_once_it_is_proven_absent() -> None:
    terms = KeyTerms(in_flight=timedelta(seconds=20))
    lost = write(EffectState.UNKNOWN, sent_at=NOW, times_sent=1)
    with pytest.raises(EffectError, match="must not be sent again"):
        may_send(lost, terms, NOW)
    assert after(lost.state, Answer.ACCEPTED) is EffectState.CONFIRMED
    assert not absence_is_proof(lost, terms, NOW + timedelta(seconds=5))
    assert absence_is_proof(lost, terms, NOW + timedelta(seconds=20))
    assert may_send(replace(lost, state=after(lost.state, Answer.ABSENT)), terms, NOW) is Permit.PROVEN_ABSENT


def test_a_booking_s_approval_that_has_expired_meanwhile_lets_nothing_be_sent() -> None:
    planned = write(EffectState.APPROVED)
    approved = replace(planned, approved_digest=planned.digest, approval_expires_at=NOW)
    assert not approval_is_valid(approved, NOW)
    assert ends(approval_needed=True, approval_lapsed=True) == (Outcome.NEEDS_HUMAN, StopReason.APPROVAL_EXPIRED)


# The fifth document: research and report

MAX_SAME_ERROR = 2
CONFIGURED = Ledger.of({Dimension.STEPS: 12, Dimension.TOOL_ATTEMPTS: 8, Dimension.EXTERNAL_WRITES: 1})
PREDICATES = ("required_sources_found", "facts_verified", "draft_created", "review_passed")


def test_all_four_predicates_are_necessary() -> None:
    holds = {name: met(READ_BACK) for name in PREDICATES}
    assert evaluate(PREDICATES, holds).value is Value.MET
    for name in PREDICATES:
        found = evaluate(PREDICATES, holds | {name: unmet(READ_BACK)})
        assert found.value is Value.UNMET
        assert [other for other in PREDICATES if found.assertions[other].value is Value.UNMET] == [name]


DIAGRAM = [
    (State.RECEIVED, Move.STARTED, State.PLANNING),
    (State.PLANNING, Move.PROPOSAL_ACCEPTED, State.EXECUTING),
    (State.EXECUTING, Move.VALIDATION_DUE, State.VALIDATING),
    (State.EXECUTING, Move.STOPPED_SHORT, State.BLOCKED),
    (State.EXECUTING, Move.APPROVAL_REQUIRED, State.AWAITING_APPROVAL),
    (State.VALIDATING, Move.CONTRACT_MET, State.COMPLETED),
    (State.VALIDATING, Move.CONTRACT_NOT_MET, State.NEEDS_REVISION),
    (State.VALIDATING, Move.DECLINED, State.FAILED),
]


@pytest.mark.parametrize(("before", "move", "expected"), DIAGRAM)
def test_every_arrow_of_the_diagram(before: State, move: Move, expected: State) -> None:
    assert transition(before, move) is expected


@pytest.mark.parametrize("state", [state for state in State if state is not State.VALIDATING])
def test_nothing_but_validating_leads_to_completed(state: State) -> None:
    with pytest.raises(TransitionRefused):
        transition(state, Move.CONTRACT_MET)


@pytest.mark.parametrize(
    ("charge", "times", "dimension"),
    [
        ({Dimension.STEPS: 1}, 12, Dimension.STEPS),
        (READ, 8, Dimension.TOOL_ATTEMPTS),
        (FIRST_WRITE, 1, Dimension.EXTERNAL_WRITES),
    ],
)
def test_each_configured_budget_pays_so_often_and_not_once_more(
    charge: Charge, times: int, dimension: Dimension
) -> None:
    ledger = CONFIGURED
    for _ in range(times):
        ledger = ledger.reserve(charge).settle(charge)
    with pytest.raises(BudgetExceeded) as exceeded:
        ledger.reserve(charge)
    assert exceeded.value.dimension is dimension


TIMED_OUT = Failure("no_answer", "")


@pytest.mark.parametrize(
    ("injected", "expected"),
    [
        ({"failure": TIMED_OUT, "next_step": NextStep.READ, "errors_in_a_row": MAX_SAME_ERROR}, Kind.RETRY),
        (
            {"failure": TIMED_OUT, "next_step": NextStep.READ, "errors_in_a_row": MAX_SAME_ERROR + 1},
            StopReason.SAME_ERROR_REPEATED,
        ),
        ({"failure": Failure("credential_refused", "")}, StopReason.CREDENTIAL_REFUSED),
        ({"failure": Failure("access_denied", "")}, StopReason.ACCESS_REFUSED),
        ({"failure": Failure("invalid_input", "")}, StopReason.INPUT_INVALID),
        ({"failure": Failure("tool_missing", "")}, StopReason.TOOL_MISSING),
        ({"failure": Failure("invalid_output", ""), "next_step": NextStep.READ, "errors_in_a_row": 1}, Kind.RETRY),
        ({"open_effect": replace(MAY_HAVE_LANDED, look_up_due=True)}, Kind.LOOK_UP),
        (
            {"failure": Failure("nobody knows", ""), "next_step": NextStep.READ, "errors_in_a_row": MAX_SAME_ERROR + 1},
            StopReason.SAME_ERROR_REPEATED,
        ),
        ({"repeats": 1, "next_step": NextStep.CLAIM}, StopReason.NO_PROGRESS),  # validation that keeps failing
        ({"short_of": Dimension.TOOL_ATTEMPTS}, StopReason.LIMIT_TOOL_ATTEMPTS),
        ({"short_of": Dimension.STEPS}, StopReason.LIMIT_STEPS),
    ],
)
def test_every_injected_fault_is_met_as_the_table_of_errors_says(
    injected: dict[str, object], expected: Kind | StopReason
) -> None:
    found = verdict(max_same_error=MAX_SAME_ERROR, **injected)
    assert expected in {found.kind, found.reason}


def test_an_exhausted_budget_asks_for_no_last_try() -> None:
    assert ends(short_of=Dimension.STEPS, next_step=NextStep.READ)[0] is Outcome.LIMIT_REACHED
    assert ends(short_of=Dimension.STEPS, next_step=NextStep.CLAIM)[0] is Outcome.LIMIT_REACHED
