"""What the question of a stopped run asks a person to do: the one button that stands out."""

from collections.abc import Collection

from runs.domain.states import Move, State, StopReason
from runs.models import Run

# The first that is possible. None where the question leaves it open, or gives a choice: nothing is suggested then.
ASKED_FOR: dict[StopReason, tuple[Move, ...]] = {
    # Whether it happened: whoever knows best is asked first, and a person says what they know where that is no use.
    StopReason.EFFECT_UNKNOWN: (Move.RECONCILE_REQUESTED, Move.EVIDENCE_SUPPLIED),
    StopReason.EFFECT_PENDING: (Move.RECONCILE_REQUESTED,),
    StopReason.CANCELLATION_UNVERIFIED: (Move.RECONCILE_REQUESTED,),
    StopReason.OUTCOME_UNCONFIRMED: (Move.RECONCILE_REQUESTED, Move.EVIDENCE_SUPPLIED),
    StopReason.RECEIPTS_CONTRADICT: (Move.RECONCILE_REQUESTED, Move.EVIDENCE_SUPPLIED),
    StopReason.LIMIT_STATUS_CHECKS: (Move.RECONCILE_REQUESTED, Move.BUDGET_EXTENDED),
    StopReason.RESULT_PENDING: (Move.RESUMED_AFTER_REVIEW,),  # it waits for the world: somebody may have news of it
    # Whether it may go on
    StopReason.APPROVAL_REQUIRED: (Move.APPROVAL_GRANTED,),
    StopReason.APPROVAL_EXPIRED: (Move.RESUMED_AFTER_REVIEW,),
    StopReason.PAUSED: (Move.UNPAUSED,),
    StopReason.TOOL_MISSING: (Move.RESUMED_AFTER_REVIEW,),
    StopReason.CANNOT_DISPATCH: (Move.RESUMED_AFTER_REVIEW,),
    StopReason.UNFORESEEN_ERROR: (Move.RESUMED_AFTER_REVIEW,),
    StopReason.SAME_ERROR_REPEATED: (Move.RESUMED_AFTER_REVIEW,),
    StopReason.NOT_WORTH_GOING_ON: (Move.RESUMED_AFTER_REVIEW,),
    StopReason.LIMIT_STEPS: (Move.BUDGET_EXTENDED,),
    StopReason.LIMIT_MODEL_TURNS: (Move.BUDGET_EXTENDED,),
    StopReason.LIMIT_TOKENS: (Move.BUDGET_EXTENDED,),
    StopReason.LIMIT_TOOL_ATTEMPTS: (Move.BUDGET_EXTENDED,),
    StopReason.LIMIT_EXTERNAL_WRITES: (Move.BUDGET_EXTENDED,),
    StopReason.LIMIT_WALL_TIME: (Move.BUDGET_EXTENDED,),
    StopReason.LIMIT_COST: (Move.BUDGET_EXTENDED,),
    # Whether something was put right
    StopReason.CREDENTIAL_REFUSED: (Move.CREDENTIAL_REPLACED,),
    StopReason.ACCESS_REFUSED: (Move.ACCESS_GRANTED,),
    StopReason.FACTS_MISSING: (Move.POLICY_CONFIRMED,),
    StopReason.FACTS_IN_CONFLICT: (Move.POLICY_CONFIRMED,),
    StopReason.INPUT_INVALID: (Move.INPUT_CORRECTED,),
    StopReason.NOT_FOUND: (Move.INPUT_CORRECTED,),
    # What somebody knows; see `first`
    StopReason.QUESTION_ASKED: (Move.EVIDENCE_SUPPLIED,),
    # A choice, or an open question
    StopReason.SOURCES_EXHAUSTED: (),
    StopReason.NO_PROGRESS: (),
    StopReason.APPROVAL_REJECTED: (),
    StopReason.HALF_DONE: (),
    StopReason.CANCELLED_TOO_LATE: (),
    StopReason.NOT_REVERSIBLE: (),
    StopReason.WORKFLOW_MISSING: (),
}


def by(run: Run) -> tuple[Move, ...]:
    """What the question of this run asks for, the best first; nothing while it runs, or once it has ended."""
    if run.state not in {State.BLOCKED, State.AWAITING_APPROVAL} or not run.stop_reason:
        return ()
    paused = (Move.UNPAUSED,) if run.paused else ()
    return ASKED_FOR[StopReason(run.stop_reason)] + paused


def first(run: Run, possible: Collection[Move], proposed: Collection[str] = ()) -> Move | None:
    """The one of the `possible` events that stands out. What a narrower scope would answer as well as knowing more is a
    choice, also once somebody has proposed it: neither of the two does."""
    is_a_choice = Move.SCOPE_NARROWED in {*possible, *proposed}
    asked = (move for move in by(run) if not (is_a_choice and move is Move.EVIDENCE_SUPPLIED))
    return next((move for move in asked if move in possible), None)


def worth_a_reason(run: Run) -> set[Move]:
    """What people look for in a run that stands like this: where it is not possible, the page says why not."""
    goes_on = {Move.RESUMED_AFTER_REVIEW} if run.state == State.BLOCKED and not run.paused else set()
    return {*by(run), *goes_on}
