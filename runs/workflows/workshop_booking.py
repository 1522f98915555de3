"""Workshop booking: book one seat for one participant, and have the workshop service show exactly that one booking.

The story: may this person act for this participant at this event? What does the event say: when is it, what does it
cost, is a seat left, was the participant's registration approved, does the organiser decide who is let in? If all of
that allows it, book once under one operation key. Then read back what stands: one booking, under the receipt's number.
Whether it can be undone is read at the moment when somebody wants it undone, and is nobody's to promise before.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Evidence, Fact, Judgement, Value, is_text, met, unknown, unmet
from runs.domain.decision import FactsState
from runs.domain.effects import UNRESOLVED, Effect, EffectState, WritePlan, names
from runs.domain.money import Money, is_currency, money
from runs.domain.proposals import Act, Ask, Claim, Proposal
from runs.domain.states import StopReason
from runs.domain.telling import Quote, Statement, Wording, readable
from runs.tools.bookings import (
    CANCEL_BOOKING,
    CHECK_BOOKING_AUTHORITY,
    LOOK_UP_BOOKING,
    LOOK_UP_BOOKING_CANCELLATION,
    READ_BOOKING,
    READ_EVENT,
    READ_SEAT,
    SUBMIT_BOOKING,
)
from runs.workflows.definition import (
    Assertion,
    Check,
    Context,
    FollowUp,
    Read,
    Undo,
    Workflow,
    Writing,
    standing_of,
)
from runs.workflows.fields import is_count, is_day

# Short enough for both to stand in an operation key.
ID = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9-]{0,29}$"}
INPUT = {
    "type": "object",
    "properties": {
        "event_id": {**ID, "title": "Event"},
        "participant_id": {**ID, "title": "Participant the seat is for"},
        "requested_by": {**ID, "title": "Person who asks for it"},
    },
    "required": ["event_id", "participant_id"],
    "additionalProperties": False,
}
BY_ORGANISER = "organiser"


def what_it_costs(event: Mapping[str, Any]) -> str:
    return money(event["price_minor"], event["currency"]) if event["price_minor"] else "free of charge"


def price_in(fact: Fact | None) -> Money | None:
    """What a seat costs, as far as an event or a booking says it. Of a free one, no money is at stake."""
    said = fact.data if fact else {}
    return Money.said(said.get("price_minor") or None, said.get("currency"))


# What has to be known, and where it is read


SAID_BY_THE_EVENT: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "title": ("what it is called", is_text),
    "starts_on": ("when it starts", is_day),
    "business_date": ("what day it is", is_day),
    "seats_left": ("how many seats are left", is_count),
    "price_minor": ("what it costs", is_count),
    "currency": ("in which currency", is_currency),
    "organiser": ("who organises it", is_text),
    "admission": ("who decides about admission", lambda value: value in ("open", BY_ORGANISER)),
    "registration": ("whether the participant is approved", lambda value: value in ("approved", "requested")),
    "version": ("which version it is", is_count),
}


def event_is_complete(event: Fact) -> tuple[FactsState, str]:
    unsaid = [says for name, (says, fits) in SAID_BY_THE_EVENT.items() if not fits(event.data.get(name))]
    if unsaid:
        return FactsState.MISSING, f"Nothing usable in the event says {' or '.join(unsaid)}."
    return FactsState.COMPLETE, ""


def seat_of(c: Context) -> dict[str, Any]:
    return {"event_id": c.input["event_id"], "participant_id": c.input["participant_id"]}


AUTHORITY = Read(
    fact="authority",
    tool=CHECK_BOOKING_AUTHORITY.name,
    params=lambda c: {"user": c.acts_for, **seat_of(c)},
    check=lambda fact: (FactsState.COMPLETE, ""),
    expects="whether this person may act for this participant",
    opens=True,
)
READS = (
    AUTHORITY,
    Read(
        fact="event",
        tool=READ_EVENT.name,
        params=seat_of,
        check=event_is_complete,
        expects="when it is, what it costs, whether a seat is left, whether the participant is approved",
    ),
)


# What must hold before anything is sent


def authorised(c: Context) -> Judgement:
    authority = c.facts.get("authority")
    if not authority:
        return unknown("not read yet")
    may = authority.data["allowed"]
    says = f"{c.acts_for} {'may' if may else 'may not'} act for this participant"
    return met(authority.evidence(says)) if may else unmet(authority.evidence(says))


def eligible(c: Context) -> Judgement:
    """Judged for what is not sent yet. Once it is, the seat that is missing may be its own."""
    event = c.facts.get("event")
    if not event:
        return unknown("not read yet")
    if sent := what_is_out(c):
        says = "approved, before the day, and with a seat left when it was sent"
        return met(Evidence(f"{says} ({sent.plan.target_version})", READ_EVENT.source, sent.sent_at, event.reference))
    state, says = event_is_complete(event)
    if state is not FactsState.COMPLETE:
        return unknown(says)
    data = event.data
    begun = has_begun(data)
    left = data["seats_left"]
    says = (
        f"registration {data['registration']}; {'begun' if begun else 'starts'} on {data['starts_on']}, "
        f"today is {data['business_date']}; {left or 'no'} {'seat' if left == 1 else 'seats'} left"
    )
    fits = data["registration"] == "approved" and not begun and left > 0
    return met(event.evidence(says)) if fits else unmet(event.evidence(says))


def has_begun(data: Mapping[str, Any]) -> bool:
    """The hour is not on record: on its day a workshop counts as begun."""
    return date.fromisoformat(data["starts_on"]) <= date.fromisoformat(data["business_date"])


def what_is_out(c: Context) -> Effect | None:
    """The booking, while it may have landed or has; what was read before it left permitted it."""
    effect = c.write(SUBMIT_BOOKING.name)
    return effect if effect and effect.state in {*UNRESOLVED, EffectState.CONFIRMED, EffectState.COMPENSATED} else None


# What success means: the contract


def booked(c: Context) -> Judgement:
    effect = c.write(SUBMIT_BOOKING.name)
    if not effect or not effect.times_sent:
        return unknown("nothing has been sent")
    match effect.state:
        case EffectState.CONFIRMED:
            # What was read of it after its receipt, to undo it, counts as well.
            standing = c.facts.get(standing_of(effect))
            if standing and standing.data.get("state") != "accepted":
                return unmet(standing.evidence(f"booking {number_of(effect)} is {standing.data.get('state')}"))
            return met(_from_the_service(effect, f"booked as {number_of(effect)}"))
        case EffectState.COMPENSATED:
            return unmet(_from_the_service(effect, f"booked as {number_of(effect)}, and cancelled since"))
        case EffectState.REJECTED:
            return unmet(_from_the_service(effect, f"refused: {effect.reason}"))
        case EffectState.ABSENT:
            return unknown("the service does not have it")
        case EffectState.ACKNOWLEDGED:
            return unknown("received by the service, not decided yet")
    looked = f", nor from {effect.look_ups} look-up{'s' if effect.look_ups > 1 else ''}" if effect.look_ups else ""
    return unknown(f"no answer that counts from the booking{looked}")


def receipt_matches(c: Context) -> Judgement:
    effect = c.write(SUBMIT_BOOKING.name)
    receipt = effect.receipt if effect else None
    if not effect or effect.state not in {EffectState.CONFIRMED, EffectState.COMPENSATED} or not receipt:
        return unknown("no receipt")
    if not names(receipt, {**seat_of(c), "operation_key": effect.key}):
        return unmet(_from_the_service(effect, "the receipt names another event, participant or operation"))
    if not receipt.get("booking_id"):
        return unmet(_from_the_service(effect, "the receipt has no booking number"))
    seat = f"{receipt['participant_id']} at {receipt['event_id']}"
    return met(_from_the_service(effect, f"receipt {receipt['booking_id']} names {seat} and this operation key"))


def only_one(c: Context) -> Judgement:
    """Read back once it was booked, and never before, by another call than the one that booked it."""
    effect, seat = c.write(SUBMIT_BOOKING.name), c.facts.get("seat")
    if not effect or effect.state is not EffectState.CONFIRMED:
        return unknown("nothing is booked")
    if not seat:
        return unknown("not read back yet")
    numbers = [str(record.get("booking_id")) for record in seat.data.get("records") or []]
    if seat.data.get("store") != "ledger":
        return unknown("what was read back is a copy that may lag behind")
    evidence = seat.evidence(f"at the event stands: {', '.join(numbers) or 'no booking'}")
    return met(evidence) if numbers == [number_of(effect)] else unmet(evidence)


def number_of(effect: Effect) -> str:
    return str((effect.receipt or {}).get("booking_id") or "")


def _from_the_service(effect: Effect, says: str) -> Evidence:
    receipt = effect.receipt or {}
    reference = str(receipt.get("booking_id") or receipt.get("tracking_id") or "")
    return Evidence(says, SUBMIT_BOOKING.source, effect.answered_at, reference)


CONTRACT = (
    Assertion("authorised", "This person may act for the participant", authorised),
    Assertion("eligible", "The participant is approved, the workshop is still to come, and a seat was left", eligible),
    Assertion("booked", "The workshop service accepted the booking", booked),
    Assertion("receipt_matches", "The receipt names this event, this participant and this operation", receipt_matches),
    Assertion("only_one", "Exactly one booking of the participant stands, under the receipt's number", only_one),
)


def checks(c: Context) -> Sequence[Check]:
    effect = c.write(SUBMIT_BOOKING.name)
    seen = c.fresh("seat") or only_one(c).value is Value.MET
    if not effect or effect.state is not EffectState.CONFIRMED or seen:
        return ()
    return (Check("seat", READ_SEAT.name, seat_of(c), f"exactly one booking, {number_of(effect)}"),)


# What may be written, and how it is undone


def plan(c: Context, given: Mapping[str, Any]) -> WritePlan:
    event = c.facts["event"].data
    price = what_it_costs(event)
    return WritePlan(
        operation=SUBMIT_BOOKING.name,
        target=f"a seat for participant {c.input['participant_id']} at event {c.input['event_id']}",
        params={**seat_of(c), "price_minor": event["price_minor"], "currency": event["currency"]},
        difference=(
            ("booking", "none", "one seat"),
            ("workshop", "–", readable(event["title"])),
            ("starts on", "–", event["starts_on"]),
            ("price", "–", price),
        ),
        target_version=f"event version {event['version']}",
        expected="accepted, with a booking number",
        undo="cancel the booking by its number, before the day of the workshop and while nobody holds a confirmation",
        risk=f"one seat less for everybody else{f'; {price} are owed' if event['price_minor'] else ''}",
        needs_approval=(
            f"the organiser, {readable(event['organiser'])}, decides who is let in at this event"
            if event["admission"] == BY_ORGANISER
            else ""
        ),
    )


def still_reversible(fact: Fact) -> Judgement:
    """Whether a booking, as it was read just now, can be cancelled. What the service does not say permits nothing."""
    data = fact.data
    if not (is_day(data.get("starts_on")) and is_day(data.get("business_date")) and "confirmation_held_by" in data):
        return unknown("the service does not say when it starts, or who holds a confirmation")
    if data.get("state") != "accepted":
        return unmet(fact.evidence(f"booking {data.get('booking_id')} is {data.get('state')}"))
    if has_begun(data):
        return unmet(fact.evidence(f"the workshop began on {data['starts_on']}, and today is {data['business_date']}"))
    if data["confirmation_held_by"] is not None:
        return unmet(fact.evidence("somebody holds a confirmation of it, and relies on it"))
    says = f"accepted, starts on {data['starts_on']}, and nobody holds a confirmation"
    return met(fact.evidence(says))


def booking_is_reversible(effect: Effect, fact: Fact) -> Judgement:
    if not names(fact.data, {"booking_id": number_of(effect), "operation_key": effect.key}):
        return unknown(f"the workshop service does not show booking {number_of(effect)}")
    return still_reversible(fact)


def booking_is_undone(effect: Effect, fact: Fact) -> Judgement:
    says = f"booking {number_of(effect)} is {fact.data.get('state')}"
    if not names(fact.data, {"booking_id": number_of(effect), "operation_key": effect.key}):
        return unknown(f"the workshop service does not show booking {number_of(effect)}")
    return met(fact.evidence(says)) if fact.data.get("state") == "cancelled" else unmet(fact.evidence(says))


def cancellation_plan(seat: Mapping[str, Any], number: str, risk: str) -> WritePlan:
    return WritePlan(
        operation=CANCEL_BOOKING.name,
        target=f"booking {number}",
        params={"event_id": seat["event_id"], "participant_id": seat["participant_id"], "booking_id": number},
        difference=(("booking", "accepted", "cancelled"),),
        target_version=f"accepted as {number}",
        expected="cancelled",
        undo="none: a new booking is another run, and may find no seat",
        risk=risk,
    )


OPERATIONS = {
    SUBMIT_BOOKING.name: Writing(
        says="Books one seat for this participant at this event, once.",
        plan=plan,
        key=lambda c, given: "-".join(("booking", *map(str, seat_of(c).values()), c.run_id.replace("-", "")[:16])),
        undo=Undo(
            read=READ_BOOKING.name,
            params=lambda effect: {"booking_id": number_of(effect)},
            reversible=booking_is_reversible,
            undone=booking_is_undone,
            plan=lambda effect, fact: cancellation_plan(
                effect.plan.params, number_of(effect), "the seat goes to whoever asks next"
            ),
        ),
    )
}


def what_was_booked(c: Context) -> dict[str, Any]:
    """What a run that cancels it starts from."""
    effect = c.write(SUBMIT_BOOKING.name)
    return {**c.input, "booking_id": number_of(effect) if effect else ""}


def nothing_to_cancel(c: Context) -> str:
    effect = c.write(SUBMIT_BOOKING.name)
    stands = effect and effect.state is EffectState.CONFIRMED
    return "" if stands else "No booking of this run stands, so there is none to cancel."


# What the script proposes


def script(c: Context) -> Proposal:
    effect = c.write(SUBMIT_BOOKING.name)
    if effect and effect.state is EffectState.CONFIRMED:
        if c.fresh("seat") and only_one(c).value is not Value.MET:
            return Ask(f"{number_of(effect)} was accepted, and that is not what stands. Which booking is to stand?")
        return Claim(f"The seat is booked as {number_of(effect)}.")
    if effect and effect.state is EffectState.REJECTED:
        return Ask("The workshop service refused the booking. Is there another workshop for the participant?")
    return Act(SUBMIT_BOOKING.name, {})


def remaining(c: Context) -> Charge:
    """What a run that is not complete still needs, at the least."""
    effect = c.write(SUBMIT_BOOKING.name)
    unread = sum(c.fresh(read.fact) is None for read in READS)
    unsent = not effect or not effect.times_sent
    steps = unread + unsent + (c.fresh("seat") is None)
    return {Dimension.STEPS: steps, Dimension.TOOL_ATTEMPTS: steps, Dimension.EXTERNAL_WRITES: int(unsent)}


# What people are told


def question(c: Context, reason: StopReason, found: str) -> str:
    seat = f"participant {c.input['participant_id']} at event {c.input['event_id']}"
    asked = c.effect.look_ups if c.effect else 0
    match reason:
        case StopReason.APPROVAL_REQUIRED:
            event = c.facts["event"].data
            price = what_it_costs(event)
            return f"Is {seat} let in, on {event['starts_on']}, {price}?"
        case StopReason.OUTCOME_UNCONFIRMED:
            return f"Is there a booking of {seat} on the organiser's list? {asked} look-ups settled nothing."
        case StopReason.LIMIT_STATUS_CHECKS:
            return f"The workshop service still says pending about {seat} after {asked} look-ups. Who follows it up?"
        case StopReason.RECEIPTS_CONTRADICT:
            return f"{found}. Does {seat} have a seat, and under which number?"
        case StopReason.FACTS_MISSING:
            return f"{found} Can the organiser put that right in the event register?"
        case StopReason.CREDENTIAL_REFUSED:
            return f"{found} Was the product's credential replaced?"
        case StopReason.ACCESS_REFUSED:
            return f"{found} Was the product given access?"
        case StopReason.APPROVAL_REJECTED:
            return f"The organiser does not let in {seat}: {found} What should they be offered instead?"
        case StopReason.APPROVAL_EXPIRED:
            return f"Nobody decided about {seat} in time. Should it be put before the organiser again?"
        case StopReason.CANCELLED_TOO_LATE:
            return f"The seat of {seat} was booked before the cancellation. Give it up, or go on and keep it?"
        case StopReason.NOT_REVERSIBLE:
            return f"{found} Does {seat} keep the seat, or does the organiser take the confirmation back?"
        case StopReason.NO_PROGRESS:
            return f"The agent keeps saying that {seat} has a seat, and nothing shows it. Go on, or stop here?"
        case StopReason.PAUSED:
            return f"The booking of {seat} is paused. May it go on?"
        case StopReason.QUESTION_ASKED:
            return found
        case StopReason.EFFECT_UNKNOWN | StopReason.EFFECT_PENDING | StopReason.CANCELLATION_UNVERIFIED:
            return f"Nothing to decide yet: the workshop service is asked again about {seat} by itself."
    return f"{found or 'The run stopped.'} How should the booking of {seat} go on?"


CUSTOMER_SAYS = Wording(
    subject="event_id",
    quoted={Quote.NUMBER: "booking_id", Quote.REFERENCE: "tracking_id"},
    texts={
        Statement.BEING_WORKED_ON: {
            "en": "Your booking for workshop {subject} is being worked on.",
            "zh": "您的工作坊 {subject} 预约正在处理中。",
        },
        Statement.ACCEPTED_UNDER_NUMBER: {
            "en": "A seat at workshop {subject} is booked under number {number}.",
            "zh": "您的工作坊 {subject} 名额已预约成功，预约编号为 {number}。",
        },
        Statement.ACCEPTED: {
            "en": "A seat at workshop {subject} is booked.",
            "zh": "您的工作坊 {subject} 名额已预约成功。",
        },
        Statement.RECEIVED_UNDER_REFERENCE: {
            "en": "Your booking for workshop {subject} was received and is being verified. "
            "Your reference is {reference}. It is not yet a seat.",
            "zh": "您的工作坊 {subject} 预约申请已收到，正在核实，查询编号为 {reference}。目前名额尚未确认。",
        },
        Statement.RECEIVED: {
            "en": "Your booking for workshop {subject} was received and is being verified. It is not yet a seat.",
            "zh": "您的工作坊 {subject} 预约申请已收到，正在核实。目前名额尚未确认。",
        },
        Statement.BEING_VERIFIED: {
            "en": "We are verifying whether your booking for workshop {subject} was received. "
            "Please do not book a second time.",
            "zh": "我们正在核实您的工作坊 {subject} 预约是否已被接收，请勿重复预约。",
        },
        Statement.CANCELLATION_BEING_VERIFIED: {
            "en": "We are verifying whether the booking for workshop {subject} could still be cancelled.",
            "zh": "我们正在核实您的工作坊 {subject} 预约是否还能取消。",
        },
        Statement.NOT_ENTITLED: {
            "en": "We could not find a workshop that you may book for this participant. Please check both numbers.",
            "zh": "很抱歉，我们没有找到您可以为该参与者预约的工作坊，请核对活动编号和参与者编号。",
        },
        Statement.NOT_ELIGIBLE: {
            "en": "Workshop {subject} cannot be booked for this participant at present: "
            "it is full or has begun, or the registration was not approved. You can ask the organiser about it.",
            "zh": "很抱歉，目前无法为该参与者预约工作坊 {subject}："
            "名额已满、活动已开始，或报名尚未获批。您可以联系活动负责人。",
        },
        Statement.REFUSED_BY_SERVICE: {
            "en": "The organiser's service declined the booking for workshop {subject}. We can suggest other dates.",
            "zh": "很抱歉，活动方未接受您的工作坊 {subject} 预约。我们可以为您推荐其他场次。",
        },
        Statement.DECLINED: {
            "en": "Your booking for workshop {subject} was declined. We can suggest other dates.",
            "zh": "很抱歉，您的工作坊 {subject} 预约未能通过。我们可以为您推荐其他场次。",
        },
        Statement.WITH_A_PERSON: {
            "en": "Your booking for workshop {subject} was handed to the organiser, who takes it from here.",
            "zh": "您的工作坊 {subject} 预约已转交活动负责人跟进。",
        },
        Statement.NOT_YET_CONFIRMED: {
            "en": "Your booking for workshop {subject} is not yet confirmed. We are following it up.",
            "zh": "您的工作坊 {subject} 预约尚未得到确认，我们正在跟进。",
        },
        Statement.NEVER_CONFIRMED: {
            "en": "We could not establish what became of your booking for workshop {subject}.",
            "zh": "很抱歉，我们最终未能确认您的工作坊 {subject} 预约的结果。",
        },
        Statement.NOT_SUBMITTED: {
            "en": "Your booking for workshop {subject} was not sent.",
            "zh": "您的工作坊 {subject} 预约没有提交。",
        },
        Statement.NOT_IN_EFFECT: {
            "en": "Your booking for workshop {subject} did not take effect.",
            "zh": "您的工作坊 {subject} 预约没有生效。",
        },
        Statement.UNDONE: {
            "en": "Your booking for workshop {subject} was cancelled.",
            "zh": "您的工作坊 {subject} 预约已取消。",
        },
    },
)


WORKFLOW = Workflow(
    name="workshop_booking",
    version=1,
    title="Workshop booking",
    role="workshop organisers",
    input_schema=INPUT,
    subject=lambda given: f"seat of {given['participant_id']} at {given['event_id']}",
    headline=lambda given: f"Seat for {given['participant_id']} at workshop {given['event_id']}",
    goal=lambda given: (
        f"Book one seat for participant {given['participant_id']} at event {given['event_id']}, have the workshop "
        "service show exactly that one booking, and tell the participant its number."
    ),
    acts_for=lambda given, starter: given.get("requested_by") or starter,
    exists=lambda given, acts_for: (
        CHECK_BOOKING_AUTHORITY.name,
        {"user": acts_for, "event_id": given["event_id"], "participant_id": given["participant_id"]},
        "event_id",
    ),
    tools={
        tool.name: tool
        for tool in (
            CHECK_BOOKING_AUTHORITY,
            READ_EVENT,
            SUBMIT_BOOKING,
            LOOK_UP_BOOKING,
            READ_SEAT,
            READ_BOOKING,
            CANCEL_BOOKING,
            LOOK_UP_BOOKING_CANCELLATION,
        )
    },
    reads=READS,
    operations=OPERATIONS,
    authorised=authorised,
    eligible=eligible,
    contract=CONTRACT,
    checks=checks,
    script=script,
    follow_ups={"cancel": FollowUp("Cancel the booking", "booking_cancellation", what_was_booked, nothing_to_cancel)},
    budgets={
        # A clean booking takes four steps (test_what_a_clean_booking_costs); one that is approved, refused once for the
        # rate and proven absent once takes twelve (test_the_longest_way_leaves_a_third_of_the_steps), and half as many
        # again are for flaky reads. One seat is one write. Three look-ups settle a lost answer, or it is a person's
        # (test_unknown_is_not_failed...). A day is for the organiser, and half of one for everything else.
        Dimension.STEPS: (14, 18),
        Dimension.TOOL_ATTEMPTS: (14, 18),
        Dimension.EXTERNAL_WRITES: 1,
        Dimension.STATUS_CHECKS: 3,
        Dimension.FOLLOW_UP_CHECKS: 6,
        Dimension.CALLBACK_CHECKS: 3,
        Dimension.WALL_TIME: int(timedelta(hours=36).total_seconds()),
    },
    remaining=remaining,
    question=question,
    stake=lambda c: price_in(c.facts.get("event")),
    customer_says=CUSTOMER_SAYS,
    approval_within=timedelta(hours=24),
)
