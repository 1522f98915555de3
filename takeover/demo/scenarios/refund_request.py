"""Forty-five refund requests, and what goes wrong with them.

Orders B456, A123 and C204 are left alone: they are for whoever tries the product.
"""

from collections.abc import Mapping
from typing import Any

from runs.domain.states import Move, StopReason
from takeover.demo.scenario import Act, Scenario, approved, asked_again, cancelled, fault, rejected, taken


def refund(
    order_id: str,
    ends: StopReason,
    faults: tuple[Mapping[str, Any], ...] = (),
    acts: tuple[Act, ...] = (),
    by: str = "support",
    customer_id: str = "",
    amount: int | None = None,
    policy: str = "",
) -> Scenario:
    """A refund of this order or of `amount` minor units of it, for the desk itself or for a customer; the faults strike
    this order only."""
    whole = {"order_id": order_id, "customer_id": customer_id, "amount_minor": amount}
    asked = {name: value for name, value in whole.items() if value}
    strikes = tuple({"order_id": order_id, **strike} for strike in faults)
    return Scenario("refund_request", order_id, asked, ends, strikes, acts, by, policy)


LOST = fault("answer_lost", times=1)
NEVER_ARRIVES = fault("timeout_before_effect", seconds=1, times=1)

APPROVED = approved("Checked against the order.")
CANCELLED = cancelled("The customer keeps the item after all.")
UNDONE = Act("supervisor", Move.COMPENSATION_APPROVED, {"reason": "The customer keeps the item; nothing is owed."})

SCENARIOS = (
    # Waiting for a proof that nothing can arrive any more takes longest, so these two go first.
    refund("K419", StopReason.CONTRACT_MET, (NEVER_ARRIVES,), (asked_again("support", with_proof=True),)),
    refund(
        "V803",
        StopReason.CANCELLED_ABSENT,
        (NEVER_ARRIVES,),
        (cancelled("Ordered twice by mistake.", with_proof=True),),
    ),
    # Nothing goes wrong, or what goes wrong is put right by asking under the same key.
    refund("C881", StopReason.CONTRACT_MET, customer_id="U-89"),
    refund("D014", StopReason.CONTRACT_MET, by="support2", amount=10_00),
    refund("D041", StopReason.CONTRACT_MET, customer_id="U-91"),
    refund("E307", StopReason.CONTRACT_MET, (LOST,)),
    refund("F562", StopReason.CONTRACT_MET, (fault("rate_limited", times=1, retry_after=2),)),
    refund("G118", StopReason.CONTRACT_MET, (fault("unavailable", where="orders", times=1),), by="support2"),
    refund("H230", StopReason.CONTRACT_MET, (fault("queued", lookups=0),), (asked_again("support"),)),
    refund("J075", StopReason.CONTRACT_MET, (LOST, fault("lookup_lags", lookups=1)), (asked_again("support2"),)),
    refund("T915", StopReason.CONTRACT_MET, policy="overconfident"),
    refund("D586", StopReason.CONTRACT_MET, acts=(APPROVED,)),
    refund("E912", StopReason.CONTRACT_MET, (LOST,), (APPROVED,), customer_id="U-90"),
    # The write may have landed.
    refund("L663", StopReason.EFFECT_PENDING, (fault("pending"),)),
    refund("M152", StopReason.EFFECT_PENDING, (fault("pending", lookups=1),), customer_id="U-99"),
    refund("N508", StopReason.EFFECT_UNKNOWN, (LOST, fault("lookup_lags"))),
    refund("P291", StopReason.EFFECT_UNKNOWN, (LOST, fault("lookup_down")), by="support2"),
    refund("Q734", StopReason.CANCELLATION_UNVERIFIED, (fault("pending"),), (CANCELLED,)),
    # The service does not get better.
    refund("R046", StopReason.SAME_ERROR_REPEATED, (fault("unavailable", where="orders"),), (taken("support2"),)),
    refund("X058", StopReason.SAME_ERROR_REPEATED, (fault("error_500", where="policies"),)),
    refund("Y921", StopReason.SAME_ERROR_REPEATED, (fault("malformed", where="orders"),)),
    # A person has to decide before anything is sent.
    refund("F033", StopReason.APPROVAL_REQUIRED, customer_id="U-91"),
    refund("G470", StopReason.APPROVAL_REQUIRED),
    refund("H859", StopReason.APPROVAL_REQUIRED, by="support2", amount=150_00),
    refund("J341", StopReason.APPROVAL_REJECTED, acts=(rejected("The customer was offered a replacement instead."),)),
    refund("K728", StopReason.APPROVAL_REJECTED, acts=(rejected("Photos of the unopened box are still missing."),)),
    # What is known does not suffice, or does not fit together.
    refund("T690", StopReason.FACTS_MISSING, (fault("order_incomplete"),), (taken("support2"),)),
    refund("W549", StopReason.FACTS_MISSING, (fault("policy_missing"),)),
    refund("X177", StopReason.FACTS_IN_CONFLICT, (fault("policy_conflict"),), (taken("support"),)),
    refund("Y632", StopReason.RECEIPTS_CONTRADICT, (LOST, fault("contradictory")), (taken("support2"),)),
    refund("M604", StopReason.RECEIPTS_CONTRADICT, (fault("other_order", where="any"),), (APPROVED,)),
    # The product itself is kept out.
    refund("Q018", StopReason.CREDENTIAL_REFUSED, (fault("credential_refused", where="any"),)),
    refund("R573", StopReason.ACCESS_REFUSED, (fault("access_denied", where="orders"),)),
    # An agent that only talks; a person who stops one; a person who comes too late.
    refund("N267", StopReason.NO_PROGRESS, policy="stubborn"),
    refund(
        "Z307",
        StopReason.PAUSED,
        (fault("slow", where="orders", seconds=4),),
        (Act("support", Move.PAUSED, {"reason": "The customer is on the telephone."}, at_once=True),),
    ),
    refund("L195", StopReason.CANCELLED_TOO_LATE, (fault("pending", lookups=0),), (APPROVED, CANCELLED)),
    refund("L370", StopReason.CANCELLED_COMPENSATED, (fault("pending", lookups=0),), (APPROVED, CANCELLED, UNDONE)),
    refund("P850", StopReason.CANCELLED_UNSENT, acts=(CANCELLED,)),
    # No is an answer, too.
    refund("C317", StopReason.NOT_ELIGIBLE, amount=45_00),
    refund("S126", StopReason.NOT_ELIGIBLE, customer_id="U-93"),
    refund("U445", StopReason.NOT_ELIGIBLE),
    refund("V312", StopReason.NOT_ELIGIBLE, by="support2"),
    refund("W784", StopReason.NOT_AUTHORISED, customer_id="U-12"),
    refund("S387", StopReason.REFUSED_BY_SERVICE, (fault("refused", reason="paid_by_voucher"),)),
    refund("U260", StopReason.REFUSED_BY_SERVICE, (fault("refused", reason="return_not_registered"),)),
)
