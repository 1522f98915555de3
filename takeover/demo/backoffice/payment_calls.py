"""The payments' calls: one read for the product, one control for whoever plays the bank, and their part of the page."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from takeover.demo.backoffice import inputs
from takeover.demo.backoffice.answers import Answer, Refusal, error, now
from takeover.demo.backoffice.calls import Work, endpoint
from takeover.demo.backoffice.control import asked
from takeover.demo.backoffice.faults import Kind
from takeover.demo.backoffice.payments import GOES_ON_TO, Paid, Payment, Payments
from takeover.demo.backoffice.store import Refused, Store, Strike, Unknown
from takeover.demo.backoffice.tables import button

SETTLED = (Payment.PROCESSING, Payment.PAID, Payment.FAILED)
LABELS = {Payment.PROCESSING: "Send off", Payment.PAID: "Pay", Payment.FAILED: "Let it fail"}


def about(request: Request, _kind: Kind, _body: bytes, store: Store) -> tuple[str | None, str | None]:
    refund = store.by_request(request.path_params["request_id"])
    order_id = refund.order_id if refund else request.query_params.get("order")
    return (order_id if inputs.is_word(order_id) else None), None


def payment(request: Request, _body: bytes, _store: Store) -> Work:
    request_id, payments = inputs.word("request_id", request.path_params["request_id"]), books(request)
    if (order_id := request.query_params.get("order")) is not None:
        inputs.word("order", order_id)

    def work(strike: Strike | None) -> Answer:
        try:
            if strike and strike.fault == "payment_short":
                refund = payments.of(request_id).refund
                less = replace(refund, amount_minor=refund.amount_minor - 1)
                return Answer(200, told(Paid(less, Payment.PAID)))
            if strike:  # payment_goes_on, payment_fails
                reason = strike.values.get("reason")
                return Answer(200, told(payments.go_on(request_id, str(reason) if reason else None)))
            return Answer(200, told(payments.of(request_id)))
        except Unknown:
            return request_unknown()

    return work


def told(paid: Paid) -> dict[str, object]:
    """What the payment's own record says."""
    facts: dict[str, object] = {
        "request_id": paid.refund.request_id,
        "order_id": paid.refund.order_id,
        "payment_state": paid.state,
        "amount_minor": paid.refund.amount_minor,
        "currency": paid.refund.currency,
        "as_of": now(),
    }
    return facts | ({"reason": paid.reason} if paid.reason else {})


async def settle(request: Request) -> Response:
    fields = await asked(request)
    inputs.only(fields, ["state", "reason"])
    reason = inputs.word("reason", fields.get("reason", "account_closed"))
    number = request.path_params["request_id"]
    return Answer(200, told(settled(books(request), number, fields.get("state"), reason))).response()


def settled(payments: Payments, request_id: object, wanted: object, reason: str = "account_closed") -> Paid:
    state = Payment(inputs.one_of("state", wanted, SETTLED))
    try:
        return payments.settle(inputs.word("request_id", request_id), state, reason)
    except Unknown:
        raise Refusal(request_unknown()) from None
    except Refused as refused:
        message = "What was paid or cancelled stays so, and a payment goes on from where it is."
        raise Refusal(error(409, "refused", message, reason=refused.reason)) from None


def buttons(paid: Paid) -> str:
    """How the payment stands, and what the bank may say next, for the page."""
    able = [state for state in SETTLED if state in GOES_ON_TO.get(paid.state, ())]
    number = paid.refund.request_id
    return "".join(button("/pay", LABELS[state], request_id=number, state=state) for state in able)


def request_unknown() -> Answer:
    return error(404, "request_unknown", "There is no refund with this number.")


def books(request: Request) -> Payments:
    payments: Payments = request.app.state.payments
    return payments


routes = [
    Route("/payments/{request_id}", endpoint(Kind.PAYMENT, payment, about)),
    Route("/control/payments/{request_id}", settle, methods=["PUT"]),
]
