"""The decision at each step boundary: fifteen rules, and their order is their meaning (docs/rules.md, 4).

`decide` returns the verdict of the first rule that applies. The caller fills a `Situation` from what was read back; the
rules read nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from runs.domain.budget import STOP_REASON, Dimension
from runs.domain.contract import Value
from runs.domain.effects import EffectState
from runs.domain.errors import ErrorClass, Failure
from runs.domain.states import Closed, Recovery, StopReason


class FactsState(StrEnum):
    COMPLETE = "complete"
    UNREAD = "unread"  # not read since the last stop
    MISSING = "missing"
    CONFLICT = "conflict"


class NextStep(StrEnum):
    """What would be done next if nothing speaks against it."""

    READ = "read"  # a precondition not read since the last stop, a read that the policy chose, or a check of its claim
    WRITE = "write"
    TURN = "turn"  # a model is asked what to propose
    CLAIM = "claim"  # the policy says that it is finished
    ASK = "ask"  # the policy asks a person
    EXHAUSTED = "exhausted"  # every source was asked
    WAIT = "wait"  # what was begun elsewhere takes its time
    HAND_OVER = "hand_over"  # one agent passes the task to another
    REFUSED = "refused"  # what a model proposed cannot be considered
    NONE = "none"


class Kind(StrEnum):
    DROP = "drop"  # not ours any more: change nothing
    STOP = "stop"
    LOOK_UP = "look_up"  # ask the authority about an unresolved effect
    RETRY = "retry"  # the same read again, later
    ASK_APPROVAL = "ask_approval"
    VALIDATE = "validate"  # a claim of completion that the contract does not bear out
    HAND_OVER = "hand_over"
    REFUSE = "refuse"  # tell the model why, and ask it again
    ACT = "act"


@dataclass(frozen=True)
class Verdict:
    kind: Kind
    reason: StopReason | None = None
    rule: int = 0


@dataclass(frozen=True)
class OpenEffect:
    """The unresolved write, as far as the decision needs it."""

    state: EffectState
    look_up_due: bool  # by schedule, or because somebody asked
    can_pay: bool  # the budget that this look-up draws on is not exhausted


@dataclass(frozen=True)
class Situation:
    """Everything a decision rests on."""

    contract: Value
    authorised: Value
    facts: FactsState
    eligible: Value
    next_step: NextStep
    holds_lease: bool = True
    cancel_requested: bool = False
    undo: Recovery = Recovery.NONE  # somebody decided to undo what took effect: COMPENSATE, or MANUAL if it cannot be
    effects: frozenset[EffectState] = field(default_factory=frozenset)  # without those that undo others
    open_effect: OpenEffect | None = None
    contradiction: bool = False
    refused: bool = False
    short_of: Dimension | None = None  # what the next step could not be paid from
    overdue: bool = False  # the run's wall time is used up
    repeats: int = 0
    new_path: bool = False  # the next step is a reasoned way that was not tried yet: allowed once
    kinds_closed: bool = False  # every kind of attempt was fruitless up to its limit
    closed: Closed | None = None  # what is proposed failed for good before: what it failed of
    failure: Failure | None = None  # of the last action, not yet dealt with
    failed_kind: NextStep = NextStep.READ
    errors_in_a_row: int = 0
    max_same_error: int = 2
    attempts_left: bool = True  # of the operation that failed
    remaining_short_of: Dimension | None = None  # past a soft mark: what the rest of the work could not be paid from
    worth_it: bool = True  # past a soft mark: whether the rest of the work is worth what it costs
    paused: bool = False
    approval_needed: bool = False
    approval_valid: bool = False
    approval_rejected: bool = False  # exactly what is proposed now
    approval_lapsed: bool = False


ON_FAILURE: dict[ErrorClass, StopReason] = {
    ErrorClass.AUTHENTICATION: StopReason.CREDENTIAL_REFUSED,
    ErrorClass.PERMISSION: StopReason.ACCESS_REFUSED,
    ErrorClass.INVALID_INPUT: StopReason.INPUT_INVALID,
    ErrorClass.NOT_FOUND: StopReason.NOT_FOUND,
    ErrorClass.TOOL_MISSING: StopReason.TOOL_MISSING,
    ErrorClass.REFUSED: StopReason.REFUSED_BY_SERVICE,
}


# A look-up that failed this way would fail again: the product itself has to be put right first.
ASKING_AGAIN_IS_USELESS = frozenset({ErrorClass.AUTHENTICATION, ErrorClass.PERMISSION, ErrorClass.TOOL_MISSING})


def _stop(reason: StopReason) -> Verdict:
    return Verdict(Kind.STOP, reason)


def _cancelled(s: Situation) -> Verdict | None:
    if not s.cancel_requested or s.open_effect:
        return None  # rule 9 asks the authority first, under the cancellation's own reason
    if EffectState.CONFIRMED in s.effects:
        if s.undo is Recovery.COMPENSATE:
            return None
        return _stop(StopReason.NOT_REVERSIBLE if s.undo is Recovery.MANUAL else StopReason.CANCELLED_TOO_LATE)
    if EffectState.COMPENSATED in s.effects:
        return _stop(StopReason.CANCELLED_COMPENSATED)
    was_sent = s.effects & {EffectState.ABSENT, EffectState.REJECTED}
    return _stop(StopReason.CANCELLED_ABSENT if was_sent else StopReason.CANCELLED_UNSENT)


def _gates(s: Situation) -> bool:
    """Whether rules 3 to 5 apply: they permit new actions, and say nothing about a write that is already out there,
    nor about undoing it."""
    new = s.next_step is NextStep.WRITE or EffectState.CONFIRMED not in s.effects
    return s.open_effect is None and s.undo is Recovery.NONE and new


def _unauthorised(s: Situation) -> Verdict | None:
    return _not_permitted(s, StopReason.NOT_AUTHORISED) if s.authorised is Value.UNMET and _gates(s) else None


def _not_permitted(s: Situation, reason: StopReason) -> Verdict:
    # Where an earlier write took effect, ending here would leave half of the work behind.
    return _stop(StopReason.HALF_DONE if EffectState.CONFIRMED in s.effects else reason)


def _facts_unclear(s: Situation) -> Verdict | None:
    if not _gates(s):
        return None
    match s.facts:
        case FactsState.MISSING:
            return _stop(StopReason.FACTS_MISSING)
        case FactsState.CONFLICT:
            return _stop(StopReason.FACTS_IN_CONFLICT)
    # Nothing is written on what nobody has read, or could not judge.
    judged = s.facts is FactsState.COMPLETE and Value.UNKNOWN not in {s.authorised, s.eligible}
    return None if judged or s.next_step is not NextStep.WRITE else _stop(StopReason.FACTS_MISSING)


def _ineligible(s: Situation) -> Verdict | None:
    unmet = s.eligible is Value.UNMET and s.facts is FactsState.COMPLETE
    return _not_permitted(s, StopReason.NOT_ELIGIBLE) if unmet and _gates(s) else None


def _refused(s: Situation) -> Verdict | None:
    # Where an earlier write took effect, ending here would leave half of the work behind: the policy says what next.
    ends = s.refused and not s.open_effect and EffectState.CONFIRMED not in s.effects
    return _stop(StopReason.REFUSED_BY_SERVICE) if ends else None


def _met(s: Situation) -> Verdict | None:
    # Where nothing took effect, what permits the run has to be known to hold now: neither facts of before the last stop
    # nor a judgement that nobody could make completes anything.
    holds = s.facts is FactsState.COMPLETE and s.authorised is s.eligible is Value.MET
    permitted = EffectState.CONFIRMED in s.effects or holds
    met = s.contract is Value.MET and permitted and s.open_effect is None and s.undo is Recovery.NONE
    return _stop(StopReason.CONTRACT_MET) if met else None


def _open_effect(s: Situation) -> Verdict | None:
    effect = s.open_effect
    if not effect:
        return None
    if s.failure and s.failure.error_class in ASKING_AGAIN_IS_USELESS:
        return _stop(ON_FAILURE[s.failure.error_class])
    if effect.look_up_due and effect.can_pay:
        return Verdict(Kind.LOOK_UP)
    if not effect.can_pay:
        pending = effect.state is EffectState.ACKNOWLEDGED
        return _stop(StopReason.LIMIT_STATUS_CHECKS if pending else StopReason.OUTCOME_UNCONFIRMED)
    if s.cancel_requested:
        return _stop(StopReason.CANCELLATION_UNVERIFIED)
    pending = effect.state is EffectState.ACKNOWLEDGED
    return _stop(StopReason.EFFECT_PENDING if pending else StopReason.EFFECT_UNKNOWN)


def _limit(s: Situation) -> Verdict | None:
    if s.paused:
        return _stop(StopReason.PAUSED)
    if s.overdue:
        return _stop(StopReason.LIMIT_WALL_TIME)
    return _stop(STOP_REASON[s.short_of]) if s.short_of else None


def _no_progress(s: Situation) -> Verdict | None:
    stuck = s.kinds_closed or (s.repeats > 0 and not s.new_path)
    return _stop(StopReason.NO_PROGRESS) if stuck else None


def _failure(s: Situation) -> Verdict | None:
    if s.closed:
        return _stop(s.closed.reason)
    if not s.failure:
        return None
    error_class = s.failure.error_class
    if reason := ON_FAILURE.get(error_class):
        return _stop(reason)
    if too_often(s.errors_in_a_row, s.max_same_error) or not s.attempts_left:
        return _stop(StopReason.SAME_ERROR_REPEATED)
    # A write comes here only where the service declared that it did nothing; anything else is an open effect (rule 9).
    again = s.failed_kind is NextStep.READ or s.failure.executed is False
    return Verdict(Kind.RETRY) if again else _stop(StopReason.OUTCOME_UNCONFIRMED)


def _past_soft_mark(s: Situation) -> Verdict | None:
    if s.remaining_short_of:
        return _stop(STOP_REASON[s.remaining_short_of])
    return None if s.worth_it else _stop(StopReason.NOT_WORTH_GOING_ON)


def _approval(s: Situation) -> Verdict | None:
    if s.approval_rejected:
        return _stop(StopReason.APPROVAL_REJECTED)
    if s.next_step is not NextStep.WRITE or not s.approval_needed or s.approval_valid:
        return None
    return _stop(StopReason.APPROVAL_EXPIRED) if s.approval_lapsed else Verdict(Kind.ASK_APPROVAL)


def _act(s: Situation) -> Verdict:
    match s.next_step:
        case NextStep.ASK | NextStep.NONE:
            return _stop(StopReason.QUESTION_ASKED)
        case NextStep.EXHAUSTED:
            return _stop(StopReason.SOURCES_EXHAUSTED)
        case NextStep.CLAIM:
            return Verdict(Kind.VALIDATE)
        case NextStep.WAIT:
            return _stop(StopReason.RESULT_PENDING)
        case NextStep.HAND_OVER:
            return Verdict(Kind.HAND_OVER)
        case NextStep.REFUSED:
            return Verdict(Kind.REFUSE)
    return Verdict(Kind.ACT)


def too_often(errors_in_a_row: int, max_same_error: int) -> bool:
    """Whether one class of error came back from one operation once more than it may: that stops the run."""
    return errors_in_a_row > max_same_error


def way_closed(failure: Failure, attempts: int, most_attempts: int) -> Closed | None:
    """What a read that the policy chose has failed of for good; None while it may be tried again.

    That closes this way only: the policy is asked for another, and the run stops where it has none.
    """
    if failure.error_class is ErrorClass.NOT_FOUND:
        return Closed.NOT_THERE
    again = failure.error_class not in ON_FAILURE
    return Closed.USED_UP if again and attempts >= most_attempts else None


@dataclass(frozen=True)
class Rule:
    number: int
    says: str
    apply: Callable[[Situation], Verdict | None]


RULES: tuple[Rule, ...] = (
    Rule(1, "Not the holder any more: change nothing.", lambda s: None if s.holds_lease else Verdict(Kind.DROP)),
    Rule(2, "Cancellation asked for: end it, unless a write may have landed.", _cancelled),
    Rule(3, "Not authorised: declined, before any sensitive record is read.", _unauthorised),
    Rule(4, "Facts or policies missing or in conflict: a person.", _facts_unclear),
    Rule(5, "Not eligible under the policy in force now: declined.", _ineligible),
    Rule(
        6,
        "The authority's evidence contradicts itself: a person.",
        lambda s: _stop(StopReason.RECEIPTS_CONTRADICT) if s.contradiction else None,
    ),
    Rule(
        7,
        "An explicit business refusal, nothing else is open, and no other write stands: declined.",
        _refused,
    ),
    Rule(
        8,
        "The contract is met, and nothing else is open: completed, before every limit.",
        _met,
    ),
    Rule(9, "An effect with an open outcome: only look-ups, no write.", _open_effect),
    Rule(10, "Paused, or a hard limit, or what is left cannot pay for the next step: nothing new.", _limit),
    Rule(11, "No progress, and no new path to try: a person.", _no_progress),
    Rule(12, "The last action failed: by its class. A way that failed for good is not taken again.", _failure),
    Rule(13, "Past a soft mark: the rest must fit into what is left, and be worth it.", _past_soft_mark),
    Rule(14, "A write without a valid approval where one is required: ask for it.", _approval),
    Rule(15, "Otherwise act.", _act),
)


def decide(situation: Situation) -> Verdict:
    """The verdict of the first of the fifteen rules that applies."""
    found = ((rule.number, verdict) for rule in RULES if (verdict := rule.apply(situation)))
    number, verdict = next(found)
    return Verdict(verdict.kind, verdict.reason, number)
