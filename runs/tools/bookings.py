"""The workshops' tools: who may act, events, what stands, and bookings with their look-up by operation key."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from runs.domain.effects import Answer, names
from runs.domain.errors import Failure
from runs.domain.states import StepKind
from runs.tools import receipts
from runs.tools.tool import Call, Result, Service, Tool, ToolFailed

SERVICE = "back_office"
WHO = "The workshop service"

Meaning = Callable[[list[dict[str, Any]], Call, Mapping[str, Any]], Result]


def _check_authority(service: Service, call: Call, until: float) -> Result:
    user, event_id, participant_id = (call.params[name] for name in ("user", "event_id", "participant_id"))
    asked = {"user": user, "participant": participant_id}
    _, data = service.request("GET", f"/events/{_segment(event_id)}/authority", params=asked, until=until)
    _about_this(data, {"event_id": event_id, "participant_id": participant_id})
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
    says = f"Booking {number} is {_state(data)}; its confirmation is held by {holder}"
    return Result(receipts.content(data), says, reference=f"bookings/{number}")


def _submit_booking(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST", "/bookings", body=dict(call.params), headers={"Idempotency-Key": call.operation_key}, until=until
    )
    return _what_it_means([dict(data)], call, data)


def _look_up_booking(service: Service, call: Call, until: float) -> Result:
    return _looked_up(service, call, until, _what_it_means)


def _cancel_booking(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST",
        f"/bookings/{_segment(call.params['booking_id'])}/cancel",
        headers={"Idempotency-Key": call.operation_key},
        until=until,
    )
    return _what_a_cancellation_means([dict(data)], call, data)


def _look_up_booking_cancellation(service: Service, call: Call, until: float) -> Result:
    return _looked_up(service, call, until, _what_a_cancellation_means)


def _looked_up(service: Service, call: Call, until: float, meaning: Meaning) -> Result:
    """What the ledger has under this call's key; `meaning` says what its records mean."""
    asked = {"event": call.params["event_id"], "participant": call.params["participant_id"]}
    _, data = service.request("GET", "/bookings", params={"operation_key": call.operation_key, **asked}, until=until)
    if found := receipts.records(data):
        return meaning(found, call, data)
    if data.get("store") == "ledger" and not call.may_still_arrive:
        says = "The ledger of bookings has nothing under this key, and it can no longer arrive"
        return Result(data, says, answer=Answer.ABSENT)
    where = "the ledger of bookings" if data.get("store") == "ledger" else "a copy that may lag behind"
    return Result(data, f"Not found yet in {where}; that is no proof", answer=Answer.NOT_FOUND_YET)


def _what_it_means(found: list[dict[str, Any]], call: Call, data: Mapping[str, Any]) -> Result:
    """Records of one key as one answer. A receipt counts only for this event, participant, key and price."""
    if doubt := receipts.doubt(found, call, WHO, _state, "booking_id"):
        return Result(data, doubt, answer=Answer.CONTRADICTORY, reason=doubt)
    record, named = found[0], _names_this(found[0], call)
    match _state(record):
        case "pending" | "queued":
            tracking = receipts.identifier(record, "tracking_id")
            says = f"Received, not decided yet ({tracking or 'no tracking reference'})"
            return Result(data, says, tracking, Answer.PENDING, receipt=record)
        case "accepted" if named and (number := receipts.identifier(record, "booking_id")):
            return Result(data, f"Booked as {number}", number, Answer.ACCEPTED, receipt=record)
        case "rejected" if named:
            reason = receipts.reason(record)
            return Result(data, f"Refused: {reason}", answer=Answer.REJECTED, receipt=record, reason=reason)
        case "cancelled" if named:
            says = f"{WHO} says that it was cancelled there, and not by this run"
            return Result(data, says, answer=Answer.CONTRADICTORY, reason=says)
    raise receipts.invalid_output(
        "The answer is no receipt: its state, its event, its participant or its key is missing."
    )


def _what_a_cancellation_means(found: list[dict[str, Any]], call: Call, data: Mapping[str, Any]) -> Result:
    """A cancellation's key answers with the booking it was for: nothing but "cancelled" says that it took effect."""
    if doubt := receipts.doubt(found, call, WHO, _state, "booking_id"):
        return Result(data, doubt, answer=Answer.CONTRADICTORY, reason=doubt)
    record, number = found[0], str(call.params["booking_id"])
    match _state(record):
        case "cancelled" if _names_this(record, call) and record.get("booking_id") == number:
            return Result(data, f"Booking {number} cancelled", number, Answer.ACCEPTED, receipt=record)
        case "rejected" if record.get("operation_key") == call.operation_key:
            reason = receipts.reason(record)
            return Result(data, f"Refused: {reason}", answer=Answer.REJECTED, receipt=record, reason=reason)
    raise receipts.invalid_output("The answer does not say that the booking was cancelled.")


def _state(record: Mapping[str, Any]) -> str:
    return str(record.get("state") or record.get("status"))


def _names_this(record: Mapping[str, Any], call: Call) -> bool:
    subject = {name: call.params[name] for name in ("event_id", "participant_id")}
    return names(record, {**subject, "operation_key": call.operation_key})


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
