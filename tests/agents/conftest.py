"""A model service on a loopback port, and runs that are carried on in this process and driven by the model in it."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from runs.agents.model import CONFIGURED, Model
from runs.models import Run
from tests.engine.conftest import Engine, _every_package_is_sound, _no_broker, engine

from . import provider as loopback
from .provider import KEY, Answer, Provider

__all__ = ["_every_package_is_sound", "_no_broker", "engine"]


@pytest.fixture(scope="session")
def _running_provider() -> Iterator[Provider]:
    with loopback.running() as provider:
        yield provider


@pytest.fixture
def provider(_running_provider: Provider) -> Provider:
    _running_provider.forget()
    return _running_provider


class Driven:
    """Refunds driven by the model behind one kind of service, through the real engine."""

    def __init__(self, engine: Engine, provider: Provider, service: str) -> None:
        self.engine, self.provider, self.service = engine, provider, service

    def start(self, order_id: str, *answers: Answer) -> Run:
        self.provider.answers[:] = answers
        return self.engine.start(order_id, policy=self.service)

    def run(self, order_id: str, *answers: Answer) -> Run:
        return self.engine.carry_on(self.start(order_id, *answers))

    def submits(self, run: Run) -> int:
        return len(self.engine.calls(run.input["order_id"], "submit"))

    def record(self, turn: int = -1) -> str:
        """What the model was shown at one of its turns."""
        messages = self.provider.asked[turn]["messages"]
        return str(messages[-1]["content"])


@pytest.fixture(params=["anthropic", "openai"])
def driven(
    request: pytest.FixtureRequest,
    engine: Engine,
    provider: Provider,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Driven:
    service = request.param
    path = "/v1" if service == "openai" else ""
    settings.SERVICES = {**settings.SERVICES, service: {"url": f"{provider.url}{path}", "token": KEY}}
    monkeypatch.setitem(CONFIGURED, service, Model("a-model", 900, ("2.5", "10"), "max_completion_tokens"))
    return Driven(engine, provider, service)
