"""The product's words for people, in one place so that they can be translated: codes, durations, text from outside."""

import unicodedata
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import pgettext
from django.utils.translation import pgettext_lazy as noun

from runs.domain.budget import Dimension
from runs.domain.contract import Acceptance
from runs.domain.decision import ON_FAILURE
from runs.domain.effects import Answer, EffectState
from runs.domain.errors import ErrorClass
from runs.domain.interventions import CATALOGUE, Permission
from runs.domain.states import Move, Outcome, Recovery, State, StopReason
from runs.interventions import amending
from runs.interventions.possible import helpful_scopes
from runs.models import Run
from runs.workflows import registry
from runs.workflows.definition import Workflow

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
STANDING: dict[Any, Any] = {**OUTCOME, "UNRESOLVED": lazy("Closed unresolved")}  # see desk.stands_as

REASON = {
    StopReason.CONTRACT_MET: lazy("contract met"),
    StopReason.EFFECT_PENDING: lazy("write pending"),
    StopReason.RESULT_PENDING: lazy("not there yet"),
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
    StopReason.SOURCES_EXHAUSTED: lazy("sources exhausted"),
    StopReason.NOT_WORTH_GOING_ON: lazy("not worth going on"),
    StopReason.QUESTION_ASKED: lazy("question asked"),
    StopReason.OUTCOME_UNCONFIRMED: lazy("outcome unconfirmed"),
    StopReason.HALF_DONE: lazy("half done"),
    StopReason.CANCELLED_TOO_LATE: lazy("cancelled too late"),
    StopReason.NOT_REVERSIBLE: lazy("cannot be undone"),
    StopReason.PAUSED: lazy("paused"),
    StopReason.CANNOT_DISPATCH: lazy("cannot dispatch"),
    StopReason.UNFORESEEN_ERROR: lazy("unforeseen error"),
    StopReason.WORKFLOW_MISSING: lazy("workflow missing"),
    StopReason.LIMIT_STEPS: lazy("steps used up"),
    StopReason.LIMIT_MODEL_TURNS: lazy("model turns used up"),
    StopReason.LIMIT_TOKENS: lazy("tokens used up"),
    StopReason.LIMIT_TOOL_ATTEMPTS: lazy("tool attempts used up"),
    StopReason.LIMIT_EXTERNAL_WRITES: lazy("external writes used up"),
    StopReason.LIMIT_STATUS_CHECKS: lazy("status checks used up"),
    StopReason.LIMIT_WALL_TIME: lazy("time used up"),
    StopReason.LIMIT_COST: lazy("cost used up"),
    StopReason.SAME_ERROR_REPEATED: lazy("same error repeated"),
    StopReason.CANCELLED_UNSENT: lazy("withdrawn before sending"),
    StopReason.CANCELLED_ABSENT: lazy("withdrawn, nothing took effect"),
    StopReason.CANCELLED_COMPENSATED: lazy("withdrawn and undone"),
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
    EffectState.COMPENSATED: lazy("undone"),
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

FAILURE = {  # how a call failed, by the product's own codes
    "unreachable": lazy("unreachable"),
    "no_answer": lazy("no answer"),
    "unavailable": lazy("unavailable"),
    "rate_limited": lazy("too many calls"),
    "interrupted": lazy("interrupted"),
    "credential_refused": lazy("credential refused"),
    "access_denied": lazy("access denied"),
    "invalid_input": lazy("invalid input"),
    "key_reused": lazy("key used for something else"),
    "not_found": lazy("not found"),
    "tool_missing": lazy("tool missing"),
    "invalid_output": lazy("invalid output"),
    "too_large": lazy("too large"),
    "refused": lazy("refused"),
    "unforeseen": lazy("unforeseen"),
}

DIMENSION = {
    Dimension.STEPS: lazy("Steps"),
    Dimension.MODEL_TURNS: lazy("Model turns"),
    Dimension.INPUT_TOKENS: lazy("Input tokens"),
    Dimension.OUTPUT_TOKENS: lazy("Output tokens"),
    Dimension.TOOL_ATTEMPTS: lazy("Tool attempts"),
    Dimension.EXTERNAL_WRITES: lazy("External writes"),
    Dimension.STATUS_CHECKS: lazy("Status checks"),
    Dimension.FOLLOW_UP_CHECKS: lazy("Follow-up checks"),
    Dimension.CALLBACK_CHECKS: lazy("Callback checks"),
    Dimension.WALL_TIME: lazy("Time"),
    Dimension.COST: lazy("Cost"),
}

NOUN = {  # what stands by itself where the record names a thing
    "order": noun("noun", "order"),
    "market": noun("noun", "market"),
    "competitors": noun("noun", "competitors"),
    "sales": noun("noun", "sales"),
    "paid": noun("noun", "paid"),
    "standing": noun("noun", "standing"),
    "no": noun("number", "no"),
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

ACCEPTANCE = {
    Acceptance.SUCCEEDED: lazy("succeeded"),
    Acceptance.FAILED: lazy("failed"),
    Acceptance.UNKNOWN: lazy("unknown"),
}

ERROR = {
    ErrorClass.TRANSIENT: lazy("transient"),
    ErrorClass.AUTHENTICATION: lazy("authentication"),
    ErrorClass.PERMISSION: lazy("permission"),
    ErrorClass.INVALID_INPUT: lazy("invalid input"),
    ErrorClass.NOT_FOUND: lazy("not found"),
    ErrorClass.TOOL_MISSING: lazy("tool missing"),
    ErrorClass.INVALID_OUTPUT: lazy("invalid output"),
    ErrorClass.REFUSED: lazy("refused"),
    ErrorClass.UNKNOWN: lazy("unknown error"),
}


def word(code: str, among: Mapping[Any, Any]) -> str:
    """A stable code in words. A code that nobody has put into words yet is still readable."""
    return str(among.get(code) or _as_it_is(code))


def _as_it_is(code: str) -> str:
    """What stands in the place of a code may have been sent in an address or a form."""
    return visible(code.replace("_", " "))


def error_beside(run: Run) -> str:
    """The error of a stopped run where it says more than the reason, and how often it came if more than once."""
    code = run.error_class
    says_the_same = not code or (code in set(ErrorClass) and ON_FAILURE.get(ErrorClass(code)) == run.stop_reason)
    often = f"×{run.error_count}" if run.error_count > 1 else ""
    return " ".join(filter(None, ["" if says_the_same else word(code, ERROR), often]))


def taken_for(code: str) -> str:
    """What a call's answer was taken for, or how it failed."""
    return word(code, {**FAILURE, **ANSWER})


def event(name: str) -> str:
    """An event as the catalogue calls it. Services send some that no person can, and those are not in it."""
    kind = CATALOGUE.get(Move(name)) if name in set(Move) else None
    return _(kind.label) if kind else _as_it_is(name)


def role(name: str) -> str:
    """A role of ours in words; a group that an installation made itself as it is called."""
    return visible(pgettext("role", name))


def workflow(name: str) -> str:
    found = registry.find(name)
    return _(found.title) if found else _as_it_is(name)


def input_fields(run: Run) -> tuple[tuple[str, str], ...]:
    """The fields of what a run was asked for that may be corrected, with their titles. A field that says what the run
    is about is left out where that can be told: with another value, it would be another run."""
    found = registry.find(run.workflow)
    properties = found.input_schema["properties"] if found else {}
    fields = tuple((field, _(schema.get("title", field))) for field, schema in properties.items())
    return tuple(one for one in fields if found and not _is_about(found, run, one[0])) or fields


def _is_about(workflow: Workflow, run: Run, field: str) -> bool:
    given = run.input.get(field)
    if not isinstance(given, str):
        return False
    try:
        return bool(workflow.subject({**run.input, field: f"{given}0"}) != run.subject)
    except Exception:  # made up, and nothing that its functions have to bear
        return False


def argument_fields(run: Run) -> tuple[tuple[str, str], ...]:
    """What of the write that waits for approval may be changed, with titles."""
    found = amending.proposed(run)
    if not found:
        return ()
    titles = found[0].arguments["properties"]
    return tuple((field, _(titles[field].get("title", field))) for field in found[0].amendable)


def scopes(run: Run) -> tuple[tuple[str, str], ...]:
    """The narrower contracts that would help a run, with their labels."""
    found = registry.find(run.workflow, run.workflow_version)
    return tuple((name, _(found.scopes[name].label)) for name in helpful_scopes(run)) if found else ()


def scope(name: str, run: Run) -> str:
    """A narrower contract as its workflow calls it."""
    found = registry.find(run.workflow)
    return _(found.scopes[name].label) if found and name in found.scopes else visible(name.replace("_", " "))


def spell(length: timedelta) -> str:
    """A duration as a person says it: "45 s", "12 min", "1 h 12", "2 d 3 h"."""
    seconds = max(0, int(length.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        rest = hours % 24
        return _("%(d)d d %(h)d h") % {"d": days, "h": rest} if rest and days < 10 else _("%d d") % days
    if hours:
        return _("%(h)d h %(m)02d") % {"h": hours, "m": minutes % 60}
    return _("%d min") % minutes if minutes else _("%d s") % seconds


def spell_due(left: timedelta) -> str:
    if left < timedelta(0):
        return _("%s late") % spell(-left)
    return _("due in %s") % spell(left)


def visible(text: object) -> str:
    """`text` with every character shown that could hide or turn around what stands beside it."""
    shown = str.__str__(str(text))  # plain text, also of what calls itself safe
    if shown.isprintable():  # as nearly all of it
        return shown
    return "".join(
        f"[U+{ord(sign):04X}]"
        if unicodedata.category(sign) in {"Cc", "Cf", "Zl", "Zp"} and sign not in "\n\t"
        else sign
        for sign in shown
    )
