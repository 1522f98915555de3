"""Many open pages on one server: each holds a stream, and what is measured is when they hear of a commit."""

import asyncio
import re
import threading
import time
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from runs.interventions import claims

RUN = re.compile(rb'"run": "([0-9a-f-]{36})"')
BETWEEN, LAST_WITHIN = 0.25, 5.0  # seconds from one commit to the next, and for the last to be heard of


class Tab:
    def __init__(self) -> None:
        self.heard: dict[UUID, float] = {}

    async def open(self, port: int, cookie: str) -> None:
        reader, self._writer = await asyncio.open_connection("localhost", port)
        self._writer.write(f"GET /live/ HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"A stream was answered with {status!r}")
        while b"retry:" not in await reader.readline():
            pass
        self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if found := RUN.search(line):
                self.heard.setdefault(UUID(found[1].decode()), time.perf_counter())

    def close(self) -> None:
        self._listening.cancel()
        self._writer.close()


def nudges(port: int, cookie: str, tabs: int, runs: Sequence[str], person: User) -> tuple[list[float], int]:
    """Milliseconds from each commit to each tab, and how often one heard nothing. What is committed is a claim."""
    committed: dict[UUID, float] = {}

    def note(run: UUID) -> None:
        committed[run] = time.perf_counter()

    def commit_all() -> None:
        for run in map(UUID, runs):
            with transaction.atomic():
                transaction.on_commit(partial(note, run))
                claims.claim(run, person)
            time.sleep(BETWEEN)

    async def measure() -> list[Tab]:
        open_tabs = [Tab() for _ in range(tabs)]
        for tab in open_tabs:
            await tab.open(port, cookie)
        await asyncio.sleep(2)  # what was fresh when they opened
        committing = threading.Thread(target=commit_all)
        committing.start()
        deadline = time.monotonic() + len(runs) * (BETWEEN + 1) + LAST_WITHIN
        while time.monotonic() < deadline and (committing.is_alive() or not _all_heard(open_tabs, committed)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for tab in open_tabs:
            tab.close()
        await asyncio.to_thread(committing.join)
        return open_tabs

    heard = asyncio.run(measure())
    took = [(tab.heard[run] - at) * 1000 for tab in heard for run, at in committed.items() if run in tab.heard]
    return took, len(heard) * len(committed) - len(took)


def _all_heard(tabs: Sequence[Tab], committed: dict[UUID, float]) -> bool:
    return all(committed.keys() <= tab.heard.keys() for tab in tabs)
