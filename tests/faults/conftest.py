"""Connections of this process by way of a proxy that loses what it is told to."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings as product
from django.db import connection
from kombu import pools
from pytest_django.fixtures import Settings

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
