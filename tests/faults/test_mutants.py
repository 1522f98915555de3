"""Each guard of the engine, taken away, is missed by a test; and tests that are about one guard only."""

import importlib
import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection

from runs.domain import effects
from runs.domain.budget import Charge, Ledger
from runs.domain.effects import LIFE, Answer, EffectState
from runs.engine import calls, commit, outlook, sweep
from runs.engine.advance import advance
from runs.engine.held import Held
from runs.engine.tasks import wake
from runs.interventions import waking
from runs.models import Run
from takeover.supervisor.children import CLONE
from tests.engine.conftest import Engine
from tests.engine.dying import Died
from tests.engine.test_late_results import next_worker
from tests.engine.test_leases import interrupt
from tests.faults.hands import PATIENCE, Hands
from tests.faults.mutants import MUTANTS, WITNESSES, Mutant, page

pytestmark = pytest.mark.usefixtures("no_broker")

CURE = "docs/mutants.md is not what the table says. Do: .venv/bin/python -m tests.faults.mutants > docs/mutants.md"
GIVEN: dict[str, dict[str, Any]] = {
    "write": {"kind": "write"},
    "True": {"after_effect": True},
}  # by what stands in a test's brackets


def test_a_call_whose_worker_died_was_paid_for(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(run: UUID) -> None:
        raise Died

    interrupt(monkeypatch, "read", die)
    run = engine.start("B456")
    with pytest.raises(Died):
        advance(run.pk)

    run = next_worker(run)

    assert run.outcome == "COMPLETED"
    assert run.steps == 5
    assert run.budget["steps"][2] == 5
    assert run.budget["tool_attempts"][2] == 5


def test_a_wake_up_that_arrives_at_once_finds_its_run(
    engine: Engine, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "runs.engine.tasks.advance_run.delay", lambda run: hands.do(lambda: advance(UUID(run))).result(PATIENCE)
    )

    run = engine.start("B456")

    run.refresh_from_db()
    assert run.outcome == "COMPLETED"


def test_what_was_sent_under_a_key_is_all_that_is_ever_sent_under_it(engine: Engine) -> None:
    engine.back_office.fault("B456", "timeout_before_effect", seconds=0, times=1)
    run = engine.run("B456")
    Run.objects.update(budget={**run.budget, "external_writes": [2, 0, 1, 0]})
    engine.back_office.change_order("B456", amount_minor=4900)

    run = engine.later(run)

    assert run.outcome == "COMPLETED"
    keys = [call["operation_key"] for call in engine.calls("B456", "submit")]
    assert len(keys) == len(set(keys)) == 2
    assert [effect.state for effect in run.effects.all()] == ["absent", "confirmed"]


def test_a_call_that_hangs_holds_its_run_for_its_deadline_and_a_margin(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform, held_for = calls._perform, []

    def performed(held: Any, planned: Any, until: float) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM due_at - clock_timestamp()) FROM runs_run")
            held_for.append(float(cursor.fetchone()[0]) - planned.tool.deadline - calls.MARGIN)
        return perform(held, planned, until)

    monkeypatch.setattr(calls, "_perform", performed)

    engine.run("B456")

    assert len(held_for) == 4
    assert max(held_for) <= commit.SLACK


# Each guard, taken away


def _without(patch: pytest.MonkeyPatch, name: str, words: str, instead: str = "") -> None:
    """Change one of the engine's statements."""
    statement = getattr(commit, name)
    assert words in statement
    patch.setattr(commit, name, statement.replace(words, instead))


def the_fence_is_gone(patch: pytest.MonkeyPatch) -> None:
    _without(patch, "COMMIT", "AND token = %(token)s AND owner = %(owner)s AND revision = %(revision)s")


def what_is_unknown_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    for state in (EffectState.SENT, EffectState.UNKNOWN):
        patch.setitem(LIFE, (state, Answer.UNREACHABLE), EffectState.ABSENT)


def a_call_is_paid_for_afterwards(patch: pytest.MonkeyPatch) -> None:
    def spend(ledger: Ledger, charge: Charge, used: Charge | None = None) -> Ledger:
        spent = {
            name: replace(ledger.lines[name], spent=ledger.lines[name].spent + some)
            for name, some in (used or charge).items()
        }
        return Ledger({**ledger.lines, **spent})

    intend = calls._intend

    def intended(held: Held, planned: calls.Planned) -> dict[str, Any]:
        return intend(held, replace(planned, charge={}))

    patch.setattr(Ledger, "reserve", lambda ledger, charge: ledger)
    patch.setattr(Ledger, "settle", spend)
    patch.setattr(calls, "_intend", intended)


def a_wake_up_goes_out_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(waking, "wake_after_commit", wake)


def a_key_is_bound_to_nothing(patch: pytest.MonkeyPatch) -> None:
    for module in (effects, calls, outlook):
        patch.setattr(module, "binding_of", lambda plan: "")


def a_run_is_taken_over_by_time_alone(patch: pytest.MonkeyPatch) -> None:
    """As where a worker's lease bears its host's name, and nothing rises."""
    _without(patch, "CLAIM", "token = token + 1, ")
    patch.setattr("runs.engine.commit.secrets.token_hex", lambda length: "host-1")


def nobody_sweeps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sweep.Sweeper, "sweep", lambda sweeper: 0)


def a_hung_call_keeps_its_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Held, "keep", lambda held, seconds: held._commit(hold_for=24 * 3600))


TAKE_AWAY: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    function.__name__: function
    for function in (
        the_fence_is_gone,
        what_is_unknown_is_sent_again,
        a_call_is_paid_for_afterwards,
        a_wake_up_goes_out_before_the_commit,
        a_key_is_bound_to_nothing,
        a_run_is_taken_over_by_time_alone,
        nobody_sweeps,
        a_hung_call_keeps_its_run,
    )
}


def play(witness: str, request: pytest.FixtureRequest) -> None:
    """A named test, with its fixtures, once more."""
    file, _, name = WITNESSES[witness].partition("::")
    name, _, given = name.rstrip("]").partition("[")
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    function: Callable[..., None] = getattr(module, name)
    known = GIVEN.get(given, {})
    wanted = [name for name in inspect.signature(function).parameters if name not in known]
    function(**known, **{name: request.getfixturevalue(name) for name in wanted})


CELLS = [(mutant, witness) for mutant in MUTANTS for witness in WITNESSES]
TO_PLAY = [cell for cell in CELLS if os.environ.get("MUTANTS") == "all" or cell[1] in cell[0].noticed_by]


@pytest.mark.parametrize(("mutant", "witness"), TO_PLAY, ids=[f"{m.name}-{w}".replace(" ", "_") for m, w in TO_PLAY])
def test_a_missing_guard_is_noticed(
    engine: Engine,
    hands: Hands,
    mutant: Mutant,
    witness: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    TAKE_AWAY[mutant.name](monkeypatch)
    if witness not in mutant.noticed_by:
        play(witness, request)
        return
    # Where the engine's own guard is gone, the database's may be the one that notices.
    with pytest.raises((AssertionError, pytest.fail.Exception, IntegrityError)):
        play(witness, request)


def test_every_guard_has_a_test_that_misses_it_and_every_test_a_guard() -> None:
    assert [mutant.name for mutant in MUTANTS] == list(TAKE_AWAY)
    assert all(mutant.noticed_by for mutant in MUTANTS)
    assert frozenset().union(*(mutant.noticed_by for mutant in MUTANTS)) == set(WITNESSES)


def test_the_page_of_mutants_is_the_table_s_own() -> None:
    assert (CLONE / "docs" / "mutants.md").read_text() == page(), CURE
