"""Refund request: submit one refund request for an order and have the refund service confirm that it was accepted.

The story: may this person act on this order? What does the order say? Which policy is in force today? If all of that
allows it, submit the request once under one operation key, and tell the customer the number on the service's receipt.
A request may be for a part of what the order cost. "Accepted" is not "paid": the money's way back is another goal,
which a run of its own follows (refund_payment.py).
"""

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Evidence, Fact, Judgement, Value, met, unknown, unmet
from runs.domain.decision import FactsState
from runs.domain.effects import Effect, EffectState, WritePlan, names
from runs.domain.money import Money, is_currency, money
from runs.domain.proposals import Act, Ask, Claim, Proposal
from runs.domain.states import StopReason
from runs.domain.telling import Quote, Statement, Wording
from runs.tools.back_office import (
    CANCEL_REFUND,
    CHECK_AUTHORITY,
    LOOK_UP_CANCELLATION,
    LOOK_UP_REFUND,
    READ_ORDER,
    READ_POLICIES,
    READ_REFUND,
    SUBMIT_REFUND,
)
from runs.tools.payments import READ_LEFT
from runs.workflows.definition import Assertion, Context, FollowUp, Read, Reading, Undo, Workflow, Writing, standing_of
from runs.workflows.fields import is_count, is_day

INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "title": "Order", "pattern": "^[A-Za-z0-9][A-Za-z0-9-]{0,39}$"},
        "customer_id": {
            "type": "string",
            "title": "Customer the request is made for",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9-]{0,39}$",
        },
        "amount_minor": {
            "type": "integer",
            "title": "Amount in the smallest unit of the order's currency, such as cents (none: what the order cost)",
            "minimum": 1,
            "maximum": 1_000_000_000,
        },
    },
    "required": ["order_id"],
    "additionalProperties": False,
}


def wanted(c: Context) -> Any:
    """How much is asked for, in minor units; `order` has been read, and where it is complete this is a number."""
    return int(c.input["amount_minor"]) if "amount_minor" in c.input else c.facts["order"].data.get("amount_minor")


def stake(c: Context) -> Money | None:
    """What is to be refunded, as far as the order says it."""
    order = c.facts.get("order")
    return Money.said(wanted(c), order.data.get("currency")) if order else None


# What has to be known, and where it is read


SAID_BY_THE_ORDER = {
    "delivered_on": "when it was delivered",
    "opened": "whether it was opened",
    "amount_minor": "what it cost",
    "currency": "in which currency",
    "version": "which version it is",
}


def order_is_complete(order: Fact) -> tuple[FactsState, str]:
    wanted = {
        "delivered_on": is_day,
        "opened": lambda value: isinstance(value, bool),
        "amount_minor": lambda value: is_count(value) and value > 0,
        "currency": is_currency,
        "version": is_count,
    }
    missing = [name for name, fits in wanted.items() if not fits(order.data.get(name))]
    if missing:
        unsaid = " or ".join(SAID_BY_THE_ORDER[name] for name in missing)
        return FactsState.MISSING, f"Nothing usable in the order says {unsaid}."
    return FactsState.COMPLETE, ""


def one_policy_in_force(policies: Fact) -> tuple[FactsState, str]:
    found = policies.data.get("policies") or []
    today = policies.data.get("business_date")
    if not is_day(today):
        return FactsState.MISSING, "The policy service named no usable business date."
    if len(found) > 1:
        versions = " and ".join(str(policy.get("version"))[:40] for policy in found)
        return FactsState.CONFLICT, f"Policies {versions} both claim to be in force on {today}."
    if not found:
        return FactsState.MISSING, f"No refund policy is in force on {today}."
    terms = {
        "version": lambda value: isinstance(value, str) and re.fullmatch(r"[\w.-]{1,40}", value) is not None,
        "window_days": is_count,
        "requires_unopened": lambda value: isinstance(value, bool),
        "approval_above_minor": is_count,
    }
    missing = [name for name, fits in terms.items() if not fits(found[0].get(name))]
    if missing:
        return FactsState.MISSING, f"The policy in force has no usable {', '.join(missing).replace('_', ' ')}."
    return FactsState.COMPLETE, ""


READS = (
    Read(
        fact="authority",
        tool=CHECK_AUTHORITY.name,
        params=lambda c: {"user": c.acts_for, "order_id": c.input["order_id"]},
        check=lambda fact: (FactsState.COMPLETE, ""),
        expects="whether this person may act on this order",
        opens=True,
    ),
    Read(
        fact="order",
        tool=READ_ORDER.name,
        params=lambda c: {"order_id": c.input["order_id"]},
        check=order_is_complete,
        expects="when it was delivered, whether it was opened, what it cost",
    ),
    Read(
        fact="policies",
        tool=READ_POLICIES.name,
        params=lambda c: {"order_id": c.input["order_id"]},
        check=one_policy_in_force,
        expects="the one refund policy in force today",
    ),
)


# What must hold before anything is sent


def authorised(c: Context) -> Judgement:
    authority = c.facts.get("authority")
    if not authority:
        return unknown("not read yet")
    may = authority.data["allowed"]
    says = f"{c.acts_for} {'may' if may else 'may not'} act on this order"
    return met(authority.evidence(says)) if may else unmet(authority.evidence(says))


def eligible(c: Context) -> Judgement:
    order, policies = c.facts.get("order"), c.facts.get("policies")
    for fact, check in ((order, order_is_complete), (policies, one_policy_in_force)):
        state, says = check(fact) if fact else (FactsState.UNREAD, "")
        if state not in {FactsState.COMPLETE, FactsState.UNREAD}:
            return unknown(says)
    if not order or not policies:
        return unknown("not read yet")
    if objection := too_much(c, order):
        return objection
    policy = policies.data["policies"][0]
    days = (date.fromisoformat(policies.data["business_date"]) - date.fromisoformat(order.data["delivered_on"])).days
    opened = order.data["opened"]
    ago = "1 day" if days == 1 else f"{days} days"
    says = (
        f"delivered {order.data['delivered_on']}, {ago} ago, {'opened' if opened else 'unopened'}; "
        f"policy {policy['version']} allows {policy['window_days']} days"
        f"{', unopened' if policy['requires_unopened'] else ''}"
    )
    fits = 0 <= days <= policy["window_days"] and not (opened and policy["requires_unopened"])
    evidence = policies.evidence(says)
    return met(evidence) if fits else unmet(evidence)


def too_much(c: Context, order: Fact) -> Judgement | None:
    """What stands against the amount of a partial refund; None where nothing does, or the whole order is asked for."""
    if "amount_minor" not in c.input:
        return None
    amount, cost = wanted(c), order.data["amount_minor"]
    asked = f"{money(amount, order.data['currency'])} are asked for"
    if amount > cost:
        return unmet(order.evidence(f"{asked}, and the order cost {money(cost, order.data['currency'])}"))
    given = c.facts.get("left")
    if not given:
        return unknown("what is left of the order to refund was not read yet")
    if given.data["currency"] != order.data["currency"]:
        return unknown(f"the order is in {order.data['currency']}, its refunds in {given.data['currency']}")
    if amount > given.data["left_minor"]:
        rest = money(given.data["left_minor"], given.data["currency"])
        return unmet(given.evidence(f"{asked}, and {rest} are left of the order"))
    return None


# What success means: the contract


def accepted(c: Context) -> Judgement:
    effect = c.effect
    if not effect or not effect.times_sent:
        return unknown("nothing has been submitted")
    match effect.state:
        case EffectState.CONFIRMED:
            # What was read of it after its receipt, to undo it, counts as well.
            standing = c.facts.get(standing_of(effect))
            now = refund_is_reversible(effect, standing) if standing else None
            if now and now.value is Value.UNMET:
                return now
            return met(_from_the_service(effect, f"accepted as {(effect.receipt or {}).get('request_id')}"))
        case EffectState.COMPENSATED:
            number = (effect.receipt or {}).get("request_id")
            return unmet(_from_the_service(effect, f"accepted as {number}, and undone since"))
        case EffectState.REJECTED:
            return unmet(_from_the_service(effect, f"refused: {effect.reason}"))
        case EffectState.ABSENT:
            return unknown("the service does not have it")
        case EffectState.ACKNOWLEDGED:
            return unknown("received by the service, not decided yet")
    looked = f", nor from {effect.look_ups} look-up{'s' if effect.look_ups > 1 else ''}" if effect.look_ups else ""
    return unknown(f"no answer that counts from the submission{looked}")


def receipt_matches(c: Context) -> Judgement:
    effect = c.effect
    receipt = effect.receipt if effect else None
    if not effect or effect.state not in {EffectState.CONFIRMED, EffectState.COMPENSATED} or not receipt:
        return unknown("no receipt")
    if not names(receipt, {"order_id": c.input["order_id"], "operation_key": effect.key}):
        return unmet(_from_the_service(effect, "the receipt names another order or another operation"))
    if not receipt.get("request_id"):
        return unmet(_from_the_service(effect, "the receipt has no request number"))
    says = f"receipt {receipt['request_id']} names order {receipt['order_id']} and this operation key"
    return met(_from_the_service(effect, says))


def _from_the_service(effect: Effect, says: str) -> Evidence:
    receipt = effect.receipt or {}
    reference = str(receipt.get("request_id") or receipt.get("tracking_id") or "")
    return Evidence(says, SUBMIT_REFUND.source, effect.answered_at, reference)


CONTRACT = (
    Assertion("authorised", "The customer may act on this order", authorised),
    Assertion("eligible", "The order meets the refund policy in force", eligible),
    Assertion("accepted", "The refund service accepted the request", accepted),
    Assertion("receipt_matches", "The receipt names this order and this operation", receipt_matches),
)


# What may be written, and how it is undone


def plan(c: Context, given: Mapping[str, Any]) -> WritePlan:
    order, policy = c.facts["order"].data, c.facts["policies"].data["policies"][0]
    amount, limit = money(wanted(c), order["currency"]), policy["approval_above_minor"]
    # What was given before counts towards the limit: parts do not get past it one by one.
    part = c.facts["left"].data if "amount_minor" in c.input and "left" in c.facts else {}
    before = part.get("refunded_minor", 0)
    others = f", {money(before, order['currency'])} refunded before" if before else ""
    sums = (money(before, order["currency"]), money(before + wanted(c), order["currency"]))
    together = [("refunded of the order", *sums)] if part else []
    return WritePlan(
        operation=SUBMIT_REFUND.name,
        target=f"order {order['order_id']}",
        params={
            "order_id": order["order_id"],
            "amount_minor": wanted(c),
            "currency": order["currency"],
        },
        difference=(
            ("refund request", "none", "submitted"),
            ("amount", money(0, order["currency"]), amount),
            *together,
            ("paid to", "–", "original means of payment"),
        ),
        target_version=f"order version {order['version']}, policy {policy['version']}{others}",
        expected="accepted, with a request number",
        undo="cancel the request at the refund service by its number, while it is not paid out",
        risk=f"{amount} are paid back once the service has processed it",
        needs_approval=(
            f"amounts above {money(limit, order['currency'])} need a supervisor (policy {policy['version']})"
            if before + wanted(c) > limit
            else "what is left of the order was not read again"
            if part and not c.fresh("left")
            else ""
        ),
    )


def refund_stands_as(state: str, effect: Effect, fact: Fact) -> Judgement:
    number = (effect.receipt or {}).get("request_id")
    records = fact.data.get("records") or []
    states = [record.get("submit_state") for record in records if record.get("request_id") == number]
    if fact.data.get("store") != "ledger" or len(records) != 1 or not states:
        return unknown(f"the refund service does not show request {number}")
    evidence = fact.evidence(f"request {number} is {states[0]}")
    return met(evidence) if states == [state] else unmet(evidence)


def refund_is_reversible(effect: Effect, fact: Fact) -> Judgement:
    """Whether it stands as accepted. Whether it was paid, the service says only when it is asked to cancel."""
    return refund_stands_as("accepted", effect, fact)


def refund_is_undone(effect: Effect, fact: Fact) -> Judgement:
    return refund_stands_as("cancelled", effect, fact)


def cancellation(effect: Effect, fact: Fact) -> WritePlan:
    number, params = (effect.receipt or {})["request_id"], effect.plan.params
    amount = money(params["amount_minor"], params["currency"])
    return WritePlan(
        operation=CANCEL_REFUND.name,
        target=f"refund request {number}",
        params={"order_id": params["order_id"], "request_id": number},
        difference=(("refund request", "accepted", "cancelled"), ("amount", amount, money(0, params["currency"]))),
        target_version=f"accepted as {number}",
        expected="cancelled",
        undo="none: a new request for the refund is another run",
        risk=f"{amount} are not paid back",
    )


def no_payment(c: Context) -> str:
    """Why there is no payment to follow, as a sentence; empty where there is one."""
    effect = c.write(SUBMIT_REFUND.name)
    accepted_one = effect and effect.state is EffectState.CONFIRMED and (effect.receipt or {}).get("request_id")
    return "" if accepted_one else "No refund request of this run stands as accepted, so there is no payment to follow."


def payment_of(c: Context) -> dict[str, Any]:
    """The input of the run that follows the money of the accepted request."""
    effect = c.write(SUBMIT_REFUND.name)
    assert effect
    assert effect.receipt
    customer = {"customer_id": c.input["customer_id"]} if "customer_id" in c.input else {}
    return {**effect.plan.params, "request_id": effect.receipt["request_id"], **customer}


# A refund above this, or in another currency, is looked at by itself, however many wait.
TOGETHER_UP_TO = {"CHF": 200_00, "EUR": 200_00, "GBP": 200_00, "USD": 200_00, "CNY": 1_500_00, "JPY": 30_000}


def goes_together(plan: WritePlan) -> bool:
    return bool(plan.params["amount_minor"] <= TOGETHER_UP_TO.get(plan.params["currency"], 0))


OPERATIONS: dict[str, Reading | Writing] = {
    READ_LEFT.name: Reading(
        says="Reads how much of what this order cost was refunded before, and how much is left.",
        fact=lambda c, given: "left",
        params=lambda c, given: {"order_id": c.input["order_id"]},
    ),
    SUBMIT_REFUND.name: Writing(
        says="Submits the refund request for this order, once.",
        plan=plan,
        key=lambda c, given: f"refund-{c.input['order_id']}-{c.run_id.replace('-', '')[:16]}",
        together=goes_together,
        undo=Undo(
            read=READ_REFUND.name,
            params=lambda effect: {"operation_key": effect.key, "order": effect.plan.params["order_id"]},
            reversible=refund_is_reversible,
            undone=refund_is_undone,
            plan=cancellation,
        ),
    ),
}
FOLLOW_UPS = {"payment": FollowUp("Follow the payment", "refund_payment", payment_of, no_payment)}


# What the script proposes


def script(c: Context) -> Proposal:
    effect = c.effect
    if effect and effect.state is EffectState.CONFIRMED:
        return Claim("The refund request was submitted and accepted.")
    if effect and effect.state is EffectState.REJECTED:
        return Ask("The refund service refused the request. Is there another way to help the customer?")
    if "amount_minor" in c.input and not c.fresh("left"):
        return Act(READ_LEFT.name, {})
    return Act(SUBMIT_REFUND.name, {})


def remaining(c: Context) -> Charge:
    """What a run that is not complete still needs, at the least."""
    unread = sum(c.fresh(read.fact) is None for read in READS)
    unread += "amount_minor" in c.input and not c.fresh("left")
    unsent = not c.effect or not c.effect.times_sent
    steps = unread + unsent
    return {Dimension.STEPS: steps, Dimension.TOOL_ATTEMPTS: steps, Dimension.EXTERNAL_WRITES: int(unsent)}


# What people are told


def question(c: Context, reason: StopReason, found: str) -> str:
    order = c.input["order_id"]
    asked = c.effect.look_ups if c.effect else 0
    match reason:
        case StopReason.APPROVAL_REQUIRED:
            order_fact = c.facts["order"].data
            amount = money(wanted(c), order_fact["currency"])
            return f"May a refund of {amount} be requested for order {order}?"
        case StopReason.OUTCOME_UNCONFIRMED:
            return f"Did the refund service receive the request for order {order}? {asked} look-ups settled nothing."
        case StopReason.LIMIT_STATUS_CHECKS:
            return f"The refund service still says pending for order {order} after {asked} look-ups. Who follows it up?"
        case StopReason.RECEIPTS_CONTRADICT:
            return f"{found}. What became of the refund request for order {order}?"
        case StopReason.FACTS_IN_CONFLICT:
            return f"{found} Which one applies to order {order}?"
        case StopReason.FACTS_MISSING:
            missing = found or f"{eligible(c).evidence.says.capitalize()}."
            return f"{missing} Can it be supplied at its source?"
        case StopReason.CREDENTIAL_REFUSED:
            return f"{found} Was the product's credential replaced?"
        case StopReason.ACCESS_REFUSED:
            return f"{found} Was the product given access?"
        case StopReason.APPROVAL_REJECTED:
            return f"The refund of order {order} was not approved: {found} What should the customer be offered?"
        case StopReason.APPROVAL_EXPIRED:
            return f"Nobody decided on the refund of order {order} in time. Should it be put up for approval again?"
        case StopReason.CANCELLED_TOO_LATE:
            return f"The refund of order {order} was accepted before the cancellation. Undo it, or go on and keep it?"
        case StopReason.NOT_REVERSIBLE:
            return f"{found} What should become of the refund of order {order}?"
        case StopReason.NO_PROGRESS:
            return f"The agent keeps saying that order {order} is done, and nothing shows it. Go on, or stop here?"
        case StopReason.PAUSED:
            return f"The refund of order {order} is paused. May it go on?"
        case StopReason.EFFECT_UNKNOWN | StopReason.EFFECT_PENDING | StopReason.CANCELLATION_UNVERIFIED:
            return f"Nothing to decide yet: the refund service is asked again about order {order} by itself."
    return f"{found or 'The run stopped.'} How should order {order} go on?"


CUSTOMER_SAYS = Wording(
    subject="order_id",
    quoted={Quote.NUMBER: "request_id", Quote.REFERENCE: "tracking_id"},
    texts={
        Statement.BEING_WORKED_ON: {
            "en": "Your refund request for order {subject} is being worked on.",
            "zh": "您订单 {subject} 的退款申请正在处理中。",
        },
        Statement.ACCEPTED_UNDER_NUMBER: {
            "en": "Your refund request for order {subject} was accepted under number {number}. "
            "Please note that this does not yet mean that the money is on its way.",
            "zh": "您订单 {subject} 的退款申请已受理，受理编号为 {number}。温馨提示：申请已受理不代表款项已退回。",
        },
        Statement.ACCEPTED: {
            "en": "Your refund request for order {subject} was accepted. "
            "Please note that this does not yet mean that the money is on its way.",
            "zh": "您订单 {subject} 的退款申请已受理。温馨提示：申请已受理不代表款项已退回。",
        },
        Statement.RECEIVED_UNDER_REFERENCE: {
            "en": "Your refund request for order {subject} was received and is being verified. "
            "Your reference is {reference}.",
            "zh": "您订单 {subject} 的退款申请已收到，目前正在核实，查询编号为 {reference}。",
        },
        Statement.RECEIVED: {
            "en": "Your refund request for order {subject} was received and is being verified.",
            "zh": "您订单 {subject} 的退款申请已收到，目前正在核实。",
        },
        Statement.BEING_VERIFIED: {
            "en": "We are verifying whether your refund request for order {subject} was received.",
            "zh": "我们正在为您核实订单 {subject} 的退款申请是否已被接收。",
        },
        Statement.CANCELLATION_BEING_VERIFIED: {
            "en": "We are verifying whether the refund request for order {subject} could still be cancelled.",
            "zh": "我们正在为您核实订单 {subject} 的退款申请是否还能取消。",
        },
        Statement.NOT_ENTITLED: {
            "en": "We could not find an order that you may request a refund for. Please check the number.",
            "zh": "很抱歉，我们没有找到您可以申请退款的订单，请您核对订单号。",
        },
        Statement.NOT_ELIGIBLE: {
            "en": "What was asked for does not qualify for an automatic refund of order {subject} under the current "
            "policy. You can ask us for an inspection of the item.",
            "zh": "很抱歉，按照现行政策，您对订单 {subject} 的申请不符合自动退款的条件。您可以联系我们申请检测商品。",
        },
        Statement.REFUSED_BY_SERVICE: {
            "en": "The refund service declined the request for order {subject}. We can advise you on other options.",
            "zh": "很抱歉，退款服务方未通过您订单 {subject} 的退款申请。我们可以为您介绍其他处理方式。",
        },
        Statement.DECLINED: {
            "en": "Your refund request for order {subject} was declined. We can advise you on other options.",
            "zh": "很抱歉，您订单 {subject} 的退款申请未能通过。我们可以为您介绍其他处理方式。",
        },
        Statement.WITH_A_PERSON: {
            "en": "Your request about order {subject} was handed to a person, who takes it from here.",
            "zh": "您关于订单 {subject} 的申请已转交人工客服跟进。",
        },
        Statement.NOT_YET_CONFIRMED: {
            "en": "The outcome of your refund request for order {subject} is not yet confirmed. "
            "We are following it up.",
            "zh": "您订单 {subject} 的退款申请的最终结果尚未得到确认，我们正在跟进。",
        },
        Statement.NEVER_CONFIRMED: {
            "en": "We could not establish what became of your refund request for order {subject}.",
            "zh": "很抱歉，我们最终未能确认您订单 {subject} 的退款申请的结果。",
        },
        Statement.NOT_SUBMITTED: {
            "en": "Your refund request for order {subject} was not submitted.",
            "zh": "您订单 {subject} 的退款申请没有提交。",
        },
        Statement.NOT_IN_EFFECT: {
            "en": "Your refund request for order {subject} did not take effect.",
            "zh": "您订单 {subject} 的退款申请没有生效。",
        },
        Statement.UNDONE: {
            "en": "Your refund request for order {subject} was undone.",
            "zh": "您订单 {subject} 的退款申请已撤销。",
        },
    },
)


WORKFLOW = Workflow(
    name="refund_request",
    version=1,
    title="Refund request",
    role="refunds desk",
    input_schema=INPUT,
    subject=lambda given: f"order {given['order_id']}",
    headline=lambda given: f"{'Partial refund' if 'amount_minor' in given else 'Refund'} of order {given['order_id']}",
    goal=lambda given: (
        f"Submit one refund request for {'a part of ' if 'amount_minor' in given else ''}order {given['order_id']}, "
        "have the refund service confirm that it was accepted, and tell the customer its number."
    ),
    acts_for=lambda given, starter: given.get("customer_id") or starter,
    exists=lambda given, acts_for: (
        CHECK_AUTHORITY.name,
        {"user": acts_for, "order_id": given["order_id"]},
        "order_id",
    ),
    tools={
        tool.name: tool
        for tool in (
            CHECK_AUTHORITY,
            READ_ORDER,
            READ_POLICIES,
            READ_LEFT,
            SUBMIT_REFUND,
            LOOK_UP_REFUND,
            READ_REFUND,
            CANCEL_REFUND,
            LOOK_UP_CANCELLATION,
        )
    },
    reads=READS,
    operations=OPERATIONS,
    follow_ups=FOLLOW_UPS,
    authorised=authorised,
    eligible=eligible,
    contract=CONTRACT,
    script=script,
    budgets={
        # Three look-ups are the source case's own figure; the others leave a clean run twice what it needs, plus one
        # approval (which reads everything again) and the retries of one flaky read: test_what_a_clean_run_costs.
        Dimension.STEPS: (16, 20),
        Dimension.TOOL_ATTEMPTS: (16, 20),
        Dimension.EXTERNAL_WRITES: 1,
        Dimension.STATUS_CHECKS: 3,
        Dimension.FOLLOW_UP_CHECKS: 6,
        Dimension.CALLBACK_CHECKS: 3,
        Dimension.WALL_TIME: int(timedelta(hours=24).total_seconds()),
    },
    remaining=remaining,
    question=question,
    stake=stake,
    customer_says=CUSTOMER_SAYS,
)
