"""What queues are known to do to their tasks: send them twice, late, or to a process that stands still."""

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from django.db import connection, connections

from runs.engine import commit
from runs.engine.advance import advance
from runs.engine.sweep import Sweeper
from runs.engine.tasks import advance_run, wake
from takeover.supervisor.children import CLONE
from tests.engine.conftest import Engine
from tests.faults.detours import database_at, in_another_thread, when
from tests.faults.test_lost_replies import assert_completed_once
from tests.faults.test_workers import StartWorker, outcome, start, submits, the_lease_runs_out
from tests.processes import BackOffice, Broker, Standing, wait_until

AT_ONCE = 16


def calls_in(folder: str) -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((CLONE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield f"{path.relative_to(CLONE)}:{node.lineno}", node


@pytest.mark.parametrize("folder", ["runs", "takeover"])
def test_no_timer_and_no_retry_is_left_to_the_queue(folder: str) -> None:
    """A task with a time on it is held in a worker's memory, and sent again and again once it is held for long."""
    timed = [
        place
        for place, call in calls_in(folder)
        if {keyword.arg for keyword in call.keywords} & {"eta", "countdown", "autoretry_for", "beat_schedule"}
        or (isinstance(call.func, ast.Attribute) and call.func.attr in {"retry", "add_periodic_task"})
    ]
    assert timed == []


def test_six_more_wake_ups_during_a_call_and_after_the_end_change_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.start("B456")

    def six_more() -> None:
        with in_another_thread() as worker:
            assert not any(worker.submit(advance, run.pk).result() for _ in range(6))

    when(monkeypatch, "read_order", six_more)
    advance(run.pk)
    six_more()

    assert_completed_once(engine, run)
    assert (run.token, run.steps) == (1, 4)


def test_of_sixteen_that_claim_a_run_at_once_one_gets_it(engine: Engine) -> None:
    run, together = engine.start("B456"), Barrier(AT_ONCE)

    def claims() -> bool:
        try:
            connection.ensure_connection()
            together.wait(10)
            return commit.claim(run.pk, 30) is not None
        finally:
            connections.close_all()

    with database_at(), ThreadPoolExecutor(AT_ONCE) as workers:
        got = list(workers.map(lambda _: claims(), range(AT_ONCE)))

    assert got.count(True) == 1
    run.refresh_from_db()
    assert (run.token, run.dispatches) == (1, 1)


def test_a_sweeper_that_starts_leaves_what_somebody_is_working_on(engine: Engine) -> None:
    run = engine.start("B456")
    assert commit.claim(run.pk, 30)

    assert Sweeper().sweep() == 0


def test_a_worker_that_stood_still_in_a_call_changes_nothing_once_it_goes_on(
    start_worker: StartWorker, back_office: BackOffice, tmp_path: Path
) -> None:
    back_office.fault("B456", "slow", where="submit", seconds=1)
    first = start_worker()
    assert first.process
    run = start()
    wait_until(lambda: submits(back_office) == 1)

    os.killpg(first.process.pid, signal.SIGSTOP)
    wait_until(lambda: back_office.ledger("B456")["effects"])
    start_worker(ENGINE_PACE="0.01")
    the_lease_runs_out(run)
    Broker().send_listeners_away()
    wake(run.pk)
    wait_until(lambda: outcome(run) == "COMPLETED", within=60)
    before = run.events.count()
    os.killpg(first.process.pid, signal.SIGCONT)
    wait_until(lambda: "is in other hands; nothing was changed" in (tmp_path / f"{first.name}.log").read_text())

    run.refresh_from_db()
    assert (run.outcome, run.token, run.events.count()) == ("COMPLETED", 2, before)
    assert submits(back_office) == 1
    assert run.inbox.get().result_reason == "The run had ended; kept as evidence."


def test_workers_keep_their_connections_and_have_no_pool(worker: Standing, back_office: BackOffice) -> None:
    """Celery closes Django's pool at every task."""
    looks = "from takeover.settings import DATABASES; print('pool' in DATABASES['default']['OPTIONS'])"
    for is_worker, has_pool in (("1", "False"), ("0", "True")):
        env = os.environ | {"WORKER": is_worker}
        said = subprocess.run([sys.executable, "-c", looks], env=env, cwd=CLONE, capture_output=True, text=True)
        assert said.stdout.strip() == has_pool, said.stderr

    run = start()
    wait_until(lambda: outcome(run) == "COMPLETED")
    for _ in range(20):
        advance_run.delay(str(run.pk))
    wait_until(Broker().is_empty)
    before = sessions()
    for _ in range(20):
        advance_run.delay(str(run.pk))
    wait_until(Broker().is_empty)

    # One of each: the watchdog's own, which it makes for each look.
    now = sessions()
    assert len(now - before) <= 1
    assert len(before - now) <= 1


def sessions() -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return {pid for (pid,) in cursor.fetchall()}
