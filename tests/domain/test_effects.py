from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from itertools import product

import pytest

from runs.domain.effects import (
    LIFE,
    UNRESOLVED,
    Answer,
    Effect,
    EffectError,
    EffectState,
    KeyTerms,
    Permit,
    Undecidable,
    WritePlan,
    absence_is_proof,
    after,
    approval_is_valid,
    binding_of,
    compensated,
    fingerprint,
    first_key,
    in_doubt,
    may_send,
    put_up,
    still_answers,
    still_contradicted,
    undecidable,
    undone_elsewhere,
    what_a_failure_means,
)
from runs.domain.errors import CLASS_OF_CODE, Failure

NOW = datetime(2026, 9, 25, 10, tzinfo=UTC)
PLAN = WritePlan("submit", "order B456", {"order_id": "B456"}, (), "v1", "accepted", "cancel it", "little")

TERMS = KeyTerms(in_flight=timedelta(seconds=10))


def effect(state: EffectState, **more: object) -> Effect:
    return Effect("refund-1", state, PLAN, NOW, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "answer"), list(product(EffectState, Answer)))
def test_every_answer_is_in_the_table_or_refused(state: EffectState, answer: Answer) -> None:
    if (state, answer) in LIFE:
        assert after(state, answer) in EffectState
    else:
        with pytest.raises(EffectError) as refused:
            after(state, answer)
        assert str(refused.value) == f"An effect that is {state.value} cannot be answered {answer.value}."
        assert refused.value.field == "effect"


def test_only_an_answer_that_settles_it_ends_the_uncertainty() -> None:
    settling = {Answer.ACCEPTED, Answer.REJECTED, Answer.ABSENT, Answer.NOT_EXECUTED}
    for (state, answer), to in LIFE.items():
        assert (to in UNRESOLVED) == (answer not in settling), (state, answer)


def test_a_settled_effect_takes_no_further_answer() -> None:
    for state in (EffectState.CONFIRMED, EffectState.REJECTED, EffectState.COMPENSATED):
        with pytest.raises(EffectError):
            after(state, Answer.ABSENT)


@pytest.mark.parametrize("state", EffectState)
def test_sending_is_permitted_only_for_what_was_never_sent_or_is_proven_absent(state: EffectState) -> None:
    permits = {
        EffectState.PLANNED: Permit.FIRST,
        EffectState.APPROVED: Permit.FIRST,
        EffectState.ABSENT: Permit.PROVEN_ABSENT,
    }
    if state in permits:
        assert may_send(effect(state), TERMS, NOW) is permits[state]
    else:
        with pytest.raises(EffectError) as refused:
            may_send(effect(state), TERMS, NOW)
        assert str(refused.value) == f"This write is {state.value}; it must not be sent again."
        assert refused.value.field == "effect"


def test_past_the_retention_of_a_key_only_a_look_up_is_safe() -> None:
    state, terms = EffectState.ABSENT, replace(TERMS, kept_for=timedelta(hours=24))
    assert may_send(effect(state), terms, NOW + timedelta(hours=24) - timedelta(microseconds=1))
    with pytest.raises(EffectError) as refused:
        may_send(effect(state), terms, NOW + timedelta(hours=24))
    assert str(refused.value) == "The service may have forgotten this operation key; only a look-up is safe."
    assert refused.value.field == "operation_key"
    assert may_send(effect(EffectState.APPROVED), terms, NOW + timedelta(days=9)) is Permit.FIRST  # it knows of none


@pytest.mark.parametrize("changed", ["params", "target", "operation"])
def test_a_key_belongs_to_the_scope_and_the_parameters_it_was_first_sent_for(changed: str) -> None:
    sent = effect(EffectState.ABSENT, binding=binding_of(PLAN))
    assert may_send(sent, TERMS, NOW) is Permit.PROVEN_ABSENT
    other = replace(PLAN, **{changed: {"order_id": "A123"} if changed == "params" else "another"})  # type: ignore[arg-type]
    for state in EffectState:
        with pytest.raises(EffectError) as refused:
            may_send(replace(sent, state=state, plan=other), TERMS, NOW)
        assert str(refused.value) == "This operation key was sent for something else."
        assert refused.value.field == "operation_key"


def test_what_a_key_is_bound_to_leaves_out_what_only_people_read() -> None:
    assert binding_of(replace(PLAN, risk="great", expected="x", undo="y", target_version="v2")) == binding_of(PLAN)


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint({"b": {"d": 3, "c": 2}, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})


# A fingerprint on record is compared with one that is computed later, perhaps by another version of the product.


def test_a_fingerprint_is_the_digest_of_the_shortest_json_with_its_keys_in_order() -> None:
    text = '{"a":"Zürich","b":[1,{"c":null,"d":0.5}]}'
    assert fingerprint({"b": [1, {"d": 0.5, "c": None}], "a": "Zürich"}) == sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "kept"),
    [(date(2026, 9, 25), "2026-09-25"), (NOW, "2026-09-25T10:00:00+00:00"), (Decimal("49.90"), "49.90")],
)
def test_a_plan_has_the_same_fingerprint_once_it_was_kept_as_text(value: object, kept: str) -> None:
    assert fingerprint({"params": {"value": value}}) == fingerprint({"params": {"value": kept}})


def test_an_approval_on_record_is_for_the_key_and_the_plan_under_their_own_names() -> None:
    names = ("operation", "target", "params", "difference", "target_version", "expected", "undo", "risk")
    plan = {name: getattr(PLAN, name) for name in names}
    approved = fingerprint({"key": "refund-1", **plan, "needs_approval": ""})
    assert effect(EffectState.PLANNED).digest == approved


def test_a_binding_on_record_is_for_operation_target_and_parameters_under_their_own_names() -> None:
    bound = {"operation": "submit", "target": "order B456", "params": {"order_id": "B456"}}
    assert binding_of(PLAN) == fingerprint(bound)


def test_not_there_is_no_proof_before_the_grace_is_over() -> None:
    sent = effect(EffectState.UNKNOWN, sent_at=NOW)
    assert not absence_is_proof(sent, TERMS, NOW + timedelta(seconds=9.999))
    assert absence_is_proof(sent, TERMS, NOW + timedelta(seconds=10))
    assert not absence_is_proof(effect(EffectState.UNKNOWN), TERMS, NOW + timedelta(days=1))


def test_not_there_is_no_proof_once_the_service_may_have_forgotten_the_key() -> None:
    sent, terms = effect(EffectState.UNKNOWN, sent_at=NOW), replace(TERMS, kept_for=timedelta(hours=1))
    assert absence_is_proof(sent, terms, NOW + timedelta(minutes=59))
    assert not absence_is_proof(sent, terms, NOW + timedelta(hours=1))


def test_a_confirmed_write_is_compensated_by_a_confirmed_one_that_names_it_and_keeps_its_history() -> None:
    done = effect(EffectState.CONFIRMED, receipt={"request_id": "R789"}, times_sent=1)
    undoing = Effect("refund-1-undo", EffectState.CONFIRMED, PLAN, NOW, undoes="refund-1")
    assert compensated(done, undoing) == replace(done, state=EffectState.COMPENSATED)
    with pytest.raises(EffectError, match="does not undo refund-1") as refused:
        compensated(done, replace(undoing, undoes="refund-2"))
    assert refused.value.field == "undoes"


@pytest.mark.parametrize("state", [state for state in EffectState if state is not EffectState.CONFIRMED])
def test_nothing_is_compensated_before_both_writes_are_confirmed(state: EffectState) -> None:
    done = effect(EffectState.CONFIRMED)
    undoing = Effect("refund-1-undo", EffectState.CONFIRMED, PLAN, NOW, undoes="refund-1")
    for one, other, field in (
        (replace(done, state=state), undoing, "effect"),
        (done, replace(undoing, state=state), "undoing"),
    ):
        with pytest.raises(EffectError, match=f"is {state.value}, not confirmed") as refused:
            compensated(one, other)
        assert refused.value.field == field


def test_an_approval_is_for_one_plan_and_for_a_time() -> None:
    digest = effect(EffectState.PLANNED).digest
    approved = effect(EffectState.APPROVED, approved_digest=digest, approval_expires_at=NOW + timedelta(minutes=5))
    assert approval_is_valid(approved, NOW)
    assert not approval_is_valid(approved, NOW + timedelta(minutes=5))


@pytest.mark.parametrize("changed", ["params", "target", "target_version", "difference", "undo", "risk", "expected"])
def test_an_approval_does_not_cover_a_plan_that_differs_anywhere(changed: str) -> None:
    digest = effect(EffectState.PLANNED).digest
    other = replace(PLAN, **{changed: {"order_id": "A123"} if changed == "params" else "another"})  # type: ignore[arg-type]
    approved = effect(EffectState.APPROVED, approved_digest=digest, approval_expires_at=NOW + timedelta(minutes=5))
    assert not approval_is_valid(replace(approved, plan=other), NOW)
    assert not approval_is_valid(replace(approved, key="refund-2"), NOW)


def test_what_was_acknowledged_once_cannot_simply_be_absent() -> None:
    assert in_doubt(effect(EffectState.ACKNOWLEDGED), Answer.ABSENT) is Answer.CONTRADICTORY
    assert (
        in_doubt(effect(EffectState.UNKNOWN, last_answer=Answer.CONTRADICTORY), Answer.ABSENT) is Answer.CONTRADICTORY
    )
    assert in_doubt(effect(EffectState.UNKNOWN), Answer.ABSENT) is Answer.ABSENT


def test_a_contradiction_is_settled_neither_by_silence_nor_by_a_word_that_nothing_was_done() -> None:
    contradicted = effect(EffectState.UNKNOWN, last_answer=Answer.CONTRADICTORY)
    assert in_doubt(contradicted, Answer.NOT_EXECUTED) is Answer.CONTRADICTORY
    assert in_doubt(effect(EffectState.UNKNOWN), Answer.NOT_EXECUTED) is Answer.NOT_EXECUTED
    assert {answer for answer in Answer if still_contradicted(contradicted, answer)} == {
        Answer.UNREACHABLE,
        Answer.NOT_FOUND_YET,
    }
    assert not still_contradicted(effect(EffectState.UNKNOWN), Answer.UNREACHABLE)


def test_a_late_no_of_an_earlier_attempt_is_no_news_of_a_later_one() -> None:
    second = effect(EffectState.UNKNOWN, times_sent=2)
    assert not still_answers(second, Answer.ABSENT, attempt=1)
    assert still_answers(second, Answer.ABSENT, attempt=2)
    assert still_answers(second, Answer.ACCEPTED, attempt=1)
    assert not still_answers(second, Answer.UNREACHABLE, attempt=2)
    assert not still_answers(effect(EffectState.CONFIRMED, times_sent=1), Answer.ACCEPTED, attempt=1)


SAYS_IT_DID_NOTHING = {"credential_refused", "access_denied", "invalid_input", "tool_missing"}


@pytest.mark.parametrize("code", [*CLASS_OF_CODE, "teapot"])
def test_a_failed_write_did_nothing_only_where_its_code_or_the_service_says_so(code: str) -> None:
    silent = Answer.NOT_EXECUTED if code in SAYS_IT_DID_NOTHING else Answer.UNREACHABLE
    assert what_a_failure_means(Failure(code, ""), looking=False) is silent
    assert (
        what_a_failure_means(Failure(code, "", executed=True), looking=False) is Answer.UNREACHABLE
    )  # it did, it says
    assert what_a_failure_means(Failure(code, "", executed=False), looking=False) is Answer.NOT_EXECUTED


@pytest.mark.parametrize("executed", [None, False, True])
@pytest.mark.parametrize("code", [*CLASS_OF_CODE, "teapot"])
def test_a_failed_look_up_says_nothing_about_the_write(code: str, executed: bool | None) -> None:
    assert what_a_failure_means(Failure(code, "", executed), looking=True) is Answer.UNREACHABLE


def test_what_waits_for_a_decision_is_what_was_put_up_and_not_decided_about() -> None:
    until = NOW + timedelta(hours=4)
    waits = effect(EffectState.PLANNED, approval_expires_at=until)
    others = [
        effect(EffectState.PLANNED),
        effect(EffectState.CONFIRMED, approval_expires_at=until),
        effect(EffectState.APPROVED, approval_expires_at=until, approved_digest="d" * 64),
    ]
    assert put_up([*others, waits]) is waits
    assert put_up([waits, *others]) is waits  # wherever it stands
    assert put_up(others) is None
    again = effect(EffectState.ABSENT, approval_expires_at=until)
    assert put_up([again]) is again  # sent before, proven absent, and put up anew


@pytest.mark.parametrize("state", EffectState)
def test_only_what_took_effect_can_have_been_undone_by_somebody_else(state: EffectState) -> None:
    there = effect(state, times_sent=1, receipt={"request_id": "R789"})
    if state is EffectState.CONFIRMED:
        assert undone_elsewhere(there) == replace(there, state=EffectState.COMPENSATED)
    else:
        with pytest.raises(EffectError) as refused:
            undone_elsewhere(there)
        assert str(refused.value) == f"The write refund-1 is {state.value}, not confirmed."
        assert refused.value.field == "effect"


def test_a_decision_is_about_the_plan_that_waits_and_made_while_it_does() -> None:
    until = NOW + timedelta(hours=4)
    waits = effect(EffectState.PLANNED, approval_expires_at=until)
    assert undecidable(None, waits.digest, NOW) is Undecidable.NOTHING_WAITS
    assert undecidable(waits, "d" * 64, NOW) is Undecidable.ANOTHER_PLAN
    assert undecidable(waits, waits.digest, until) is Undecidable.TOO_LATE
    assert undecidable(waits, waits.digest, until - timedelta(microseconds=1)) is None
    assert undecidable(effect(EffectState.PLANNED), waits.digest, until) is None  # put up without a limit


def test_of_two_plans_that_wait_people_decide_about_the_one_put_up_last() -> None:
    until = NOW + timedelta(hours=4)
    earlier = replace(effect(EffectState.PLANNED, approval_expires_at=until), key="earlier")
    later = replace(effect(EffectState.PLANNED, approval_expires_at=until + timedelta(seconds=1)), key="a later one")
    assert put_up([earlier, later]) is put_up([later, earlier]) is later
    at_once = replace(earlier, key="at the same instant")
    assert put_up([earlier, at_once]) is earlier


@pytest.mark.parametrize(
    ("key", "first"),
    [("refund", "refund"), ("refund~2", "refund"), ("refund~2~13", "refund~2"), ("refund~x", "refund~x")],
)
def test_a_key_made_anew_leads_back_to_the_first(key: str, first: str) -> None:
    assert first_key(key) == first
