"""Fixtures for tests that need more than Python. Run by `bin/test`, which starts PostgreSQL and Valkey."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn
from django.apps import apps
from django.core.cache import cache
from django.db import connection, transaction
from django.test import TransactionTestCase
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, sync_playwright
from pytest_django import DjangoDbBlocker

from takeover.supervisor.children import Child, stop
from tests import processes
from tests.processes import BackOffice, Broker, Standing

POOL = os.environ.get("TEST_POOL", "threads")  # prefork must pass too
CHROMIUM = os.environ.get("BROWSER", "")
# A refused request is an answer like any other; what it says is for the test to look at.
REFUSED = "Failed to load resource: the server responded with a status of 4"
# What htmx writes of a request that a later one replaced, as hx-sync asks it to. Of one that failed it writes more.
REPLACED = ("htmx:afterRequest,", "htmx:sendAbort,")


@pytest.fixture(autouse=True)
def _nothing_is_remembered_from_the_test_before() -> None:
    cache.clear()


@pytest.fixture(scope="session", autouse=True)
def _tables_are_emptied_quickly() -> None:
    """Between tests that commit, Django truncates every table and makes all permissions anew, which takes longer than
    most tests. Here the few rows are deleted; roles and permissions stay as the migrations made them.
    """

    def empty(self: TransactionTestCase) -> None:
        from django.contrib.sessions.models import Session

        ours = [model for label in ("runs", "console") for model in apps.get_app_config(label).get_models()]
        tables = [model._meta.db_table for model in ours]
        tables += [Session._meta.db_table, "auth_user_groups", "auth_user_user_permissions", "auth_user"]
        statements = [f'DELETE FROM "{table}"' for table in tables]  # noqa: S608 - our own names
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("; ".join(statements))  # in any order: foreign keys are checked at the end

    TransactionTestCase._fixture_teardown = empty  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not CHROMIUM:
        left_out = pytest.mark.skip(reason="left out for want of Chromium: install it (Debian: apt install chromium)")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(left_out)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """As pytest-django makes it; at the end nobody is left in the database that it drops."""
    yield
    with django_db_blocker.unblock():
        processes.disconnect_everybody_else()


@pytest.fixture(scope="session")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="session")
def _back_office_process(_folder: Path) -> Iterator[BackOffice]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    child = processes.start_back_office(_folder, port)
    office = BackOffice(f"http://127.0.0.1:{port}")
    yield office
    office.client.close()
    stop([child])


@pytest.fixture
def back_office(_back_office_process: BackOffice) -> BackOffice:
    """As on its first day: the seeded orders, no faults, an empty ledger."""
    _back_office_process.reset()
    return _back_office_process


@pytest.fixture(scope="session")
def product_env(django_db_setup: None, _back_office_process: BackOffice, _folder: Path) -> dict[str, str]:
    return processes.product_env(_back_office_process.url, _folder / "documents")


@pytest.fixture(scope="session")
def _worker_process(product_env: dict[str, str], _folder: Path) -> Iterator[Standing]:
    name = f"{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}@test"
    process = Standing(
        lambda: processes.celery_worker(name, product_env, _folder, POOL, concurrency=4), _folder / "worker.log"
    )
    yield process
    process.kill()


@pytest.fixture(scope="session")
def _sweeper_process(product_env: dict[str, str], _folder: Path) -> Iterator[Standing]:
    process = Standing(lambda: processes.sweeper(product_env), _folder / "sweeper.log")
    yield process
    process.kill()


@pytest.fixture
def worker(transactional_db: None, back_office: BackOffice, _worker_process: Standing) -> Iterator[Standing]:
    """A Celery worker on this test's database and broker."""
    broker = Broker()
    broker.forget()
    _worker_process.go_on()
    yield _worker_process
    # Nobody may be in the middle of a step when the tables are emptied: it would hold a lock, or write afterwards.
    processes.abandon_runs()
    try:
        processes.wait_until(lambda: broker.is_empty() and processes.is_idle(_worker_process))
        _worker_process.stand_still()
        broker.send_listeners_away()
    except TimeoutError:
        _worker_process.kill()  # the next test that needs one starts another


@pytest.fixture
def sweeper(transactional_db: None, _sweeper_process: Standing) -> Iterator[Standing]:
    _sweeper_process.go_on()
    yield _sweeper_process
    _sweeper_process.stand_still()


@pytest.fixture
def start_worker(transactional_db: None, product_env: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Makes workers that a test may kill: `start_worker(ENGINE_LEASE="2")`."""
    started: list[Child] = []

    def start(pool: str = POOL, concurrency: int = 4, **env: str) -> Child:
        name = f"own{len(started)}-{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}@test"
        child = processes.celery_worker(name, product_env | env, tmp_path, pool, concurrency)
        started.append(child)
        return processes.launch(child, tmp_path / f"{child.name}.log")

    Broker().forget()
    yield start
    for child in started:
        child.kill()
    Broker().forget()


@pytest.fixture(scope="session")
def _site(django_db_setup: None) -> Iterator[str]:
    from takeover.asgi import application

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        manners = {"http": "h11", "lifespan": "off", "timeout_graceful_shutdown": 1}
        config = uvicorn.Config(application, log_level="warning", **manners)  # type: ignore[arg-type]
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        processes.wait_until(lambda: server.started)
        yield f"http://localhost:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def live_site(transactional_db: None, _site: str) -> str:
    """The address of the site, served by uvicorn as in production: Django's own live server cannot stream."""
    return _site


@pytest.fixture(scope="module")
def _browser() -> Iterator[Browser]:
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to run as root with one
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        # Its loop runs in this thread until the module ends: Django takes these tests for asynchronous, and no other
        # test in this process could start a loop of its own.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, *sandbox])
        yield browser
        browser.close()


@pytest.fixture
def new_page(live_site: str, _browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages for different people. A script error or a CSP violation in any of them fails the test."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith((REFUSED, *REPLACED)):
            complaints.append(message.text)

    def open_page(width: int = 1280, height: int = 800, script: bool = True) -> Page:
        size: ViewportSize = {"width": width, "height": height}
        # Without motion, so that no test looks at a colour that is still on its way.
        context = _browser.new_context(
            base_url=live_site, viewport=size, java_script_enabled=script, reduced_motion="reduce"
        )
        context.set_default_timeout(10_000)
        context.on("console", note)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        contexts.append(context)
        return context.new_page()

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def browser_page(new_page: Callable[..., Page]) -> Page:
    return new_page()
