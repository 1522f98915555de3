"""Workshops, seats and bookings: another service's part of the same books.

A seat is taken by whatever may still become a booking: what is pending counts. A booking can be cancelled before the
day of the workshop, and while nobody holds a confirmation of it.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from takeover.demo.backoffice import seed, workshops
from takeover.demo.backoffice.answers import now
from takeover.demo.backoffice.store import ACCEPT, Behind, Decision, KeyReused, Refused, Ruling, State, Store, Unknown
from takeover.demo.backoffice.workshops import Event, Participant

SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    event_id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    organiser TEXT NOT NULL,
    starts_on TEXT NOT NULL,
    seats INTEGER NOT NULL,
    price_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    admission TEXT NOT NULL,
    version INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS participants (
    participant_id TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    registration TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS bookings (
    operation_key TEXT PRIMARY KEY,
    event_id TEXT NOT NULL,
    participant_id TEXT NOT NULL,
    price_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'accepted', 'rejected', 'cancelled')),
    booking_id TEXT UNIQUE,
    tracking_id TEXT UNIQUE,
    queued INTEGER NOT NULL,
    reason TEXT,
    lookups_left INTEGER,
    confirmation_held_by TEXT,
    made_at TEXT NOT NULL
);
-- Whatever the code above this believes: nobody has two seats at one workshop.
CREATE UNIQUE INDEX IF NOT EXISTS one_booking_each ON bookings (event_id, participant_id)
    WHERE state IN ('pending', 'accepted');
CREATE TABLE IF NOT EXISTS booking_cancellations (
    operation_key TEXT PRIMARY KEY,
    booking_id TEXT NOT NULL UNIQUE,
    made_at TEXT NOT NULL
)
"""
BEFORE = "before-"  # begins the keys of what was booked before these books
TABLES = ("events", "participants", "bookings", "booking_cancellations")


@dataclass(frozen=True)
class Wish:
    operation_key: str
    event_id: str
    participant_id: str
    price_minor: int
    currency: str


@dataclass(frozen=True)
class Booking:
    operation_key: str
    event_id: str
    participant_id: str
    price_minor: int
    currency: str
    state: State
    booking_id: str | None
    tracking_id: str | None
    queued: bool
    reason: str | None
    lookups_left: int | None
    confirmation_held_by: str | None
    made_at: str

    def matches(self, wanted: Wish) -> bool:
        return wanted == Wish(self.operation_key, self.event_id, self.participant_id, self.price_minor, self.currency)


class Bookings:
    def __init__(self, store: Store) -> None:
        self.store = store
        store.keep(self)

    # Its part of the store

    def open(self, db: sqlite3.Connection) -> None:
        for statement in SCHEMA.split(";\n"):
            db.execute(statement)
        if db.execute("SELECT count(*) FROM events").fetchone()[0] == 0:
            self._seed(db)

    def begin_anew(self, db: sqlite3.Connection) -> None:
        for table in TABLES:
            db.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        self._seed(db)

    def behind(self, db: sqlite3.Connection, operation_key: str) -> Behind | None:
        booking = _by_key(db, operation_key) or _cancelled_by(db, operation_key)
        return Behind(booking.event_id, booking.made_at) if booking else None

    def effects(self, event_id: str | None) -> list[dict[str, object]]:
        return [
            {
                "operation_key": booking.operation_key,
                "order_id": booking.event_id,
                "participant_id": booking.participant_id,
                "request_id": booking.booking_id,
                "state": booking.state,
                "at": booking.made_at,
            }
            for booking in self.all()
            if booking.state is not State.REJECTED
            and event_id in (None, booking.event_id)
            and not booking.operation_key.startswith(BEFORE)
        ]

    # Workshops and people

    def event(self, event_id: str) -> tuple[Event, int]:
        """The event, and how many seats are left."""
        with self.store.transaction() as db:
            event = _event(db, event_id)
            return event, _seats_left(db, event)

    def events(self) -> list[tuple[Event, int]]:
        with self.store.transaction() as db:
            found = [Event(**dict(row)) for row in db.execute("SELECT * FROM events ORDER BY event_id").fetchall()]
            return [(event, _seats_left(db, event)) for event in found]

    def participant(self, participant_id: str) -> Participant:
        with self.store.transaction() as db:
            return _participant(db, participant_id)

    def change_event(self, event_id: str, fields: Mapping[str, object]) -> Event:
        """Changes an event, or creates it; each change is a new version."""
        with self.store.transaction() as db:
            try:
                before = _event(db, event_id)
            except Unknown:
                before = Event(event_id, "Unnamed workshop", "supervisor", "2026-10-03", 10, 0, version=0)
            known = asdict(before)
            event = Event(**{**known, **{name: fields[name] for name in known if name in fields}})
            event = replace(event, version=before.version + 1)
            _save_event(db, event)
            return event

    def change_participant(self, participant_id: str, fields: Mapping[str, object]) -> Participant:
        with self.store.transaction() as db:
            known = asdict(_participant(db, participant_id))
            participant = Participant(**{**known, **{name: fields[name] for name in known if name in fields}})
            _save_participant(db, participant)
            return participant

    # Bookings

    def submit(self, wanted: Wish, ruling: Ruling = ACCEPT) -> Booking:
        """One booking per key: the same request again finds what became of the first."""
        with self.store.transaction() as db:
            if _cancellation(db, wanted.operation_key):
                raise KeyReused
            if known := _by_key(db, wanted.operation_key):
                if not known.matches(wanted):
                    raise KeyReused
                return known
            event, participant = _event(db, wanted.event_id), _participant(db, wanted.participant_id)
            reason = _objection(db, event, participant, wanted) or ruling.refuse
            state = State.REJECTED if reason else State.PENDING if ruling.pending else State.ACCEPTED
            booking = Booking(
                **asdict(wanted),
                state=state,
                booking_id=_next_number(db) if state is State.ACCEPTED else None,
                tracking_id=_next_tracking_id(db) if state is State.PENDING else None,
                queued=ruling.queued and state is State.PENDING,
                reason=reason,
                lookups_left=ruling.lookups if state is State.PENDING else None,
                confirmation_held_by=None,
                made_at=now(),
            )
            _add(db, booking)
            return booking

    def look_up(self, operation_key: str) -> Booking | None:
        """What became of a key. A pending booking counts the look-ups and is accepted when it has seen enough."""
        with self.store.transaction() as db:
            booking = _by_key(db, operation_key) or _cancelled_by(db, operation_key)
            if booking is None or booking.state is not State.PENDING or booking.lookups_left is None:
                return booking
            if booking.lookups_left == 0:
                return _accept(db, booking)
            _change(db, booking, lookups_left=booking.lookups_left - 1)
            return booking

    def cancel(self, booking_id: str, operation_key: str) -> Booking:
        with self.store.transaction() as db:
            if _by_key(db, operation_key):
                raise KeyReused
            known = _cancellation(db, operation_key)
            if known and known["booking_id"] != booking_id:
                raise KeyReused
            booking = _by_number(db, booking_id)
            if booking is None:
                raise Unknown
            if not known:
                if reason := _stands_in_the_way(_event(db, booking.event_id), booking):
                    raise Refused(reason)
                db.execute("INSERT INTO booking_cancellations VALUES (?, ?, ?)", (operation_key, booking_id, now()))
                booking = _change(db, booking, state=State.CANCELLED)
            return replace(booking, operation_key=operation_key)

    def settle(self, operation_key: str, state: State, reason: str) -> Booking:
        """The service makes up its mind about a pending booking, and says so to whoever is to be told."""
        with self.store.transaction() as db:
            booking = _by_key(db, operation_key)
            if booking is None:
                raise Unknown
            if booking.state is not State.PENDING:
                raise Refused(f"already_{booking.state}")
            if state is State.ACCEPTED:
                booking = _accept(db, booking)
            else:
                booking = _change(db, booking, state=state, reason=reason, lookups_left=None)
        self.store.decided(Decision(operation_key, booking.event_id, booking.booking_id or booking.reason))
        return booking

    def hand_confirmation(self, operation_key: str, holder: str | None) -> Booking:
        """From now on `holder` relies on the booking; None: it was given back."""
        with self.store.transaction() as db:
            booking = _by_key(db, operation_key)
            if booking is None:
                raise Unknown
            if booking.state is not State.ACCEPTED:
                raise Refused(f"already_{booking.state}")
            return _change(db, booking, confirmation_held_by=holder)

    def by_number(self, booking_id: str) -> Booking | None:
        with self.store.transaction() as db:
            return _by_number(db, booking_id)

    def standing(self, event_id: str, participant_id: str) -> list[Booking]:
        """What takes a seat at this event for this participant: one at the most."""
        return [
            booking
            for booking in self.all()
            if (booking.event_id, booking.participant_id) == (event_id, participant_id)
            and booking.state in (State.PENDING, State.ACCEPTED)
        ]

    def all(self) -> list[Booking]:
        with self.store.transaction() as db:
            return [_booking(row) for row in db.execute("SELECT * FROM bookings ORDER BY rowid").fetchall()]

    def _seed(self, db: sqlite3.Connection) -> None:
        for event in workshops.EVENTS:
            _save_event(db, event)
        for participant in workshops.PARTICIPANTS:
            _save_participant(db, participant)
        for earlier in workshops.EARLIER:
            event = _event(db, earlier.event_id)
            _add(
                db,
                Booking(
                    operation_key=BEFORE + earlier.booking_id,
                    price_minor=event.price_minor,
                    currency=event.currency,
                    state=State.ACCEPTED,
                    tracking_id=None,
                    queued=False,
                    reason=None,
                    lookups_left=None,
                    made_at=now(),
                    **asdict(earlier),
                ),
            )


# What stands in the way


def has_started(event: Event) -> bool:
    """The hour is not on the books: on its day a workshop counts as begun."""
    return event.starts_on <= seed.BUSINESS_DATE


def _objection(db: sqlite3.Connection, event: Event, participant: Participant, wanted: Wish) -> str | None:
    standing = db.execute(
        "SELECT state FROM bookings WHERE event_id = ? AND participant_id = ? AND state IN ('pending', 'accepted')",
        (event.event_id, participant.participant_id),
    ).fetchone()
    if standing:
        return "booking_in_progress" if standing["state"] == State.PENDING else "already_booked"
    if participant.registration != workshops.APPROVED:
        return "registration_not_approved"
    if has_started(event):
        return "already_started"
    if _seats_left(db, event) <= 0:
        return "full"
    if (wanted.price_minor, wanted.currency) != (event.price_minor, event.currency):
        return "price_changed"
    return None


def _stands_in_the_way(event: Event, booking: Booking) -> str | None:
    if booking.state is not State.ACCEPTED:
        return f"already_{booking.state}"
    if has_started(event):
        return "already_started"
    return "confirmation_held" if booking.confirmation_held_by else None


# Rows


def _event(db: sqlite3.Connection, event_id: str) -> Event:
    row = db.execute("SELECT * FROM events WHERE event_id = ?", (event_id,)).fetchone()
    if row is None:
        raise Unknown("event")
    return Event(**dict(row))


def _participant(db: sqlite3.Connection, participant_id: str) -> Participant:
    row = db.execute("SELECT * FROM participants WHERE participant_id = ?", (participant_id,)).fetchone()
    if row is None:
        raise Unknown("participant")
    return Participant(**dict(row))


def _save_event(db: sqlite3.Connection, event: Event) -> None:
    db.execute(
        "INSERT OR REPLACE INTO events VALUES (:event_id, :title, :organiser, :starts_on, :seats, :price_minor,"
        " :currency, :admission, :version)",
        asdict(event),
    )


def _save_participant(db: sqlite3.Connection, participant: Participant) -> None:
    db.execute(
        "INSERT OR REPLACE INTO participants VALUES (:participant_id, :account, :registration)", asdict(participant)
    )


def _seats_left(db: sqlite3.Connection, event: Event) -> int:
    (taken,) = db.execute(
        "SELECT count(*) FROM bookings WHERE event_id = ? AND state IN ('pending', 'accepted')", (event.event_id,)
    ).fetchone()
    return max(0, event.seats - int(taken))


def _booking(row: sqlite3.Row) -> Booking:
    return Booking(**{**dict(row), "state": State(row["state"]), "queued": bool(row["queued"])})


def _add(db: sqlite3.Connection, booking: Booking) -> None:
    db.execute(
        "INSERT INTO bookings VALUES (:operation_key, :event_id, :participant_id, :price_minor, :currency,"
        " :state, :booking_id, :tracking_id, :queued, :reason, :lookups_left, :confirmation_held_by, :made_at)",
        asdict(booking),
    )


def _by_key(db: sqlite3.Connection, operation_key: str) -> Booking | None:
    row = db.execute("SELECT * FROM bookings WHERE operation_key = ?", (operation_key,)).fetchone()
    return None if row is None else _booking(row)


def _by_number(db: sqlite3.Connection, booking_id: str) -> Booking | None:
    row = db.execute("SELECT * FROM bookings WHERE booking_id = ?", (booking_id,)).fetchone()
    return None if row is None else _booking(row)


def _cancellation(db: sqlite3.Connection, operation_key: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM booking_cancellations WHERE operation_key = ?", (operation_key,)
    ).fetchone()
    return row


def _cancelled_by(db: sqlite3.Connection, operation_key: str) -> Booking | None:
    """The booking that a cancellation of this key undid, under the cancellation's own key."""
    known = _cancellation(db, operation_key)
    booking = _by_number(db, known["booking_id"]) if known else None
    return replace(booking, operation_key=operation_key) if booking else None


def _change(db: sqlite3.Connection, booking: Booking, **fields: object) -> Booking:
    sets = ", ".join(f"{name} = :{name}" for name in fields)
    db.execute(
        f"UPDATE bookings SET {sets} WHERE operation_key = :key",  # noqa: S608 - our own names
        {**fields, "key": booking.operation_key},
    )
    return replace(booking, **fields)  # type: ignore[arg-type]


def _accept(db: sqlite3.Connection, booking: Booking) -> Booking:
    return _change(db, booking, state=State.ACCEPTED, booking_id=_next_number(db), lookups_left=None)


def _next_number(db: sqlite3.Connection) -> str:
    (highest,) = db.execute("SELECT max(CAST(substr(booking_id, 3) AS INTEGER)) FROM bookings").fetchone()
    return f"B-{max(highest or 0, 5000) + 1}"


def _next_tracking_id(db: sqlite3.Connection) -> str:
    (tracked,) = db.execute("SELECT count(tracking_id) FROM bookings").fetchone()
    return f"TB-{tracked + 1001}"
