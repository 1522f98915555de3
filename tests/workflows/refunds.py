"""The refunds desk for tests: runs carried on in this process against the real back office, and its own books."""

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from runs import case
from runs.interventions import starting
from runs.models import Run
from tests.engine.conftest import Engine, assert_sound
from tests.people import person
from tests.processes import BackOffice

READ = ["check_authority", "read_order", "read_policies"]


class Refunds(Engine):
    def left(self, order_id: str) -> int:
        """What is left of the order to refund, by the service's own books."""
        said = self.back_office.client.get(
            f"/orders/{order_id}/refunds", headers={"Authorization": "Bearer demo-key"}
        ).json()
        return int(said["left_minor"])

    def looks_again(self, run: Run) -> Run:
        """The time comes at which a run that waits for the world looks again by itself."""
        stretch, past = run.stretch, {**run.progress, "look_again_at": "2000-01-01T00:00+00:00"}
        Run.objects.filter(pk=run.pk).update(progress=past)
        return self.carry_on(run, until=lambda run: run.stretch > stretch)

    def follow(self, accepted: Run, by: str = "support") -> Run:
        """The run that follows the payment of an accepted refund."""
        run, _ = starting.follow_up(accepted.pk, "payment", person(by))
        return self.carry_on(run)


def at_the_desk(back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Refunds:
    """Nobody else takes the runs: these tests look at every step themselves."""
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    settings.ENGINE_PACE = 1.0
    return Refunds(back_office)


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def actions(run: Run) -> list[str]:
    """What the run did, in order."""
    return list(run.step_rows.order_by("seq").values_list("operation", flat=True))


def told(run: Run) -> str:
    says: str = case.read(run)["customer_says"]["en"]
    return says


def contract(run: Run) -> dict[str, tuple[str, str]]:
    """Each assertion's value, and what it rests on."""
    return {row["name"]: (row["value"], row["says"]) for row in case.read(run)["contract"]}


def values(run: Run) -> list[str]:
    return [value for value, _ in contract(run).values()]


def handoff(run: Run) -> dict[str, Any]:
    """The package of the latest stop, which is sound; refused where none was left."""
    left = run.handoffs.order_by("version").last()
    assert left, "nothing was handed over"
    assert_sound(left.package)
    return dict(left.package)
