"""Cancelling a booking: a new run, linked to the one that booked it, whose goal is that nothing of it stands.

Whether that is still possible is read now. Before the day of the workshop, and while nobody holds a confirmation, the
booking is cancelled once under a key of its own. Otherwise a person is asked, for somebody relies on it. It is not
undone in its turn: who wants the seat back books anew.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Fact, Judgement, Value, met, unknown, unmet
from runs.domain.decision import FactsState
from runs.domain.effects import EffectState, WritePlan
from runs.domain.proposals import Act, Ask, Claim, Proposal
from runs.domain.states import StopReason
from runs.domain.telling import Quote, Statement, Wording
from runs.tools.bookings import CANCEL_BOOKING, CHECK_BOOKING_AUTHORITY, LOOK_UP_BOOKING_CANCELLATION, READ_BOOKING
from runs.workflows.definition import Assertion, Check, Context, Read, Workflow, Writing
from runs.workflows.workshop_booking import (
    AUTHORITY,
    ID,
    authorised,
    cancellation_plan,
    price_in,
    seat_of,
    still_reversible,
)

INPUT = {
    "type": "object",
    "properties": {
        "booking_id": {**ID, "title": "Booking"},
        "event_id": {**ID, "title": "Event"},
        "participant_id": {**ID, "title": "Participant the seat is for"},
        "requested_by": {**ID, "title": "Person who asks for it"},
    },
    "required": ["booking_id", "event_id", "participant_id"],
    "additionalProperties": False,
}
KNOWN = {"accepted", "cancelled"}  # states of what has a number


# What has to be known


def booking_of(c: Context) -> dict[str, Any]:
    """The seat stands in it, too: of somebody else's booking the tool brings back nothing."""
    return {**seat_of(c), "booking_id": c.input["booking_id"]}


def booking_is_known(booking: Fact) -> tuple[FactsState, str]:
    if booking.data.get("state") not in KNOWN:
        return FactsState.MISSING, "Nothing usable in the booking says whether it stands."
    if still_reversible(booking).value is Value.UNKNOWN:
        return FactsState.MISSING, f"The booking cannot be judged: {still_reversible(booking).evidence.says}."
    return FactsState.COMPLETE, ""


READS = (
    AUTHORITY,
    Read(
        fact="booking",
        tool=READ_BOOKING.name,
        params=booking_of,
        check=booking_is_known,
        expects="whether it stands, when the workshop is, and who holds a confirmation",
    ),
)


def eligible(c: Context) -> Judgement:
    """Any booking of this participant's may be asked about. Whether it can be cancelled is for people to hear."""
    booking = c.facts.get("booking")
    if not booking:
        return unknown("not read yet")
    return met(booking.evidence(f"booking {c.input['booking_id']} is this participant's"))


# What success means: the contract


def cancelled(c: Context) -> Judgement:
    booking = latest(c)
    if not booking:
        return unknown("not read since the cancellation" if c.effect else "not read yet")
    evidence = booking.evidence(f"booking {c.input['booking_id']} is {booking.data.get('state')}")
    return met(evidence) if booking.data.get("state") == "cancelled" else unmet(evidence)


def latest(c: Context) -> Fact | None:
    """How the booking stood when it was last read, after whatever this run did about it."""
    facts = [fact for name in ("booking", "afterwards") if (fact := c.facts.get(name))]
    if c.effect and c.effect.times_sent:
        answered = c.effect.answered_at
        facts = [fact for fact in facts if answered and fact.at >= answered]
    return max(facts, key=lambda fact: fact.at, default=None)


CONTRACT = (
    Assertion("authorised", "This person may act for the participant", authorised),
    Assertion("cancelled", "The workshop service shows the booking as cancelled", cancelled),
)


def checks(c: Context) -> Sequence[Check]:
    if latest(c):
        return ()
    return (Check("afterwards", READ_BOOKING.name, booking_of(c), "that it is cancelled"),)


# What may be written


def plan(c: Context, given: Mapping[str, Any]) -> WritePlan:
    risk = "the seat goes to whoever asks next"
    return cancellation_plan(seat_of(c), c.input["booking_id"], risk)


OPERATIONS = {
    CANCEL_BOOKING.name: Writing(
        says="Cancels this booking, once.",
        plan=plan,
        key=lambda c, given: f"cancellation-{c.input['booking_id']}-{c.run_id.replace('-', '')[:16]}",
    )
}


# What the script proposes


def script(c: Context) -> Proposal:
    if c.effect and c.effect.state is EffectState.CONFIRMED:
        if cancelled(c).value is Value.UNMET:
            return Ask("The service cancelled the booking, and shows it as standing. Which is right?")
        return Claim("The booking is cancelled.")
    judged = still_reversible(c.facts["booking"])
    if judged.value is not Value.MET:
        says = f"Booking {c.input['booking_id']} cannot be cancelled by us: {judged.evidence.says}."
        return Ask(f"{says} Does the participant keep the seat, or does the organiser release it?")
    return Act(CANCEL_BOOKING.name, {})


def remaining(c: Context) -> Charge:
    """What a run that is not complete still needs, at the least."""
    unread = sum(c.fresh(read.fact) is None for read in READS)
    unsent = not c.effect or not c.effect.times_sent
    steps = unread + unsent + 1
    return {Dimension.STEPS: steps, Dimension.TOOL_ATTEMPTS: steps, Dimension.EXTERNAL_WRITES: int(unsent)}


# What people are told


def question(c: Context, reason: StopReason, found: str) -> str:
    booking = f"booking {c.input['booking_id']} at event {c.input['event_id']}"
    asked = c.effect.look_ups if c.effect else 0
    match reason:
        case StopReason.QUESTION_ASKED:
            return found
        case StopReason.OUTCOME_UNCONFIRMED:
            return f"Does {booking} still stand on the organiser's list? {asked} look-ups settled nothing."
        case StopReason.NOT_FOUND:
            return f"{found} Which event and participant is it of? Another booking takes another run."
        case StopReason.RECEIPTS_CONTRADICT:
            return f"{found}. Does {booking} stand or not?"
        case StopReason.CREDENTIAL_REFUSED:
            return f"{found} Was the product's credential replaced?"
        case StopReason.ACCESS_REFUSED:
            return f"{found} Was the product given access?"
        case StopReason.PAUSED:
            return f"The cancellation of {booking} is paused. May it go on?"
        case StopReason.CANCELLED_TOO_LATE | StopReason.NOT_REVERSIBLE:
            return f"The {booking} is cancelled already, and that is not undone. Should the seat be booked anew?"
        case StopReason.EFFECT_UNKNOWN | StopReason.EFFECT_PENDING | StopReason.CANCELLATION_UNVERIFIED:
            return f"Nothing to decide yet: the workshop service is asked again about {booking} by itself."
    return f"{found or 'The run stopped.'} How should the cancellation of {booking} go on?"


CUSTOMER_SAYS = Wording(
    subject="booking_id",
    quoted={Quote.NUMBER: "booking_id"},
    texts={
        Statement.BEING_WORKED_ON: {
            "en": "The cancellation of booking {subject} is being worked on.",
            "zh": "预约 {subject} 的取消申请正在处理中。",
        },
        Statement.ACCEPTED_UNDER_NUMBER: {
            "en": "Booking {number} is cancelled.",
            "zh": "预约 {number} 已取消。",
        },
        Statement.ACCEPTED: {
            "en": "Booking {subject} is cancelled.",
            "zh": "预约 {subject} 已取消。",
        },
        Statement.RECEIVED_UNDER_REFERENCE: {
            "en": "The cancellation of booking {subject} was received and is being verified. "
            "Your reference is {reference}.",
            "zh": "预约 {subject} 的取消申请已收到，正在核实，查询编号为 {reference}。",
        },
        Statement.RECEIVED: {
            "en": "The cancellation of booking {subject} was received and is being verified.",
            "zh": "预约 {subject} 的取消申请已收到，正在核实。",
        },
        Statement.BEING_VERIFIED: {
            "en": "We are verifying whether booking {subject} was cancelled. It may still stand.",
            "zh": "我们正在核实预约 {subject} 是否已取消，该预约可能仍然有效。",
        },
        Statement.CANCELLATION_BEING_VERIFIED: {
            "en": "We are verifying whether booking {subject} still stands.",
            "zh": "我们正在核实预约 {subject} 是否仍然有效。",
        },
        Statement.NOT_ENTITLED: {
            "en": "We could not find a booking that you may cancel. Please check its number.",
            "zh": "很抱歉，我们没有找到您可以取消的预约，请核对预约编号。",
        },
        Statement.NOT_ELIGIBLE: {
            "en": "Booking {subject} cannot be cancelled at present. You can ask the organiser about it.",
            "zh": "很抱歉，预约 {subject} 目前无法取消。您可以联系活动负责人。",
        },
        Statement.REFUSED_BY_SERVICE: {
            "en": "The organiser's service declined to cancel booking {subject}; it stands. You can ask the organiser.",
            "zh": "很抱歉，活动方未同意取消预约 {subject}，该预约仍然有效。您可以联系活动负责人。",
        },
        Statement.DECLINED: {
            "en": "The cancellation of booking {subject} was declined. You can ask the organiser about it.",
            "zh": "很抱歉，预约 {subject} 的取消申请未能通过。您可以联系活动负责人。",
        },
        Statement.WITH_A_PERSON: {
            "en": "The cancellation of booking {subject} was handed to the organiser, who takes it from here.",
            "zh": "预约 {subject} 的取消申请已转交活动负责人跟进。",
        },
        Statement.NOT_YET_CONFIRMED: {
            "en": "It is not yet confirmed whether booking {subject} is cancelled. We are following it up.",
            "zh": "预约 {subject} 是否已取消尚未得到确认，我们正在跟进。",
        },
        Statement.NEVER_CONFIRMED: {
            "en": "We could not establish whether booking {subject} was cancelled.",
            "zh": "很抱歉，我们最终未能确认预约 {subject} 是否已取消。",
        },
        Statement.NOT_SUBMITTED: {
            "en": "Booking {subject} was not cancelled: nothing was sent.",
            "zh": "预约 {subject} 没有取消：申请没有提交。",
        },
        Statement.NOT_IN_EFFECT: {
            "en": "The cancellation of booking {subject} did not take effect; it stands.",
            "zh": "预约 {subject} 的取消没有生效，该预约仍然有效。",
        },
        Statement.UNDONE: {
            "en": "The cancellation of booking {subject} was undone.",
            "zh": "预约 {subject} 的取消已撤销。",
        },
    },
)


WORKFLOW = Workflow(
    name="booking_cancellation",
    version=1,
    title="Booking cancellation",
    role="workshop organisers",
    input_schema=INPUT,
    subject=lambda given: f"booking {given['booking_id']}",
    headline=lambda given: f"Cancellation of booking {given['booking_id']}",
    goal=lambda given: (
        f"Cancel booking {given['booking_id']} of participant {given['participant_id']} at event {given['event_id']}, "
        "and have the workshop service show it as cancelled."
    ),
    acts_for=lambda given, starter: given.get("requested_by") or starter,
    exists=lambda given, acts_for: (
        CHECK_BOOKING_AUTHORITY.name,
        {"user": acts_for, "event_id": given["event_id"], "participant_id": given["participant_id"]},
        "event_id",
    ),
    tools={
        tool.name: tool
        for tool in (CHECK_BOOKING_AUTHORITY, READ_BOOKING, CANCEL_BOOKING, LOOK_UP_BOOKING_CANCELLATION)
    },
    reads=READS,
    operations=OPERATIONS,
    authorised=authorised,
    eligible=eligible,
    contract=CONTRACT,
    checks=checks,
    script=script,
    budgets={
        # A clean cancellation takes four steps (test_what_a_clean_cancellation_costs); one that never arrived, was put
        # before a person and was sent again takes ten at most (test_a_cancellation_that_never_arrived_...), and half
        # as many again are for flaky reads. The rest as for the booking.
        Dimension.STEPS: (12, 15),
        Dimension.TOOL_ATTEMPTS: (12, 15),
        Dimension.EXTERNAL_WRITES: 1,
        Dimension.STATUS_CHECKS: 3,
        Dimension.FOLLOW_UP_CHECKS: 6,
        Dimension.CALLBACK_CHECKS: 3,
        Dimension.WALL_TIME: int(timedelta(hours=36).total_seconds()),
    },
    remaining=remaining,
    question=question,
    stake=lambda c: price_in(c.facts.get("booking")),
    customer_says=CUSTOMER_SAYS,
)
