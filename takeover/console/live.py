"""Which runs changed, told to every open page as it happens: a nudge without content, after which the page asks again.

One hub per web process holds one connection that LISTENs. What changed is read from the record, after a nudge and every
two seconds anyway, so a lost nudge costs seconds. Each run is announced at once, and then at most once a second.
"""

import asyncio
import contextvars
import json
import logging
import random
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from types import FrameType
from typing import Any
from uuid import UUID

import psycopg
from asgiref.sync import sync_to_async
from django.contrib.auth import aget_user
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from takeover.console import desk
from takeover.console.refusals import strangers

LOOK_EVERY = 2.0
GATHER = 0.05  # nudges come in bursts: one look answers those that follow within this
REPEAT_AFTER = 1.0  # between two announcements of the same run
LATE_COMMIT = 10.0  # how long a number missing in the record may still appear
LATE_COMMITS = 10_000
FIRST_LOOK = 1000  # so many of the newest events; what is fresh among them is announced
FRESH = 5.0  # a page may have been rendered this long before its stream opened
LINGER = 60.0  # the hub outlives the last page: people walk from page to page
LOOK_WITHIN = 10.0  # a look that takes longer has lost its connection
MOST_WAITING = 100  # runs waiting for one slow page; more become "everything"
HEARTBEAT = 15.0
CHECK_SESSION = 30.0

logger = logging.getLogger(__name__)

# None stands for any run: everything on the page is to be asked for again.
Topic = UUID | None


class Announcements:
    """When to announce which run: the first time at once, then at most once in `REPEAT_AFTER`, a little scattered so
    that the web processes do not all ask at the same moment."""

    def __init__(self, scatter: Callable[[], float] = lambda: random.uniform(0, 0.25)) -> None:  # noqa: S311
        self._scatter = scatter
        self._made: dict[UUID, float] = {}
        self._due: dict[UUID, float] = {}

    def changed(self, run: UUID, now: float) -> None:
        if run in self._due:
            return
        last = self._made.get(run)
        due_again = now if last is None else last + REPEAT_AFTER
        self._due[run] = now if due_again <= now else due_again + self._scatter()

    def take_due(self, now: float) -> list[UUID]:
        due = [run for run, at in self._due.items() if at <= now]
        for run in due:
            del self._due[run]
            self._made.pop(run, None)
            self._made[run] = now  # at the end, so that the oldest stands first
        for run in [run for run, at in self._made.items() if at < now - FRESH]:
            del self._made[run]
        return due

    def next_due(self) -> float | None:
        return min(self._due.values(), default=None)

    def fresh(self, now: float) -> list[UUID]:
        return [run for run, at in self._made.items() if at >= now - FRESH]


class Subscription:
    """What one page has not been told yet. Bounded: a page that does not listen is told to ask for everything."""

    def __init__(self) -> None:
        self._waiting: dict[Topic, None] = {}
        self._news = asyncio.Event()
        self.ended = False

    def put(self, run: UUID) -> None:
        if None not in self._waiting:
            self._waiting[run] = None
            if len(self._waiting) > MOST_WAITING:
                self._waiting = {None: None}
        self._news.set()

    def end(self) -> None:
        self.ended = True
        self._news.set()

    async def take(self, within: float) -> list[Topic]:
        """What changed since the last time; empty when nothing did within so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._news.wait()
        except TimeoutError:
            return []
        return self.taken()

    def taken(self) -> list[Topic]:
        self._news.clear()
        taken, self._waiting = list(self._waiting), {}
        return taken


class Hub:
    def __init__(self) -> None:
        self._pages: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._announcements = Announcements()
        self._newest: int | None = None  # number of the newest event seen; None: not looked yet
        self._missing: dict[int, float] = {}  # numbers skipped so far, each with the time when it is given up
        self._alone_since = 0.0
        self._ends_with_the_server = False

    @asynccontextmanager
    async def subscription(self) -> AsyncIterator[Subscription]:
        page = Subscription()
        for run in self._announcements.fresh(monotonic()):
            page.put(run)
        self._pages.add(page)
        if self._task is None or self._task.done():
            self._newest, self._missing = None, {}
            # In a context of its own: the hub outlives the request that happens to start it.
            self._task = asyncio.create_task(self._run(), context=contextvars.Context())
        try:
            yield page
        finally:
            self._pages.discard(page)
            self._alone_since = monotonic()

    def end(self) -> None:
        """Let every stream come to its end."""
        for page in self._pages:
            page.end()

    def end_with_the_server(self) -> None:
        """A server that is told to stop waits for open responses, and a stream has no end of its own."""
        if self._ends_with_the_server or threading.current_thread() is not threading.main_thread():
            return
        self._ends_with_the_server = True
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            servers_own = signal.getsignal(number)
            if callable(servers_own):
                signal.signal(number, self._ending_first(servers_own, loop))

    def _ending_first(
        self, servers_own: Callable[[int, FrameType | None], Any], loop: asyncio.AbstractEventLoop
    ) -> Callable[[int, FrameType | None], Any]:
        def stop(number: int, frame: FrameType | None) -> Any:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.end)
            return servers_own(number, frame)

        return stop

    def _wanted(self) -> bool:
        return bool(self._pages) or monotonic() - self._alone_since < LINGER

    async def _run(self) -> None:
        pause = 0.1
        while self._wanted():
            try:
                async with await psycopg.AsyncConnection.connect(**_address(), autocommit=True) as listening:
                    await listening.execute("LISTEN runs")
                    while self._wanted():
                        async with asyncio.timeout(LOOK_WITHIN):
                            self._note(await self._look(listening))
                        pause = 0.1
                        self._announce()
                        self._note(await self._nudges(listening))
                        self._announce()
            except (psycopg.Error, OSError, TimeoutError) as problem:
                logger.warning("Live updates lost the database, trying again: %s", str(problem).strip())
                await asyncio.sleep(pause)
                pause = min(pause * 2, LOOK_EVERY)

    async def _look(self, listening: psycopg.AsyncConnection[Any]) -> list[UUID]:
        """The runs of the events that were recorded since the last look, in whatever order they were committed."""
        if self._newest is None:
            return await self._first_look(listening)
        now = monotonic()
        self._missing = {number: until for number, until in self._missing.items() if until > now}
        cursor = await listening.execute(
            "SELECT id, run_id FROM runs_event WHERE id > %s OR id = ANY(%s)",
            [self._newest, list(self._missing)],
        )
        rows = await cursor.fetchall()
        self._remember([number for number, _ in rows], self._newest, now)
        return [run for _, run in rows if run]

    async def _first_look(self, listening: psycopg.AsyncConnection[Any]) -> list[UUID]:
        cursor = await listening.execute(
            "SELECT id, CASE WHEN at > now() - make_interval(secs => %s) THEN run_id END FROM runs_event"
            " WHERE id > (SELECT coalesce(max(id), 0) FROM runs_event) - %s",
            [FRESH, FIRST_LOOK],
        )
        rows = await cursor.fetchall()
        numbers = [number for number, _ in rows]
        self._remember(numbers, max(0, max(numbers, default=0) - FIRST_LOOK), monotonic())
        return [run for _, run in rows if run]

    def _remember(self, numbers: list[int], before: int, now: float) -> None:
        seen = set(numbers)
        newest = max([before, *seen])
        for number in seen:
            self._missing.pop(number, None)
        for number in range(max(before + 1, newest - LATE_COMMITS), newest):
            if number not in seen:
                self._missing[number] = now + LATE_COMMIT
        self._newest = newest

    async def _nudges(self, listening: psycopg.AsyncConnection[Any]) -> list[UUID]:
        """Wait for a nudge, the next announcement or the next look, whichever comes first."""
        wait = LOOK_EVERY
        if (due := self._announcements.next_due()) is not None:
            wait = min(wait, max(0.0, due - monotonic()))
        named = [nudge.payload async for nudge in listening.notifies(timeout=wait, stop_after=1)]
        if named:
            named += [nudge.payload async for nudge in listening.notifies(timeout=GATHER)]
        return [run for payload in named if (run := _run_id(payload))]

    def _note(self, runs: list[UUID]) -> None:
        now = monotonic()
        for run in runs:
            self._announcements.changed(run, now)

    def _announce(self) -> None:
        for run in self._announcements.take_due(monotonic()):
            for page in self._pages:
                page.put(run)


def _run_id(payload: str) -> UUID | None:
    try:
        return UUID(payload)
    except ValueError:
        return None


def _address() -> dict[str, Any]:
    """How Django reaches its database, without what only Django's own connections understand."""
    own = {"cursor_factory", "context", "prepare_threshold"}
    parameters = connection.get_connection_params()
    return {"application_name": "takeover live"} | {name: it for name, it in parameters.items() if name not in own}


hub = Hub()


@login_not_required  # a redirect to a form would look like a stream that ended: strangers are told outright
async def live(request: HttpRequest) -> HttpResponseBase:
    if request.method != "GET":
        return HttpResponse(status=405, headers={"Allow": "GET"})
    user = await request.auser()
    if not user.is_authenticated:
        strangers.refuse("live")
        return HttpResponse("Sign in first.\n", status=401, content_type="text/plain; charset=utf-8")
    if not await _may_look(user):
        raise PermissionDenied(_("You may not see runs."))
    return StreamingHttpResponse(
        _stream(request),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _stream(request: HttpRequest) -> AsyncIterator[str]:
    hub.end_with_the_server()
    await _give_connections_back()
    yield "retry: 2000\n: here\n\n"
    checked = monotonic()
    async with hub.subscription() as page:
        while True:
            changed = await page.take(HEARTBEAT)
            if page.ended:
                return
            if monotonic() - checked >= CHECK_SESSION:
                checked = monotonic()
                if not await _still_signed_in(request):
                    return
            if not changed:
                # The comment is for proxies; a page cannot see comments, and the event shows it that the line is alive.
                yield ": beat\nevent: beat\ndata: {}\n\n"
            for run in changed:
                yield f"event: run-changed\ndata: {json.dumps({'run': run and str(run)})}\n\n"


@sync_to_async
def _may_look(user: AbstractBaseUser | AnonymousUser) -> bool:
    return isinstance(user, User) and desk.may_look(user)


async def _still_signed_in(request: HttpRequest) -> bool:
    """Whether a request with the same cookie would be let in now: session, account and permission are read again."""
    probe = HttpRequest()
    probe.session = type(request.session)(request.session.session_key)
    try:
        return await _may_look(await aget_user(probe))
    finally:
        await _give_connections_back()


async def _give_connections_back() -> None:
    """An open stream would keep a database connection of the pool for as long as the page is open."""
    await sync_to_async(connections.close_all)()
