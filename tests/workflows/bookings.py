"""The workshops' desk for tests: runs carried on in this process against the real back office, and its own books."""

from collections.abc import Callable
from typing import Any

import pytest

from runs import case
from runs.engine import calls
from runs.engine.held import Held
from runs.interventions import starting
from runs.models import Run
from tests.engine.conftest import Engine, assert_sound
from tests.people import person

EVENT, PARTICIPANT = "W102", "P-301"  # 8 seats, 25.00 EUR, open to all; booked for by U-88
BY_ORGANISER = "W201"  # 4 seats, 40.00 EUR; its organiser decides who is let in


class Workshops(Engine):
    def begin(self, event_id: str = EVENT, by: str = "support", **given: Any) -> Run:
        policy, key = given.pop("policy", ""), given.pop("request_key", "")
        wanted = {"event_id": event_id, "participant_id": PARTICIPANT, **given}
        run, _ = starting.start("workshop_booking", wanted, person(by), request_key=key, policy=policy)
        return run

    def booking(self, event_id: str = EVENT, **given: Any) -> Run:
        return self.carry_on(self.begin(event_id, **given))

    def cancel(self, booked: Run, **given: Any) -> Run:
        """The run that undoes a booking after its own has ended; `given`: somebody starts it by hand, otherwise."""
        if given:
            wanted = {**booked.input, "booking_id": number(booked), **given}
            run, _ = starting.start("booking_cancellation", wanted, person("support"))
        else:
            run, _ = starting.follow_up(booked.pk, "cancel", person("support"))
        return self.carry_on(run)

    # What people do at the service

    def change_event(self, event_id: str = EVENT, **fields: Any) -> None:
        self.back_office.change("events", event_id, **fields)

    def change_participant(self, **fields: Any) -> None:
        self.back_office.change("participants", PARTICIPANT, **fields)

    def hand_confirmation(self, run: Run, holder: str | None) -> None:
        booking = run.effects.get(operation="submit_booking")
        self.back_office.change("bookings", booking.operation_key, confirmation_held_by=holder)

    def decide(self, run: Run, state: str) -> None:
        self.back_office.change("bookings", run.effects.get().operation_key, state=state)

    def somebody_books(self, key: str, participant_id: str, event_id: str = EVENT, price_minor: int = 25_00) -> Any:
        """A seat that somebody else books."""
        body = {"event_id": event_id, "participant_id": participant_id, "price_minor": price_minor, "currency": "EUR"}
        headers = {"Idempotency-Key": key, "Authorization": "Bearer demo-key"}
        answer = self.back_office.client.post("/bookings", json=body, headers=headers)
        answer.raise_for_status()
        return answer.json()


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def actions(run: Run) -> list[str]:
    """The calls that the run made, in their order."""
    return list(run.step_rows.order_by("seq").values_list("operation", flat=True))


def number(run: Run) -> str:
    return str((run.effects.order_by("planned_at")[0].receipt or {})["booking_id"])


def told(run: Run, language: str = "en") -> str:
    says: str = case.read(run)["customer_says"][language]
    return says


def contract(run: Run) -> dict[str, str]:
    return {row["name"]: row["value"] for row in case.read(run)["contract"]}


def handoff(run: Run) -> dict[str, Any]:
    """The latest package that the run left behind."""
    package: dict[str, Any] = run.handoffs.latest("pk").package
    assert_sound(package)
    return package


def allowed(run: Run) -> set[str]:
    """The events that a person may send, as the handoff says."""
    return {event["name"] for event in handoff(run)["allowed_events"]}


def once_after(monkeypatch: pytest.MonkeyPatch, operation: str, happens: Callable[[], object]) -> None:
    """Let something happen elsewhere between one call's answer and the run's next step."""
    perform, left = calls._perform, [happens]

    def performed(held: Held, planned: Any, until: float) -> Any:
        result = perform(held, planned, until)
        if planned.tool.name == operation and left:
            left.pop()()
        return result

    monkeypatch.setattr(calls, "_perform", performed)
