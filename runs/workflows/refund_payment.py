"""Refund payment: follow the money of one accepted refund request until the payment service says that it was paid.

The story: may this person ask about this order? What does the payment service say about this request's number? That it
was paid, in the amount that was accepted, is what this run is for; it writes nothing. While the money is on its way
nothing can be done about it here: the run waits, looks again by itself, and comes to a person when it has looked often
enough.
"""

from datetime import timedelta
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Fact, Judgement, met, unknown, unmet
from runs.domain.decision import FactsState
from runs.domain.money import Money, money
from runs.domain.proposals import Ask, Claim, Proposal, Wait
from runs.domain.states import StopReason
from runs.domain.telling import QUOTABLE, Quote, Statement, Wording
from runs.tools.back_office import CHECK_AUTHORITY
from runs.tools.payments import PAYMENT_STATES, READ_PAYMENT
from runs.workflows.definition import Assertion, Context, Read, Workflow
from runs.workflows.refund_request import INPUT as REFUND
from runs.workflows.refund_request import READS as REFUND_READS
from runs.workflows.refund_request import authorised

INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        **REFUND["properties"],
        "request_id": {
            "type": "string",
            "title": "Number of the accepted refund request",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$",
        },
        "amount_minor": {**REFUND["properties"]["amount_minor"], "title": "Amount accepted, in the smallest unit"},
        "currency": {"type": "string", "title": "Currency", "pattern": "^[A-Z]{3}$"},
    },
    "required": ["order_id", "request_id", "amount_minor", "currency"],
    "additionalProperties": False,
}

READS = (
    REFUND_READS[0],  # who may ask about a refund may ask about its payment
    Read(
        fact="payment",
        tool=READ_PAYMENT.name,
        params=lambda c: {"order_id": c.input["order_id"], "request_id": c.input["request_id"]},
        check=lambda fact: (FactsState.COMPLETE, ""),
        expects="whether this request was paid, and how much",
    ),
)


def state_of(c: Context) -> str:
    payment = c.facts.get("payment")
    return payment.data["payment_state"] if payment else ""


def amount_of(payment: Fact) -> str:
    return money(payment.data["amount_minor"], payment.data["currency"])


def accepted(c: Context) -> Money:
    """What was accepted, and is to be paid."""
    return Money(int(c.input["amount_minor"]), c.input["currency"])


def stands(c: Context) -> Judgement:
    """Whether there is anything to follow: what was cancelled is never paid."""
    payment = c.facts.get("payment")
    if not payment:
        return unknown("not read yet")
    number = c.input["request_id"]
    if state_of(c) == "void":
        return unmet(payment.evidence(f"request {number} was cancelled, so nothing is paid for it"))
    return met(payment.evidence(f"request {number} stands"))


# What success means: the contract


def paid(c: Context) -> Judgement:
    payment = c.facts.get("payment")
    if not payment:
        return unknown("not read yet")
    state, number = state_of(c), c.input["request_id"]
    if state in {"unpaid", "processing"}:
        return unknown(f"request {number} is {PAYMENT_STATES[state]}")
    says = f"request {number} is {PAYMENT_STATES[state]}{why(payment)}"
    return met(payment.evidence(says)) if state == "paid" else unmet(payment.evidence(says))


def why(payment: Fact) -> str:
    """The service's reason as far as it can be quoted; free text is none."""
    reason = payment.data.get("reason")
    return f" ({reason.replace('_', ' ')})" if isinstance(reason, str) and QUOTABLE.fullmatch(reason) else ""


def in_full(c: Context) -> Judgement:
    payment = c.facts.get("payment")
    if not payment or state_of(c) != "paid":
        return unknown("nothing was paid yet")
    fits = amount_of(payment) == str(accepted(c))
    evidence = payment.evidence(f"{amount_of(payment)} paid, {accepted(c)} accepted")
    return met(evidence) if fits else unmet(evidence)


CONTRACT = (
    Assertion("authorised", "The customer may act on this order", authorised),
    Assertion("paid", "The payment service paid this request", paid),
    Assertion("in_full", "What was paid is what was accepted", in_full),
)


# What the script proposes: there is nothing to write, and looking again at once would change nothing


def script(c: Context) -> Proposal:
    number = c.input["request_id"]
    match state_of(c):
        case "paid" if in_full(c).value == "MET":
            return Claim(f"Request {number} was paid.")
        case "paid":
            return Ask(f"For request {number}, {in_full(c).evidence.says}. Who clears the difference?")
        case "failed":
            failed = c.facts["payment"]
            return Ask(f"The payment of request {number} failed{why(failed)}. Is it sent off again, or paid otherwise?")
        case state:
            return Wait(f"Request {number} is {PAYMENT_STATES.get(state, 'not known')}.")


def remaining(c: Context) -> Charge:
    unread = sum(c.fresh(read.fact) is None for read in READS)
    return {Dimension.STEPS: unread, Dimension.TOOL_ATTEMPTS: unread}


# What people are told


def question(c: Context, reason: StopReason, found: str) -> str:
    number = c.input["request_id"]
    match reason:
        case StopReason.QUESTION_ASKED:
            return found
        case StopReason.RESULT_PENDING:
            return f"Nothing to decide yet: {found} The payment service is asked again by itself."
        case StopReason.LIMIT_STATUS_CHECKS:
            state = PAYMENT_STATES.get(state_of(c), "not known")
            return f"Request {number} is {state}, after as many looks as were planned. Who follows it up with the bank?"
        case StopReason.NOT_FOUND:
            return f"The payment service knows no request {number}. Another number takes another run: stop this one?"
        case StopReason.CREDENTIAL_REFUSED:
            return f"{found} Was the product's credential replaced?"
        case StopReason.ACCESS_REFUSED:
            return f"{found} Was the product given access?"
        case StopReason.NO_PROGRESS:
            return f"The agent keeps saying that request {number} was paid, and nothing shows it. Look again, or stop?"
        case StopReason.PAUSED:
            return f"Following the payment of request {number} is paused. May it go on?"
    return f"{found or 'The run stopped.'} How should the payment of request {number} be followed?"


CUSTOMER_SAYS = Wording(
    subject="request_id",
    quoted={Quote.NUMBER: "request_id", Quote.REFERENCE: "request_id"},
    texts={
        Statement.BEING_WORKED_ON: {
            "en": "We are looking into the payment of your refund {subject}.",
            "zh": "我们正在查询您退款 {subject} 的付款情况。",
        },
        Statement.ACCEPTED_UNDER_NUMBER: {
            "en": "Your refund {subject} was paid out; the payment's number is {number}.",
            "zh": "您的退款 {subject} 已付出，付款编号为 {number}。",
        },
        Statement.ACCEPTED: {
            "en": "Your refund {subject} was paid out. Your bank may take some days to show it.",
            "zh": "您的退款 {subject} 已付出，银行可能需要数日才会显示到账。",
        },
        Statement.RECEIVED_UNDER_REFERENCE: {
            "en": "The payment of your refund {subject} is being looked into under reference {reference}.",
            "zh": "您退款 {subject} 的付款正在核实，查询编号为 {reference}。",
        },
        Statement.RECEIVED: {
            "en": "The payment of your refund {subject} is being looked into.",
            "zh": "您退款 {subject} 的付款正在核实。",
        },
        Statement.BEING_VERIFIED: {
            "en": "We are verifying whether your refund {subject} was paid out.",
            "zh": "我们正在核实您的退款 {subject} 是否已付出。",
        },
        Statement.CANCELLATION_BEING_VERIFIED: {
            "en": "We are verifying how your refund {subject} stands before we stop following its payment.",
            "zh": "在停止跟进之前，我们正在核实您退款 {subject} 的情况。",
        },
        Statement.NOT_ENTITLED: {
            "en": "We could not find a refund that you may ask about. Please check the number.",
            "zh": "很抱歉，我们没有找到您可以查询的退款，请您核对编号。",
        },
        Statement.NOT_ELIGIBLE: {
            "en": "Your refund request {subject} was cancelled, so nothing is paid out for it.",
            "zh": "您的退款申请 {subject} 已被取消，因此不会付款。",
        },
        Statement.REFUSED_BY_SERVICE: {
            "en": "The payment service gave us no information about refund {subject}.",
            "zh": "很抱歉，付款服务方没有提供退款 {subject} 的信息。",
        },
        Statement.DECLINED: {
            "en": "We could not look into the payment of refund {subject}.",
            "zh": "很抱歉，我们无法查询退款 {subject} 的付款情况。",
        },
        Statement.WITH_A_PERSON: {
            "en": "Whether your refund {subject} was paid out is not confirmed. A person is following it up.",
            "zh": "您的退款 {subject} 是否已付出尚未得到确认，人工客服正在跟进。",
        },
        Statement.NOT_YET_CONFIRMED: {
            "en": "Whether your refund {subject} was paid out is not yet confirmed. We are following it up.",
            "zh": "您的退款 {subject} 是否已付出尚未得到确认，我们正在跟进。",
        },
        Statement.NEVER_CONFIRMED: {
            "en": "We could not establish whether your refund {subject} was paid out.",
            "zh": "很抱歉，我们最终未能确认您的退款 {subject} 是否已付出。",
        },
        Statement.NOT_SUBMITTED: {
            "en": "We stopped following the payment of your refund {subject}. That changes nothing about the refund.",
            "zh": "我们已停止跟进您退款 {subject} 的付款，退款本身不受影响。",
        },
        Statement.NOT_IN_EFFECT: {
            "en": "We stopped following the payment of your refund {subject}. That changes nothing about the refund.",
            "zh": "我们已停止跟进您退款 {subject} 的付款，退款本身不受影响。",
        },
        Statement.UNDONE: {
            "en": "We stopped following the payment of your refund {subject}. That changes nothing about the refund.",
            "zh": "我们已停止跟进您退款 {subject} 的付款，退款本身不受影响。",
        },
    },
)


WORKFLOW = Workflow(
    name="refund_payment",
    version=1,
    title="Refund payment",
    role="refunds desk",
    input_schema=INPUT,
    subject=lambda given: f"payment of {given['request_id']}",
    headline=lambda given: f"Payment of refund {given['request_id']} for order {given['order_id']}",
    goal=lambda given: (
        f"Have the payment service confirm that refund request {given['request_id']} of order {given['order_id']} was "
        "paid, in the amount that was accepted."
    ),
    acts_for=lambda given, starter: given.get("customer_id") or starter,
    exists=lambda given, acts_for: (
        CHECK_AUTHORITY.name,
        {"user": acts_for, "order_id": given["order_id"]},
        "order_id",
    ),
    tools={tool.name: tool for tool in (CHECK_AUTHORITY, READ_PAYMENT)},
    reads=READS,
    authorised=authorised,
    eligible=stands,
    contract=CONTRACT,
    script=script,
    budgets={
        # Money takes up to five working days, which is a week: ten looks after the first, by the waits below, come to
        # eight days. One look is two reads (test_what_one_look_costs); half as many again are for retries and people.
        Dimension.STEPS: (28, 33),
        Dimension.TOOL_ATTEMPTS: (28, 33),
        Dimension.STATUS_CHECKS: 10,
        Dimension.WALL_TIME: int(timedelta(days=14).total_seconds()),
    },
    look_up_after=(timedelta(hours=1), timedelta(hours=6), timedelta(days=1)),
    remaining=remaining,
    question=question,
    stake=accepted,
    customer_says=CUSTOMER_SAYS,
)
