"""Workflows carried on in this process, against the real back office."""

import pytest
from pytest_django.fixtures import Settings

from tests.processes import BackOffice
from tests.workflows.bookings import Workshops
from tests.workflows.reports import Reports


@pytest.fixture
def _in_this_process(
    transactional_db: None, back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else takes a run: a test looks at every step itself."""
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    settings.ENGINE_PACE = 1.0


@pytest.fixture
def desk(_in_this_process: None, back_office: BackOffice) -> Workshops:
    return Workshops(back_office)


@pytest.fixture
def editors(_in_this_process: None, back_office: BackOffice) -> Reports:
    return Reports(back_office)
