"""Open pages, in a real browser: one stream for all tabs, and whatever breaks is shown and made up for."""

import re
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, expect

from runs.domain.states import StopReason
from runs.engine.advance import nudge
from runs.models import Run
from takeover.supervisor.children import Child
from tests.console import rows
from tests.e2e.test_journeys import OpenPage
from tests.pages import sign_in
from tests.people import person
from tests.processes import launch, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

REMEMBER = "window.told = []; document.addEventListener('run-changed', (e) => told.push(e.detail.run))"
TABS = 8  # a browser opens six connections to one site


def a_run() -> Run:
    return rows.run("B456", person("alice"), StopReason.FACTS_MISSING)


def stands(page: Page, state: str) -> None:
    expect(page.locator("#live")).to_have_attribute("data-state", state, timeout=15_000)


def was_told(page: Page, run: UUID | None) -> bool:
    return (run and str(run)) in page.evaluate("told")


def forget(*pages: Page) -> None:
    for page in pages:
        page.evaluate("told.length = 0")


def count_streams(context: BrowserContext) -> list[str]:
    streams: list[str] = []
    context.on("request", lambda asked: streams.append(asked.url) if asked.url.endswith("/live/") else None)
    return streams


def listeners() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'takeover live' AND datname = current_database()"
        )
        return [pid for (pid,) in cursor.fetchall()]


def test_eight_tabs_share_one_stream_and_the_next_one_takes_it_over(new_page: OpenPage) -> None:
    run, first = a_run(), new_page()
    sign_in(first, "alice")
    first.close()
    context = first.context
    context.add_init_script(REMEMBER)
    streams = count_streams(context)
    tabs = [context.new_page() for _ in range(TABS)]
    for tab in tabs:
        tab.goto("/")  # the eighth would never come if each of the others held a connection
        stands(tab, "live")
    assert len(streams) == 1
    forget(*tabs)

    nudge(run.pk)

    wait_until(lambda: all(was_told(tab, run.pk) for tab in tabs))
    tabs.pop(0).close()  # the one that held the stream
    wait_until(lambda: tabs[0].evaluate("1") and len(streams) == 2)
    for tab in tabs:
        stands(tab, "live")
    forget(*tabs)
    nudge(run.pk)
    wait_until(lambda: all(was_told(tab, run.pk) for tab in tabs))
    assert len(streams) == 2


def test_a_page_that_slept_asks_for_everything_when_it_wakes_up(new_page: OpenPage) -> None:
    page = new_page()
    page.add_init_script(REMEMBER)
    page.clock.install()
    sign_in(page, "alice")
    stands(page, "live")
    streams = count_streams(page.context)
    forget(page)
    looked_at = "Object.defineProperty(document, 'visibilityState', {{ value: '{}', configurable: true }})"
    look = "; document.dispatchEvent(new Event('visibilitychange'))"
    page.evaluate(looked_at.format("hidden") + look)
    page.clock.fast_forward(30_000)  # its line may be dead by now, without anybody having been told
    assert not was_told(page, None)

    page.evaluate(looked_at.format("visible") + look)

    wait_until(lambda: was_told(page, None))
    stands(page, "live")
    assert len(streams) == 1


def test_while_there_is_no_stream_a_page_says_so_and_asks_every_ten_seconds(new_page: OpenPage) -> None:
    page = new_page()
    page.clock.install()
    page.context.route("**/live/", lambda route: route.fulfill(status=404, body=""))
    sign_in(page, "alice")
    stands(page, "polling")
    expect(page.locator("#live")).to_have_text(re.compile("Every 10 s"), use_inner_text=True)
    rows.run("C881", person("alice"), StopReason.FACTS_MISSING, stopped_at=timezone.now() + timedelta(seconds=1))

    page.clock.fast_forward(11_000)

    expect(page.get_by_text("1 new case since")).to_be_visible()
    page.context.unroute("**/live/")
    page.clock.fast_forward(31_000)
    stands(page, "live")


def test_a_page_hears_of_changes_again_after_the_database_dropped_the_listener(new_page: OpenPage) -> None:
    run, page = a_run(), new_page()
    page.add_init_script(REMEMBER)
    sign_in(page, "alice")
    stands(page, "live")
    wait_until(listeners)
    before = listeners()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid", [before])
    forget(page)
    rows.event(run, "noted")  # while nobody listens
    wait_until(lambda: was_told(page, run.pk))
    wait_until(lambda: set(listeners()) - set(before))
    stands(page, "live")


@pytest.fixture
def own_server(product_env: dict[str, str], tmp_path: Path) -> Iterator[tuple[str, Callable[[], Child]]]:
    """The address of a server of this test's own, and what starts it, also again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started: list[Child] = []

    def answers() -> bool:
        try:
            return bool(urlopen(f"http://localhost:{port}/sign-in/").status == 200)
        except URLError:
            return False

    def start() -> Child:
        command = ["-m", "uvicorn", "takeover.asgi:application", "--http", "h11", "--lifespan", "off"]
        env = product_env | {"WORKER": "0", "DJANGO_SETTINGS_MODULE": "tests.settings"}
        started.append(Child("web", [sys.executable, *command, "--port", str(port)], env, is_ready=answers))
        return launch(started[-1], tmp_path / "web.log")

    yield f"http://localhost:{port}", start
    for server in started:
        server.kill()


def test_a_page_survives_a_restart_of_the_server(
    own_server: tuple[str, Callable[[], Child]], new_page: OpenPage
) -> None:
    signed_in = new_page()
    sign_in(signed_in, "alice")
    cookies = signed_in.context.cookies()
    run, (site, start) = a_run(), own_server
    server = start()
    # A context of its own: that nobody answers for a while is no error here.
    browser = signed_in.context.browser
    assert browser
    with browser.new_context(base_url=site) as context:
        context.add_cookies(cookies)  # type: ignore[arg-type]  # as they were given
        page = context.new_page()
        page.add_init_script(REMEMBER)
        page.goto("/")
        stands(page, "live")
        server.kill()
        stands(page, "polling")
        forget(page)
        start()
        stands(page, "live")
        wait_until(lambda: was_told(page, None))
        forget(page)
        nudge(run.pk)
        wait_until(lambda: was_told(page, run.pk))
