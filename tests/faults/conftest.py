"""The engine of `tests/engine/`, for what is told there step by step and here with several hands at once."""

from collections.abc import Iterator

import pytest

from tests.engine.conftest import engine as engine
from tests.faults.hands import Hands


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else takes a run: a test looks at every step itself."""
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)


@pytest.fixture
def hands(transactional_db: None, no_broker: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    several = Hands(monkeypatch)
    yield several
    several.leave()
