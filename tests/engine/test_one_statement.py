"""What keeps the statement between two calls cheap: planned once, and no more rows and indexes than the step's own."""

from collections.abc import Iterator

import pytest
from django.db import connection

from runs.engine import commit
from runs.engine.commit import Pending
from runs.models import Run
from tests.engine.conftest import Engine

STATEMENTS = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%UPDATE runs_run%'"


@pytest.fixture
def _prepares_as_workers_do() -> Iterator[None]:
    connection.ensure_connection()
    before, connection.connection.prepare_threshold = connection.connection.prepare_threshold, 0
    yield
    connection.connection.prepare_threshold = before


@pytest.mark.usefixtures("_prepares_as_workers_do")
def test_whatever_a_run_goes_through_the_server_plans_each_form_of_the_statement_once(engine: Engine) -> None:
    def planned() -> int:
        with connection.cursor() as cursor:
            cursor.execute(STATEMENTS)
            return int(cursor.fetchone()[0])

    engine.run("D014")  # read, sent, confirmed
    engine.run("C204")  # put up for approval, with a package
    forms = planned()
    assert 1 < forms <= 2 ** len(commit.RARE)

    engine.run("B456")
    engine.run("C881")
    assert planned() == forms


def test_a_lease_that_lasts_long_enough_is_not_moved_and_one_that_does_not_is(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "SLACK", 60.0)
    run = engine.start("B456")
    lease = commit.claim(run.pk, 30)
    assert lease

    def due_after(hold_for: float) -> object:
        commit.commit(lease, Run.objects.get(pk=run.pk), Pending(), inbox_seen=1, hold_for=hold_for)
        return Run.objects.get(pk=run.pk).due_at

    first = due_after(100)
    assert due_after(120) == first
    assert due_after(300) != first  # or the call outlasts its lease
    moved = due_after(300)
    assert due_after(100) != moved  # or a dead worker's run lies longer than it must


@pytest.mark.parametrize("length", [10, 20_000])
def test_a_commit_from_step_to_step_touches_no_index_however_long_the_input_is(length: int, engine: Engine) -> None:
    run = engine.start("B456")
    text = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(length))  # does not compress to nothing
    Run.objects.filter(pk=run.pk).update(input={**run.input, "reason": text})
    lease = commit.claim(run.pk, 300)
    assert lease

    def step(number: int) -> None:
        held = Run.objects.get(pk=run.pk)
        held.steps, held.progress = number, {"seen": number}
        commit.commit(lease, held, Pending(), inbox_seen=1, hold_for=295)

    def within_the_page() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_get_xact_tuples_hot_updated('runs_run'::regclass)")
            return int(cursor.fetchone()[0])

    step(1)
    before = within_the_page()
    step(2)
    assert within_the_page() == before + 1
