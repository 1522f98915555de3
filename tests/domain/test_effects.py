from dataclasses import replace
from datetime import UTC, datetime, timedelta
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
    WritePlan,
    absence_is_proof,
    after,
    approval_is_valid,
    binding_of,
    compensated,
    fingerprint,
    in_doubt,
    may_send,
    still_answers,
)

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
        with pytest.raises(EffectError):
            after(state, answer)


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
        with pytest.raises(EffectError, match=f"This write is {state.value}; it must not be sent again") as refused:
            may_send(effect(state), TERMS, NOW)
        assert refused.value.field == "effect"


@pytest.mark.parametrize("state", EffectState)
def test_a_declared_replay_guarantee_permits_the_same_key_where_the_answer_is_open(state: EffectState) -> None:
    terms = replace(TERMS, replays=True)
    if state in {EffectState.SENT, EffectState.UNKNOWN}:
        assert may_send(effect(state), terms, NOW) is Permit.REPLAY_GUARANTEE
    elif state in {EffectState.PLANNED, EffectState.APPROVED, EffectState.ABSENT}:
        assert may_send(effect(state), terms, NOW) is not Permit.REPLAY_GUARANTEE
    else:
        with pytest.raises(EffectError, match="must not be sent again"):
            may_send(effect(state), terms, NOW)


@pytest.mark.parametrize("state", [EffectState.ABSENT, EffectState.UNKNOWN])
def test_past_the_retention_of_a_key_only_a_look_up_is_safe(state: EffectState) -> None:
    terms = replace(TERMS, kept_for=timedelta(hours=24), replays=True)
    assert may_send(effect(state), terms, NOW + timedelta(hours=24) - timedelta(microseconds=1))
    with pytest.raises(EffectError, match="may have forgotten this operation key") as refused:
        may_send(effect(state), terms, NOW + timedelta(hours=24))
    assert refused.value.field == "operation_key"
    assert may_send(effect(EffectState.APPROVED), terms, NOW + timedelta(days=9)) is Permit.FIRST  # it knows of none


@pytest.mark.parametrize("changed", ["params", "target", "operation"])
def test_a_key_belongs_to_the_scope_and_the_parameters_it_was_first_sent_for(changed: str) -> None:
    sent = effect(EffectState.ABSENT, binding=binding_of(PLAN))
    assert may_send(sent, TERMS, NOW) is Permit.PROVEN_ABSENT
    other = replace(PLAN, **{changed: {"order_id": "A123"} if changed == "params" else "another"})  # type: ignore[arg-type]
    for state in EffectState:
        with pytest.raises(EffectError, match="was sent for something else") as refused:
            may_send(replace(sent, state=state, plan=other), TERMS, NOW)
        assert refused.value.field == "operation_key"


def test_what_a_key_is_bound_to_leaves_out_what_only_people_read() -> None:
    assert binding_of(replace(PLAN, risk="great", expected="x", undo="y", target_version="v2")) == binding_of(PLAN)


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint({"b": {"d": 3, "c": 2}, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})


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


def test_a_late_no_of_an_earlier_attempt_is_no_news_of_a_later_one() -> None:
    second = effect(EffectState.UNKNOWN, times_sent=2)
    assert not still_answers(second, Answer.ABSENT, attempt=1)
    assert still_answers(second, Answer.ABSENT, attempt=2)
    assert still_answers(second, Answer.ACCEPTED, attempt=1)
    assert not still_answers(second, Answer.UNREACHABLE, attempt=2)
    assert not still_answers(effect(EffectState.CONFIRMED, times_sent=1), Answer.ACCEPTED, attempt=1)
