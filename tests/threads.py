"""What several people do at the same moment."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from django.db import connection

from runs.interventions.refusals import Refused


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make the calls in threads that start together; a refusal is returned like a result."""
    gate = Barrier(len(calls))

    def attempt(call: Callable[[], Any]) -> Any:
        try:
            gate.wait(30)
            return call()
        except Refused as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as hands:
        return list(hands.map(attempt, calls))
