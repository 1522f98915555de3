"""Which write a proposal is: the one planned before, a new one, or one that must not be sent again."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from runs.domain.effects import Effect, EffectError, EffectState, KeyTerms, WritePlan, binding_of, may_send
from runs.domain.proposals import Act, Ask, Proposal
from runs.engine.outlook import effect_for
from runs.interventions import starting
from runs.models import Run
from runs.workflows.definition import Context
from tests.engine.conftest import Engine
from tests.engine.library import Library, workflow
from tests.people import person

NOW = datetime(2026, 9, 25, 10, tzinfo=UTC)
LATER = NOW + timedelta(hours=30)
RUN = "00000000-0000-0000-0000-00000000000a"
KEY = "refund-B456-0000000000000000"
PLAN = WritePlan("submit_refund", "order B456", {"order_id": "B456"}, (), "v1", "accepted", "cancel it", "little")


def context(*effects: Effect) -> Context:
    return Context(RUN, {"order_id": "B456"}, "U-88", {}, effects, stretch=1, now=LATER)


def proposed(plan: WritePlan, *effects: Effect) -> Effect:
    return effect_for(context(*effects), plan, KEY)


def known(state: EffectState, **more: Any) -> Effect:
    return replace(Effect(KEY, state, PLAN, NOW), **more)


def test_the_first_proposal_is_a_new_write_under_the_workflow_s_key() -> None:
    assert proposed(PLAN) == Effect(KEY, EffectState.PLANNED, PLAN, LATER)
    assert proposed(PLAN).key.startswith("refund-B456-")


@pytest.mark.parametrize("state", [EffectState.PLANNED, EffectState.APPROVED])
def test_the_same_plan_is_the_same_write_with_its_approval(state: EffectState) -> None:
    before = known(state, approved_digest="d" * 64)
    assert proposed(PLAN, before) == before


def test_a_plan_renewed_before_it_was_sent_is_planned_anew() -> None:
    renewed = replace(PLAN, target_version="v2")
    assert proposed(renewed, known(EffectState.PLANNED)) == known(EffectState.PLANNED, plan=renewed, planned_at=LATER)


def test_a_key_that_was_sent_grows_no_younger_when_its_plan_is_renewed() -> None:
    absent = known(EffectState.ABSENT, times_sent=1, binding=binding_of(PLAN))
    again = proposed(replace(PLAN, target_version="v2"), absent)
    assert (again.key, again.planned_at) == (absent.key, NOW)
    with pytest.raises(EffectError, match="may have forgotten"):
        may_send(again, KeyTerms(timedelta(seconds=20), kept_for=timedelta(hours=24)), LATER)


def test_other_parameters_after_proven_absence_are_another_write() -> None:
    absent = known(EffectState.ABSENT, times_sent=1, binding=binding_of(PLAN))
    other = proposed(replace(PLAN, params={"order_id": "B456", "amount_minor": 1}), absent)
    assert (other.key, other.state, other.planned_at) == (f"{absent.key}~2", EffectState.PLANNED, LATER)
    assert proposed(other.plan, absent, other) == other


@pytest.mark.parametrize("state", [EffectState.CONFIRMED, EffectState.REJECTED, EffectState.COMPENSATED])
def test_a_write_that_is_settled_is_never_begun_again_under_its_key(state: EffectState) -> None:
    settled = known(state, times_sent=1, binding=binding_of(PLAN), receipt={"request_id": "R789"})
    for plan in (PLAN, replace(PLAN, risk="great")):
        again = proposed(plan, settled)
        assert (again.key, again.state, again.receipt) == (settled.key, state, settled.receipt)
        with pytest.raises(EffectError, match="must not be sent again"):
            may_send(again, KeyTerms(timedelta(seconds=20)), LATER)


# Operation keys that are no good


def lends_once(c: Context) -> Proposal:
    return Ask("What else?") if c.effect and c.effect.receipt else Act("lend", {"book": "Emma"})


def by_key(library: Library, key: Any) -> dict[str, Any]:
    declared = workflow(library, lends_once).operations
    return {**declared, "lend": replace(declared["lend"], key=key)}


def test_a_key_that_another_run_has_is_not_written_under(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    operations = by_key(library, lambda c, given: f"loan-{given['book']}")
    first = made(lends_once, operations=operations)

    other, _ = starting.start("library", {"order_id": "D041"}, person("support"))
    other = engine.carry_on(other)

    assert other.stop_reason == "question_asked"
    assert "'loan-Emma' belongs to another run" in other.question
    first = engine.send(first, "approval_granted", "bob", first.effects.get().plan_digest)
    assert library.lent == {"loan-Emma": "Emma"}


def test_a_write_under_another_run_s_key_is_not_lost_in_silence(
    engine: Engine, made: Callable[..., Run], library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lends_once, operations=by_key(library, lambda c, given: f"loan-{given['book']}"))
    # As where both are planned at the same moment.
    monkeypatch.setattr("runs.engine.outlook._not_ours", lambda held, key: "")

    other, _ = starting.start("library", {"order_id": "D041"}, person("support"))

    with pytest.raises(DatabaseError, match="keeps its operation key, and its run"):
        engine.carry_on(other)


@pytest.mark.parametrize("key", ["", "k" * 101, "loan~2", "undo:loan"])
def test_a_key_that_could_be_mistaken_for_another_s_is_not_written_under(
    made: Callable[..., Run], library: Library, key: str
) -> None:
    run = made(lends_once, operations=by_key(library, lambda c, given: key))

    assert (run.stop_reason, run.effects.count()) == ("question_asked", 0)
    assert "cannot go by the operation key" in run.question


def test_a_key_that_ends_in_a_number_is_not_taken_for_one_that_was_made_anew() -> None:
    """Else a write that took effect would be made once more after its neighbour turned out to be absent."""
    done = known(EffectState.CONFIRMED, times_sent=1, binding=binding_of(PLAN))
    neighbour = replace(PLAN, params={"order_id": "B456-2"})
    absent = replace(
        done, key=f"{KEY}-2", state=EffectState.ABSENT, plan=neighbour, planned_at=LATER, binding=binding_of(neighbour)
    )

    assert proposed(PLAN, done, absent) == done
