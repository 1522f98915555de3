"""Workshop bookings, and what goes wrong with them. Events W101 and W104 are for whoever tries the product."""

from collections.abc import Mapping
from typing import Any

from runs.domain.states import StopReason
from takeover.demo.scenario import Act, Scenario, approved, asked_again, fault


def seat(
    event_id: str,
    participant_id: str,
    ends: StopReason,
    faults: tuple[Mapping[str, Any], ...] = (),
    acts: tuple[Act, ...] = (),
    **more: str,
) -> Scenario:
    """A seat for this participant at this event. The faults strike this event only, so no two stories share one."""
    asked = {"event_id": event_id, "participant_id": participant_id, **more}
    strikes = tuple({"order_id": event_id, **strike} for strike in faults)
    return Scenario("workshop_booking", event_id, asked, ends, strikes, acts)


LOST = fault("answer_lost", times=1)

SCENARIOS = (
    seat("W102", "P-302", StopReason.CONTRACT_MET, (LOST,)),
    seat("W105", "P-303", StopReason.CONTRACT_MET, (fault("rate_limited", times=1, retry_after=2),)),
    seat("W106", "P-321", StopReason.CONTRACT_MET, (fault("queued", lookups=0),), (asked_again("support2"),)),
    # The seat may be taken, and nobody can say so yet.
    seat("W103", "P-307", StopReason.EFFECT_UNKNOWN, (LOST, fault("lookup_lags"))),
    seat("W107", "P-308", StopReason.RECEIPTS_CONTRADICT, (LOST, fault("contradictory"))),
    # The organiser decides.
    seat("W201", "P-305", StopReason.APPROVAL_REQUIRED),
    seat("W202", "P-306", StopReason.CONTRACT_MET, acts=(approved("There is room at the second lathe."),)),
    # No is an answer, too.
    seat("W301", "P-304", StopReason.NOT_ELIGIBLE),
    seat("W108", "P-309", StopReason.NOT_AUTHORISED, requested_by="U-12"),
    seat(
        "W203",
        "P-310",
        StopReason.REFUSED_BY_SERVICE,
        (fault("refused", reason="organiser_declined"),),
        (approved("Experienced."),),
    ),
)
