"""The money of a refund: what is left of an order to give back, and what became of what was accepted. Only reads."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from runs.domain.money import is_currency, money
from runs.domain.states import StepKind
from runs.tools.back_office import SERVICE
from runs.tools.receipts import content, field, invalid_output
from runs.tools.tool import Call, Result, Service, Tool

PAYMENT_STATES = {
    "unpaid": "not paid yet",
    "processing": "being paid",
    "paid": "paid",
    "failed": "not paid: the payment failed",
    "void": "not to be paid: the request was cancelled",
}


def _check_money(data: Mapping[str, Any], *names: str) -> None:
    """Raises ToolFailed unless `names` are whole numbers of minor units, and the currency is one of three letters."""
    if not is_currency(field(data, "currency", str)):
        raise invalid_output("The answer's field 'currency' is no currency.")
    if any(field(data, name, int) < 0 for name in names):
        raise invalid_output("The answer's amounts are less than nothing.")


def _read_left(service: Service, call: Call, until: float) -> Result:
    order_id = call.params["order_id"]
    _, data = service.request("GET", f"/orders/{quote(order_id, safe='')}/refunds", until=until)
    if data.get("order_id") != order_id:
        raise invalid_output("The answer is about another order.")
    _check_money(data, "refunded_minor", "left_minor")
    given, rest = (money(data[name], data["currency"]) for name in ("refunded_minor", "left_minor"))
    says = f"{given} refunded before, {rest} left of order {order_id}"
    return Result(content(data), says, reference=f"orders/{order_id}/refunds")


def _read_payment(service: Service, call: Call, until: float) -> Result:
    order_id, number = call.params["order_id"], call.params["request_id"]
    _, data = service.request("GET", f"/payments/{quote(number, safe='')}", params={"order": order_id}, until=until)
    if (data.get("order_id"), data.get("request_id")) != (order_id, number):
        raise invalid_output("The answer is about another payment.")
    _check_money(data, "amount_minor")
    state = field(data, "payment_state", str)
    if state not in PAYMENT_STATES:
        raise invalid_output("The answer's field 'payment_state' is none that is known.")
    return Result(content(data), f"Request {number} is {PAYMENT_STATES[state]}", reference=f"payments/{number}")


READ_LEFT = Tool("read_left", "Read what is left to refund", "refund service", SERVICE, StepKind.READ, _read_left)
READ_PAYMENT = Tool("read_payment", "Read the payment", "payment service", SERVICE, StepKind.READ, _read_payment)
