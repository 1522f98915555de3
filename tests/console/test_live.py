"""The nudge that tells open pages which runs changed: prompt, never lost, never too much, for those who may look."""

import asyncio
import json
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, connections
from django.test import Client
from playwright.sync_api import Page, Route

from runs.domain.states import StopReason
from runs.models import Refusal, Run
from takeover.console import live
from takeover.console.live import MOST_WAITING, Announcements, Hub, Subscription
from takeover.supervisor.children import Child
from tests import people, processes
from tests.console import rows
from tests.pages import sign_in

# The rules, without a database


def test_a_run_is_announced_at_once_and_then_at_most_once_a_second() -> None:
    announcements, run = Announcements(scatter=lambda: 0.0), uuid4()
    announcements.changed(run, now=100.0)
    assert announcements.take_due(100.0) == [run]
    for moment in (100.1, 100.2, 100.9):
        announcements.changed(run, moment)
        assert announcements.take_due(moment) == []
    assert announcements.next_due() == 101.0
    assert announcements.take_due(101.0) == [run]
    assert announcements.next_due() is None


def test_one_busy_run_does_not_hold_up_another() -> None:
    announcements, busy, other = Announcements(), uuid4(), uuid4()
    announcements.changed(busy, 100.0)
    announcements.take_due(100.0)
    announcements.changed(busy, 100.1)
    announcements.changed(other, 100.1)
    assert announcements.take_due(100.1) == [other]


def test_a_page_that_does_not_listen_is_told_to_ask_for_everything() -> None:
    page = Subscription()
    for _ in range(MOST_WAITING + 50):
        page.put(uuid4())
    assert page.taken() == [None]


def test_the_same_run_waits_once_however_often_it_changed() -> None:
    page, run = Subscription(), uuid4()
    for _ in range(5):
        page.put(run)
    assert page.taken() == [run]


# The hub, on the database


@pytest.fixture
def changed_run(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Run:
    # The tests write in between, from the thread of the loop.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    monkeypatch.setattr(live, "LOOK_EVERY", 0.3)
    return rows.run("B456", people.person("alice"))


def nudge(run: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('runs', %s)", [str(run)])


def on_a_page(story: Callable[[Hub, Subscription], Awaitable[None]]) -> None:
    async def tell() -> None:
        hub = Hub()
        async with hub.subscription() as page:
            await until(lambda: bool(listeners()))
            await page.take(0.2)  # what was fresh when it opened
            await story(hub, page)

    in_a_loop(tell)


def in_a_loop(tell: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """In a thread of its own: the browser tests leave a loop running in the main one."""

    def run() -> None:
        try:
            asyncio.run(tell())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not happened():  # noqa: ASYNC110 - what happens is in the database
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _hubs_of_others(transactional_db: None) -> Iterator[None]:
    """The site of the browser tests may still have a hub of its own in this process; these tests are not about it."""
    of_others.update(listeners())
    yield
    of_others.clear()


of_others: set[int] = set()


def listeners() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'takeover live' AND datname = current_database()"
            " AND state = 'idle' AND query NOT LIKE '%BEGIN%'"
        )
        return [pid for (pid,) in cursor.fetchall() if pid not in of_others]


def test_a_nudge_arrives_long_before_the_next_look(changed_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY", 30.0)

    async def story(hub: Hub, page: Subscription) -> None:
        nudge(changed_run.pk)
        assert await page.take(2) == [changed_run.pk]

    on_a_page(story)


def test_a_change_whose_nudge_was_lost_is_found_by_looking(changed_run: Run) -> None:
    async def story(hub: Hub, page: Subscription) -> None:
        rows.event(changed_run, "stopped")
        assert await page.take(2) == [changed_run.pk]
        assert await page.take(0.8) == []  # and found once

    on_a_page(story)


def test_an_event_that_is_committed_after_a_later_one_is_found_too(changed_run: Run) -> None:
    other = rows.run("C881", people.person("alice"))

    async def story(hub: Hub, page: Subscription) -> None:
        slow = connection.copy()
        slow.set_autocommit(False)
        with slow.cursor() as cursor:
            cursor.execute("INSERT INTO runs_event (run_id, kind, digest) VALUES (%s, 'slow', '')", [changed_run.pk])
        rows.event(other, "quick")
        assert await page.take(2) == [other.pk]
        slow.commit()
        slow.close()
        assert await page.take(2) == [changed_run.pk]

    on_a_page(story)


def test_nothing_is_lost_when_the_listening_connection_dies(changed_run: Run) -> None:
    async def story(hub: Hub, page: Subscription) -> None:
        (pid,) = listeners()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        rows.event(changed_run, "stopped")  # nobody listens now
        assert await page.take(3) == [changed_run.pk]
        await until(lambda: bool(listeners()))
        nudge(changed_run.pk)
        assert await page.take(3) == [changed_run.pk]

    on_a_page(story)


def test_a_page_is_told_what_changed_just_before_its_stream_opened(changed_run: Run) -> None:
    rows.event(changed_run, "stopped")

    async def tell() -> None:
        hub = Hub()
        async with hub.subscription() as first:
            assert await first.take(3) == [changed_run.pk]
            async with hub.subscription() as second:
                assert await second.take(1) == [changed_run.pk]

    in_a_loop(tell)


def test_the_hub_stops_some_time_after_the_last_page_left(changed_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LINGER", 0.2)

    async def tell() -> None:
        hub = Hub()
        async with hub.subscription():
            await until(lambda: bool(listeners()))
        await until(lambda: not listeners())

    in_a_loop(tell)


# The stream, over HTTP


@contextmanager
def stream(site: str, person: User | None) -> Iterator[httpx2.Response]:
    cookies = {}
    if person:
        client = Client()
        client.force_login(person)
        cookies = {"sessionid": client.cookies["sessionid"].value}
    with (
        httpx2.Client(base_url=site, cookies=cookies, timeout=10) as browser,
        browser.stream("GET", "/live/") as response,
    ):
        yield response


def events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, line.removeprefix("data: ")


def test_a_stream_says_which_run_changed_and_nothing_about_it(live_site: str) -> None:
    run = rows.run("B456", people.person("alice"))
    with stream(live_site, people.person("alice")) as response:
        assert response.headers["content-type"] == "text/event-stream"
        lines = response.iter_lines()
        assert next(lines).startswith("retry:")
        rows.event(run, "stopped")
        nudge(run.pk)
        # The site's hub may still be telling what the test before this one changed.
        kind, data = next((kind, data) for kind, data in events(lines) if str(run.pk) in data)
    assert (kind, json.loads(data)) == ("run-changed", {"run": str(run.pk)})


@pytest.mark.parametrize(("name", "status"), [("", 401), ("charlie", 403), ("ada", 200)])
def test_only_those_who_may_see_runs_are_told(live_site: str, name: str, status: int) -> None:
    with stream(live_site, people.person(name) if name else None) as response:
        assert response.status_code == status


def test_who_may_not_be_told_is_on_record(live_site: str) -> None:
    charlie = people.person("charlie")
    with stream(live_site, charlie):
        pass
    refused = Refusal.objects.get()
    assert (refused.person, refused.attempted, refused.code) == (charlie, "see live", "forbidden")


def test_the_stream_ends_soon_after_the_session(live_site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT", 0.1)
    monkeypatch.setattr(live, "CHECK_SESSION", 0.2)
    with stream(live_site, people.person("alice")) as response:
        lines = response.iter_lines()
        assert "beat" in (kind for kind, _ in events(lines))
        Session.objects.all().delete()
        assert all(data for _, data in events(lines))  # comes to its end


def test_the_stream_ends_when_the_permission_is_taken_away(live_site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT", 0.1)
    monkeypatch.setattr(live, "CHECK_SESSION", 0.2)
    alice = people.person("alice")
    with stream(live_site, alice) as response:
        lines = response.iter_lines()
        next(events(lines))
        alice.groups.clear()
        assert all(data for _, data in events(lines))


def test_open_streams_hold_no_connection_of_the_pool(live_site: str) -> None:
    alice = people.person("alice")
    most = connection.settings_dict["OPTIONS"]["pool"]["max_size"]
    opened = [stream(live_site, alice) for _ in range(most + 4)]
    lines = [one.__enter__().iter_lines() for one in opened]
    try:
        assert all(next(one) for one in lines)
        processes.wait_until(lambda: len(live.hub._pages) == len(opened))
        client = Client()
        client.force_login(alice)
        cookies = {"sessionid": client.cookies["sessionid"].value}
        assert httpx2.get(live_site, cookies=cookies, timeout=5).status_code == 200
    finally:
        for one in opened:
            one.__exit__(None, None, None)


def test_who_left_while_the_session_was_read_is_forgotten_too(live_site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = threading.Event()

    def read_slowly() -> bool:
        reading.set()
        time.sleep(0.5)
        return True

    monkeypatch.setattr(live, "HEARTBEAT", 0.1)
    monkeypatch.setattr(live, "CHECK_SESSION", 0.2)
    monkeypatch.setattr(live, "_still_signed_in", lambda request: sync_to_async(read_slowly)())
    with stream(live_site, people.person("alice")) as response:
        lines = response.iter_lines()  # letting go of it would close the connection
        next(lines)
        assert reading.wait(5)
    processes.wait_until(lambda: not live.hub._pages, within=3)


def test_who_left_is_forgotten(live_site: str) -> None:
    with stream(live_site, people.person("alice")) as response:
        lines = response.iter_lines()
        next(lines)
        processes.wait_until(lambda: live.hub._pages)
    processes.wait_until(lambda: not live.hub._pages)


def test_a_server_that_is_told_to_stop_does_not_wait_for_open_streams(
    transactional_db: None, product_env: dict[str, str], tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        site = f"http://127.0.0.1:{probe.getsockname()[1]}"
    place = ["--port", site.rpartition(":")[2], "--lifespan", "off", "--timeout-graceful-shutdown", "30"]
    command = [sys.executable, "-m", "uvicorn", "takeover.asgi:application", "--http", "h11", *place]
    log = tmp_path / "web.log"
    env = product_env | {"WORKER": "0"}
    server = processes.launch(Child("web", command, env, is_ready=lambda: _answers(site)), log)
    try:
        with stream(site, people.person("alice")) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("retry:")
            server.send(signal.SIGTERM)
            processes.wait_until(lambda: not server.running, within=5)
    finally:
        server.kill()
    assert "ERROR" not in log.read_text()


def _answers(site: str) -> bool:
    try:
        return httpx2.get(f"{site}/live/").status_code == 401
    except httpx2.HTTPError:
        return False


# In the browser


def remember_what_is_told(page: Page) -> None:
    page.add_init_script("window.told = []; document.addEventListener('run-changed', (e) => told.push(e.detail.run))")


def was_told(page: Page, run: UUID | None) -> bool:
    return (run and str(run)) in page.evaluate("told")


def stands(page: Page, state: str) -> None:
    page.locator(f"#live[data-state={state}]").wait_for(state="attached")


@pytest.mark.browser
def test_one_tab_listens_for_all_and_another_takes_over_when_it_is_closed(browser_page: Page) -> None:
    run = rows.run("B456", people.person("alice"), StopReason.FACTS_MISSING)
    sign_in(browser_page, "alice")
    first, second = browser_page.context.new_page(), browser_page.context.new_page()
    browser_page.close()
    streams: list[str] = []
    for page in (first, second):
        page.on("request", lambda request: streams.append(request.url) if request.url.endswith("/live/") else None)
        remember_what_is_told(page)
        page.goto("/")
        stands(page, "live")
    assert len(streams) == 1
    nudge(run.pk)
    processes.wait_until(lambda: was_told(first, run.pk) and was_told(second, run.pk))
    first.close()
    processes.wait_until(lambda: second.evaluate("1") and len(streams) == 2)
    stands(second, "live")
    second.evaluate("told.length = 0")
    nudge(run.pk)
    processes.wait_until(lambda: was_told(second, run.pk))


@pytest.mark.browser
def test_a_lost_stream_is_shown_and_made_up_for_when_it_is_back(browser_page: Page) -> None:
    remember_what_is_told(browser_page)
    sign_in(browser_page, "alice")
    stands(browser_page, "live")
    browser_page.context.route("**/live/", lambda route: route.fulfill(status=404, body=""))
    live.hub.end()
    stands(browser_page, "polling")
    assert not was_told(browser_page, None)
    browser_page.context.unroute("**/live/")
    stands(browser_page, "live")
    assert was_told(browser_page, None)


@pytest.mark.browser
@pytest.mark.parametrize("path", ["/runs/{}/", "/approvals/"])
def test_a_change_that_comes_while_a_page_is_asking_is_asked_for_again(browser_page: Page, path: str) -> None:
    """The answer on its way was made before that change; and what asked is replaced when it comes."""
    run = rows.run("B456", people.person("alice"), StopReason.FACTS_MISSING)
    sign_in(browser_page, people.person("supervisor").username)
    on_their_way: list[Route] = []
    browser_page.route(re.compile("/(body|list)/"), lambda route: on_their_way.append(route))
    browser_page.goto(path.format(run.pk))
    stands(browser_page, "live")
    change = (
        "document.dispatchEvent(new CustomEvent('run-changed', {detail: {run: null}}));"
        "document.dispatchEvent(new Event('runs-changed'))"
    )
    browser_page.evaluate(change)
    processes.wait_until(lambda: browser_page.evaluate("1") and on_their_way)
    browser_page.evaluate(change)
    asked = len(on_their_way)
    for route in on_their_way:
        route.continue_()
    processes.wait_until(lambda: browser_page.evaluate("1") and len(on_their_way) > asked)


@pytest.mark.browser
def test_lists_are_told_of_a_burst_at_most_once_a_second_and_after_its_last_change(browser_page: Page) -> None:
    run = rows.run("B456", people.person("alice"), StopReason.FACTS_MISSING)
    remember_what_is_told(browser_page)
    browser_page.add_init_script(
        "window.lists = []; document.addEventListener('runs-changed', () => lists.push(told.length))"
    )
    sign_in(browser_page, "alice")
    stands(browser_page, "live")
    for number in range(20):
        nudge(UUID(int=number))
    nudge(run.pk)
    processes.wait_until(lambda: was_told(browser_page, run.pk))
    processes.wait_until(lambda: browser_page.evaluate("lists.at(-1) === told.length"))
    assert browser_page.evaluate("lists.length") <= 3
