"""Workers and people who act at the same instant: threads, each with a database connection of its own from the pool.

Who is first is never left to chance or to a clock. One is held at a named place until the other stands at the lock that
it holds, or is through.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any, TypeVar

import pytest
from django.db import connection, transaction

from tests.processes import wait_until

T = TypeVar("T")
MOST = 16  # who act at once; the pool of the tests has room for them
PATIENCE = 30  # seconds; who is not through by then hangs


class Hands:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.threads = ThreadPoolExecutor(MOST - 1)

    def do(self, act: Callable[[], T]) -> "Future[T | Exception]":
        return self.threads.submit(lambda: attempt(act, connection.close))

    def all_at_once(self, acts: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """What came of each. They leave together, once all of them have a connection; this thread is one of them."""
        barrier = Barrier(len(acts))

        def one(act: Callable[[], T]) -> T:
            connection.ensure_connection()
            barrier.wait(PATIENCE)
            return act()

        others = [self.do(partial(one, act)) for act in acts[1:]]
        return [attempt(partial(one, acts[0])), *(other.result(PATIENCE) for other in others)]

    def while_inside(
        self, module: Any, name: str, act: Callable[[], T], only: Callable[..., bool] = lambda *what, **how: True
    ) -> "Future[T | Exception]":
        """The next call of `module.name` keeps its transaction open until `act` waits for it, or is done."""

        def held(function: Callable[..., Any], *what: Any, **how: Any) -> Any:
            with transaction.atomic():
                value = function(*what, **how)
                self._start(act, later)
                wait_until(lambda: later.done() or somebody_waits_for_us(), PATIENCE, every=0.002)
            return value

        later: Future[T | Exception] = Future()
        self._next_call(module, name, held, only)
        return later

    def before(
        self, module: Any, name: str, act: Callable[[], T], only: Callable[..., bool] = lambda *what, **how: True
    ) -> "Future[T | Exception]":
        """The next call of `module.name` begins once `act`, which comes between, is done."""

        def delayed(function: Callable[..., Any], *what: Any, **how: Any) -> Any:
            self._start(act, meanwhile)
            meanwhile.result(PATIENCE)
            return function(*what, **how)

        meanwhile: Future[T | Exception] = Future()
        self._next_call(module, name, delayed, only)
        return meanwhile

    def _next_call(self, module: Any, name: str, instead: Callable[..., Any], only: Callable[..., bool]) -> None:
        function, armed = getattr(module, name), [True]

        def called(*what: Any, **how: Any) -> Any:
            if not armed or not only(*what, **how):
                return function(*what, **how)
            armed.clear()
            return instead(function, *what, **how)

        self.patch.setattr(module, name, called)

    def _start(self, act: Callable[[], T], into: "Future[T | Exception]") -> None:
        self.do(act).add_done_callback(lambda done: into.set_result(done.result()))

    def leave(self) -> None:
        self.threads.shutdown()


def attempt(act: Callable[[], T], in_the_end: Callable[[], None] = lambda: None) -> T | Exception:
    """What came of it, or what it raised: a defect, too, is for the test to see."""
    try:
        return act()
    except Exception as problem:
        return problem
    finally:
        in_the_end()


def somebody_waits_for_us() -> bool:
    """Whether another connection stands at a lock that this one's transaction holds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
        )
        return bool(cursor.fetchone()[0])
