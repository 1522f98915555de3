"""Runs carried on in this process against the real back office, which has a secret to sign with."""

import pytest
from pytest_django.fixtures import Settings

from takeover.api.refusals import Tally
from tests.api.service import OLD_SECRET, SECRET, Service
from tests.engine.conftest import Engine, _every_package_is_sound, _no_broker, engine

__all__ = ["_every_package_is_sound", "_no_broker", "engine"]


@pytest.fixture
def service(engine: Engine, settings: Settings) -> Service:
    """The back office as a sender of callbacks. It is just replacing its secret; `parcels` has no write here."""
    ours = settings.SERVICES["back_office"]
    settings.SERVICES = {
        "back_office": {**ours, "callback_secrets": [SECRET, OLD_SECRET]},
        "parcels": {**ours, "callback_secrets": [SECRET]},
        "silent": ours,
    }
    return Service()


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """One that has counted nothing yet."""
    fresh = Tally()
    monkeypatch.setattr("takeover.api.callbacks.tally", fresh)
    return fresh
