from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.crashing import ForkServer
from tests.faults.trials import Trials
from tests.processes import BackOffice


@pytest.fixture(scope="session")
def _fork_server(product_env: dict[str, str], _folder: Path) -> Iterator[ForkServer]:
    server = ForkServer(product_env, _folder / "forks.log")
    yield server
    server.stop()


@pytest.fixture
def trials(transactional_db: None, back_office: BackOffice, _fork_server: ForkServer) -> Trials:
    return Trials(_fork_server, back_office)
