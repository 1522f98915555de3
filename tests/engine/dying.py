"""Workers that die: nothing of theirs goes on, and nothing catches it."""

from typing import Any

import pytest

from runs.engine import calls
from runs.engine.calls import Planned
from runs.engine.held import Held


class Died(BaseException):
    """The worker was killed."""


def die_after(monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    """The worker that makes the next call of this tool dies with its answer in hand."""
    perform = calls._perform

    def performed(held: Held, planned: Planned, until: float) -> Any:
        result = perform(held, planned, until)
        if planned.tool.name == tool:
            monkeypatch.setattr(calls, "_perform", perform)
            raise Died
        return result

    monkeypatch.setattr(calls, "_perform", performed)
