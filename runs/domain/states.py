"""Where a run stands, how it stopped and why, and every move it may make (docs/rules.md, 3 and 4).

Three things are recorded apart and never merged into one "done" flag: where the work stands (`State`), how this stretch
of it stopped (`Outcome` with its `StopReason`), and what the contract says (`Acceptance`, in `contract`).
"""

from enum import StrEnum

from runs.domain.errors import DomainError


class State(StrEnum):
    RECEIVED = "received"  # accepted, nothing read yet
    PLANNING = "planning"  # preconditions are being read
    EXECUTING = "executing"  # a proposal is being carried out
    VALIDATING = "validating"  # the contract is being evaluated on what was read back
    NEEDS_REVISION = "needs_revision"  # some assertion does not hold; only that goes back
    AWAITING_APPROVAL = "awaiting_approval"  # a planned write lies before a person
    BLOCKED = "blocked"  # stopped short; an event or a timer moves it on
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
OPEN = frozenset(State) - FINAL
WORKING = OPEN - {State.AWAITING_APPROVAL, State.BLOCKED}


class StepKind(StrEnum):
    """What one external call does."""

    READ = "read"
    WRITE = "write"
    LOOK_UP = "look_up"  # reads what became of a write, by operation key
    TURN = "turn"  # asks a model what to propose next


class StepStatus(StrEnum):
    """Where one external call stands."""

    INTENT = "intent"  # may be under way, or its worker died
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # its worker died or lost the run; a read is simply repeated


class Outcome(StrEnum):
    COMPLETED = "COMPLETED"  # every assertion is MET on authoritative evidence
    WAITING = "WAITING"  # an effect may have landed; an automatic check is still due
    DECLINED = "DECLINED"  # not entitled, not eligible, or refused by the service
    NEEDS_HUMAN = "NEEDS_HUMAN"  # the control layer cannot decide safely
    LIMIT_REACHED = "LIMIT_REACHED"  # a budget is exhausted
    CANCELLED = "CANCELLED"  # withdrawn, and no effect remains


# The run has stopped short, and somebody is to look at it.
SHORT = [Outcome.WAITING, Outcome.NEEDS_HUMAN, Outcome.LIMIT_REACHED]


class StopReason(StrEnum):
    """Why a stretch ended: a stable code that belongs to exactly one outcome."""

    CONTRACT_MET = "contract_met"
    EFFECT_PENDING = "effect_pending"
    EFFECT_UNKNOWN = "effect_unknown"
    RESULT_PENDING = "result_pending"
    CANCELLATION_UNVERIFIED = "cancellation_unverified"
    NOT_AUTHORISED = "not_authorised"
    NOT_ELIGIBLE = "not_eligible"
    REFUSED_BY_SERVICE = "refused_by_service"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_REJECTED = "approval_rejected"
    APPROVAL_EXPIRED = "approval_expired"
    FACTS_MISSING = "facts_missing"
    FACTS_IN_CONFLICT = "facts_in_conflict"
    RECEIPTS_CONTRADICT = "receipts_contradict"
    CREDENTIAL_REFUSED = "credential_refused"
    ACCESS_REFUSED = "access_refused"
    INPUT_INVALID = "input_invalid"
    NOT_FOUND = "not_found"
    TOOL_MISSING = "tool_missing"
    NO_PROGRESS = "no_progress"
    SOURCES_EXHAUSTED = "sources_exhausted"
    NOT_WORTH_GOING_ON = "not_worth_going_on"
    QUESTION_ASKED = "question_asked"
    OUTCOME_UNCONFIRMED = "outcome_unconfirmed"
    HALF_DONE = "half_done"
    CANCELLED_TOO_LATE = "cancelled_too_late"
    NOT_REVERSIBLE = "not_reversible"
    PAUSED = "paused"
    CANNOT_DISPATCH = "cannot_dispatch"
    UNFORESEEN_ERROR = "unforeseen_error"
    WORKFLOW_MISSING = "workflow_missing"
    LIMIT_STEPS = "limit_steps"
    LIMIT_MODEL_TURNS = "limit_model_turns"
    LIMIT_TOKENS = "limit_tokens"
    LIMIT_TOOL_ATTEMPTS = "limit_tool_attempts"
    LIMIT_EXTERNAL_WRITES = "limit_external_writes"
    LIMIT_STATUS_CHECKS = "limit_status_checks"
    LIMIT_WALL_TIME = "limit_wall_time"
    LIMIT_COST = "limit_cost"
    SAME_ERROR_REPEATED = "same_error_repeated"
    CANCELLED_UNSENT = "cancelled_unsent"
    CANCELLED_ABSENT = "cancelled_absent"
    CANCELLED_COMPENSATED = "cancelled_compensated"

    @property
    def outcome(self) -> Outcome:
        return OUTCOME_OF[self]


class Closed(StrEnum):
    """What a way that a policy chose failed of for good: it is not taken again, and without another the run stops."""

    NOT_THERE = StopReason.NOT_FOUND.value
    USED_UP = StopReason.SAME_ERROR_REPEATED.value  # its attempts
    NOTHING_NEW = StopReason.NO_PROGRESS.value

    @property
    def reason(self) -> StopReason:
        return StopReason(self.value)


# The policy itself has nothing to do any more.
SAID_BY_THE_POLICY = frozenset({StopReason.QUESTION_ASKED, StopReason.SOURCES_EXHAUSTED})

# Something took effect that is not wanted any more, or not by itself: a person keeps it or has it undone.
TOO_LATE = frozenset({StopReason.HALF_DONE, StopReason.CANCELLED_TOO_LATE, StopReason.NOT_REVERSIBLE})

OUTCOME_OF: dict[StopReason, Outcome] = {
    reason: outcome
    for outcome, reasons in {
        Outcome.COMPLETED: [StopReason.CONTRACT_MET],
        Outcome.WAITING: [
            StopReason.EFFECT_PENDING,
            StopReason.EFFECT_UNKNOWN,
            StopReason.RESULT_PENDING,
            StopReason.CANCELLATION_UNVERIFIED,
        ],
        Outcome.DECLINED: [StopReason.NOT_AUTHORISED, StopReason.NOT_ELIGIBLE, StopReason.REFUSED_BY_SERVICE],
        Outcome.NEEDS_HUMAN: [
            StopReason.APPROVAL_REQUIRED,
            StopReason.APPROVAL_REJECTED,
            StopReason.APPROVAL_EXPIRED,
            StopReason.FACTS_MISSING,
            StopReason.FACTS_IN_CONFLICT,
            StopReason.RECEIPTS_CONTRADICT,
            StopReason.CREDENTIAL_REFUSED,
            StopReason.ACCESS_REFUSED,
            StopReason.INPUT_INVALID,
            StopReason.NOT_FOUND,
            StopReason.TOOL_MISSING,
            StopReason.NO_PROGRESS,
            StopReason.SOURCES_EXHAUSTED,
            StopReason.NOT_WORTH_GOING_ON,
            StopReason.QUESTION_ASKED,
            StopReason.OUTCOME_UNCONFIRMED,
            StopReason.HALF_DONE,
            StopReason.CANCELLED_TOO_LATE,
            StopReason.NOT_REVERSIBLE,
            StopReason.PAUSED,
            StopReason.CANNOT_DISPATCH,
            StopReason.UNFORESEEN_ERROR,
            StopReason.WORKFLOW_MISSING,
        ],
        Outcome.LIMIT_REACHED: [
            StopReason.LIMIT_STEPS,
            StopReason.LIMIT_MODEL_TURNS,
            StopReason.LIMIT_TOKENS,
            StopReason.LIMIT_TOOL_ATTEMPTS,
            StopReason.LIMIT_EXTERNAL_WRITES,
            StopReason.LIMIT_STATUS_CHECKS,
            StopReason.LIMIT_WALL_TIME,
            StopReason.LIMIT_COST,
            StopReason.SAME_ERROR_REPEATED,
        ],
        Outcome.CANCELLED: [
            StopReason.CANCELLED_UNSENT,
            StopReason.CANCELLED_ABSENT,
            StopReason.CANCELLED_COMPENSATED,
        ],
    }.items()
    for reason in reasons
}


def asks_by_itself(outcome: Outcome | None, follow_up_checks_left: int) -> bool:
    """Whether a run that stopped so, with a write whose outcome is open, has the authority asked by itself.

    `follow_up_checks_left`: look-ups that may still be made once the scheduled ones are used up.
    """
    return outcome is Outcome.WAITING or (outcome is Outcome.LIMIT_REACHED and follow_up_checks_left > 0)


class Recovery(StrEnum):
    """What is being done about effects that went wrong; never turns a success into a failure."""

    NONE = "none"
    RECONCILE = "reconcile"
    COMPENSATE = "compensate"
    MANUAL = "manual"


def recovery(reason: StopReason, *, effect_open: bool, undoing: bool, ended: bool = False) -> Recovery:
    """What is to be done about the effects of a run that stopped so; `ended`: and that nobody carries on any more."""
    if effect_open:
        return Recovery.MANUAL if ended else Recovery.RECONCILE
    if undoing:
        return Recovery.COMPENSATE
    return Recovery.MANUAL if reason in TOO_LATE else Recovery.NONE


class Move(StrEnum):
    """A named cause of a transition: first the control layer's, then those that people and services send."""

    STARTED = "started"
    PROPOSAL_ACCEPTED = "proposal_accepted"
    VALIDATION_DUE = "validation_due"
    CONTRACT_MET = "contract_met"
    CONTRACT_NOT_MET = "contract_not_met"
    REVISION_BEGUN = "revision_begun"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_LAPSED = "approval_lapsed"
    STOPPED_SHORT = "stopped_short"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"

    RETRY_SCHEDULED = "retry_scheduled"

    APPROVAL_GRANTED = "approval_granted"
    APPROVAL_REJECTED = "approval_rejected"
    APPROVAL_REVOKED = "approval_revoked"
    PLAN_AMENDED = "plan_amended"
    RECONCILE_REQUESTED = "reconcile_requested"
    EVIDENCE_SUPPLIED = "evidence_supplied"
    EFFECT_CONFIRMED = "effect_confirmed"
    EFFECT_REFUTED = "effect_refuted"
    CALLBACK_RECEIVED = "callback_received"
    LATE_RESULT = "late_result"
    CREDENTIAL_REPLACED = "credential_replaced"
    ACCESS_GRANTED = "access_granted"
    INPUT_CORRECTED = "input_corrected"
    POLICY_CONFIRMED = "policy_confirmed"
    SCOPE_NARROWED = "scope_narrowed"
    BUDGET_EXTENDED = "budget_extended"
    RESUMED_AFTER_REVIEW = "resumed_after_review"
    CANCEL_REQUESTED = "cancel_requested"
    COMPENSATION_APPROVED = "compensation_approved"
    CLOSED_UNRESOLVED = "closed_unresolved"
    PAUSED = "paused"
    UNPAUSED = "unpaused"


def _same(move: Move, states: frozenset[State] = OPEN) -> dict[tuple[State, Move], State]:
    return {(state, move): state for state in states}


TRANSITIONS: dict[tuple[State, Move], State] = {
    (State.RECEIVED, Move.STARTED): State.PLANNING,
    (State.PLANNING, Move.PROPOSAL_ACCEPTED): State.EXECUTING,
    (State.PLANNING, Move.VALIDATION_DUE): State.VALIDATING,
    (State.EXECUTING, Move.VALIDATION_DUE): State.VALIDATING,
    (State.BLOCKED, Move.VALIDATION_DUE): State.VALIDATING,
    (State.VALIDATING, Move.CONTRACT_MET): State.COMPLETED,
    (State.VALIDATING, Move.CONTRACT_NOT_MET): State.NEEDS_REVISION,
    (State.NEEDS_REVISION, Move.REVISION_BEGUN): State.EXECUTING,
    (State.PLANNING, Move.APPROVAL_REQUIRED): State.AWAITING_APPROVAL,
    (State.EXECUTING, Move.APPROVAL_REQUIRED): State.AWAITING_APPROVAL,
    (State.AWAITING_APPROVAL, Move.APPROVAL_GRANTED): State.EXECUTING,
    (State.AWAITING_APPROVAL, Move.APPROVAL_REJECTED): State.PLANNING,
    (State.AWAITING_APPROVAL, Move.APPROVAL_LAPSED): State.BLOCKED,
    (State.AWAITING_APPROVAL, Move.PLAN_AMENDED): State.PLANNING,
    (State.BLOCKED, Move.PLAN_AMENDED): State.PLANNING,
    (State.BLOCKED, Move.APPROVAL_REVOKED): State.PLANNING,
    (State.AWAITING_APPROVAL, Move.APPROVAL_REVOKED): State.AWAITING_APPROVAL,  # a decision no worker has seen yet
    (State.BLOCKED, Move.RECONCILE_REQUESTED): State.VALIDATING,
    (State.BLOCKED, Move.EVIDENCE_SUPPLIED): State.VALIDATING,
    (State.BLOCKED, Move.EFFECT_CONFIRMED): State.VALIDATING,
    (State.BLOCKED, Move.EFFECT_REFUTED): State.VALIDATING,
    (State.BLOCKED, Move.CALLBACK_RECEIVED): State.VALIDATING,
    (State.BLOCKED, Move.LATE_RESULT): State.VALIDATING,
    (State.BLOCKED, Move.CREDENTIAL_REPLACED): State.PLANNING,
    (State.BLOCKED, Move.ACCESS_GRANTED): State.PLANNING,
    (State.BLOCKED, Move.INPUT_CORRECTED): State.PLANNING,
    (State.BLOCKED, Move.POLICY_CONFIRMED): State.PLANNING,
    (State.BLOCKED, Move.SCOPE_NARROWED): State.PLANNING,
    (State.BLOCKED, Move.BUDGET_EXTENDED): State.PLANNING,
    (State.BLOCKED, Move.RESUMED_AFTER_REVIEW): State.PLANNING,
    (State.BLOCKED, Move.UNPAUSED): State.PLANNING,
    (State.BLOCKED, Move.COMPENSATION_APPROVED): State.EXECUTING,
    (State.BLOCKED, Move.CLOSED_UNRESOLVED): State.FAILED,
    # Said while a worker is just looking: it takes that in, and stays where it is.
    **{
        (state, move): state
        for state in (State.PLANNING, State.VALIDATING)
        for move in (
            Move.RECONCILE_REQUESTED,
            Move.EVIDENCE_SUPPLIED,
            Move.EFFECT_CONFIRMED,
            Move.EFFECT_REFUTED,
            Move.BUDGET_EXTENDED,
        )
    },
    **_same(Move.RETRY_SCHEDULED, WORKING),
    **_same(Move.APPROVAL_REVOKED, WORKING - {State.RECEIVED}),
    **_same(Move.CALLBACK_RECEIVED, WORKING - {State.RECEIVED}),
    # A cancellation asks; what becomes of the run is the decision's business, once the authority has answered.
    **_same(Move.CANCEL_REQUESTED),
    **_same(Move.LATE_RESULT, OPEN - {State.BLOCKED}),
    **{(state, Move.PAUSED): State.BLOCKED for state in WORKING},
    **{(state, Move.STOPPED_SHORT): State.BLOCKED for state in OPEN},
    **{(state, Move.DECLINED): State.FAILED for state in OPEN},
    **{(state, Move.WITHDRAWN): State.CANCELLED for state in OPEN},
}


class TransitionRefused(DomainError):
    """This move does not exist from this state; nothing was changed."""


def transition(state: State, move: Move) -> State:
    """The state that `move` leads to from `state`. Raises TransitionRefused for a pair that is not in the table."""
    try:
        return TRANSITIONS[state, move]
    except KeyError:
        raise TransitionRefused(f"{move.value} is not possible while a run is {state.value}.", field="event") from None
