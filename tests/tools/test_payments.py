"""What the refund and the payment service say about money, and answers of theirs that are none."""

from time import monotonic
from typing import Any

import pytest

from runs.tools.http import HttpService
from runs.tools.payments import READ_LEFT, READ_PAYMENT
from runs.tools.tool import Call, Result, Tool, ToolFailed
from tests.processes import BackOffice

ORDER = {"order_id": "B456"}
REQUEST = {**ORDER, "request_id": "R789"}
LEFT = {**ORDER, "currency": "EUR", "cost_minor": 59_00, "refunded_minor": 20_00, "left_minor": 39_00}
PAYMENT = {**REQUEST, "payment_state": "paid", "amount_minor": 59_00, "currency": "EUR"}


class Says:
    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer

    def request(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
        return 200, self.answer


def ask(office: BackOffice, tool: Tool, params: dict[str, Any]) -> Result:
    return tool.perform(HttpService(office.url, "demo-key"), Call(tool.name, params), monotonic() + tool.deadline)


def told(tool: Tool, params: dict[str, Any], answer: dict[str, Any]) -> Result:
    return tool.perform(Says(answer), Call(tool.name, params), monotonic() + 1)


def test_what_is_left_of_an_order_is_read_with_what_was_given_before(back_office: BackOffice) -> None:
    back_office.submit("B456", "k1", 20_00)
    said = ask(back_office, READ_LEFT, ORDER)
    assert {name: said.data[name] for name in LEFT} == LEFT
    assert said.says == "20.00 EUR refunded before, 39.00 EUR left of order B456"
    assert "as_of" not in said.data, "the same facts read twice are no news"


def test_a_payment_is_read_by_the_request_s_number(back_office: BackOffice) -> None:
    back_office.submit("B456", "k1", 59_00)
    assert ask(back_office, READ_PAYMENT, REQUEST).data["payment_state"] == "unpaid"
    back_office.pay("R789")
    said = ask(back_office, READ_PAYMENT, REQUEST)
    assert (said.data, said.says, said.reference) == (PAYMENT, "Request R789 is paid", "payments/R789")


def test_a_number_that_nobody_gave_is_definitely_not_found(back_office: BackOffice) -> None:
    with pytest.raises(ToolFailed) as failed:
        ask(back_office, READ_PAYMENT, {**ORDER, "request_id": "R1"})
    assert failed.value.failure.error_class == "not_found"


@pytest.mark.parametrize(
    ("tool", "params", "answer"),
    [
        (READ_LEFT, ORDER, {**LEFT, "order_id": "C881"}),
        (READ_LEFT, ORDER, {**LEFT, "left_minor": "39.00"}),
        (READ_LEFT, ORDER, {**LEFT, "left_minor": True}),
        (READ_LEFT, ORDER, {**LEFT, "left_minor": -1}),
        (READ_LEFT, ORDER, {**LEFT, "currency": "euro"}),
        (READ_LEFT, ORDER, {}),
        (READ_PAYMENT, REQUEST, {**PAYMENT, "request_id": "R790"}),
        (READ_PAYMENT, REQUEST, {**PAYMENT, "order_id": "C881"}),
        (READ_PAYMENT, REQUEST, {**PAYMENT, "payment_state": "surely"}),
        (READ_PAYMENT, REQUEST, {**PAYMENT, "payment_state": ["paid"]}),
        (READ_PAYMENT, REQUEST, {**PAYMENT, "amount_minor": 59.0}),
        (READ_PAYMENT, REQUEST, {name: value for name, value in PAYMENT.items() if name != "currency"}),
        (READ_PAYMENT, REQUEST, {}),
    ],
)
def test_an_answer_that_is_none_counts_for_nothing(tool: Tool, params: dict[str, Any], answer: dict[str, Any]) -> None:
    with pytest.raises(ToolFailed) as failed:
        told(tool, params, answer)
    assert failed.value.failure.code == "invalid_output"
