"""The database, its disk and the broker on their bad days: nothing is lost, and nothing happens twice."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from pytest_django.fixtures import Settings

from runs.engine import commit
from runs.engine.advance import advance
from runs.engine.sweep import Sweeper
from runs.engine.tasks import advance_run, wake
from runs.interventions import sending, starting
from runs.models import Run
from takeover.celery import app
from takeover.supervisor import postgres
from takeover.supervisor.children import stop
from tests.engine.conftest import Engine
from tests.faults.detours import (
    commits_that_wait,
    database_address,
    database_at,
    in_another_thread,
    somebody_else,
    when,
)
from tests.faults.proxy import Fate, Proxy
from tests.faults.test_lost_replies import (
    SUBMISSION,
    assert_completed_once,
    the_lease_runs_out,
)
from tests.faults.test_workers import StartWorker, outcome
from tests.people import person
from tests.processes import Broker, wait_until

# The database


class Server:
    """A PostgreSQL of its own, which a test may kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.child, _ = postgres.server(folder / "postgres", folder, os.environ, throw_away=True)
        # Nothing has to survive the machine, but what was committed survives the server.
        self.child.argv = [*self.child.argv, "-c", "synchronous_commit=on"]

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.child.start(log)
        wait_until(lambda: self.child.ready)

    def crash_and_recover(self) -> None:
        """As `pg_ctl restart -m immediate`: every session ends where it is; what was committed is recovered."""
        self.child.send(signal.SIGQUIT)
        wait_until(lambda: not self.child.running)
        self.start()


@pytest.fixture(scope="module")
def _server() -> Iterator[Server]:
    with TemporaryDirectory(prefix="takeover-") as folder:
        server = Server(Path(folder))
        server.start()
        yield server
        stop([server.child])
        postgres.remove_what_is_apart(Path(folder, "postgres"))


@pytest.fixture
def server(transactional_db: None, _server: Server) -> Iterator[Server]:
    where = str(_server.folder)
    with database_at(HOST=where, PORT="", NAME="takeover", USER="takeover"):
        call_command("migrate", verbosity=0)
        yield _server
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE runs_run, auth_user CASCADE")


def test_a_worker_goes_on_with_a_database_that_crashed_and_recovered_during_its_call(
    engine: Engine, server: Server, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.ENGINE_SLICE = 60
    run = engine.start("B456")
    when(monkeypatch, "read_order", server.crash_and_recover)

    advance(run.pk)

    assert_completed_once(engine, run)
    assert run.token == 1


def test_a_receipt_in_hand_survives_a_crash_of_the_database(
    engine: Engine, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.start("B456")
    when(monkeypatch, "submit_refund", server.crash_and_recover)

    with pytest.raises(OperationalError):
        advance(run.pk)  # the stop begins with a question to the database

    the_lease_runs_out(run)
    assert_completed_once(engine, engine.carry_on(run))
    assert engine.calls("B456", "lookup") == []  # the receipt had been kept
    assert run.inbox.get().name == "late_result"


def test_a_commit_that_the_database_crashes_in_is_made_again(
    engine: Engine, server: Server, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.ENGINE_SLICE = 60
    monkeypatch.setattr(commit, "RECONNECT_WITHIN", 30)
    run = engine.start("B456")
    with in_another_thread() as worker, somebody_else() as other:
        when(monkeypatch, "read_order", lambda: other.execute("SELECT FROM runs_run FOR UPDATE"))
        going_on = worker.submit(advance, run.pk)
        wait_until(lambda: commits_that_wait(other) == 1)
        server.crash_and_recover()
        going_on.result()
    connection.close()  # which had its session on the server too

    assert_completed_once(engine, run)
    assert run.token == 1


def test_a_worker_that_starts_before_its_database_does_its_work_once_that_is_there(
    start_worker: StartWorker, engine: Engine
) -> None:
    run = engine.start("B456")
    with Proxy(database_address()) as to_database:
        to_database.away = True
        known = connection.settings_dict
        worker = start_worker(DATABASE_URL=f"postgresql://{known['USER']}@127.0.0.1:{to_database.port}/{known['NAME']}")
        wake_by_hand(run)
        wait_until(Broker().is_empty)  # the wake-up was for nothing
        assert worker.running
        assert outcome(run) == ""

        to_database.away = False
        wake_by_hand(run)  # as the sweeper does
        wait_until(lambda: outcome(run) == "COMPLETED", within=60)


def wake_by_hand(run: Run) -> None:
    advance_run.apply_async([str(run.pk)])


def test_a_sweeper_without_a_database_goes_on_sweeping_and_then_finds_everything(
    engine: Engine, to_database: Proxy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [engine.start(order) for order in ("B456", "F562")]
    to_database.doom(b'"runs_run"."due_at" <=', Fate.BROKEN_OFF)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # which are this process's own business

    call_command("sweep", once=True)
    assert "The database did not answer" in caplog.text

    woken: list[UUID] = []

    def wake(run: UUID) -> bool:
        woken.append(run)
        return True

    monkeypatch.setattr("runs.engine.sweep.wake", wake)
    call_command("sweep", once=True)
    assert woken == [run.pk for run in runs]


class FullDisk:
    """The database answers as it does where it cannot grow: from some commit of a run's on, until there is room."""

    def after(self, commits: int) -> None:
        self._do(
            """CREATE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                   RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100';
               END $$""",
            f"""CREATE TRIGGER disk_is_full BEFORE UPDATE ON runs_run
                FOR EACH ROW WHEN (NEW.revision > {commits}) EXECUTE FUNCTION disk_is_full()""",
        )

    def has_room(self) -> None:
        self._do("DROP FUNCTION IF EXISTS disk_is_full CASCADE")

    def _do(self, *statements: str) -> None:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@pytest.fixture
def full_disk(transactional_db: None) -> Iterator[FullDisk]:
    disk = FullDisk()
    yield disk
    disk.has_room()


@pytest.mark.parametrize("nth", [1, SUBMISSION, SUBMISSION + 1])
def test_a_disk_that_is_full_at_a_commit_costs_a_lease_and_no_run(
    engine: Engine, full_disk: FullDisk, nth: int
) -> None:
    run = engine.start("B456")
    full_disk.after(commits=nth - 1)

    with pytest.raises(OperationalError, match="could not extend file"):
        advance(run.pk)

    run.refresh_from_db()
    assert (run.outcome, run.revision) == ("", nth - 1)
    assert len(engine.calls("B456", "submit")) == (nth > SUBMISSION)
    full_disk.has_room()
    the_lease_runs_out(run)
    assert_completed_once(engine, engine.carry_on(run))


# The broker


def test_decisions_are_accepted_while_the_broker_is_away_and_take_effect_by_the_sweeper(
    engine: Engine, to_broker: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.change_order("B456", amount_minor=150_00)
    run = engine.run("B456")
    monkeypatch.undo()  # wake-ups are sent from now on
    to_broker.away = True
    sending.send(run.pk, "approval_granted", person("bob"), {}, run.effects.get().plan_digest)
    withdrawn, _ = starting.start("refund_request", {"order_id": "F562"}, person("support"))
    sending.send(withdrawn.pk, "cancel_requested", person("alice"), {"reason": "withdrawn"})

    assert Sweeper().sweep() == 2

    assert_completed_once(engine, run)
    assert outcome(withdrawn) == "CANCELLED"


def test_a_broker_that_stands_still_keeps_nobody_from_starting_a_run(
    engine: Engine, to_broker: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(app.conf.broker_transport_options, "socket_timeout", 0.2)
    silent = [to_broker.doom(b"LPUSH", Fate.HELD_UP) for _ in range(2)]  # the wake-up and its one repetition

    run = engine.start("B456")

    assert all(each.met.is_set() for each in silent)
    assert run.outcome == ""
    assert Sweeper().sweep() == 1
    Broker().forget()


def test_after_a_broker_came_back_empty_the_sweeper_s_wake_ups_arrive(
    engine: Engine, to_broker: Proxy, monkeypatch: pytest.MonkeyPatch, start_worker: StartWorker
) -> None:
    monkeypatch.undo()
    to_broker.away = True
    run = engine.start("B456")
    assert not wake(run.pk)
    Broker().forget()

    to_broker.away = False
    start_worker()
    Sweeper().sweep()

    wait_until(lambda: outcome(run) == "COMPLETED", within=60)
    assert_completed_once(engine, run)
