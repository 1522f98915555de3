"""The money of refunds that other stories had accepted: it goes out, or not, or not all of it."""

from collections.abc import Mapping
from typing import Any

from runs.domain.states import StopReason
from takeover.demo.scenario import Act, Scenario, fault, resumed


def payment(
    order_id: str, ends: StopReason, faults: tuple[Mapping[str, Any], ...] = (), acts: tuple[Act, ...] = ()
) -> Scenario:
    """Follows the payment of this order's refund, as refund_request.py tells it."""
    strikes = tuple({"order_id": order_id, **strike} for strike in faults)
    return Scenario("refund_payment", order_id, {}, ends, strikes, acts, follows=("refund_request", "payment"))


SCENARIOS = (
    payment(
        "C881",
        StopReason.CONTRACT_MET,
        (fault("payment_goes_on"),),
        (resumed("support", "The bank says that it should be there by now."),),
    ),
    payment("D014", StopReason.RESULT_PENDING),
    payment("D041", StopReason.QUESTION_ASKED, (fault("payment_fails"),)),
    payment("E307", StopReason.QUESTION_ASKED, (fault("payment_short"),)),
)
