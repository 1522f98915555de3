"""Runs carried on in this process, by the same `advance` that workers call, against the real back office."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from runs import interventions
from runs.engine.advance import advance
from runs.models import Run
from tests.people import person
from tests.processes import BackOffice


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else takes the run: these tests look at every step themselves."""
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)


@pytest.fixture
def engine(transactional_db: None, back_office: BackOffice, settings: Settings) -> "Engine":
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    settings.ENGINE_PACE = 1.0
    return Engine(back_office)


class Engine:
    def __init__(self, back_office: BackOffice) -> None:
        self.back_office = back_office

    def start(self, order_id: str, by: str = "support", **given: Any) -> Run:
        policy = given.pop("policy", "")
        run, _ = interventions.start("refund_request", {"order_id": order_id, **given}, person(by), policy=policy)
        return run

    def carry_on(self, run: Run, until: Callable[[Run], bool] = lambda run: bool(run.outcome)) -> Run:
        """Advance now, and again while the run only waits for a retry."""
        for _ in range(20):
            Run.objects.filter(pk=run.pk, owner="", due_at__isnull=False).update(due_at="2000-01-01T00:00Z")
            advance(run.pk)
            run.refresh_from_db()
            if until(run):
                break
        return run

    def later(self, run: Run) -> Run:
        """The timer that the stopped run waits for goes off: everything that was planned lies in the past."""
        run.effects.update(next_look_at="2000-01-01T00:00Z", sent_at="2000-01-01T00:00Z")
        return self.carry_on(run)

    def run(self, order_id: str, **given: Any) -> Run:
        return self.carry_on(self.start(order_id, **given))

    def send(self, run: Run, event: str, sender: str, answers: str = "", /, **payload: Any) -> Run:
        interventions.send(run.pk, event, person(sender), payload, answers)
        return self.carry_on(run, until=lambda run: bool(run.outcome) and not run.inbox.filter(result="").exists())

    def calls(self, order_id: str, kind: str) -> list[dict[str, Any]]:
        return [call for call in self.back_office.ledger(order_id)["calls"] if call["kind"] == kind]

    def effects(self, order_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.back_office.ledger(order_id)["effects"]
        return found
