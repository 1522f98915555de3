"""Other ways from this process to its database, other sessions on it, and what happens in the middle of a call."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection, connections

from runs.engine import calls


@contextmanager
def database_at(**where: str) -> Iterator[None]:
    """This process's connections lead there, without a pool, as a worker's do."""
    usual = dict(connection.settings_dict)
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]
    connection.settings_dict.update({**where, "OPTIONS": usual["OPTIONS"] | {"pool": False}})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(usual)


def database_address() -> str | int:
    usual = connection.settings_dict
    port = int(usual["PORT"] or 5432)
    return f"{usual['HOST']}/.s.PGSQL.{port}" if usual["HOST"].startswith("/") else port


@contextmanager
def in_another_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread
        thread.submit(connections.close_all).result()


@contextmanager
def somebody_else() -> Iterator[psycopg.Connection[Any]]:
    """Another session on this process's database, by the way that leads there now."""
    known = connection.settings_dict
    with closing(
        psycopg.connect(host=known["HOST"], port=known["PORT"] or None, dbname=known["NAME"], user=known["USER"])
    ) as other:
        yield other


def commits_that_wait(other: psycopg.Connection[Any]) -> int:
    """How many wait for the row that the other session holds."""
    other.execute("SELECT pg_stat_clear_snapshot()")  # it would see the same in all of its transaction
    everybody = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    found = other.execute(f"{everybody} AND wait_event_type = 'Lock'").fetchone()
    return int(found[0]) if found else 0


def when(monkeypatch: pytest.MonkeyPatch, operation: str, happens: Callable[[], object]) -> None:
    """Let something happen once while a call of this name is under way: after it was answered, before that is saved."""
    perform = calls._perform

    def performed(held: Any, planned: Any, until: float) -> Any:
        result = perform(held, planned, until)
        if planned.tool.name == operation:
            monkeypatch.setattr(calls, "_perform", perform)
            happens()
        return result

    monkeypatch.setattr(calls, "_perform", performed)
