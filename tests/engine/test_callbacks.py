"""What a service's callback may make a worker do: ask once, on an allowance of its own."""

from typing import Any

import pytest

from runs.domain.effects import EffectState
from runs.engine import calls
from runs.engine.advance import advance
from runs.engine.calls import Planned
from runs.interventions import callbacks, sending
from runs.models import Run
from tests.engine.conftest import Engine
from tests.engine.dying import Died
from tests.people import person
from tests.states import bring_write

ALLOWANCES = ("status_checks", "follow_up_checks", "callback_checks")


@pytest.fixture
def unknown(engine: Engine) -> Run:
    """The answer was lost, the refund exists, and look-ups are answered by an index that lags."""
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_lags")
    run = engine.run("B456")
    assert (run.outcome, run.stop_reason) == ("WAITING", "effect_unknown")
    return run


def called_back(run: Run, number: int = 1) -> None:
    key = run.effects.get().operation_key
    assert callbacks.call_back("back_office", f"msg_{number}", {"operation_key": key})


def carry_on(engine: Engine, run: Run) -> Run:
    return engine.carry_on(run, until=lambda run: not run.inbox.filter(result="").exists())


def spent(run: Run) -> tuple[int, ...]:
    """Scheduled look-ups, people's and follow-ups, callbacks'."""
    return tuple(run.budget[name][2] for name in ALLOWANCES)


def answers(run: Run) -> list[str]:
    return list(run.inbox.filter(name="callback_received").values_list("result", flat=True))


def test_a_callbacks_look_up_costs_no_other_and_puts_none_off(engine: Engine, unknown: Run) -> None:
    due, looked = unknown.due_at, len(engine.calls("B456", "lookup"))
    assert spent(unknown) == (1, 0, 0)

    called_back(unknown)
    run = carry_on(engine, unknown)

    assert len(engine.calls("B456", "lookup")) == looked + 1
    assert spent(run) == (1, 0, 1)
    assert (run.outcome, run.due_at) == ("WAITING", due)


def test_callbacks_that_wait_together_lead_to_one_look_up(engine: Engine, unknown: Run) -> None:
    for number in range(5):
        called_back(unknown, number)

    run = carry_on(engine, unknown)

    assert answers(run) == ["applied"] * 5
    assert spent(run) == (1, 0, 1)


@pytest.mark.parametrize("callback_first", [True, False])
def test_a_callback_rides_along_with_a_persons_look_up(engine: Engine, unknown: Run, callback_first: bool) -> None:
    if callback_first:
        called_back(unknown)
    sending.send(unknown.pk, "reconcile_requested", person("alice"), {})
    if not callback_first:
        called_back(unknown)

    run = carry_on(engine, unknown)

    assert answers(run) == ["applied"]
    assert spent(run) == (1, 1, 0)


def test_when_callbacks_have_had_their_look_ups_the_timer_still_has_its_own(engine: Engine, unknown: Run) -> None:
    run, due = unknown, unknown.due_at
    for number in range(4):
        called_back(run, number)
        run = carry_on(engine, run)
    assert answers(run) == ["applied", "applied", "applied", "refused"]
    assert "is asked when that is due" in run.inbox.last().result_reason  # type: ignore[union-attr]
    assert (spent(run), run.due_at) == ((1, 0, 3), due)

    engine.back_office.clear("B456")

    assert engine.later(run).outcome == "COMPLETED"


def test_a_callback_is_heard_when_every_other_look_up_is_used_up(engine: Engine, unknown: Run) -> None:
    run = engine.later(engine.later(unknown))
    for _ in range(6):
        run = engine.send(run, "reconcile_requested", "alice")
    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "outcome_unconfirmed")
    assert spent(run) == (3, 6, 0)
    engine.back_office.clear("B456")

    called_back(run)

    assert carry_on(engine, run).outcome == "COMPLETED"


def test_a_run_made_before_there_were_callbacks_lets_them_ask_for_nothing(engine: Engine, unknown: Run) -> None:
    Run.objects.filter(pk=unknown.pk).update(budget={k: v for k, v in unknown.budget.items() if "callback" not in k})
    looked = len(engine.calls("B456", "lookup"))

    called_back(unknown)
    run = carry_on(engine, unknown)

    assert answers(run) == ["refused"]
    assert len(engine.calls("B456", "lookup")) == looked


@pytest.mark.parametrize(("earlier", "made_up_for"), [(0, True), (2, False)])
def test_a_worker_that_dies_while_asking_for_a_callback_spends_the_callbacks_allowance_only(
    engine: Engine, unknown: Run, monkeypatch: pytest.MonkeyPatch, earlier: int, made_up_for: bool
) -> None:
    run = unknown
    for number in range(earlier):
        called_back(run, number)
        run = carry_on(engine, run)
    due, looked = run.due_at, len(engine.calls("B456", "lookup"))
    called_back(run, 99)
    with monkeypatch.context() as patch:
        patch.setattr(calls, "_perform", _dies)
        with pytest.raises(Died):
            advance(run.pk)

    Run.objects.filter(pk=run.pk).update(due_at="2000-01-01T00:00Z")  # the lease runs out
    advance(run.pk)
    run.refresh_from_db()

    assert len(engine.calls("B456", "lookup")) == looked + made_up_for
    assert spent(run) == (1, 0, earlier + 1 + made_up_for)
    assert (run.outcome, run.due_at) == ("WAITING", due)


def _dies(held: Any, planned: Planned, until: float) -> Any:
    raise Died


def test_a_callback_about_an_earlier_write_does_not_ask_about_this_one(engine: Engine, unknown: Run) -> None:
    other = unknown.effects.get()
    other.pk, other.operation_key, other.state = None, f"{other.operation_key}-0", EffectState.PLANNED
    other.planned_at = unknown.created_at
    other.save()
    bring_write(other, EffectState.CONFIRMED)
    looked = len(engine.calls("B456", "lookup"))

    assert callbacks.call_back("back_office", "msg_1", {"operation_key": other.operation_key})
    run = carry_on(engine, unknown)

    assert answers(run) == ["refused"]
    assert len(engine.calls("B456", "lookup")) == looked
