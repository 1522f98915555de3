"""A database that takes connections and statements and never answers: who waits for it waits for a bounded time."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from django.db import DatabaseError, OperationalError, close_old_connections, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from runs.engine.advance import advance
from runs.models import Run, Worker
from takeover import environment
from takeover.management.commands.migrate import unhurried
from tests import processes
from tests.engine.conftest import Engine
from tests.faults.detours import database_address, database_at, in_another_thread, somebody_else, when
from tests.faults.proxy import Fate, Proxy
from tests.faults.test_lost_replies import COMMIT, assert_completed_once, the_lease_runs_out
from tests.faults.test_workers import StartWorker, outcome, start, submits
from tests.people import person
from tests.processes import BackOffice, launch, wait_until

T = TypeVar("T")


@pytest.fixture
def impatient(to_database: Proxy) -> Proxy:
    """The way to the database of a process that waits a second for an answer, and two for a connection."""
    options = connection.settings_dict["OPTIONS"]
    connection.settings_dict["OPTIONS"] = options | {"answer_within": 1, "connect_timeout": 2}
    return to_database


def comes_back(proxy: Proxy, work: Callable[..., T], *what: Any) -> T:
    """What `work` returns or raises. Where it waits for ever, it is cut off, and the test fails."""
    with in_another_thread() as thread:
        doing = thread.submit(work, *what)
        try:
            return doing.result(60)
        finally:
            if not doing.done():
                proxy.cut()


def test_a_connection_that_is_taken_and_not_answered_is_given_up(impatient: Proxy) -> None:
    impatient.passing.clear()

    with pytest.raises(OperationalError, match="timeout"):
        comes_back(impatient, connection.ensure_connection)


def test_a_statement_that_is_not_answered_is_given_up_with_its_connection(impatient: Proxy) -> None:
    def asks() -> None:
        connection.ensure_connection()
        impatient.passing.clear()
        with pytest.raises(OperationalError, match="did not answer within 1 s"):
            Run.objects.count()
        assert connection.connection.closed
        impatient.passing.set()
        connection.close()
        assert Run.objects.count() == 0

    comes_back(impatient, asks)


@pytest.mark.parametrize("nth", [2, 5])
def test_a_commit_that_is_never_answered_is_made_again_and_lands_once(
    engine: Engine, impatient: Proxy, nth: int
) -> None:
    run = engine.start("B456")
    held_up = impatient.doom(COMMIT, Fate.HELD_UP, nth)

    assert not comes_back(impatient, advance, run.pk)

    assert held_up.met.is_set()
    assert_completed_once(engine, run)
    assert (run.token, run.revision) == (1, 5)


def test_a_worker_whose_database_stands_still_lets_go_of_the_run(
    engine: Engine, impatient: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.start("B456")
    when(monkeypatch, "read_policies", impatient.passing.clear)

    with pytest.raises(OperationalError):
        comes_back(impatient, advance, run.pk)

    impatient.passing.set()
    assert engine.calls("B456", "submit") == []
    the_lease_runs_out(run)
    assert_completed_once(engine, engine.carry_on(run))


def test_a_page_is_refused_in_the_end_and_the_next_one_is_served(impatient: Proxy) -> None:
    pool = {"pool": {"min_size": 1, "max_size": 2, "timeout": 2}}
    connection.settings_dict["OPTIONS"] |= pool
    client = Client(raise_request_exception=False)

    def visit() -> int:
        status = client.get(reverse("queue")).status_code
        close_old_connections()  # as a server does after each request
        return status

    def visits() -> list[int]:
        client.force_login(person("support"))
        statuses = [visit()]
        impatient.passing.clear()
        statuses.append(visit())
        impatient.passing.set()
        wait_until(lambda: visit() == 200, within=30)
        return statuses

    try:
        assert comes_back(impatient, visits) == [200, 500]
    finally:
        connection.close_pool()  # type: ignore[attr-defined]


# The product's processes


@pytest.fixture
def silent_soon(product_env: dict[str, str]) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """A way to the database that may fall silent, and the environment of a process that goes it."""
    usual = urlsplit(product_env["DATABASE_URL"])
    with Proxy(database_address()) as proxy:
        way = usual._replace(netloc=f"{usual.username}@127.0.0.1:{proxy.port}", query="").geturl()
        yield proxy, {"DATABASE_URL": way, "DATABASE_ANSWERS_WITHIN": "1"}


def test_worker_and_sweeper_outlive_a_database_that_stands_still(
    start_worker: StartWorker,
    back_office: BackOffice,
    product_env: dict[str, str],
    silent_soon: tuple[Proxy, dict[str, str]],
    tmp_path: Path,
) -> None:
    proxy, env = silent_soon
    worker = start_worker(**env, WORKER_CANARY="1")
    sweeper = launch(processes.sweeper(product_env | env), tmp_path / "sweeper.log")
    try:
        wait_until(lambda: {row.kind for row in Worker.objects.all()} == {"worker", "sweeper"}, within=30)
        proxy.passing.clear()
        wait_until(lambda: "did not answer" in (tmp_path / "sweeper.log").read_text(), within=30)
        wait_until(lambda: "Nothing can be said" in (tmp_path / f"{worker.name}.log").read_text(), within=30)
        run = start()
        proxy.passing.set()
        wait_until(lambda: outcome(run) == "COMPLETED", within=60)
        assert worker.running
        assert sweeper.running
    finally:
        sweeper.kill()
    assert submits(back_office) == 1


# What the server and the kernel do by themselves


@pytest.fixture
def limited(transactional_db: None) -> Iterator[None]:
    """One second for a statement, two for a transaction in which nothing is asked."""
    with database_at():
        connection.settings_dict["OPTIONS"] |= environment.answers_within(1)
        yield


def test_who_waits_for_a_row_that_somebody_keeps_is_let_go_by_the_server(limited: None, engine: Engine) -> None:
    engine.start("B456")
    with somebody_else() as other:
        other.execute("SELECT FROM runs_run FOR UPDATE")
        with pytest.raises(OperationalError, match="statement timeout"):
            Run.objects.update(due_at=timezone.now())


def test_a_transaction_in_which_nothing_is_asked_any_more_is_ended_by_the_server(limited: None, engine: Engine) -> None:
    engine.start("B456")
    with pytest.raises(DatabaseError, match="idle-in-transaction"), transaction.atomic():  # noqa: PT012
        Run.objects.select_for_update().get()
        mine = connection.connection.info.backend_pid
        with somebody_else() as other:
            other.autocommit = True

            def is_over() -> bool:
                rows = other.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [mine]).fetchall()
                return not rows

            wait_until(is_over)
        Run.objects.count()


def test_the_kernel_is_told_when_to_give_a_silent_network_up(to_database: Proxy) -> None:
    connection.ensure_connection()
    with socket.socket(fileno=socket.dup(connection.connection.pgconn.socket)) as line:

        def told(option: int) -> int:
            return line.getsockopt(socket.IPPROTO_TCP, option)

        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, between, times = map(told, (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT))
        assert (idle, between, times) == (10, 5, 4)
        assert told(socket.TCP_USER_TIMEOUT) == 30_000


def test_the_product_sets_these_limits_wherever_it_signs_in() -> None:
    address = "postgresql://takeover@127.0.0.1/takeover"
    options = environment.database(address, limits=environment.answers_within(30))["OPTIONS"]
    assert options["options"] == "-c statement_timeout=30s -c idle_in_transaction_session_timeout=60s"
    assert connection.settings_dict["OPTIONS"]["options"] == options["options"]
    assert connection.settings_dict["OPTIONS"]["answer_within"] == 35


def test_a_migration_may_take_as_long_as_it_takes(limited: None) -> None:
    def limit() -> tuple[str, object]:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            return cursor.fetchone()[0], vars(connection.connection).get("wait")

    with unhurried("default"):
        assert limit() == ("0", None)
    assert limit()[0] == "1s"
