"""Workflows carried on in this process, against the real back office."""

import pytest
from pytest_django.fixtures import Settings

from tests.processes import BackOffice
from tests.workflows.bookings import Workshops


@pytest.fixture
def desk(
    transactional_db: None, back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Workshops:
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    settings.ENGINE_PACE = 1.0
    return Workshops(back_office)
