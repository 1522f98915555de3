"""The engine in this process with several hands at once, by way of a proxy, and in processes that are made to die."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings as product
from kombu import pools
from pytest_django.fixtures import Settings

from takeover.celery import app
from tests.engine.conftest import Engine
from tests.faults.crashing import ForkServer
from tests.faults.detours import database_address, database_at
from tests.faults.hands import Hands
from tests.faults.proxy import Proxy
from tests.faults.trials import Trials
from tests.processes import BackOffice


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else takes a run: a test looks at every step itself."""
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)


@pytest.fixture
def engine(transactional_db: None, back_office: BackOffice, settings: Settings, no_broker: None) -> Engine:
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    return Engine(back_office)


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


@pytest.fixture
def hands(transactional_db: None, no_broker: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    several = Hands(monkeypatch)
    yield several
    several.leave()


@pytest.fixture(scope="session")
def _fork_server(product_env: dict[str, str], _folder: Path) -> Iterator[ForkServer]:
    server = ForkServer(product_env, _folder / "forks.log")
    yield server
    server.stop()


@pytest.fixture
def trials(transactional_db: None, back_office: BackOffice, _fork_server: ForkServer) -> Trials:
    return Trials(_fork_server, back_office)
