"""The catalogue of events: the only way a person moves a run (docs/rules.md, 10).

Data, not code: the same entries drive the forms, the command line, the API and the help.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runs.domain.states import FINAL, TRANSITIONS, WORKING, Move, Outcome, State, StopReason


class Permission(StrEnum):
    START = "start_run"
    OPERATE = "operate_run"  # claim, reconcile, send the events that move a run on
    APPROVE = "approve_write"
    EXTEND = "extend_budget"
    AUDIT = "audit_runs"


ROLES: dict[str, tuple[str, tuple[Permission, ...]]] = {
    "support": ("clears the queue", (Permission.START, Permission.OPERATE)),
    "supervisor": (
        "clears the queue and decides proposed writes",
        (Permission.START, Permission.OPERATE, Permission.APPROVE, Permission.EXTEND),
    ),
    "administrator": (
        "audits how runs end; does not move them",
        (Permission.AUDIT,),
    ),
}


def _text(title: str, most: int = 2000) -> dict[str, Any]:
    return {"type": "string", "title": title, "minLength": 1, "maxLength": most, "pattern": r"\S"}


def _payload(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


REASON = _text("Reason")
REFERENCE = _text("Reference where it can be found again", 200)


@dataclass(frozen=True)
class EventKind:
    """One event: who may send it, while what is true, with which payload, and what is checked again afterwards."""

    move: Move
    label: str
    says: str  # what it means, for the person who is about to send it
    permission: Permission
    payload: Mapping[str, Any]  # JSON Schema
    reasons: frozenset[StopReason] = frozenset()  # empty: any reason
    needs_unresolved_effect: bool = False
    answers_plan: bool = False  # bound to the digest of the plan that was shown
    not_by_requester: bool = False
    checked_again: str = "The preconditions are read again from their sources."

    @property
    def states(self) -> frozenset[State]:
        """The states from which the transition table lets this event lead somewhere."""
        return frozenset(state for state, move in TRANSITIONS if move is self.move)


CATALOGUE: dict[Move, EventKind] = {
    kind.move: kind
    for kind in (
        EventKind(
            Move.RECONCILE_REQUESTED,
            "Ask the service again",
            "Looks the write up at the service by its operation key. Reads only; nothing is sent again.",
            Permission.OPERATE,
            _payload(),
            needs_unresolved_effect=True,
            checked_again="The contract is evaluated on what the service answers.",
        ),
        EventKind(
            Move.APPROVAL_GRANTED,
            "Approve",
            "Lets exactly this write be sent, once, after the preconditions were read again.",
            Permission.APPROVE,
            _payload(comment=_text("Comment")),
            answers_plan=True,
            not_by_requester=True,
            checked_again="Authority, order, policy and the plan's target are read again just before sending.",
        ),
        EventKind(
            Move.APPROVAL_REJECTED,
            "Reject",
            "The write is not sent.",
            Permission.APPROVE,
            _payload(("reason",), reason=REASON),
            answers_plan=True,
            checked_again="Nothing is sent; the run stops for a person unless it has another way.",
        ),
        EventKind(
            Move.EVIDENCE_SUPPLIED,
            "Supply evidence",
            "Adds what you know, marked as a person's word. It does not confirm a write by itself.",
            Permission.OPERATE,
            _payload(("statement", "reference"), statement=_text("What you know"), reference=REFERENCE),
            checked_again="The authority is asked again where it can be; your statement stands beside its answer.",
        ),
        EventKind(
            Move.EFFECT_CONFIRMED,
            "It did happen",
            "Says that the write took effect. The service is asked again; your word alone does not complete the run.",
            Permission.OPERATE,
            _payload(("reference",), reference=REFERENCE),
            needs_unresolved_effect=True,
            checked_again="The service is asked by operation key.",
        ),
        EventKind(
            Move.EFFECT_REFUTED,
            "It did not happen",
            "Says that the write did not take effect. The service is asked; your word never lets it be sent again.",
            Permission.OPERATE,
            _payload(("reference",), reference=REFERENCE),
            needs_unresolved_effect=True,
            checked_again="The service is asked by operation key.",
        ),
        EventKind(
            Move.CREDENTIAL_REPLACED,
            "Credential replaced",
            "The product's own credential was renewed. It is tried before work goes on.",
            Permission.OPERATE,
            _payload(("reference",), reference=_text("Name of the credential (never the secret)", 100)),
            reasons=frozenset({StopReason.CREDENTIAL_REFUSED}),
            checked_again="The credential is tried on the call that was refused.",
        ),
        EventKind(
            Move.ACCESS_GRANTED,
            "Access granted",
            "The product was given the access it lacked. It is tried before work goes on.",
            Permission.OPERATE,
            _payload(("reference",), reference=REFERENCE),
            reasons=frozenset({StopReason.ACCESS_REFUSED}),
            checked_again="The access is tried on the call that was refused.",
        ),
        EventKind(
            Move.POLICY_CONFIRMED,
            "Policy confirmed",
            "The conflict or gap in the policies was settled at its source. They are read again there.",
            Permission.OPERATE,
            _payload(("reference",), reference=REFERENCE),
            reasons=frozenset({StopReason.FACTS_IN_CONFLICT, StopReason.FACTS_MISSING}),
            checked_again="The policies are read again; a conflict that is still there is reported.",
        ),
        EventKind(
            Move.BUDGET_EXTENDED,
            "Extend the budget",
            "Raises one limit. What was spent stays spent, and the extension is in the ledger.",
            Permission.EXTEND,
            _payload(
                ("dimension", "by", "reason"),
                dimension={"type": "string", "title": "Budget"},
                by={"type": "integer", "title": "By how many", "minimum": 1, "maximum": 1_000_000},
                reason=REASON,
            ),
            not_by_requester=True,
        ),
        EventKind(
            Move.RESUMED_AFTER_REVIEW,
            "Go on",
            "You looked at it and the run may go on from where it stopped.",
            Permission.OPERATE,
            _payload(("reason",), reason=REASON),
        ),
        EventKind(
            Move.CANCEL_REQUESTED,
            "Cancel the request",
            "Withdraws the request. If a write may have been delivered, the service is asked first what became of it.",
            Permission.OPERATE,
            _payload(("reason",), reason=REASON),
            checked_again="If anything may have been sent, the service is asked what became of it.",
        ),
        EventKind(
            Move.PAUSED,
            "Pause",
            "Nothing new is started until somebody lets it go on.",
            Permission.OPERATE,
            _payload(("reason",), reason=REASON),
            checked_again="Nothing; the run stands still.",
        ),
        EventKind(
            Move.UNPAUSED,
            "Let it go on",
            "Ends the pause.",
            Permission.OPERATE,
            _payload(),
        ),
    )
}


@dataclass(frozen=True)
class Standing:
    """What decides whether an event is possible: the run as it stands, without anything about the person."""

    state: State
    outcome: Outcome | None
    stop_reason: StopReason | None
    effect_unresolved: bool
    cancel_requested: bool
    paused: bool
    follow_up_checks_left: int


def why_not(kind: EventKind, run: Standing) -> str:
    """Why this event is not possible now, as a sentence; empty when it is."""
    if run.state in FINAL:
        return f"The run has ended ({run.state.value})."
    if run.state not in kind.states:
        stopped = sorted(state.value.replace("_", " ") for state in kind.states - WORKING)
        wanted = f"a run is {' or '.join(stopped)}" if stopped else "it runs"
        return f"Possible while {wanted}; this one is {run.state.value.replace('_', ' ')}."
    if kind.reasons and run.stop_reason not in kind.reasons:
        wanted = " or ".join(sorted(reason.value.replace("_", " ") for reason in kind.reasons))
        return f"Answers a run that stopped for {wanted}."
    if kind.needs_unresolved_effect and not run.effect_unresolved:
        return "No write of this run has an open outcome."
    asks = kind.move in {Move.RECONCILE_REQUESTED, Move.EFFECT_CONFIRMED, Move.EFFECT_REFUTED}
    if asks and run.follow_up_checks_left <= 0:
        return "The follow-up look-ups are used up; somebody entitled may extend them."
    if kind.move is Move.CANCEL_REQUESTED and run.cancel_requested:
        return "A cancellation is already being verified."
    if kind.move is Move.UNPAUSED and not run.paused:
        return "The run is not paused."
    if kind.move is Move.PAUSED and run.paused:
        return "The run is paused already."
    if kind.move is Move.RESUMED_AFTER_REVIEW and run.paused:
        return "The run is paused: let it go on."
    if kind.move is Move.RESUMED_AFTER_REVIEW and run.outcome is Outcome.WAITING:
        return "The run goes on by itself when its next look-up is due."
    if kind.move is Move.RESUMED_AFTER_REVIEW and run.effect_unresolved:
        return "A write has an open outcome: ask the service first."
    return ""
