"""Forty-four refund requests, and what goes wrong with them: the stories behind the demo's runs.

Each is a real run. Before it starts, the back office is told which faults strike its order; afterwards people do
what the story says. How it ends is the engine's business; `ends` says what it has come to when the demo is over.
Orders B456, A123 and C204 are left alone: they are for whoever tries the product.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runs.domain.states import Move, StopReason


def fault(name: str, **parameters: Any) -> Mapping[str, Any]:
    return {"fault": name, **parameters}


@dataclass(frozen=True)
class Act:
    """What a person does once the run has come to a stand: an event, or taking the case."""

    who: str
    event: Move | None  # None: takes the case
    payload: Mapping[str, str] = field(default_factory=dict)
    at_once: bool = False  # as soon as the run was started
    with_proof: bool = False  # not before "not there" would prove that the write cannot arrive any more


@dataclass(frozen=True)
class Scenario:
    order_id: str
    ends: StopReason
    faults: tuple[Mapping[str, Any], ...] = ()
    acts: tuple[Act, ...] = ()
    by: str = "support"
    customer_id: str = ""  # whom the request is made for; empty: the desk's own
    policy: str = ""

    @property
    def input(self) -> dict[str, str]:
        return {"order_id": self.order_id} | ({"customer_id": self.customer_id} if self.customer_id else {})


LOST = fault("answer_lost", times=1)
NEVER_ARRIVES = fault("timeout_before_effect", seconds=1, times=1)

APPROVED = Act("supervisor", Move.APPROVAL_GRANTED, {"comment": "Checked against the order."})
CANCELLED = Act("support", Move.CANCEL_REQUESTED, {"reason": "The customer keeps the item after all."})


UNDONE = Act("supervisor", Move.COMPENSATION_APPROVED, {"reason": "The customer keeps the item; nothing is owed."})


def rejected(reason: str) -> Act:
    return Act("supervisor", Move.APPROVAL_REJECTED, {"reason": reason})


def asked_again(who: str, with_proof: bool = False) -> Act:
    return Act(who, Move.RECONCILE_REQUESTED, with_proof=with_proof)


def taken(who: str) -> Act:
    return Act(who, None)


SCENARIOS = (
    # Waiting for a proof that nothing can arrive any more takes longest, so these two go first.
    Scenario("K419", StopReason.CONTRACT_MET, (NEVER_ARRIVES,), (asked_again("support", with_proof=True),)),
    Scenario(
        "V803",
        StopReason.CANCELLED_ABSENT,
        (NEVER_ARRIVES,),
        (Act("support", Move.CANCEL_REQUESTED, {"reason": "Ordered twice by mistake."}, with_proof=True),),
    ),
    # Nothing goes wrong, or what goes wrong is put right by asking under the same key.
    Scenario("C881", StopReason.CONTRACT_MET, customer_id="U-89"),
    Scenario("D014", StopReason.CONTRACT_MET, by="support2"),
    Scenario("D041", StopReason.CONTRACT_MET, customer_id="U-91"),
    Scenario("E307", StopReason.CONTRACT_MET, (LOST,)),
    Scenario("F562", StopReason.CONTRACT_MET, (fault("rate_limited", times=1, retry_after=2),)),
    Scenario("G118", StopReason.CONTRACT_MET, (fault("unavailable", where="orders", times=1),), by="support2"),
    Scenario("H230", StopReason.CONTRACT_MET, (fault("queued", lookups=0),), (asked_again("support"),)),
    Scenario("J075", StopReason.CONTRACT_MET, (LOST, fault("lookup_lags", lookups=1)), (asked_again("support2"),)),
    Scenario("T915", StopReason.CONTRACT_MET, policy="overconfident"),
    Scenario("D586", StopReason.CONTRACT_MET, acts=(APPROVED,)),
    Scenario("E912", StopReason.CONTRACT_MET, (LOST,), (APPROVED,), customer_id="U-90"),
    # The write may have landed.
    Scenario("L663", StopReason.EFFECT_PENDING, (fault("pending"),)),
    Scenario("M152", StopReason.EFFECT_PENDING, (fault("pending", lookups=1),), customer_id="U-99"),
    Scenario("N508", StopReason.EFFECT_UNKNOWN, (LOST, fault("lookup_lags"))),
    Scenario("P291", StopReason.EFFECT_UNKNOWN, (LOST, fault("lookup_down")), by="support2"),
    Scenario("Q734", StopReason.CANCELLATION_UNVERIFIED, (fault("pending"),), (CANCELLED,)),
    # The service does not get better.
    Scenario("R046", StopReason.SAME_ERROR_REPEATED, (fault("unavailable", where="orders"),), (taken("support2"),)),
    Scenario("X058", StopReason.SAME_ERROR_REPEATED, (fault("error_500", where="policies"),)),
    Scenario("Y921", StopReason.SAME_ERROR_REPEATED, (fault("malformed", where="orders"),)),
    # A person has to decide before anything is sent.
    Scenario("F033", StopReason.APPROVAL_REQUIRED, customer_id="U-91"),
    Scenario("G470", StopReason.APPROVAL_REQUIRED),
    Scenario("H859", StopReason.APPROVAL_REQUIRED, by="support2"),
    Scenario("J341", StopReason.APPROVAL_REJECTED, acts=(rejected("The customer was offered a replacement instead."),)),
    Scenario("K728", StopReason.APPROVAL_REJECTED, acts=(rejected("Photos of the unopened box are still missing."),)),
    # What is known does not suffice, or does not fit together.
    Scenario("T690", StopReason.FACTS_MISSING, (fault("order_incomplete"),), (taken("support2"),)),
    Scenario("W549", StopReason.FACTS_MISSING, (fault("policy_missing"),)),
    Scenario("X177", StopReason.FACTS_IN_CONFLICT, (fault("policy_conflict"),), (taken("support"),)),
    Scenario("Y632", StopReason.RECEIPTS_CONTRADICT, (LOST, fault("contradictory")), (taken("support2"),)),
    Scenario("M604", StopReason.RECEIPTS_CONTRADICT, (fault("other_order", where="any"),), (APPROVED,)),
    # The product itself is kept out.
    Scenario("Q018", StopReason.CREDENTIAL_REFUSED, (fault("credential_refused", where="any"),)),
    Scenario("R573", StopReason.ACCESS_REFUSED, (fault("access_denied", where="orders"),)),
    # An agent that only talks; a person who stops one; a person who comes too late.
    Scenario("N267", StopReason.NO_PROGRESS, policy="stubborn"),
    Scenario(
        "Z307",
        StopReason.PAUSED,
        (fault("slow", where="orders", seconds=4),),
        (Act("support", Move.PAUSED, {"reason": "The customer is on the telephone."}, at_once=True),),
    ),
    Scenario("L195", StopReason.CANCELLED_TOO_LATE, (fault("pending", lookups=0),), (APPROVED, CANCELLED)),
    Scenario("L370", StopReason.CANCELLED_COMPENSATED, (fault("pending", lookups=0),), (APPROVED, CANCELLED, UNDONE)),
    Scenario("P850", StopReason.CANCELLED_UNSENT, acts=(CANCELLED,)),
    # No is an answer, too.
    Scenario("S126", StopReason.NOT_ELIGIBLE, customer_id="U-93"),
    Scenario("U445", StopReason.NOT_ELIGIBLE),
    Scenario("V312", StopReason.NOT_ELIGIBLE, by="support2"),
    Scenario("W784", StopReason.NOT_AUTHORISED, customer_id="U-12"),
    Scenario("S387", StopReason.REFUSED_BY_SERVICE, (fault("refused", reason="paid_by_voucher"),)),
    Scenario("U260", StopReason.REFUSED_BY_SERVICE, (fault("refused", reason="return_not_registered"),)),
)
