"""The workshops' tools: who may act, events, what stands, and bookings with their look-up by operation key."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from runs.domain.effects import names, names_otherwise
from runs.domain.errors import Failure
from runs.domain.states import StepKind
from runs.tools import receipts
from runs.tools.tool import Call, Result, Service, Tool, ToolFailed

SERVICE = "back_office"
BOOKINGS = receipts.Keeper(
    who="The workshop service",
    ledger="the ledger of bookings",
    what="booking",
    number="booking_id",
    state="state",
    subject=("event_id", "participant_id"),
    done={"accepted": "Booked as"},
)


def _check_authority(service: Service, call: Call, until: float) -> Result:
    user, event_id, participant_id = (call.params[name] for name in ("user", "event_id", "participant_id"))
    asked = {"user": user, "participant": participant_id}
    _, data = service.request("GET", f"/events/{_segment(event_id)}/authority", params=asked, until=until)
    _about_this(data, {"event_id": event_id, "participant_id": participant_id})
    if names_otherwise(data, {"user": user}):
        raise receipts.invalid_output("The answer is about another person.")
    allowed = receipts.field(data, "allowed", bool)
    says = f"{user} {'may' if allowed else 'may not'} act for participant {participant_id} at event {event_id}"
    return Result(receipts.content(data), says, reference=f"authority/{user}/{event_id}/{participant_id}")


def _read_event(service: Service, call: Call, until: float) -> Result:
    event_id, participant_id = call.params["event_id"], call.params["participant_id"]
    asked = {"participant": participant_id}
    _, data = service.request("GET", f"/events/{_segment(event_id)}", params=asked, until=until)
    _about_this(data, {"event_id": event_id, "participant_id": participant_id})
    says = f"Event {event_id} read, version {data.get('version')}, seats left: {data.get('seats_left', 'not said')}"
    return Result(receipts.content(data), says, reference=f"events/{event_id}")


def _read_seat(service: Service, call: Call, until: float) -> Result:
    """What takes a seat at the event for this participant now, under whatever key it was booked."""
    event_id, participant_id = call.params["event_id"], call.params["participant_id"]
    asked = {"participant": participant_id}
    _, data = service.request("GET", f"/events/{_segment(event_id)}/bookings", params=asked, until=until)
    found = receipts.records(data)
    for record in found:
        _about_this(record, {"event_id": event_id, "participant_id": participant_id})
    numbers = ", ".join(receipts.identifier(record, "booking_id") or "one without a number" for record in found)
    kept = {**receipts.content(data), "records": [receipts.content(record) for record in found]}
    says = f"Participant {participant_id} has at event {event_id}: {numbers or 'no booking'}"
    return Result(kept, says, reference=f"events/{event_id}/bookings/{participant_id}")


def _read_booking(service: Service, call: Call, until: float) -> Result:
    """How one booking stands now, and who relies on it: decides whether it can still be undone.

    Where the call names a seat, a booking of another one is not shown, and not said to exist.
    """
    number = call.params["booking_id"]
    _, data = service.request("GET", f"/bookings/{_segment(number)}", until=until)
    _about_this(data, {"booking_id": number})
    if not names(data, call.params):
        raise ToolFailed(Failure("not_found", f"There is no booking {number} for this seat."))
    if "confirmation_held_by" not in data:
        raise receipts.invalid_output("The answer does not say who holds the confirmation.")
    holder = "nobody" if data["confirmation_held_by"] is None else "somebody"
    says = f"Booking {number} is {BOOKINGS.state_of(data)}; its confirmation is held by {holder}"
    return Result(receipts.content(data), says, reference=f"bookings/{number}")


def _submit_booking(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST", "/bookings", body=dict(call.params), headers={"Idempotency-Key": call.operation_key}, until=until
    )
    return BOOKINGS.submitted([dict(data)], call, data)


def _look_up_booking(service: Service, call: Call, until: float) -> Result:
    return BOOKINGS.looked_up(service, call, until, "/bookings", _seat(call), BOOKINGS.submitted)


def _cancel_booking(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST",
        f"/bookings/{_segment(call.params['booking_id'])}/cancel",
        headers={"Idempotency-Key": call.operation_key},
        until=until,
    )
    return BOOKINGS.taken_back([dict(data)], call, data)


def _look_up_booking_cancellation(service: Service, call: Call, until: float) -> Result:
    return BOOKINGS.looked_up(service, call, until, "/bookings", _seat(call), BOOKINGS.taken_back)


def _seat(call: Call) -> dict[str, str]:
    return {"event": call.params["event_id"], "participant": call.params["participant_id"]}


def _about_this(data: Mapping[str, Any], subject: Mapping[str, Any]) -> None:
    if not names(data, subject):
        raise receipts.invalid_output(f"The answer is not about {' and '.join(map(str, subject.values()))}.")


def _segment(value: object) -> str:
    """One segment of a path, whatever stands in it."""
    return quote(str(value), safe="")


CHECK_BOOKING_AUTHORITY = Tool(
    "check_booking_authority", "Check authority", "authority service", SERVICE, StepKind.READ, _check_authority
)
READ_EVENT = Tool("read_event", "Read the event", "event register", SERVICE, StepKind.READ, _read_event)
READ_SEAT = Tool("read_seat", "Read what stands at the event", "workshop service", SERVICE, StepKind.READ, _read_seat)
READ_BOOKING = Tool("read_booking", "Read the booking", "workshop service", SERVICE, StepKind.READ, _read_booking)
SUBMIT_BOOKING = Tool(
    "submit_booking",
    "Book the seat",
    "workshop service",
    SERVICE,
    StepKind.WRITE,
    _submit_booking,
    look_up="look_up_booking",
)
LOOK_UP_BOOKING = Tool(
    "look_up_booking", "Look the booking up", "workshop service", SERVICE, StepKind.LOOK_UP, _look_up_booking
)
CANCEL_BOOKING = Tool(
    "cancel_booking",
    "Cancel the booking",
    "workshop service",
    SERVICE,
    StepKind.WRITE,
    _cancel_booking,
    look_up="look_up_booking_cancellation",
)
LOOK_UP_BOOKING_CANCELLATION = Tool(
    "look_up_booking_cancellation",
    "Look the cancellation up",
    "workshop service",
    SERVICE,
    StepKind.LOOK_UP,
    _look_up_booking_cancellation,
)
