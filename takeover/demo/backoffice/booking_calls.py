"""The calls about workshops: who may act, what an event says, booking, looking up, what stands, cancelling."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace

from starlette.requests import Request
from starlette.routing import Route

from takeover.demo.backoffice import inputs, seed
from takeover.demo.backoffice.answers import Answer, Refusal, error, now
from takeover.demo.backoffice.bookings import Booking, Bookings, Wish
from takeover.demo.backoffice.calls import STATUS, Reader, Work, endpoint, key_reused, ruling
from takeover.demo.backoffice.faults import Kind
from takeover.demo.backoffice.store import KeyReused, Refused, State, Store, Strike, Unknown

PRICE_LIMIT = 1_000_000_00


def about(request: Request, kind: Kind, body: bytes, store: Store) -> tuple[str | None, str | None]:
    """Whom a call is about: its event goes where an order's call has its order."""
    event_id: object = request.path_params.get("event_id") or request.query_params.get("event")
    operation_key: object = None
    match kind:
        case Kind.SUBMIT:
            operation_key = request.headers.get("idempotency-key")
            with suppress(Refusal):
                event_id = inputs.json_object(body).get("event_id")
        case Kind.LOOKUP:
            operation_key = request.query_params.get("operation_key")
            behind = store.behind(str(operation_key))
            event_id = behind.about if behind else event_id
        case Kind.CANCEL | Kind.BOOKINGS if number := request.path_params.get("booking_id"):
            operation_key = request.headers.get("idempotency-key") if kind is Kind.CANCEL else None
            booking = books(request).by_number(number)
            event_id = booking.event_id if booking else event_id
    return (
        str(event_id) if inputs.is_word(event_id) else None,
        str(operation_key) if inputs.is_key(operation_key) else None,
    )


def books(request: Request) -> Bookings:
    bookings: Bookings = request.app.state.bookings
    return bookings


def authority(request: Request, _body: bytes, _store: Store) -> Work:
    event_id = inputs.word("event_id", request.path_params["event_id"])
    user = inputs.word("user", request.query_params.get("user"))
    participant_id = inputs.word("participant", request.query_params.get("participant"))

    def work(_: Strike | None) -> Answer:
        try:
            event, _left = books(request).event(event_id)
            participant = books(request).participant(participant_id)
        except Unknown as unknown:
            return not_known(unknown)
        reason = (
            "desk"
            if user in seed.DESK
            else "organiser"
            if user == event.organiser
            else "participant"
            if user == participant.account
            else "stranger"
        )
        said = {"user": user, "event_id": event_id, "participant_id": participant_id}
        return Answer(200, {**said, "allowed": reason != "stranger", "reason": reason, "as_of": now()})

    return work


def event(request: Request, _body: bytes, _store: Store) -> Work:
    event_id = inputs.word("event_id", request.path_params["event_id"])
    participant_id = inputs.word("participant", request.query_params.get("participant"))

    def work(strike: Strike | None) -> Answer:
        try:
            known, left = books(request).event(event_id)
            participant = books(request).participant(participant_id)
        except Unknown as unknown:
            return not_known(unknown)
        facts = {
            **asdict(known),
            "seats_left": left,
            "participant_id": participant_id,
            "registration": participant.registration,
            "business_date": seed.BUSINESS_DATE,
            "as_of": now(),
        }
        if strike:  # event_incomplete
            del facts["starts_on"], facts["seats_left"]
        return Answer(200, facts)

    return work


def submit(request: Request, body: bytes, _store: Store) -> Work:
    fields = inputs.json_object(body)
    inputs.only(fields, ["event_id", "participant_id", "price_minor", "currency"])
    wanted = Wish(
        inputs.key("Idempotency-Key", request.headers.get("idempotency-key")),
        inputs.word("event_id", fields.get("event_id")),
        inputs.word("participant_id", fields.get("participant_id")),
        inputs.whole("price_minor", fields.get("price_minor"), 0, PRICE_LIMIT),
        inputs.currency("currency", fields.get("currency")),
    )

    def work(strike: Strike | None) -> Answer:
        try:
            booking = books(request).submit(wanted, ruling(strike))
        except KeyReused:
            return key_reused()
        except Unknown as unknown:
            return not_known(unknown)
        facts = misnamed(receipt(booking), strike)
        if booking.state is State.REJECTED:
            return Answer(409, {"code": "refused", "message": "The booking is refused.", **facts})
        if booking.state is State.PENDING and booking.queued:
            return Answer(200, {"status": "queued", "tracking_id": booking.tracking_id})
        return Answer(STATUS[booking.state], facts)

    return work


def look_up(request: Request, _body: bytes, _store: Store) -> Work:
    """The key alone decides what is found; event and participant say what the call is about before it is known."""
    operation_key = inputs.key("operation_key", request.query_params.get("operation_key"))
    for name in ("event", "participant"):
        if (value := request.query_params.get(name)) is not None:
            inputs.word(name, value)

    def work(strike: Strike | None) -> Answer:
        if strike and strike.fault == "lookup_lags":
            return Answer(200, {"found": False, "records": [], "store": "index", "as_of": now()})
        booking = books(request).look_up(operation_key)
        records = [misnamed(receipt(booking), strike)] if booking else []
        if booking and strike and strike.fault == "contradictory":
            records.append(receipt(contradiction(booking)))
        return Answer(200, {"found": bool(records), "records": records, "store": "ledger", "as_of": now()})

    return work


def stands(request: Request, _body: bytes, _store: Store) -> Work:
    """What takes a seat at this event for this participant."""
    event_id = inputs.word("event_id", request.path_params["event_id"])
    participant_id = inputs.word("participant", request.query_params.get("participant"))

    def work(_: Strike | None) -> Answer:
        records = [receipt(booking) for booking in books(request).standing(event_id, participant_id)]
        return Answer(200, {"found": bool(records), "records": records, "store": "ledger", "as_of": now()})

    return work


def standing(request: Request, _body: bytes, _store: Store) -> Work:
    """How one booking stands, and whether somebody relies on it already."""
    number = inputs.word("booking_id", request.path_params["booking_id"])

    def work(_: Strike | None) -> Answer:
        booking = books(request).by_number(number)
        if booking is None:
            return not_known(Unknown("booking"))
        known, _left = books(request).event(booking.event_id)
        return Answer(
            200,
            {
                **receipt(booking),
                "confirmation_held_by": booking.confirmation_held_by,
                "title": known.title,
                "organiser": known.organiser,
                "starts_on": known.starts_on,
                "business_date": seed.BUSINESS_DATE,
            },
        )

    return work


def cancel(request: Request, _body: bytes, _store: Store) -> Work:
    number = inputs.word("booking_id", request.path_params["booking_id"])
    operation_key = inputs.key("Idempotency-Key", request.headers.get("idempotency-key"))

    def work(_: Strike | None) -> Answer:
        try:
            return Answer(200, receipt(books(request).cancel(number, operation_key)))
        except KeyReused:
            return key_reused()
        except Unknown:
            return not_known(Unknown("booking"))
        except Refused as refused:
            return error(
                409,
                "refused",
                "A booking can be cancelled before the day of the workshop, while nobody holds its confirmation.",
                state="rejected",
                reason=refused.reason,
                booking_id=number,
                operation_key=operation_key,
            )

    return work


def not_known(unknown: Unknown) -> Answer:
    what = str(unknown)
    return error(404, f"{what}_unknown", f"There is no such {what}.")


def receipt(booking: Booking) -> dict[str, object]:
    facts: dict[str, object] = {
        "state": booking.state,
        "booking_id": booking.booking_id,
        "tracking_id": booking.tracking_id,
        "event_id": booking.event_id,
        "participant_id": booking.participant_id,
        "operation_key": booking.operation_key,
        "price_minor": booking.price_minor,
        "currency": booking.currency,
        "reason": booking.reason,
        "as_of": now(),
    }
    return {name: value for name, value in facts.items() if value is not None}


def contradiction(booking: Booking) -> Booking:
    if booking.state is State.REJECTED:
        return replace(booking, state=State.ACCEPTED, booking_id="B-1", reason=None)
    return replace(booking, state=State.REJECTED, booking_id=None, tracking_id=None, reason="duplicate_request")


def misnamed(facts: Mapping[str, object], strike: Strike | None) -> dict[str, object]:
    if strike is None or strike.fault != "other_order":
        return dict(facts)
    return {**facts, "event_id": strike.values["other"]}


def route(path: str, kind: Kind, read: Reader, method: str = "GET") -> Route:
    return Route(path, endpoint(kind, read, about), methods=[method])


routes = [
    route("/events/{event_id}", Kind.EVENTS, event),
    route("/events/{event_id}/authority", Kind.AUTHORITY, authority),
    route("/events/{event_id}/bookings", Kind.BOOKINGS, stands),
    route("/bookings", Kind.SUBMIT, submit, "POST"),
    route("/bookings", Kind.LOOKUP, look_up),
    route("/bookings/{booking_id}", Kind.BOOKINGS, standing),
    route("/bookings/{booking_id}/cancel", Kind.CANCEL, cancel, "POST"),
]
