from collections.abc import Iterator
from pathlib import Path

import pytest

from .office import Office


@pytest.fixture(scope="session")
def running_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    office = Office(tmp_path_factory.mktemp("office") / "books.sqlite3")
    yield office
    code, complaints = office.stop()
    assert (code, complaints) == (0, ""), "the back office complained, or did not stop in order"


@pytest.fixture
def office(running_office: Office) -> Office:
    running_office.control("POST", "reset")
    return running_office


@pytest.fixture
def own_office(tmp_path: Path) -> Iterator[Office]:
    """One that a test may stop and kill."""
    office = Office(tmp_path / "books.sqlite3")
    yield office
    if office.process.poll() is None:
        office.kill()
