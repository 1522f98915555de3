"""A booking under any faults, with anybody doing anything that is offered, and the cancellation that may come after it:
no wrong completion, no second effect, and always somebody's.

Hypothesis draws the faults of one event, and what happens next: a person sends an event, the organiser changes or
decides something at the service, the faults are over, or only time passes. After each step the ten invariants of
`tests.faults.invariants` are held against the run's rows and the service's own books. FUZZ_EXAMPLES=500 goes on longer.
"""

import os
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runs.domain.budget import Dimension
from runs.domain.states import FINAL, Move, Outcome, State
from runs.interventions.refusals import Refused
from runs.models import Run
from tests.faults.invariants import violations
from tests.workflows.anybody import anything, somebody_acts
from tests.workflows.bookings import PARTICIPANT, Workshops, contract

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "15"))
ROUNDS = 10  # what happens to one run at the most
NUMBERS = count(1)
READS = ("authority", "events", "bookings", "lookup")

FAULTS: list[tuple[str, Mapping[str, Any]]] = [
    *[(name, {"where": where, "times": 1}) for name in ("unavailable", "malformed", "empty") for where in READS],
    *[(name, {"where": w, "times": 1}) for name in ("answer_lost", "error_500") for w in ("submit", "cancel")],
    *[("unavailable", {"where": "submit", "times": 1, "after_effect": landed}) for landed in (True, False)],
    *[("timeout_before_effect", {"where": where, "times": 1, "seconds": 0}) for where in ("submit", "cancel")],
    *[(name, {"lookups": lookups}) for name in ("pending", "queued") for lookups in (0, 1)],
    *[("rate_limited", {"where": where, "times": 1, "retry_after": 0}) for where in ("submit", "cancel", "any")],
    ("pending", {}),
    ("refused", {"times": 1}),
    ("lookup_lags", {"lookups": 1}),
    ("lookup_down", {"times": 1}),
    ("contradictory", {"times": 1}),
    ("other_order", {"times": 1, "other": "W104"}),
    ("event_incomplete", {"times": 1}),
    ("credential_refused", {"times": 1}),
    ("access_denied", {"where": "bookings", "times": 1}),
]
CHANGES: list[Mapping[str, Any]] = [
    {"seats": 0},
    {"seats": 1},
    {"price_minor": 10_00},
    {"admission": "organiser"},
    {"starts_on": "2026-09-25"},
]


OFTEN = {Move.APPROVAL_GRANTED: 9, Move.CANCEL_REQUESTED: 2, Move.PAUSED: 1}
KNOWN = {
    "dimension": st.sampled_from([Dimension.TOOL_ATTEMPTS, Dimension.STEPS]),
    "by": st.sampled_from([1, 4, 8]),
    "field": st.just("participant_id"),
    "value": st.sampled_from([PARTICIPANT, "P-302"]),
}


def the_organiser_acts(desk: Workshops, event_id: str, draw: Any) -> None:
    for booking in desk.effects(event_id):
        if booking["state"] == "pending":
            decided = draw(st.sampled_from(["accepted", "rejected"]), "decides")
            desk.back_office.change("bookings", booking["operation_key"], state=decided)
        elif booking["state"] == "accepted":
            holder = draw(st.sampled_from([None, PARTICIPANT]), "hands the confirmation to")
            desk.back_office.change("bookings", booking["operation_key"], confirmation_held_by=holder)
    if draw(st.booleans(), "changes the event"):
        desk.change_event(event_id, **draw(st.sampled_from(CHANGES), "to"))


def goes_on(desk: Workshops, run: Run, draw: Any, laws_hold: Callable[[Run], None]) -> Run:
    """Until it has ended, or as long as anybody wants to see."""
    event_id = run.input["event_id"]
    for _ in range(ROUNDS):
        laws_hold(run)
        if run.state in FINAL:
            break
        happens = ["somebody acts"] * 5 + ["the organiser acts", "time passes", "faults end"]
        match draw(st.sampled_from(happens), "then"):
            case "somebody acts":
                somebody_acts(run, draw, OFTEN, KNOWN)
            case "the organiser acts":
                the_organiser_acts(desk, event_id, draw)
            case "faults end":
                desk.back_office.clear(event_id)
        run = desk.later(run)
    laws_hold(run)
    return run


@anything(EXAMPLES)
@given(data=st.data())
def test_whatever_happens_a_seat_is_never_wrongly_booked_never_twice_and_always_somebodys(
    desk: Workshops, data: st.DataObject
) -> None:
    draw, event_id = data.draw, f"K{next(NUMBERS):05}"
    desk.back_office.reset()
    desk.change_event(event_id, **draw(st.sampled_from([{}, {}, {}, *CHANGES]), "an event with"))
    for fault, parameters in draw(st.lists(st.sampled_from(FAULTS), max_size=4), "faults"):
        desk.back_office.fault(event_id, fault, **parameters)
    policy = draw(st.sampled_from(["scripted", "scripted", "scripted", "overconfident", "stubborn"]), "policy")
    try:
        run = desk.booking(event_id, policy=policy)
    except Refused:
        return  # nobody could be asked at the door whether the event exists

    run = goes_on(desk, run, draw, lambda run: a_booking_keeps_the_laws(desk, run))
    if run.state == State.COMPLETED and draw(st.booleans(), "is it cancelled"):
        cancelling = desk.cancel(run)
        goes_on(desk, cancelling, draw, lambda other: a_cancellation_keeps_the_laws(desk, run, other))


def a_booking_keeps_the_laws(desk: Workshops, run: Run) -> None:
    event_id = run.input["event_id"]
    assert violations([run.pk], desk.back_office.ledger(event_id)) == []
    if run.state == State.COMPLETED:
        assert set(contract(run).values()) == {"MET"}
        [stands] = desk.effects(event_id)
        booked = run.effects.get(operation="submit_booking")
        assert (stands["state"], stands["operation_key"]) == ("accepted", booked.operation_key)
        assert stands["participant_id"] == run.input["participant_id"]


def a_cancellation_keeps_the_laws(desk: Workshops, booked: Run, run: Run) -> None:
    """Its write has no line of its own in the books: the booking's says what became of it."""
    [booking] = desk.effects(run.input["event_id"])
    sent = run.effects.filter(times_sent__gt=0).first()
    if run.state == State.COMPLETED:
        assert (booking["state"], set(contract(run).values())) == ("cancelled", {"MET"})
    if run.outcome in {Outcome.DECLINED, Outcome.CANCELLED}:
        assert booking["state"] == "accepted"
    if booking["state"] == "cancelled":
        assert sent
        assert sent.state in {"confirmed", "sent", "unknown"}
    keys = {call["operation_key"] for call in desk.calls(run.input["event_id"], "cancel")}
    assert keys <= {sent.operation_key if sent else ""}
    assert run.state in FINAL or run.due_at or (run.question and run.answer_by)
    booked.refresh_from_db()
    assert booked.state == State.COMPLETED
