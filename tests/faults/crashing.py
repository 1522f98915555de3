"""Processes that die at a chosen point: a server that has Django loaded forks one for each attempt.

`python -m tests.faults.crashing` is the server: a line of JSON asks for an attempt, a line of JSON says how it went. No
connection is open when it forks, so that nobody shares one. In the fork every moment at which something leaves the
process, or came back, is numbered: around each SQL statement, each COMMIT of an explicit transaction, each call of a
service and each wake-up. At the chosen number the process kills itself, or stands still until it is told to go on.

A statement that is on its way when its sender dies may be executed all the same, or not. For either there is a point
that leaves the same rows behind: after it, and before it.
"""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

from psycopg.pq import TransactionStatus

WITHIN = 60  # seconds after which an attempt that does not end is ended
STOOD_STILL = 300.0  # seconds that have passed for a process that stood still
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Point:
    when: str  # before or after
    what: str  # "COMMIT", "POST /refunds", or how the statement begins
    where: str  # the product's functions that were under way, outermost first
    new: bool  # whether a death here leaves another world behind than a death at the point before
    free: bool  # whether no transaction is open, whose locks a process that stands still would keep

    def __str__(self) -> str:
        return f"{self.when} {self.what} in {self.where}"


@dataclass(frozen=True)
class Attempt:
    points: list[Point]  # those it passed, the one it stopped at included
    ended: str  # "done", "killed", "stopped", or what went wrong
    pid: int


class ForkServer:
    """The server from outside. `env` names the database and the back office (`processes.product_env`)."""

    def __init__(self, env: Mapping[str, str], log: Path) -> None:
        self.log, self.is_warm = log, False
        self.documents = Path(env["DOCUMENTS_FOLDER"])
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.crashing"],
                cwd=ROOT,
                env={**env, "LOG_LEVEL": "ERROR", "ENGINE_SLICE": "600"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def play(self, story: str, order_id: str, *, at: int = 0, broken: str = "", then: str = "die") -> Attempt:
        """Play a story of `stories.STORIES` in a process of its own, which dies, or stands still (`then="stop"`), at
        point number `at`. `broken` names what of the engine is broken in it: a function of `tests.faults.broken`."""
        return self._ask(story=story, order_id=order_id, at=at, broken=broken, then=then)

    def warm_up(self, story: str, order_id: str) -> None:
        """Play a story in the server itself: what it loads and compiles on the way, each fork has from then on."""
        self.is_warm = True
        self._ask(story=story, order_id=order_id, then="warm")

    def go_on(self, stopped: Attempt) -> Attempt:
        """Let a process that stands still go on, minutes late, until it ends."""
        return self._ask(pid=stopped.pid)

    def stop(self) -> None:
        self.process.communicate(timeout=WITHIN)

    def _ask(self, **what: Any) -> Attempt:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(what).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"The fork server ended:\n{self.log.read_text(errors='replace')[-4000:]}"
        answer = json.loads(line)
        return Attempt([Point(**point) for point in answer["points"]], answer["ended"], answer["pid"])


# The server


def serve() -> None:
    """Answer until nobody asks any more."""
    standing: dict[int, IO[bytes]] = {}  # processes that stand still, and where they write
    for line in sys.stdin:
        asked = json.loads(line)
        if pid := asked.get("pid"):
            record = standing.pop(pid)
            os.kill(pid, signal.SIGCONT)
        elif asked["then"] == "warm":
            _warm_up(asked)
            _answer([], "done", os.getpid())
            continue
        else:
            record = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it is read, maybe some attempts later
            pid = os.fork()
            if pid == 0:
                _attempt(asked, record.fileno())
        _, status = os.waitpid(pid, os.WUNTRACED)
        _answer(*_what_became_of_it(status, record), pid)
        if os.WIFSTOPPED(status):
            standing[pid] = record
        else:
            record.close()


def _answer(points: list[Any], ended: str, pid: int) -> None:
    sys.stdout.write(json.dumps({"points": points, "ended": ended, "pid": pid}) + "\n")
    sys.stdout.flush()


def _warm_up(asked: Mapping[str, Any]) -> None:
    """What stays behind is loaded code, and the idle thread of calls, which each fork makes anew for itself."""
    from django.db import connection

    from tests.faults.stories import STORIES, play

    play(STORIES[asked["story"]], asked["order_id"], nullcontext)
    connection.close()
    gc.collect()
    gc.freeze()  # what is loaded stays shared with the forks


def _what_became_of_it(status: int, record: IO[bytes]) -> tuple[list[Any], str]:
    record.seek(0)
    lines = [json.loads(line) for line in record]
    points = [line for line in lines if "when" in line]
    problems = [line["problem"] for line in lines if "problem" in line]
    if os.WIFSTOPPED(status):
        return points, "stopped"
    if os.WIFSIGNALED(status):
        died_of = signal.Signals(os.WTERMSIG(status))
        return points, "killed" if died_of is signal.SIGKILL else f"It did not end within {WITHIN} s."
    return points, problems[0] if problems else "done"


# In the fork


def _attempt(asked: Mapping[str, Any], record: int) -> NoReturn:
    signal.alarm(WITHIN)
    try:
        from django.db import connection

        from tests.faults.stories import STORIES, play

        assert connection.connection is None, "a connection was open before the fork"
        if asked["broken"]:
            getattr(import_module("tests.faults.broken"), asked["broken"])()
        ends_by = signal.SIGSTOP if asked["then"] == "stop" else signal.SIGKILL
        seams = Seams(connection, asked["at"], ends_by, record)
        seams.sew_in()
        play(STORIES[asked["story"]], asked["order_id"], seams.unseen)
        connection.close()
    except BaseException:
        os.write(record, json.dumps({"problem": traceback.format_exc()}).encode() + b"\n")
    os._exit(0)


class Seams:
    """The points of this process, numbered as they are passed."""

    def __init__(self, connection: Any, last: int, ends_by: signal.Signals, record: int) -> None:
        self.connection = connection
        self.last, self.ends_by, self.record = last, ends_by, record
        self.number, self.are_seen, self.late = 0, True, 0.0

    def sew_in(self) -> None:
        from runs.engine import advance, calls, commit, sweep, tasks
        from runs.tools import folder, http
        from tests.documents import System

        def statement(execute: Any, sql: str, *rest: Any) -> Any:
            with self.around(how_it_begins(sql), not sql.lstrip().startswith("SELECT")):
                return execute(sql, *rest)

        def sew_around(owner: Any, name: str, words: Callable[..., str], leaves_a_trace: bool = True) -> None:
            function = getattr(owner, name)

            def sewn(*given: Any, **named: Any) -> Any:
                with self.around(words(*given, **named), leaves_a_trace):
                    return function(*given, **named)

            setattr(owner, name, sewn)

        self.connection.execute_wrappers.append(statement)
        sew_around(self.connection, "_commit", lambda: "COMMIT")
        sew_around(http.HttpService, "request", lambda _, method, path, **__: f"{method} {path}")
        sew_around(tasks.advance_run, "delay", lambda run: "wake-up", False)
        system = System()
        setattr(folder, "os", system)  # noqa: B010 - a module cannot be assigned something else
        for name in ("fsync", "rename"):
            sew_around(system, name, lambda *_, name=name, **__: name)
        for module in (advance, calls, commit, sweep, http, folder):
            module.monotonic = lambda: time.monotonic() + self.late  # type: ignore[attr-defined]

    @contextmanager
    def around(self, what: str, leaves_a_trace: bool) -> Iterator[None]:
        self._pass("before", what, self.number == 0)
        try:
            yield
        finally:
            self._pass("after", what, leaves_a_trace and self._is_free())

    def _is_free(self) -> bool:
        session = self.connection.connection
        return session is None or session.info.transaction_status == TransactionStatus.IDLE

    @contextmanager
    def unseen(self) -> Iterator[None]:
        self.are_seen = False
        yield
        self.are_seen = True

    def _pass(self, when: str, what: str, new: bool) -> None:
        if not self.are_seen:
            return
        self.number += 1
        where, free = " > ".join(_under_way()), self._is_free()
        point = {"when": when, "what": what, "where": where, "new": new, "free": free}
        os.write(self.record, json.dumps(point).encode() + b"\n")
        if self.number == self.last:
            os.kill(os.getpid(), self.ends_by)
            self.late = STOOD_STILL  # who gets here was sent on


def how_it_begins(sql: str) -> str:
    """How a statement begins. A savepoint's name is another one in each process."""
    return re.sub(r'"s\d+_x\d+"', "…", " ".join(sql.split())[:60])


def _under_way() -> list[str]:
    names, frame = [], sys._getframe(2)
    while frame.f_back:
        if frame.f_globals["__name__"].startswith("runs."):
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names[::-1]


def nobody_hears(run_id: str) -> NoReturn:
    from kombu.exceptions import OperationalError

    raise OperationalError("There is no broker here.")


if __name__ == "__main__":
    import django
    import httpcore2

    django.setup()
    for module in ("runs.interventions", "runs.engine.sweep", "tests.faults.stories", "tests.faults.broken"):
        import_module(module)
    import_module("runs.engine.tasks").advance_run.delay = nobody_hears
    # Nothing is encrypted here, and reading all certificates takes as long as half a story.
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
    serve()
