"""The controls of the workshops and their part of the page: events, people, pending bookings, confirmations."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from takeover.demo.backoffice import inputs, workshops
from takeover.demo.backoffice.answers import Answer, Refusal, error, invalid
from takeover.demo.backoffice.booking_calls import PRICE_LIMIT, books, receipt
from takeover.demo.backoffice.bookings import Booking, Bookings
from takeover.demo.backoffice.control import asked
from takeover.demo.backoffice.store import Refused, State, Unknown
from takeover.demo.backoffice.tables import button, cell, code, moment, money, table

Read = Callable[[str, object], object]

READ_EVENT_FIELD: dict[str, Read] = {
    "title": inputs.text,
    "organiser": inputs.word,
    "starts_on": inputs.day,
    "seats": lambda field, value: inputs.whole(field, value, 0, 10_000),
    "price_minor": lambda field, value: inputs.whole(field, value, 0, PRICE_LIMIT),
    "currency": inputs.currency,
    "admission": lambda field, value: inputs.one_of(field, value, (workshops.OPEN, workshops.BY_ORGANISER)),
}
READ_PARTICIPANT_FIELD: dict[str, Read] = {
    "account": inputs.word,
    "registration": lambda field, value: inputs.one_of(field, value, (workshops.APPROVED, workshops.REQUESTED)),
}
DECIDED = (State.ACCEPTED, State.REJECTED)


async def change_event(request: Request) -> Response:
    event_id = inputs.word("event_id", request.path_params["event_id"])
    fields = await asked(request)
    inputs.only(fields, READ_EVENT_FIELD)
    values = {name: READ_EVENT_FIELD[name](name, value) for name, value in fields.items()}
    return Answer(200, vars(books(request).change_event(event_id, values))).response()


async def change_participant(request: Request) -> Response:
    participant_id = inputs.word("participant_id", request.path_params["participant_id"])
    fields = await asked(request)
    inputs.only(fields, READ_PARTICIPANT_FIELD)
    values = {name: READ_PARTICIPANT_FIELD[name](name, value) for name, value in fields.items()}
    try:
        return Answer(200, vars(books(request).change_participant(participant_id, values))).response()
    except Unknown:
        raise Refusal(error(404, "participant_unknown", "There is no such participant.")) from None


async def change_booking(request: Request) -> Response:
    """Decides a pending booking (`state`), or says who holds the confirmation of an accepted one (null: nobody)."""
    operation_key = inputs.key("operation_key", request.path_params["operation_key"])
    fields = await asked(request)
    inputs.only(fields, ["state", "reason", "confirmation_held_by"])
    if "confirmation_held_by" in fields:
        holder = fields["confirmation_held_by"]
        held_by = None if holder is None else inputs.word("confirmation_held_by", holder)
        return Answer(200, receipt(handed(books(request), operation_key, held_by))).response()
    state = State(inputs.one_of("state", fields.get("state"), DECIDED))
    reason = inputs.word("reason", fields.get("reason", "organiser_declined"))
    return Answer(200, receipt(settled(books(request), operation_key, state, reason))).response()


def settled(bookings: Bookings, operation_key: str, state: State, reason: str) -> Booking:
    try:
        return bookings.settle(operation_key, state, reason)
    except Unknown:
        raise Refusal(error(404, "operation_unknown", "Nothing was booked under this key.")) from None
    except Refused as refused:
        message = "Only a pending booking can be decided."
        raise Refusal(error(409, "refused", message, reason=refused.reason)) from None


def handed(bookings: Bookings, operation_key: str, holder: str | None) -> Booking:
    try:
        return bookings.hand_confirmation(operation_key, holder)
    except Unknown:
        raise Refusal(error(404, "operation_unknown", "Nothing was booked under this key.")) from None
    except Refused as refused:
        message = "Only an accepted booking has a confirmation."
        raise Refusal(error(409, "refused", message, reason=refused.reason)) from None


def filled(bookings: Bookings, form: dict[str, str]) -> None:
    """What the page's buttons for one booking ask for."""
    operation_key = inputs.key("operation_key", form.get("operation_key"))
    match form.get("do"):
        case "accept":
            settled(bookings, operation_key, State.ACCEPTED, "")
        case "reject":
            settled(bookings, operation_key, State.REJECTED, "organiser_declined")
        case "hand out":
            handed(bookings, operation_key, inputs.word("holder", form.get("holder")))
        case "take back":
            handed(bookings, operation_key, None)
        case _:
            raise invalid("do", "Must be one of accept, reject, hand out, take back.")


def bookings_table(bookings: Bookings) -> str:
    return table(
        "Bookings that exist",
        ("Event", "Participant", "State", "Number", "Confirmation held by", "Action", "Key", "Since"),
        (
            (
                cell(booking.event_id),
                cell(booking.participant_id),
                cell(booking.state),
                cell(booking.booking_id or booking.tracking_id, "none"),
                cell(booking.confirmation_held_by, "nobody"),
                actions(booking),
                code(booking.operation_key),
                moment(booking.made_at),
            )
            for booking in reversed(bookings.all())
            if booking.state is not State.REJECTED
        ),
        "No booking exists.",
    )


def actions(booking: Booking) -> str:
    choices: dict[str, str] = {}
    if booking.state is State.PENDING:
        choices = {"Accept": "accept", "Reject": "reject"}
    elif booking.state is State.ACCEPTED:
        held = booking.confirmation_held_by
        choices = {"Take confirmation back": "take back"} if held else {"Hand out confirmation": "hand out"}
    return "".join(
        button("/booking", label, operation_key=booking.operation_key, do=do, holder=booking.participant_id)
        for label, do in choices.items()
    )


def events_table(bookings: Bookings) -> str:
    return table(
        "Workshops",
        ("Event", "Title", "Organiser", "Starts on", "Seats left", "Price", "Let in by", "Version"),
        (
            (
                cell(event.event_id),
                cell(event.title),
                cell(event.organiser),
                cell(event.starts_on),
                f"{left} of {event.seats}",
                money(event.price_minor, event.currency),
                "the organiser" if event.admission == workshops.BY_ORGANISER else "anybody",
                cell(event.version),
            )
            for event, left in bookings.events()
        ),
        "There are no workshops.",
    )


routes = [
    Route("/control/events/{event_id}", change_event, methods=["PUT"]),
    Route("/control/participants/{participant_id}", change_participant, methods=["PUT"]),
    Route("/control/bookings/{operation_key:path}", change_booking, methods=["PUT"]),
]
