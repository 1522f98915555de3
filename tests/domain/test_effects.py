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
    WritePlan,
    absence_is_proof,
    after,
    approval_is_valid,
    fingerprint,
    in_doubt,
    may_send,
    still_answers,
)

NOW = datetime(2026, 9, 25, 10, tzinfo=UTC)
PLAN = WritePlan("submit", "order B456", {"order_id": "B456"}, (), "v1", "accepted", "cancel it", "little")


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
    for state in (EffectState.CONFIRMED, EffectState.REJECTED):
        with pytest.raises(EffectError):
            after(state, Answer.ABSENT)


@pytest.mark.parametrize("state", EffectState)
def test_sending_is_permitted_only_for_what_was_never_sent_or_is_proven_absent(state: EffectState) -> None:
    if state in {EffectState.PLANNED, EffectState.APPROVED, EffectState.ABSENT}:
        may_send(effect(state))
    else:
        with pytest.raises(EffectError, match="must not be sent"):
            may_send(effect(state))


def test_a_key_belongs_to_the_parameters_it_was_first_sent_with() -> None:
    may_send(effect(EffectState.ABSENT, sent_params=fingerprint(PLAN.params)))
    with pytest.raises(EffectError, match="other parameters"):
        may_send(effect(EffectState.ABSENT, sent_params=fingerprint({"order_id": "A123"})))


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint({"b": {"d": 3, "c": 2}, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})


def test_not_there_is_no_proof_before_the_grace_is_over() -> None:
    grace = timedelta(seconds=10)
    assert not absence_is_proof(NOW, NOW + timedelta(seconds=9), grace)
    assert absence_is_proof(NOW, NOW + timedelta(seconds=10), grace)
    assert not absence_is_proof(None, NOW, grace)


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
