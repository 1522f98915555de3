"""The catalogue of events: the only way in which anybody moves a run (docs/rules.md, 10).

Data, not code: the same entries drive the forms, the command line, the packages and the help.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from runs.domain.budget import Dimension
from runs.domain.states import FINAL, TOO_LATE, TRANSITIONS, WORKING, Move, Outcome, State, StopReason, asks_by_itself


class Permission(StrEnum):
    START = "start_run"
    OPERATE = "operate_run"  # claim, reconcile, send the events that move a run on
    APPROVE = "approve_write"
    EXTEND = "extend_budget"
    AUDIT = "audit_runs"


PERMITS: dict[Permission, str] = {  # what somebody who has it may do, in words
    Permission.START: "start runs",
    Permission.OPERATE: "work on the queue",
    Permission.APPROVE: "approve and reject writes",
    Permission.EXTEND: "extend budgets",
    Permission.AUDIT: "audit how runs end",
}

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


class Sender(StrEnum):
    PERSON = "person"
    SERVICE = "service"  # never by hand
    CONTROL = "control"  # the control layer's own clock


class Declared(StrEnum):
    """What a workflow has to declare before an event means anything to its runs."""

    AMENDMENTS = "amendments"  # what of a proposed write may be changed
    COMPENSATION = "compensation"  # how a write is undone
    SCOPES = "scopes"  # narrower contracts


UNDECLARED = {
    Declared.AMENDMENTS: "This workflow declares nothing of a proposed write that could be changed.",
    Declared.COMPENSATION: "This workflow declares no way to undo its writes.",
    Declared.SCOPES: "This workflow declares no narrower scope.",
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
    sender: Sender = Sender.PERSON
    seconded_by: Permission | None = None  # takes two different people; the second has this permission
    confirmed_by_requester: bool = False  # proposed by anybody; whoever asked for the run confirms it, or sends it
    needs: Declared | None = None
    asks_authority: bool = False  # leads to a look-up at once where a write has an open outcome
    puts_up_again: bool = False  # no approval given before it holds any more
    checked_again: str = "Before anything new is done, the preconditions are read again from their sources."

    @property
    def takes_two(self) -> bool:
        """Whether it may wait, as a proposal, for a second person."""
        return self.seconded_by is not None or self.confirmed_by_requester

    @property
    def costs_a_look_up(self) -> bool:
        """Whether a person who sends it spends one of the follow-up checks, and cannot where none is left."""
        return self.asks_authority and self.needs_unresolved_effect and self.sender is Sender.PERSON

    @property
    def paid_from(self) -> Dimension:
        """The allowance that pays for the look-up which this event leads to."""
        return Dimension.CALLBACK_CHECKS if self.sender is Sender.SERVICE else Dimension.FOLLOW_UP_CHECKS

    @cached_property
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
            asks_authority=True,
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
            checked_again="The preconditions and the plan's target are read again just before sending.",
        ),
        EventKind(
            Move.APPROVAL_REJECTED,
            "Reject",
            "The write is not sent.",
            Permission.APPROVE,
            _payload(("reason",), reason=REASON),
            answers_plan=True,
            puts_up_again=True,
            checked_again="Nothing is sent; the policy is asked for another way, and a person where it has none.",
        ),
        EventKind(
            Move.APPROVAL_REVOKED,
            "Take the approval back",
            "The approved write is not sent, unless it has left already. It is put up for approval again.",
            Permission.APPROVE,
            _payload(("reason",), reason=REASON),
            puts_up_again=True,
            checked_again="The write is put up again, on what is read then.",
        ),
        EventKind(
            Move.PLAN_AMENDED,
            "Change the write",
            "Changes one field of what is proposed. Whoever does so counts as asking for it: another person approves.",
            Permission.OPERATE,
            _payload(
                ("field", "value", "reason"),
                field=_text("Field", 60),
                value=_text("New value", 2000),
                reason=REASON,
            ),
            answers_plan=True,
            needs=Declared.AMENDMENTS,
            puts_up_again=True,
            checked_again="Everything is read again, the changed plan is made on it, and it is put up for approval.",
        ),
        EventKind(
            Move.EVIDENCE_SUPPLIED,
            "Supply evidence",
            "Adds what you know, marked as a person's word. It does not confirm a write by itself.",
            Permission.OPERATE,
            _payload(("statement", "reference"), statement=_text("What you know"), reference=REFERENCE),
            asks_authority=True,
            checked_again="The authority is asked again where it can be; your statement stands beside its answer.",
        ),
        EventKind(
            Move.EFFECT_CONFIRMED,
            "It did happen",
            "Says that the write took effect. The service is asked again; your word alone does not complete the run.",
            Permission.OPERATE,
            _payload(("reference",), reference=REFERENCE),
            needs_unresolved_effect=True,
            asks_authority=True,
            checked_again="The service is asked by operation key.",
        ),
        EventKind(
            Move.EFFECT_REFUTED,
            "It did not happen",
            "Says that the write did not take effect. The service is asked; your word never lets it be sent again.",
            Permission.OPERATE,
            _payload(("reference",), reference=REFERENCE),
            needs_unresolved_effect=True,
            asks_authority=True,
            checked_again="The service is asked by operation key.",
        ),
        EventKind(
            Move.CALLBACK_RECEIVED,
            "The service called back",
            "A signed message says that something became of a write. It is no evidence: the service is asked.",
            Permission.OPERATE,
            _payload(("operation_key",), operation_key=_text("Operation key", 120), reference=REFERENCE),
            needs_unresolved_effect=True,
            sender=Sender.SERVICE,
            asks_authority=True,
            checked_again="The service is asked by operation key.",
        ),
        EventKind(
            Move.CREDENTIAL_REPLACED,
            "Credential replaced",
            "The product's own credential was renewed. It is tried before work goes on.",
            Permission.OPERATE,
            _payload(("reference",), reference=_text("Name of the credential (never the secret)", 100)),
            reasons=frozenset({StopReason.CREDENTIAL_REFUSED}),
            asks_authority=True,
            checked_again="The credential is tried on the call that was refused.",
        ),
        EventKind(
            Move.ACCESS_GRANTED,
            "Access granted",
            "The product was given the access it lacked. It is tried before work goes on.",
            Permission.OPERATE,
            _payload(("reference",), reference=REFERENCE),
            reasons=frozenset({StopReason.ACCESS_REFUSED}),
            asks_authority=True,
            checked_again="The access is tried on the call that was refused.",
        ),
        EventKind(
            Move.INPUT_CORRECTED,
            "Correct the input",
            "Corrects one field of what was asked for. What the run is about cannot be changed: that is another run.",
            Permission.OPERATE,
            _payload(
                ("field", "value", "reason"),
                field=_text("Field", 60),
                value=_text("Corrected value", 200),
                reason=REASON,
            ),
            reasons=frozenset({StopReason.INPUT_INVALID, StopReason.NOT_FOUND}),
            puts_up_again=True,
            checked_again="The corrected input is checked like a new one, and everything is read again for it.",
        ),
        EventKind(
            Move.POLICY_CONFIRMED,
            "Policy confirmed",
            "The conflict or gap in the policies was settled at its source. They are read again there.",
            Permission.OPERATE,
            _payload(("reference",), reference=REFERENCE),
            reasons=frozenset({StopReason.FACTS_IN_CONFLICT, StopReason.FACTS_MISSING}),
            puts_up_again=True,
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
            puts_up_again=True,
        ),
        EventKind(
            Move.SCOPE_NARROWED,
            "Narrow the scope",
            "Asks for less than was asked for. The person who asked for the run confirms it.",
            Permission.OPERATE,
            _payload(("scope", "reason"), scope=_text("Narrower scope", 60), reason=REASON),
            confirmed_by_requester=True,
            needs=Declared.SCOPES,
            puts_up_again=True,
            checked_again="A new version of the contract is frozen; the old one, and every budget, stays as it is.",
        ),
        EventKind(
            Move.RESUMED_AFTER_REVIEW,
            "Go on",
            "You looked at it and the run may go on from where it stopped.",
            Permission.OPERATE,
            _payload(("reason",), reason=REASON),
            puts_up_again=True,
        ),
        EventKind(
            Move.CANCEL_REQUESTED,
            "Cancel the request",
            "Withdraws the request. If a write may have been delivered, the service is asked first what became of it.",
            Permission.OPERATE,
            _payload(("reason",), reason=REASON),
            asks_authority=True,
            checked_again="If anything may have been sent, the service is asked what became of it.",
        ),
        EventKind(
            Move.COMPENSATION_APPROVED,
            "Undo it",
            "Lets the writes that took effect be undone, the last one first. Each is a write of its own.",
            Permission.APPROVE,
            _payload(("reason",), reason=REASON),
            reasons=TOO_LATE,
            not_by_requester=True,
            needs=Declared.COMPENSATION,
            checked_again="Whether each write can still be undone is read again just before.",
        ),
        EventKind(
            Move.CLOSED_UNRESOLVED,
            "Close with the outcome unknown",
            "Ends the run although nobody knows what became of a write. It stays marked as unknown in every figure.",
            Permission.OPERATE,
            _payload(("reason", "reference"), reason=REASON, reference=REFERENCE),
            needs_unresolved_effect=True,
            seconded_by=Permission.APPROVE,
            checked_again="Nothing; the write stays unknown, and its key stays on record.",
        ),
        EventKind(
            Move.RETRY_SCHEDULED,
            "Try the same read again",
            "A read failed in passing and is repeated, after a wait that grows.",
            Permission.OPERATE,
            _payload(),
            sender=Sender.CONTROL,
            checked_again="Everything that has grown old meanwhile is read again.",
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
            puts_up_again=True,
        ),
    )
}


FROM_PEOPLE = {move: kind for move, kind in CATALOGUE.items() if kind.sender is Sender.PERSON}


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
    approved_unsent: bool = False  # an approval was given and not used yet
    anything_sent: bool = False  # some write of this run may have left
    declared: frozenset[Declared] = frozenset()  # by its workflow


def why_not(kind: EventKind, run: Standing) -> str:
    """Why this event is not possible now, as a sentence; empty when it is."""
    if run.state in FINAL:
        return f"The run has ended ({run.state.value})."
    if run.state not in kind.states:
        stopped = sorted(state.value.replace("_", " ") for state in kind.states - WORKING)
        wanted = f"a run's state is {' or '.join(stopped)}" if stopped else "it runs"
        return f"Possible while {wanted}; this one's is {run.state.value.replace('_', ' ')}."
    if kind.reasons and run.stop_reason not in kind.reasons:
        wanted = " or ".join(sorted(reason.value.replace("_", " ") for reason in kind.reasons))
        return f"Answers a run that stopped for {wanted}."
    if kind.needs and kind.needs not in run.declared:
        return UNDECLARED[kind.needs]
    if kind.needs_unresolved_effect and not run.effect_unresolved:
        return "No write of this run has an open outcome."
    if kind.costs_a_look_up and run.follow_up_checks_left <= 0:
        return "The follow-up look-ups are used up; somebody entitled may extend them."
    if kind.move is Move.CANCEL_REQUESTED and run.cancel_requested:
        return "A cancellation is already being verified."
    if kind.move is Move.APPROVAL_REVOKED and not run.approved_unsent:
        return "No approval is waiting to be used."
    if kind.move is Move.INPUT_CORRECTED and run.anything_sent:
        return "Something was sent for this input already; a corrected one is another run."
    if kind.move is Move.CLOSED_UNRESOLVED and asks_by_itself(run.outcome, run.follow_up_checks_left):
        return "The service is still asked about the write by itself."
    if kind.move is Move.UNPAUSED and not run.paused:
        return "The run is not paused."
    if kind.move is Move.PAUSED and run.paused:
        return "The run is paused already."
    if kind.move is Move.RESUMED_AFTER_REVIEW and run.paused:
        return "The run is paused: let it go on."
    if kind.move is Move.RESUMED_AFTER_REVIEW and run.outcome is Outcome.WAITING and run.effect_unresolved:
        return "The run goes on by itself when its next look-up is due."
    if kind.move is Move.RESUMED_AFTER_REVIEW and run.effect_unresolved:
        return "A write has an open outcome: ask the service first."
    return ""
