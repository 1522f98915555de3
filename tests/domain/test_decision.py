"""The order of the fifteen rules is their meaning; these are the places where it surprises."""

from dataclasses import fields, replace
from itertools import combinations
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.budget import Dimension
from runs.domain.contract import Value
from runs.domain.decision import (
    ON_FAILURE,
    RULES,
    FactsState,
    Kind,
    NextStep,
    OpenEffect,
    Situation,
    Verdict,
    decide,
    way_closed,
)
from runs.domain.effects import SENDABLE, EffectState
from runs.domain.errors import CLASS_OF_CODE, ErrorClass, Failure
from runs.domain.states import Closed, Outcome, Recovery, StopReason

CLEAR = Situation(
    contract=Value.UNKNOWN,
    authorised=Value.MET,
    facts=FactsState.COMPLETE,
    eligible=Value.MET,
    next_step=NextStep.WRITE,
)
UNKNOWN_WRITE = OpenEffect(EffectState.UNKNOWN, look_up_due=False, can_pay=True)


def reason(situation: Situation) -> StopReason | None:
    return decide(situation).reason


def test_the_rules_are_numbered_in_the_order_in_which_they_are_asked() -> None:
    assert [rule.number for rule in RULES] == list(range(1, 16))


def test_with_nothing_in_the_way_it_acts() -> None:
    assert decide(CLEAR).kind is Kind.ACT


def test_a_worker_without_the_lease_changes_nothing_whatever_else_is_true() -> None:
    assert decide(replace(CLEAR, holds_lease=False, cancel_requested=True)).kind is Kind.DROP


def test_completion_comes_before_every_limit() -> None:
    met = replace(CLEAR, contract=Value.MET, short_of=Dimension.STATUS_CHECKS, overdue=True, repeats=3)
    assert reason(met) is StopReason.CONTRACT_MET


def test_what_was_read_before_the_last_stop_completes_a_run_that_wrote_nothing_no_more() -> None:
    resumed = replace(CLEAR, contract=Value.MET, facts=FactsState.UNREAD, next_step=NextStep.READ)
    assert decide(resumed).kind is Kind.ACT
    assert reason(replace(resumed, facts=FactsState.COMPLETE)) is StopReason.CONTRACT_MET
    wrote = replace(resumed, effects=frozenset({EffectState.CONFIRMED}))
    assert reason(wrote) is StopReason.CONTRACT_MET  # what permitted it held when it was sent


def test_a_run_that_wrote_nothing_completes_only_where_it_could_be_judged_who_may_and_whether() -> None:
    claimed = replace(CLEAR, contract=Value.MET, next_step=NextStep.CLAIM)
    assert reason(claimed) is StopReason.CONTRACT_MET
    assert decide(replace(claimed, authorised=Value.UNKNOWN)).kind is Kind.VALIDATE
    assert decide(replace(claimed, eligible=Value.UNKNOWN)).kind is Kind.VALIDATE


@pytest.mark.parametrize("state", [EffectState.PLANNED, EffectState.APPROVED, EffectState.ABSENT])
def test_a_write_of_which_nothing_is_out_there_has_permitted_nothing(state: EffectState) -> None:
    resumed = replace(CLEAR, contract=Value.MET, facts=FactsState.UNREAD, next_step=NextStep.READ)
    assert decide(replace(resumed, effects=frozenset({state}))).kind is Kind.ACT


def test_a_limit_and_a_repetition_together_are_a_limit() -> None:
    assert reason(replace(CLEAR, short_of=Dimension.STEPS, repeats=1)) is StopReason.LIMIT_STEPS


def test_an_open_effect_forbids_writes_but_not_look_ups() -> None:
    due = replace(UNKNOWN_WRITE, look_up_due=True)
    assert decide(replace(CLEAR, open_effect=due)).kind is Kind.LOOK_UP
    assert reason(replace(CLEAR, open_effect=UNKNOWN_WRITE)) is StopReason.EFFECT_UNKNOWN


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (EffectState.ACKNOWLEDGED, StopReason.EFFECT_PENDING),
        (EffectState.UNKNOWN, StopReason.EFFECT_UNKNOWN),
        (EffectState.SENT, StopReason.EFFECT_UNKNOWN),
    ],
)
def test_a_write_is_waited_for_as_pending_only_once_the_authority_said_so(
    state: EffectState, expected: StopReason
) -> None:
    assert reason(replace(CLEAR, open_effect=replace(UNKNOWN_WRITE, state=state))) is expected


@pytest.mark.parametrize("failing", [{"authorised": Value.UNMET}, {"eligible": Value.UNMET}, {"facts": "missing"}])
def test_while_a_write_may_have_landed_failing_preconditions_do_not_end_the_run(failing: dict[str, object]) -> None:
    situation = replace(CLEAR, open_effect=UNKNOWN_WRITE, **failing)  # type: ignore[arg-type]
    assert reason(situation) is StopReason.EFFECT_UNKNOWN


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (EffectState.ACKNOWLEDGED, StopReason.LIMIT_STATUS_CHECKS),
        (EffectState.UNKNOWN, StopReason.OUTCOME_UNCONFIRMED),
        (EffectState.SENT, StopReason.OUTCOME_UNCONFIRMED),
    ],
)
def test_used_up_look_ups_end_by_what_was_last_known(state: EffectState, expected: StopReason) -> None:
    used_up = replace(UNKNOWN_WRITE, state=state, can_pay=False)
    assert reason(replace(CLEAR, open_effect=used_up)) is expected


def test_the_deadline_does_not_end_a_run_whose_write_is_still_looked_up() -> None:
    assert reason(replace(CLEAR, overdue=True, open_effect=UNKNOWN_WRITE)) is StopReason.EFFECT_UNKNOWN
    assert reason(replace(CLEAR, overdue=True)) is StopReason.LIMIT_WALL_TIME


def test_a_cancellation_waits_for_the_authority_while_a_write_may_have_landed() -> None:
    asked = replace(CLEAR, cancel_requested=True)
    assert reason(asked) is StopReason.CANCELLED_UNSENT
    assert reason(replace(asked, open_effect=UNKNOWN_WRITE)) is StopReason.CANCELLATION_UNVERIFIED
    assert reason(replace(asked, effects=frozenset({EffectState.ABSENT}))) is StopReason.CANCELLED_ABSENT
    assert reason(replace(asked, effects=frozenset({EffectState.REJECTED}))) is StopReason.CANCELLED_ABSENT
    assert reason(replace(asked, effects=frozenset({EffectState.CONFIRMED}))) is StopReason.CANCELLED_TOO_LATE


def test_a_cancellation_goes_before_a_pause() -> None:
    assert reason(replace(CLEAR, cancel_requested=True, paused=True)) is StopReason.CANCELLED_UNSENT


def test_a_paused_run_starts_nothing_new_and_is_still_looked_after() -> None:
    paused = replace(CLEAR, paused=True)
    assert reason(paused) is StopReason.PAUSED
    assert reason(replace(paused, next_step=NextStep.READ)) is StopReason.PAUSED
    assert decide(replace(paused, open_effect=replace(UNKNOWN_WRITE, look_up_due=True))).kind is Kind.LOOK_UP
    assert reason(replace(paused, contract=Value.MET)) is StopReason.CONTRACT_MET


def test_past_a_soft_mark_the_rest_has_to_be_affordable_and_worth_it() -> None:
    assert reason(replace(CLEAR, remaining_short_of=Dimension.STEPS)) is StopReason.LIMIT_STEPS
    assert reason(replace(CLEAR, worth_it=False)) is StopReason.NOT_WORTH_GOING_ON
    assert reason(replace(CLEAR, worth_it=False, remaining_short_of=Dimension.COST)) is StopReason.LIMIT_COST


def test_without_progress_one_reasoned_new_path_is_allowed_until_every_kind_is_closed() -> None:
    stuck = replace(CLEAR, repeats=1)
    assert reason(stuck) is StopReason.NO_PROGRESS
    assert decide(replace(stuck, new_path=True)).kind is Kind.ACT
    assert reason(replace(stuck, new_path=True, kinds_closed=True)) is StopReason.NO_PROGRESS
    assert reason(replace(CLEAR, kinds_closed=True)) is StopReason.NO_PROGRESS


def test_when_every_source_was_asked_a_person_is() -> None:
    assert reason(replace(CLEAR, next_step=NextStep.EXHAUSTED)) is StopReason.SOURCES_EXHAUSTED
    assert reason(replace(CLEAR, next_step=NextStep.NONE)) is StopReason.QUESTION_ASKED


def test_a_cancelled_run_whose_write_was_undone_is_cancelled() -> None:
    undone = replace(CLEAR, cancel_requested=True, effects=frozenset({EffectState.COMPENSATED}))
    assert reason(undone) is StopReason.CANCELLED_COMPENSATED
    half = replace(undone, effects=frozenset({EffectState.COMPENSATED, EffectState.CONFIRMED}))
    assert reason(half) is StopReason.CANCELLED_TOO_LATE


UNDOING = replace(
    CLEAR,
    cancel_requested=True,
    effects=frozenset({EffectState.CONFIRMED}),
    undo=Recovery.COMPENSATE,
    next_step=NextStep.WRITE,
    contract=Value.MET,
)


def test_what_is_being_undone_is_neither_too_late_nor_completed() -> None:
    assert decide(UNDOING).kind is Kind.ACT
    assert reason(replace(UNDOING, undo=Recovery.NONE)) is StopReason.CANCELLED_TOO_LATE


def test_what_cannot_be_undone_goes_to_a_person() -> None:
    manual = replace(UNDOING, undo=Recovery.MANUAL, next_step=NextStep.NONE)
    assert reason(manual) is StopReason.NOT_REVERSIBLE


@pytest.mark.parametrize(
    "failing",
    [
        {"authorised": Value.UNMET},
        {"authorised": Value.UNKNOWN},
        {"eligible": Value.UNMET},
        {"facts": FactsState.MISSING},
        {"facts": FactsState.UNREAD},
    ],
)
def test_undoing_does_not_rest_on_what_permitted_the_write(failing: dict[str, object]) -> None:
    assert decide(replace(UNDOING, **failing)).kind is Kind.ACT  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "stops_for"),
    [
        ({"paused": True}, StopReason.PAUSED),
        ({"overdue": True}, StopReason.LIMIT_WALL_TIME),
        ({"short_of": Dimension.STEPS}, StopReason.LIMIT_STEPS),
    ],
)
def test_undoing_stops_at_every_limit(limit: dict[str, object], stops_for: StopReason) -> None:
    assert reason(replace(UNDOING, **limit)) is stops_for  # type: ignore[arg-type]


@pytest.mark.parametrize("error_class", ErrorClass)
def test_a_class_of_error_either_stops_the_run_or_is_tried_again_within_bounds(error_class: ErrorClass) -> None:
    code = next(code for code, known in CLASS_OF_CODE.items() if known is error_class)
    again = {ErrorClass.TRANSIENT, ErrorClass.INVALID_OUTPUT, ErrorClass.UNKNOWN}
    failed = replace(CLEAR, next_step=NextStep.READ, failure=Failure(code, ""), errors_in_a_row=1)
    assert decide(failed).kind is (Kind.RETRY if error_class in again else Kind.STOP)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("credential_refused", StopReason.CREDENTIAL_REFUSED),
        ("access_denied", StopReason.ACCESS_REFUSED),
        ("tool_missing", StopReason.TOOL_MISSING),
    ],
)
def test_a_look_up_that_would_fail_again_is_not_made_again(code: str, expected: StopReason) -> None:
    due = replace(CLEAR, open_effect=replace(UNKNOWN_WRITE, look_up_due=True))
    assert decide(replace(due, failure=Failure(code, ""))) == Verdict(Kind.STOP, expected, 9)
    assert decide(replace(due, failure=Failure("unavailable", ""))).kind is Kind.LOOK_UP


@pytest.mark.parametrize("code", [*CLASS_OF_CODE, "teapot"])
def test_a_write_that_failed_is_tried_again_only_where_the_service_declares_that_it_did_nothing(code: str) -> None:
    failure = Failure(code, "")
    permanent = ON_FAILURE.get(failure.error_class)
    for executed in (None, True, False):
        failed = replace(CLEAR, failed_kind=NextStep.WRITE, failure=replace(failure, executed=executed))
        if executed is False and not permanent:
            assert decide(failed) == Verdict(Kind.RETRY, rule=12)
        else:
            assert decide(failed) == Verdict(Kind.STOP, permanent or StopReason.OUTCOME_UNCONFIRMED, 12)


@pytest.mark.parametrize("failing", [{"authorised": Value.UNMET}, {"eligible": Value.UNMET}, {"facts": "missing"}])
def test_what_was_done_is_not_undone_by_preconditions_that_fail_afterwards(failing: dict[str, object]) -> None:
    situation = replace(CLEAR, effects=frozenset({EffectState.CONFIRMED}), next_step=NextStep.CLAIM, **failing)  # type: ignore[arg-type]
    assert decide(situation).kind is Kind.VALIDATE


@pytest.mark.parametrize(
    ("unclear", "expected"),
    [
        ({"facts": FactsState.UNREAD}, StopReason.FACTS_MISSING),
        ({"authorised": Value.UNKNOWN}, StopReason.FACTS_MISSING),
        ({"eligible": Value.UNKNOWN}, StopReason.FACTS_MISSING),
        ({"authorised": Value.UNMET}, StopReason.NOT_AUTHORISED),
        ({"eligible": Value.UNMET}, StopReason.NOT_ELIGIBLE),
    ],
)
@pytest.mark.parametrize("effects", [frozenset(), frozenset({EffectState.CONFIRMED})])
def test_nothing_is_written_on_what_nobody_read_or_could_judge_after_a_confirmed_write_either(
    unclear: dict[str, Any], expected: StopReason, effects: frozenset[EffectState]
) -> None:
    half_done = bool(effects) and Value.UNMET in unclear.values()
    assert reason(replace(CLEAR, effects=effects, **unclear)) is (StopReason.HALF_DONE if half_done else expected)


def test_while_another_write_is_open_neither_a_refusal_nor_the_contract_ends_the_run() -> None:
    due = replace(CLEAR, open_effect=replace(UNKNOWN_WRITE, look_up_due=True))
    assert decide(replace(due, refused=True)).kind is Kind.LOOK_UP
    assert decide(replace(due, contract=Value.MET)).kind is Kind.LOOK_UP


def test_not_authorised_goes_before_what_was_read() -> None:
    both = replace(CLEAR, authorised=Value.UNMET, facts=FactsState.CONFLICT)
    assert reason(both) is StopReason.NOT_AUTHORISED


def test_a_failed_read_is_tried_again_until_its_limit() -> None:
    failed = replace(CLEAR, next_step=NextStep.READ, failure=Failure("unavailable", ""), errors_in_a_row=2)
    assert decide(failed).kind is Kind.RETRY
    assert reason(replace(failed, errors_in_a_row=3)) is StopReason.SAME_ERROR_REPEATED


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("credential_refused", StopReason.CREDENTIAL_REFUSED),
        ("access_denied", StopReason.ACCESS_REFUSED),
        ("invalid_input", StopReason.INPUT_INVALID),
        ("not_found", StopReason.NOT_FOUND),
        ("tool_missing", StopReason.TOOL_MISSING),
    ],
)
def test_permanent_failures_are_not_tried_again(code: str, expected: StopReason) -> None:
    assert reason(replace(CLEAR, failure=Failure(code, ""))) is expected


def test_an_unmapped_failure_is_tried_within_bounds_and_never_a_success() -> None:
    odd = replace(CLEAR, next_step=NextStep.READ, failure=Failure("teapot", ""), errors_in_a_row=1)
    assert decide(odd).kind is Kind.RETRY
    assert reason(replace(odd, attempts_left=False)) is StopReason.SAME_ERROR_REPEATED


def test_a_write_that_needs_approval_is_put_up_and_not_sent() -> None:
    needed = replace(CLEAR, approval_needed=True)
    assert decide(needed).kind is Kind.ASK_APPROVAL
    assert decide(replace(needed, approval_valid=True)).kind is Kind.ACT
    assert reason(replace(needed, approval_rejected=True)) is StopReason.APPROVAL_REJECTED
    assert reason(replace(needed, approval_lapsed=True)) is StopReason.APPROVAL_EXPIRED


def test_a_claim_is_validated_and_a_question_asked() -> None:
    assert decide(replace(CLEAR, next_step=NextStep.CLAIM)).kind is Kind.VALIDATE
    assert reason(replace(CLEAR, next_step=NextStep.ASK)) is StopReason.QUESTION_ASKED


# The order as a whole. Each entry makes its rule, and no earlier one, apply to a situation in which nothing else does.
APPLIES: dict[int, dict[str, Any]] = {
    1: {"holds_lease": False},
    2: {"cancel_requested": True},
    3: {"authorised": Value.UNMET},
    4: {"facts": FactsState.CONFLICT},
    6: {"contradiction": True},
    7: {"refused": True},
    8: {"contract": Value.MET},
    9: {"open_effect": UNKNOWN_WRITE},
    10: {"short_of": Dimension.STEPS},
    11: {"repeats": 1},
    12: {"failure": Failure("not_found", "")},
    13: {"remaining_short_of": Dimension.STEPS},
    14: {"approval_needed": True},
}
SILENT_BESIDE_AN_OPEN_EFFECT = {2, 3, 4, 5, 7, 8}  # what may have landed is looked after first


@pytest.mark.parametrize("size", range(len(APPLIES) + 1))
def test_of_all_rules_that_apply_the_first_decides(size: int) -> None:
    for together in combinations(APPLIES, size):
        heard = set(together) - (SILENT_BESIDE_AN_OPEN_EFFECT if 9 in together else set())
        situation = replace(CLEAR, **{name: value for rule in together for name, value in APPLIES[rule].items()})
        assert decide(situation).rule == min(heard, default=15), together


def test_not_eligible_stands_between_unclear_facts_and_contradicting_evidence() -> None:
    ineligible = replace(CLEAR, eligible=Value.UNMET)
    assert decide(ineligible) == Verdict(Kind.STOP, StopReason.NOT_ELIGIBLE, 5)
    assert decide(replace(ineligible, facts=FactsState.MISSING)).reason is StopReason.FACTS_MISSING
    unread = replace(ineligible, facts=FactsState.UNREAD, next_step=NextStep.READ)
    assert decide(unread).kind is Kind.ACT  # judged on nothing read
    assert decide(replace(ineligible, contradiction=True)).rule == 5
    assert decide(replace(ineligible, authorised=Value.UNMET)).rule == 3


FAILURES = st.builds(
    Failure, st.sampled_from([*CLASS_OF_CODE, "teapot"]), st.just(""), st.sampled_from([None, False, True])
)
SITUATIONS = st.builds(
    Situation,
    **{
        field.name: {
            "effects": st.frozensets(st.sampled_from(EffectState), max_size=3),
            "failure": st.none() | FAILURES,
        }.get(field.name, st.from_type(get_type_hints(Situation)[field.name]))
        for field in fields(Situation)
    },
)


@given(SITUATIONS)
def test_every_situation_has_one_verdict_and_it_never_breaks_the_law(s: Situation) -> None:
    verdict = decide(s)
    outcome = verdict.reason.outcome if verdict.reason else None
    speaking = [rule.number for rule in RULES if rule.apply(s)]

    assert verdict.rule == speaking[0]
    assert 15 in speaking
    assert (verdict.kind is Kind.STOP) == (verdict.reason is not None)
    assert (verdict.kind is Kind.DROP) == (not s.holds_lease)
    if outcome in {Outcome.COMPLETED, Outcome.CANCELLED, Outcome.DECLINED} and verdict.rule != 12:
        assert s.open_effect is None
    if outcome is Outcome.COMPLETED:
        assert s.contract is Value.MET
        known_to_hold = (s.facts, s.authorised, s.eligible) == (FactsState.COMPLETE, Value.MET, Value.MET)
        assert known_to_hold or s.effects - SENDABLE
    if outcome is Outcome.CANCELLED:
        assert s.cancel_requested
        assert s.open_effect is None
        assert EffectState.CONFIRMED not in s.effects
    if verdict.rule in {3, 5}:
        assert s.next_step is NextStep.WRITE or EffectState.CONFIRMED not in s.effects
    if verdict.kind is Kind.LOOK_UP:
        assert s.open_effect
        assert s.open_effect.look_up_due
        assert s.open_effect.can_pay
    if verdict.kind is Kind.ACT:
        assert s.open_effect is None
        assert not s.paused
        assert not s.overdue
        assert s.short_of is None
        assert s.failure is None
        assert s.next_step in {NextStep.READ, NextStep.WRITE}
    if verdict.kind is Kind.ACT and s.next_step is NextStep.WRITE:
        assert (s.facts, s.authorised, s.eligible) == (FactsState.COMPLETE, Value.MET, Value.MET)
        assert not s.approval_needed or s.approval_valid


@pytest.mark.parametrize("next_step", [NextStep.READ, NextStep.NONE, NextStep.WRITE])
def test_missing_facts_stop_it_whatever_would_come_next(next_step: NextStep) -> None:
    assert reason(replace(CLEAR, facts=FactsState.MISSING, next_step=next_step)) is StopReason.FACTS_MISSING


# More than one way, and more than one write


def test_a_refusal_ends_the_run_unless_another_write_of_it_stands() -> None:
    refused = replace(CLEAR, refused=True, next_step=NextStep.ASK, effects=frozenset({EffectState.REJECTED}))
    assert reason(refused) is StopReason.REFUSED_BY_SERVICE
    beside = replace(refused, effects=frozenset({EffectState.REJECTED, EffectState.CONFIRMED}))
    assert reason(beside) is StopReason.QUESTION_ASKED


@pytest.mark.parametrize("failed_of", Closed)
def test_a_way_that_failed_for_good_stops_the_run_for_what_it_failed_of(failed_of: Closed) -> None:
    assert reason(replace(CLEAR, next_step=NextStep.READ, closed=failed_of)) is failed_of.reason


@pytest.mark.parametrize(
    ("step", "kind"),
    [(NextStep.HAND_OVER, Kind.HAND_OVER), (NextStep.REFUSED, Kind.REFUSE), (NextStep.TURN, Kind.ACT)],
)
def test_what_a_policy_may_do_besides(step: NextStep, kind: Kind) -> None:
    assert decide(replace(CLEAR, next_step=step)).kind is kind


def test_what_was_begun_elsewhere_is_waited_for() -> None:
    assert reason(replace(CLEAR, next_step=NextStep.WAIT)) is StopReason.RESULT_PENDING


def test_a_rejected_plan_stops_the_run_and_another_one_does_not() -> None:
    assert reason(replace(CLEAR, approval_rejected=True)) is StopReason.APPROVAL_REJECTED
    assert decide(CLEAR).kind is Kind.ACT


@pytest.mark.parametrize("code", CLASS_OF_CODE)
def test_what_is_not_there_closes_a_way_at_once_and_what_may_pass_when_its_attempts_are_used_up(code: str) -> None:
    failure = Failure(code, "No.")
    at_once, later = way_closed(failure, 1, 3), way_closed(failure, 3, 3)
    if failure.error_class is ErrorClass.NOT_FOUND:
        assert at_once is later is Closed.NOT_THERE
    elif failure.error_class in ON_FAILURE:
        assert at_once is later is None  # a person's matter, whatever other way there is
    else:
        assert (at_once, later) == (None, Closed.USED_UP)


def test_what_is_not_permitted_any_more_ends_the_run_unless_an_earlier_write_of_it_stands() -> None:
    unfit = replace(CLEAR, eligible=Value.UNMET)
    assert reason(unfit) is StopReason.NOT_ELIGIBLE
    assert reason(replace(unfit, effects=frozenset({EffectState.CONFIRMED}))) is StopReason.HALF_DONE
