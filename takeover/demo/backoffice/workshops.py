"""The workshops that the back office opens with, and who may take part. Starts are set against `seed.BUSINESS_DATE`."""

from dataclasses import dataclass

OPEN, BY_ORGANISER = "open", "organiser"  # who lets people in: nobody has to, or the organiser decides
APPROVED, REQUESTED = "approved", "requested"  # a registration


@dataclass(frozen=True)
class Event:
    event_id: str
    title: str
    organiser: str
    starts_on: str
    seats: int
    price_minor: int
    currency: str = "EUR"
    admission: str = OPEN
    version: int = 1


@dataclass(frozen=True)
class Earlier:
    """A seat that was booked before these books begin, and so is nothing that happened in them."""

    booking_id: str
    event_id: str
    participant_id: str
    confirmation_held_by: str | None = None


@dataclass(frozen=True)
class Participant:
    participant_id: str
    account: str  # whoever books for them: themselves, or a parent
    registration: str = APPROVED


EVENTS = (
    Event("W101", "Bicycle repair for beginners", "supervisor", "2026-10-03", 12, 0),
    Event("W102", "Sourdough in a day", "supervisor", "2026-10-10", 8, 25_00),
    Event("W103", "First aid refresher", "U-70", "2026-10-17", 16, 0),
    Event("W104", "Urban sketching", "U-71", "2026-09-27", 10, 12_00),
    Event("W105", "Soldering for families", "U-72", "2026-10-04", 6, 8_00),
    Event("W106", "Mending clothes", "U-70", "2026-10-11", 10, 0),
    Event("W107", "Beekeeping: a first look", "U-71", "2026-10-18", 9, 15_00),
    Event("W108", "Reading contracts", "U-73", "2026-11-07", 20, 0),
    Event("W109", "Growing mushrooms indoors", "U-71", "2026-10-30", 12, 0),
    # Its organiser decides who is let in.
    Event("W201", "Stage lighting", "supervisor", "2026-10-24", 4, 40_00, admission=BY_ORGANISER),
    Event("W202", "Wood turning", "U-72", "2026-10-25", 3, 65_00, admission=BY_ORGANISER),
    Event("W203", "Climbing wall: route setting", "supervisor", "2026-11-14", 5, 30_00, admission=BY_ORGANISER),
    # No seat was ever left, and one that is over.
    Event("W301", "Piano tuning, listening in", "U-73", "2026-10-31", 0, 20_00),
    Event("W302", "Late summer herbs", "U-70", "2026-09-20", 12, 5_00),
)

PARTICIPANTS = (
    *(Participant(f"P-{300 + number}", f"U-{87 + number}") for number in range(1, 12)),  # P-301 is booked for by U-88
    Participant("P-321", "U-88"),  # U-88's child
    Participant("P-331", "U-99", REQUESTED),
)

EARLIER = (
    Earlier("B-4801", "W109", "P-303"),
    Earlier("B-4802", "W109", "P-304", confirmation_held_by="P-304"),
    Earlier("B-4803", "W109", "P-305"),
)
