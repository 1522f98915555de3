"""Connections of this process by way of a proxy that loses what it is told to."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from django.conf import settings as product
from django.db import connection, connections
from kombu import pools
from pytest_django.fixtures import Settings

from runs.engine import calls
from takeover.celery import app
from tests.engine.conftest import Engine
from tests.faults.proxy import Proxy
from tests.processes import BackOffice


@pytest.fixture
def engine(
    transactional_db: None, back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Engine:
    """Runs carried on in this process; nobody else is told about them."""
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    return Engine(back_office)


@contextmanager
def database_at(**where: str) -> Iterator[None]:
    """This process's connections lead there, without a pool, as a worker's do."""
    usual = dict(connection.settings_dict)
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]
    connection.settings_dict.update({**where, "OPTIONS": {}})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(usual)


def database_address() -> str | int:
    usual = connection.settings_dict
    port = int(usual["PORT"] or 5432)
    return f"{usual['HOST']}/.s.PGSQL.{port}" if usual["HOST"].startswith("/") else port


@pytest.fixture
def to_database(transactional_db: None) -> Iterator[Proxy]:
    """Between this process and its database."""
    with Proxy(database_address()) as proxy, database_at(HOST="127.0.0.1", PORT=str(proxy.port)):
        yield proxy


@pytest.fixture
def to_broker() -> Iterator[Proxy]:
    """Between this process's wake-ups and the broker; workers have a way of their own."""
    import redis

    known = redis.Redis.from_url(product.REDIS_URL).get_connection_kwargs()
    usual = app.conf.broker_url
    with Proxy(known.get("path") or known["port"]) as proxy:
        _publish_by(f"redis://127.0.0.1:{proxy.port}/{known['db']}")
        yield proxy
        _publish_by(usual)


def _publish_by(address: str) -> None:
    pools.reset()  # type: ignore[no-untyped-call]
    app._pool = app.amqp._producer_pool = None
    app.conf.broker_url = address


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
