"""A plan may be put up and decided more than once: each time anew, and never by an old approval."""

from datetime import timedelta

import pytest

from runs.interventions import sending
from runs.interventions.refusals import Refused
from runs.models import Run
from tests.engine.conftest import Engine
from tests.people import person

EXPENSIVE = "D586"
PAST = "2000-01-01T00:00Z"


def digest(run: Run) -> str:
    value: str = run.effects.get().plan_digest
    return value


def approve(engine: Engine, run: Run, by: str) -> Run:
    return engine.send(run, "approval_granted", by, digest(run))


def put_up_again(engine: Engine, run: Run) -> Run:
    """A person looked, and the plan is before a person again; what was decided before does not count."""
    run = engine.send(run, "resumed_after_review", "alice", reason="still wanted")
    assert (run.state, run.stop_reason) == ("awaiting_approval", "approval_required")
    assert run.effects.get().approved_digest == ""
    return run


@pytest.fixture
def waiting(engine: Engine) -> Run:
    run = engine.run(EXPENSIVE)
    assert run.stop_reason == "approval_required"
    return run


@pytest.fixture
def rejected(engine: Engine, waiting: Run) -> Run:
    run = engine.send(waiting, "approval_rejected", "supervisor", digest(waiting), reason="ask again tomorrow")
    assert run.stop_reason == "approval_rejected"
    return run


@pytest.fixture
def approved_and_waiting(engine: Engine, waiting: Run) -> Run:
    """Approved; one of the reads before the write is to be tried again."""
    sending.send(waiting.pk, "approval_granted", person("supervisor"), {}, digest(waiting))
    engine.back_office.fault(EXPENSIVE, "unavailable", where="policies", times=1)
    run = engine.carry_on(waiting, until=lambda run: not run.inbox.filter(result="").exists())
    assert (run.outcome, run.effects.get().state) == ("", "approved")
    return run


def test_a_plan_that_nobody_decided_in_time_can_be_approved_when_it_is_put_up_again(
    engine: Engine, waiting: Run
) -> None:
    waiting.effects.update(approval_expires_at=PAST)
    run = engine.carry_on(waiting, until=lambda run: run.stop_reason == "approval_expired")

    run = approve(engine, put_up_again(engine, run), "supervisor")

    assert run.outcome == "COMPLETED"
    assert len(engine.calls(EXPENSIVE, "submit")) == 1


def test_an_approval_that_lapsed_can_be_given_again(engine: Engine, approved_and_waiting: Run) -> None:
    approved_and_waiting.effects.update(approval_expires_at=PAST)
    run = engine.carry_on(approved_and_waiting)
    assert run.stop_reason == "approval_expired"

    run = approve(engine, put_up_again(engine, run), "bob")

    assert run.outcome == "COMPLETED"
    assert run.effects.get().approved_by == person("bob")


def test_a_rejected_plan_can_be_approved_after_a_review(engine: Engine, rejected: Run) -> None:
    run = approve(engine, put_up_again(engine, rejected), "supervisor")

    assert run.outcome == "COMPLETED"
    assert [event.name for event in run.inbox.exclude(answers="")] == ["approval_rejected", "approval_granted"]
    assert run.events.filter(kind="approval_asked").count() == 2


def test_a_plan_put_up_again_unchanged_is_not_called_a_replaced_one(engine: Engine, rejected: Run) -> None:
    before = digest(rejected)

    run = put_up_again(engine, rejected)

    assert digest(run) == before
    assert not run.events.filter(kind="plan_replaced").exists()


def test_the_second_time_too_there_is_one_decision_and_the_next_is_told_who_was_first(
    engine: Engine, rejected: Run
) -> None:
    run = put_up_again(engine, rejected)
    sending.send(run.pk, "approval_granted", person("bob"), {}, digest(run))

    with pytest.raises(Refused, match="Bob approved this plan at") as refused:
        sending.send(run.pk, "approval_rejected", person("supervisor"), {"reason": "no"}, digest(run))

    assert refused.value.code == "decided"


def test_a_write_proven_absent_after_its_approval_lapsed_is_put_up_again(engine: Engine, waiting: Run) -> None:
    engine.back_office.fault(EXPENSIVE, "timeout_before_effect", seconds=0, times=1)
    run = approve(engine, waiting, "supervisor")
    assert run.stop_reason == "effect_unknown"
    run.effects.update(approval_expires_at=PAST)
    run = engine.later(run)
    assert (run.stop_reason, run.effects.get().state) == ("approval_expired", "absent")

    run = approve(engine, put_up_again(engine, run), "bob")

    assert run.outcome == "COMPLETED"
    keys = [call["operation_key"] for call in engine.calls(EXPENSIVE, "submit")]
    assert keys == [run.effects.get().operation_key] * 2
    assert len(engine.effects(EXPENSIVE)) == 1


def test_an_approval_in_force_covers_the_second_attempt_of_the_same_write(engine: Engine, waiting: Run) -> None:
    engine.back_office.fault(EXPENSIVE, "timeout_before_effect", seconds=0, times=1)
    run = approve(engine, waiting, "supervisor")
    assert run.stop_reason == "effect_unknown"

    run = engine.later(run)

    assert run.outcome == "COMPLETED"
    assert len(engine.effects(EXPENSIVE)) == 1


def test_an_approval_is_not_carried_over_a_stop_that_a_person_reviewed(
    engine: Engine, approved_and_waiting: Run
) -> None:
    engine.back_office.fault(EXPENSIVE, "unavailable", where="policies")
    run = engine.carry_on(approved_and_waiting)
    assert run.stop_reason == "same_error_repeated"
    engine.back_office.clear(EXPENSIVE)

    put_up_again(engine, run)

    assert engine.calls(EXPENSIVE, "submit") == []


def test_a_decision_in_time_is_carried_out_though_no_worker_was_free(engine: Engine, waiting: Run) -> None:
    event = sending.send(waiting.pk, "approval_granted", person("supervisor"), {}, digest(waiting))
    waiting.effects.update(approval_expires_at=event.received_at + timedelta(milliseconds=1))

    run = engine.carry_on(waiting, until=lambda run: not run.inbox.filter(result="").exists() and bool(run.outcome))

    assert run.inbox.get().result == "applied"
    assert run.outcome == "COMPLETED"


def test_a_decision_that_came_too_late_is_refused_and_the_plan_lapses(engine: Engine, waiting: Run) -> None:
    event = sending.send(waiting.pk, "approval_granted", person("supervisor"), {}, digest(waiting))
    waiting.effects.update(approval_expires_at=event.received_at)

    run = engine.carry_on(waiting, until=lambda run: not run.inbox.filter(result="").exists() and bool(run.outcome))

    assert run.inbox.get().result_reason == "The time for a decision had run out."
    assert engine.carry_on(run, until=lambda run: run.state == "blocked").stop_reason == "approval_expired"
    assert engine.calls(EXPENSIVE, "submit") == []


def test_a_decision_after_its_time_is_told_that_the_plan_has_to_be_put_up_again(engine: Engine, waiting: Run) -> None:
    waiting.effects.update(approval_expires_at=PAST)

    with pytest.raises(Refused, match="has to be put up again") as refused:
        sending.send(waiting.pk, "approval_granted", person("supervisor"), {}, digest(waiting))

    assert (refused.value.code, refused.value.status) == ("expired", 409)
