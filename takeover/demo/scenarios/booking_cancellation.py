"""Cancelling what was booked before the demo began: three seats at event W109."""

from collections.abc import Mapping
from typing import Any

from runs.domain.states import StopReason
from takeover.demo.scenario import Scenario, fault


def cancellation(
    booking_id: str, participant_id: str, ends: StopReason, faults: tuple[Mapping[str, Any], ...] = ()
) -> Scenario:
    asked = {"booking_id": booking_id, "event_id": "W109", "participant_id": participant_id}
    strikes = tuple({"order_id": "W109", **strike} for strike in faults)
    return Scenario("booking_cancellation", booking_id, asked, ends, strikes)


SCENARIOS = (
    cancellation("B-4801", "P-303", StopReason.CONTRACT_MET, (fault("answer_lost", where="cancel", times=1),)),
    # Somebody holds its confirmation, so a person is asked.
    cancellation("B-4802", "P-304", StopReason.QUESTION_ASKED),
    # Another participant's number: not shown, and not said to exist.
    cancellation("B-4803", "P-306", StopReason.NOT_FOUND),
)
