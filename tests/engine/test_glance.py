"""What a proposed write would be now, read by a worker for people who look at it: outside the run's record."""

from collections.abc import Callable
from typing import Any

import pytest

from runs.domain.proposals import Act, Proposal
from runs.engine import glance
from runs.engine.retention import Retention
from runs.engine.tasks import take_a_glance
from runs.interventions import glances
from runs.models import Event, Fact, Glance, Run, Step
from runs.workflows.definition import Context
from tests.engine.conftest import Engine
from tests.engine.library import Library

EXPENSIVE = "D586"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages to workers."""
    sent: list[str] = []
    monkeypatch.setattr("runs.engine.tasks.take_a_glance.delay", sent.append)
    return sent


@pytest.fixture
def waiting(engine: Engine, asked: list[str]) -> Run:
    run = engine.run(EXPENSIVE)
    assert run.state == "awaiting_approval"
    return run


def digest(run: Run) -> str:
    return str(run.effects.get().plan_digest)


def look_at(run: Run) -> Glance:
    """Somebody opens the page, and a worker answers."""
    glances.look_at(run, digest(run))
    take_a_glance(str(run.pk))
    return Glance.objects.get(pk=run.pk)


def let_time_pass(run: Run) -> None:
    """So much that it may be asked again."""
    Glance.objects.filter(pk=run.pk).update(
        asked_at="2000-01-01T00:00Z", taken_at="2000-01-01T00:00:01Z", read_at="2000-01-01T00:00:02Z"
    )


def record(run: Run) -> dict[str, Any]:
    """All that is kept of a run."""
    run.refresh_from_db()
    return {
        "run": {name: value for name, value in vars(run).items() if not name.startswith("_")},
        "steps": list(Step.objects.filter(run=run).values()),
        "facts": list(Fact.objects.filter(run=run).values()),
        "effects": list(run.effects.values()),
        "events": list(Event.objects.filter(run=run).values()),
        "inbox": list(run.inbox.values()),
    }


def test_what_has_not_changed_is_said_to_be_as_proposed(waiting: Run) -> None:
    seen = look_at(waiting)

    assert seen.finding == "unchanged"
    assert seen.is_answered
    assert seen.difference == waiting.effects.get().plan["difference"]


def test_what_has_changed_is_shown_as_it_would_be_put_up_now(engine: Engine, waiting: Run) -> None:
    engine.back_office.change_order(EXPENSIVE, amount_minor=39900)

    seen = look_at(waiting)

    assert seen.finding == "changed"
    assert ["amount", "0.00 EUR", "399.00 EUR"] in seen.difference
    assert seen.target_version != waiting.effects.get().plan["target_version"]


def test_nothing_of_the_run_s_record_or_budget_is_touched_and_nothing_is_written(engine: Engine, waiting: Run) -> None:
    before, calls = record(waiting), len(engine.back_office.ledger(EXPENSIVE)["calls"])

    look_at(waiting)

    assert record(waiting) == before
    made = [call["kind"] for call in engine.back_office.ledger(EXPENSIVE)["calls"][calls:]]
    assert sorted(made) == ["authority", "orders", "policies"]
    assert engine.effects(EXPENSIVE) == []


def test_what_the_workflow_would_not_propose_any_more_says_why(engine: Engine, waiting: Run) -> None:
    engine.back_office.fault(EXPENSIVE, "policy_changed")

    seen = look_at(waiting)

    assert seen.finding == "not_now"
    assert seen.says
    assert seen.difference == []


def test_a_service_that_is_down_leaves_it_unread_with_the_reason(engine: Engine, waiting: Run) -> None:
    engine.back_office.fault(EXPENSIVE, "unavailable", where="policies", times=1)

    seen = look_at(waiting)

    assert seen.finding == "unreadable"
    assert "policy service" in seen.says
    assert record(waiting)["run"]["error_class"] == ""


def test_without_a_worker_it_stays_asked_for(waiting: Run) -> None:
    seen = glances.look_at(waiting, digest(waiting))

    assert seen
    assert not seen.is_taken
    assert not seen.is_answered


def test_two_who_look_at_once_make_one_reading(engine: Engine, waiting: Run, asked: list[str]) -> None:
    first, second = (glances.look_at(waiting, digest(waiting)) for _ in range(2))
    assert first == second
    assert asked == [str(waiting.pk)]

    calls = len(engine.back_office.ledger(EXPENSIVE)["calls"])
    take_a_glance(str(waiting.pk))
    take_a_glance(str(waiting.pk))  # the message came twice

    assert len(engine.back_office.ledger(EXPENSIVE)["calls"]) == calls + 3


def test_after_a_while_it_is_read_again_and_the_last_reading_stands_meanwhile(waiting: Run, asked: list[str]) -> None:
    look_at(waiting)
    let_time_pass(waiting)

    meanwhile = glances.look_at(waiting, digest(waiting))

    assert len(asked) == 2
    assert meanwhile
    assert (meanwhile.finding, meanwhile.is_answered) == ("unchanged", False)


def test_a_reading_that_took_long_is_not_asked_for_again_as_soon_as_it_is_there(waiting: Run, asked: list[str]) -> None:
    look_at(waiting)
    Glance.objects.update(asked_at="2000-01-01T00:00Z")  # its answer came just now

    glances.look_at(waiting, digest(waiting))

    assert len(asked) == 1


def test_a_message_that_comes_too_late_reads_nothing(engine: Engine, waiting: Run) -> None:
    glances.look_at(waiting, digest(waiting))
    Glance.objects.update(asked_at="2000-01-01T00:00Z")
    calls = len(engine.back_office.ledger(EXPENSIVE)["calls"])

    take_a_glance(str(waiting.pk))

    assert len(engine.back_office.ledger(EXPENSIVE)["calls"]) == calls


def test_of_a_run_that_was_decided_meanwhile_nothing_is_read(engine: Engine, waiting: Run) -> None:
    glances.look_at(waiting, digest(waiting))
    run = engine.send(waiting, "approval_granted", "supervisor", digest(waiting))
    assert run.outcome == "COMPLETED"
    before, calls = record(run), len(engine.back_office.ledger(EXPENSIVE)["calls"])

    take_a_glance(str(run.pk))

    assert len(engine.back_office.ledger(EXPENSIVE)["calls"]) == calls
    assert record(run) == before
    assert not Glance.objects.get(pk=run.pk).finding


def test_a_plan_that_was_replaced_does_not_inherit_what_was_read_about_the_old_one(
    engine: Engine, waiting: Run
) -> None:
    look_at(waiting)
    engine.back_office.change_order(EXPENSIVE, amount_minor=39900)
    run = engine.send(waiting, "approval_granted", "supervisor", digest(waiting))
    assert run.stop_reason == "approval_required"

    assert glances.look_at(run, digest(run)) is None  # the other plan was read just now
    let_time_pass(run)
    seen = glances.look_at(run, digest(run))

    assert seen
    assert seen.read_at is None


def test_reading_takes_no_longer_than_all_of_it_may(waiting: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glance, "DEADLINE", 0.0)

    seen = look_at(waiting)

    assert (seen.finding, seen.says) == ("unreadable", "It was not read within 0 seconds.")


def test_a_workflow_that_cannot_plan_any_more_is_unreadable_and_not_an_error(
    made: Callable[..., Run], library: Library, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(c: Context) -> Proposal:
        return Act("lend", {"book": "Emma"})

    run = made(script)
    assert run.state == "awaiting_approval"
    assert look_at(run).finding == "unchanged"
    monkeypatch.setattr("runs.workflows.registry.workflows", dict)
    let_time_pass(run)

    seen = look_at(run)

    assert (seen.finding, seen.says) == ("unreadable", "The run's workflow is not installed here.")


def test_what_nobody_looks_at_any_more_is_not_kept(waiting: Run) -> None:
    look_at(waiting)
    Retention().tick()
    assert Glance.objects.exists()
    let_time_pass(waiting)
    Retention().tick()
    assert not Glance.objects.exists()


def test_secrets_in_what_was_read_are_not_kept(
    made: Callable[..., Run], library: Library, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(lambda c: Act("lend", {"book": "Emma"}))
    monkeypatch.setattr(
        "runs.engine.glance._plan_now",
        lambda held, waiting, until: glance.Seen(glance.Finding.NOT_NOW, "the token is demo-key"),
    )

    assert "demo-key" not in look_at(run).says


def test_what_was_read_about_one_plan_is_never_the_answer_about_another(
    waiting: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*asked: Any) -> glance.Seen:
        seen = look(*asked)
        Glance.objects.update(asked_at="2000-01-01T00:00Z")
        glances.look_at(waiting, "0" * 64)  # it was replaced meanwhile, and somebody looks at the new one
        return seen

    look = glance._look
    monkeypatch.setattr(glance, "_look", slowly)

    look_at(waiting)

    asked_now = glances.last_at(waiting, "0" * 64)
    assert asked_now
    assert (asked_now.finding, asked_now.is_answered) == ("", False)
