"""What a story of the demo consists of.

Each is a real run. Before it starts, the back office is told which faults strike it; afterwards people do what the
story says. How it ends is the engine's business; `ends` says what it has come to when the demo is over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runs.domain.states import Move, StopReason


@dataclass(frozen=True)
class Act:
    """What a person does once the run has come to a stand: an event, or taking the case."""

    who: str
    event: Move | None  # None: takes the case
    payload: Mapping[str, Any] = field(default_factory=dict)
    at_once: bool = False  # as soon as the run was started
    with_proof: bool = False  # not before "not there" would prove that the write cannot arrive any more


@dataclass(frozen=True)
class Scenario:
    workflow: str
    name: str  # no other story of this workflow has it; the run is found again by it
    input: Mapping[str, Any]
    ends: StopReason
    # As the back office takes them at /control/faults, with the field that says what they strike, such as `order_id`.
    faults: tuple[Mapping[str, Any], ...] = ()
    acts: tuple[Act, ...] = ()
    by: str = "support"
    policy: str = ""
    # The workflow whose story of the same name this one comes out of once that has ended, and its follow-up. The input
    # is that follow-up's.
    follows: tuple[str, str] | None = None


def fault(name: str, **parameters: Any) -> Mapping[str, Any]:
    return {"fault": name, **parameters}


def taken(who: str) -> Act:
    return Act(who, None)


def approved(comment: str) -> Act:
    return Act("supervisor", Move.APPROVAL_GRANTED, {"comment": comment})


def rejected(reason: str) -> Act:
    return Act("supervisor", Move.APPROVAL_REJECTED, {"reason": reason})


def resumed(who: str, reason: str) -> Act:
    return Act(who, Move.RESUMED_AFTER_REVIEW, {"reason": reason})


def cancelled(reason: str, with_proof: bool = False) -> Act:
    return Act("support", Move.CANCEL_REQUESTED, {"reason": reason}, with_proof=with_proof)


def asked_again(who: str, with_proof: bool = False) -> Act:
    return Act(who, Move.RECONCILE_REQUESTED, with_proof=with_proof)
