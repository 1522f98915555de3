"""Installations for `bench.console`: each started by `manage.py up` with the demo, filled, and stopped again."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import unescape
from http.client import HTTPConnection, HTTPResponse
from http.cookies import SimpleCookie
from json import loads
from pathlib import Path
from urllib.parse import urlencode

import psycopg

from bench import crowd

ROOT = Path(__file__).resolve().parent.parent
NOT_OURS = ("DATABASE_URL", "OWNER_DATABASE_URL", "REDIS_URL", "BACK_OFFICE_URL", "TAKEOVER_DATA_DIR", "WORKER")
READY_WITHIN, SEALED_WITHIN, STOPPED_WITHIN = 300.0, 600.0, 60.0  # seconds
SILENT_FOR = 2.0
FILLING = 2  # connections that fill at once


def clean_env() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in NOT_OURS}


def wait(what: str, happened: Callable[[], object], within: float) -> None:
    deadline = time.monotonic() + within
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {within:.0f} seconds.")
        time.sleep(0.1)


class Desk:
    """One installation: `closed` runs that ended and `open_runs` that did not, beside those of the demo."""

    def __init__(self, folder: Path, port: int, closed: int, open_runs: int, workers: int) -> None:
        self.folder, self.port, self.closed, self.open_runs = folder, port, closed, open_runs
        folder.mkdir()
        self.log = (folder / "up.log").open("wb")
        command = [sys.executable, "manage.py", "up", "--port", str(port), "--data-dir", str(folder)]
        self.process = subprocess.Popen(
            [*command, "--workers", str(workers)], cwd=ROOT, env=clean_env(), stdout=self.log, stderr=self.log
        )

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"manage.py up ended:\n{Path(self.log.name).read_text()[-2000:]}")
            return (self.folder / "demo-done").exists()

        wait("The demo's runs", ready, READY_WITHIN)

    @property
    def addresses(self) -> dict[str, str]:
        return dict(loads((self.folder / "up.json").read_text()))

    @property
    def database(self) -> str:
        return self.addresses["DATABASE_URL"] + "&options=-c%20statement_timeout%3D0"

    def database_as(self, role: str) -> str:
        return self.database.replace("//takeover_app@", f"//{role}@", 1)

    def fill(self) -> float:
        """Make the runs, clear up after them, and wait until the record is sealed: an idle desk. Returns seconds."""
        began, total = time.monotonic(), self.open_runs + self.closed
        connections = [crowd.begin(self.database) for _ in range(FILLING)]
        bounds = [total * part // FILLING for part in range(FILLING + 1)]
        with ThreadPoolExecutor(FILLING) as pool:
            filling = [
                pool.submit(crowd.fill, connection, first + 1, last, self.open_runs)
                for connection, first, last in zip(connections, bounds, bounds[1:], strict=False)
            ]
            for one in filling:
                one.result()
        for connection in connections:
            connection.close()
        took = time.monotonic() - began
        with psycopg.connect(self.database_as("postgres"), autocommit=True) as server:
            server.execute("VACUUM (ANALYZE)")
            sealed = "SELECT (SELECT max(id) FROM runs_event) - (SELECT max(highest) FROM runs_seal) < 1000"
            server.execute("CHECKPOINT")  # or all that was filled in is written to the disk while pages are asked for
            wait("The record is sealed", lambda: (server.execute(sealed).fetchone() or [False])[0], SEALED_WITHIN)
        return took

    def ids(self, condition: str, most: int) -> list[str]:
        """Of runs that carry all of their rows, which `condition` fits: copies, not the demo's own."""
        copies = "request_key = '' AND EXISTS (SELECT FROM runs_step WHERE run_id = runs_run.id)"
        with psycopg.connect(self.database) as database:
            rows = database.execute(f"SELECT id FROM runs_run WHERE {condition} AND {copies} ORDER BY id LIMIT {most}")  # noqa: S608
            return [str(number) for (number,) in rows]

    def processor_ms(self) -> float:
        """What the web server and the database have used of the processor so far: tells of a page what a clock does not
        where others are at work as well."""
        children = loads((self.folder / "children.json").read_text())
        web = next(child["pid"] for child in children if "uvicorn" in child["command"])
        database = next(child["pid"] for child in children if "-D" in child["command"])
        backends = Path(f"/proc/{database}/task/{database}/children").read_text().split()
        used = 0.0
        for pid in (web, *map(int, backends)):
            with suppress(OSError):  # gone meanwhile
                # Linux's clock of a whole process, threads that have ended included: a request has one of its own.
                used += time.clock_gettime(~pid << 3 | 2)
        return used * 1000

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(STOPPED_WITHIN)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


class Visitor:
    """Somebody's browser as far as a page's time goes: one connection that is kept, and a session."""

    def __init__(self, port: int, cookies: dict[str, str] | None = None) -> None:
        self.port, self.cookies = port, cookies or {}
        self.connection, self.used_at = HTTPConnection("localhost", port, timeout=60), 0.0

    @classmethod
    def signed_in(cls, port: int, name: str) -> "Visitor":
        from takeover.demo.accounts import PASSWORD  # Django has been set up by now

        visitor = cls(port)
        form = visitor.get("/sign-in/")
        visitor.post("/sign-in/", hidden(form) | {"username": name, "password": PASSWORD}, expected=302)
        return visitor

    def get(self, path: str) -> str:
        answer, body = self._ask("GET", path)
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered with {answer.status}")
        return body.decode()

    def post(self, path: str, fields: dict[str, str], expected: int = 200) -> str:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer, body = self._ask("POST", path, urlencode(fields).encode(), form)
        if answer.status != expected:
            raise RuntimeError(f"{path} was answered with {answer.status}: {body.decode()[:500]}")
        return body.decode()

    def timed(self, path: str) -> float:
        """Milliseconds from the request to the last byte of its answer."""
        self._connect()
        began = time.perf_counter()
        self.get(path)
        return (time.perf_counter() - began) * 1000

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[HTTPResponse, bytes]:
        self._connect()
        self.used_at = time.monotonic()
        self.connection.request(method, path, body, {"Cookie": self.cookie, **(headers or {})})
        answer = self.connection.getresponse()
        content = answer.read()
        for line in answer.headers.get_all("Set-Cookie") or ():
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(line).items()}
        return answer, content

    def _connect(self) -> None:
        """The server hangs up on whoever was silent for a while."""
        if time.monotonic() - self.used_at > SILENT_FOR:
            self.connection.close()
            self.connection.connect()
            self.used_at = time.monotonic()


def hidden(html: str) -> dict[str, str]:
    """Name and value of the inputs that a form carries unseen."""
    inputs = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', html)
    return {name: unescape(value) for name, value in inputs}
