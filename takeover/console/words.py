"""The product's words for people, in one place so that they can be translated: states, outcomes, reasons, answers."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from runs import case as cases
from runs.domain.budget import Dimension
from runs.domain.effects import Answer, EffectState
from runs.domain.interventions import Permission
from runs.domain.states import Outcome, Recovery, State, StopReason
from runs.models import Run
from runs.workflows import registry

STATE = {
    State.RECEIVED: lazy("received"),
    State.PLANNING: lazy("planning"),
    State.EXECUTING: lazy("executing"),
    State.VALIDATING: lazy("validating"),
    State.NEEDS_REVISION: lazy("needs revision"),
    State.AWAITING_APPROVAL: lazy("awaiting approval"),
    State.BLOCKED: lazy("blocked"),
    State.COMPLETED: lazy("completed"),
    State.FAILED: lazy("failed"),
    State.CANCELLED: lazy("cancelled"),
}

OUTCOME = {
    Outcome.COMPLETED: lazy("Completed"),
    Outcome.WAITING: lazy("Waiting"),
    Outcome.DECLINED: lazy("Declined"),
    Outcome.NEEDS_HUMAN: lazy("Needs a person"),
    Outcome.LIMIT_REACHED: lazy("Limit reached"),
    Outcome.CANCELLED: lazy("Cancelled"),
}

REASON = {
    StopReason.CONTRACT_MET: lazy("contract met"),
    StopReason.EFFECT_PENDING: lazy("write pending"),
    StopReason.EFFECT_UNKNOWN: lazy("write unknown"),
    StopReason.CANCELLATION_UNVERIFIED: lazy("cancellation unverified"),
    StopReason.NOT_AUTHORISED: lazy("not authorised"),
    StopReason.NOT_ELIGIBLE: lazy("not eligible"),
    StopReason.REFUSED_BY_SERVICE: lazy("refused by service"),
    StopReason.APPROVAL_REQUIRED: lazy("approval required"),
    StopReason.APPROVAL_REJECTED: lazy("approval rejected"),
    StopReason.APPROVAL_EXPIRED: lazy("approval expired"),
    StopReason.FACTS_MISSING: lazy("facts missing"),
    StopReason.FACTS_IN_CONFLICT: lazy("facts in conflict"),
    StopReason.RECEIPTS_CONTRADICT: lazy("receipts contradict"),
    StopReason.CREDENTIAL_REFUSED: lazy("credential refused"),
    StopReason.ACCESS_REFUSED: lazy("access refused"),
    StopReason.INPUT_INVALID: lazy("input invalid"),
    StopReason.NOT_FOUND: lazy("not found"),
    StopReason.TOOL_MISSING: lazy("tool missing"),
    StopReason.NO_PROGRESS: lazy("no progress"),
    StopReason.QUESTION_ASKED: lazy("question asked"),
    StopReason.OUTCOME_UNCONFIRMED: lazy("outcome unconfirmed"),
    StopReason.CANCELLED_TOO_LATE: lazy("cancelled too late"),
    StopReason.NOT_WORTH_CONTINUING: lazy("not worth continuing"),
    StopReason.PAUSED: lazy("paused"),
    StopReason.CANNOT_DISPATCH: lazy("cannot dispatch"),
    StopReason.WORKFLOW_MISSING: lazy("workflow missing"),
    StopReason.LIMIT_STEPS: lazy("steps used up"),
    StopReason.LIMIT_MODEL_TURNS: lazy("model turns used up"),
    StopReason.LIMIT_TOOL_ATTEMPTS: lazy("tool attempts used up"),
    StopReason.LIMIT_EXTERNAL_WRITES: lazy("external writes used up"),
    StopReason.LIMIT_STATUS_CHECKS: lazy("status checks used up"),
    StopReason.LIMIT_WALL_TIME: lazy("time used up"),
    StopReason.LIMIT_COST: lazy("cost used up"),
    StopReason.SAME_ERROR_REPEATED: lazy("same error repeated"),
    StopReason.CANCELLED_UNSENT: lazy("withdrawn before sending"),
    StopReason.CANCELLED_ABSENT: lazy("withdrawn, nothing took effect"),
}

EFFECT = {
    EffectState.PLANNED: lazy("planned, not sent"),
    EffectState.APPROVED: lazy("approved, not sent"),
    EffectState.SENT: lazy("sent, no answer yet"),
    EffectState.ACKNOWLEDGED: lazy("acknowledged, pending"),
    EffectState.UNKNOWN: lazy("outcome unknown"),
    EffectState.CONFIRMED: lazy("confirmed"),
    EffectState.REJECTED: lazy("rejected"),
    EffectState.ABSENT: lazy("definitely absent"),
}

ANSWER = {
    Answer.ACCEPTED: lazy("accepted"),
    Answer.PENDING: lazy("pending"),
    Answer.REJECTED: lazy("rejected"),
    Answer.ABSENT: lazy("definitely absent"),
    Answer.NOT_FOUND_YET: lazy("not found yet"),
    Answer.CONTRADICTORY: lazy("contradictory"),
    Answer.UNREACHABLE: lazy("unreachable"),
    Answer.NOT_EXECUTED: lazy("not executed"),
}

DIMENSION = {
    Dimension.STEPS: lazy("Steps"),
    Dimension.MODEL_TURNS: lazy("Model turns"),
    Dimension.TOOL_ATTEMPTS: lazy("Tool attempts"),
    Dimension.EXTERNAL_WRITES: lazy("External writes"),
    Dimension.STATUS_CHECKS: lazy("Status checks"),
    Dimension.FOLLOW_UP_CHECKS: lazy("Follow-up checks"),
    Dimension.WALL_TIME: lazy("Time"),
    Dimension.COST: lazy("Cost"),
}

RECOVERY = {
    Recovery.NONE: lazy("none"),
    Recovery.RECONCILE: lazy("reconcile"),
    Recovery.COMPENSATE: lazy("compensate"),
    Recovery.MANUAL: lazy("by hand"),
}

PERMISSION = {
    Permission.START: lazy("start runs"),
    Permission.OPERATE: lazy("work on the queue"),
    Permission.APPROVE: lazy("approve and reject writes"),
    Permission.EXTEND: lazy("extend budgets"),
    Permission.AUDIT: lazy("audit how runs end"),
}

_ALL: dict[str, Any] = {
    str(code): text
    for texts in (STATE, OUTCOME, REASON, EFFECT, ANSWER, DIMENSION, RECOVERY, PERMISSION)
    for code, text in texts.items()
}


def word(code: str, among: Mapping[Any, Any] | None = None) -> str:
    """A stable code in words. A code that nobody has put into words yet is still readable."""
    return str((_ALL if among is None else among).get(code) or code.replace("_", " "))


def workflow(name: str) -> str:
    found = registry.find(name)
    return _(found.title) if found else name.replace("_", " ")


def title(run: Run) -> str:
    """A run's name in a list."""
    return cases.title(run)
