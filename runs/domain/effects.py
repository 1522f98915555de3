"""The life of one external write (docs/rules.md, 8).

A committed intent counts as sent. An unknown outcome is looked up by operation key before anything is sent again, and
sending again is permitted once per proof of absence, with the same key and the same parameters.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from runs.domain.errors import DEFINITELY_NOT_EXECUTED, DomainError, Failure


class EffectState(StrEnum):
    PLANNED = "planned"  # described, not sent
    APPROVED = "approved"  # a person approved exactly this plan
    SENT = "sent"  # the intent is committed: it may have been delivered
    ACKNOWLEDGED = "acknowledged"  # the authority says pending
    UNKNOWN = "unknown"  # no answer, or none that counts
    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    ABSENT = "absent"  # the authority says definitely: not there


UNRESOLVED = frozenset({EffectState.SENT, EffectState.ACKNOWLEDGED, EffectState.UNKNOWN})
UNSENT = frozenset({EffectState.PLANNED, EffectState.APPROVED})


class Answer(StrEnum):
    """What an authority may say about an operation key, or what became of asking."""

    ACCEPTED = "accepted"
    PENDING = "pending"
    REJECTED = "rejected"
    ABSENT = "absent"
    NOT_FOUND_YET = "not_found_yet"  # nothing there, but that proves nothing yet
    CONTRADICTORY = "contradictory"
    UNREACHABLE = "unreachable"
    NOT_EXECUTED = "not_executed"  # the service declares that it did nothing with the request


MEANING = {
    Answer.ACCEPTED: "The service has it, under a receipt that names this subject and this key.",
    Answer.PENDING: "The service has received it and has not decided yet.",
    Answer.REJECTED: "The service refused it for a business reason.",
    Answer.ABSENT: "The service does not have it, and it can no longer arrive.",
    Answer.NOT_FOUND_YET: "Nothing was found, and that is not proof: it may still arrive.",
    Answer.CONTRADICTORY: "The answers do not fit together, or name another subject.",
    Answer.UNREACHABLE: "Nobody answered. That says nothing about the write.",
    Answer.NOT_EXECUTED: "The service declares that it did not execute the request.",
}

LIFE: dict[tuple[EffectState, Answer], EffectState] = {
    **{
        (state, answer): after
        for state in UNRESOLVED
        for answer, after in {
            Answer.ACCEPTED: EffectState.CONFIRMED,
            Answer.PENDING: EffectState.ACKNOWLEDGED,
            Answer.REJECTED: EffectState.REJECTED,
            Answer.ABSENT: EffectState.ABSENT,
            Answer.CONTRADICTORY: EffectState.UNKNOWN,
        }.items()
    },
    (EffectState.SENT, Answer.NOT_FOUND_YET): EffectState.UNKNOWN,
    (EffectState.SENT, Answer.UNREACHABLE): EffectState.UNKNOWN,
    (EffectState.UNKNOWN, Answer.NOT_FOUND_YET): EffectState.UNKNOWN,
    (EffectState.UNKNOWN, Answer.UNREACHABLE): EffectState.UNKNOWN,
    # What the authority once acknowledged is not forgotten because a later look-up found nothing.
    (EffectState.ACKNOWLEDGED, Answer.NOT_FOUND_YET): EffectState.ACKNOWLEDGED,
    (EffectState.ACKNOWLEDGED, Answer.UNREACHABLE): EffectState.ACKNOWLEDGED,
    # Only the submission itself can be declared not executed; then there is nothing out there.
    (EffectState.SENT, Answer.NOT_EXECUTED): EffectState.ABSENT,
    (EffectState.UNKNOWN, Answer.NOT_EXECUTED): EffectState.ABSENT,  # that answer, when it comes late
}


class EffectError(DomainError):
    """Something that must not happen to a write: an answer out of turn, or a key used for something else."""


def after(state: EffectState, answer: Answer) -> EffectState:
    """The state of an effect once `answer` is in. Raises EffectError for a pair that is not in the table."""
    try:
        return LIFE[state, answer]
    except KeyError:
        raise EffectError(f"An effect that is {state.value} cannot be answered {answer.value}.", "effect") from None


def fingerprint(value: Mapping[str, Any]) -> str:
    """A digest of `value` that does not depend on the order of its keys: 64 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class WritePlan:
    """One proposed write, complete enough to be approved: what, where, against what is there now, how to undo it."""

    operation: str  # the tool
    target: str
    params: Mapping[str, Any]
    difference: tuple[tuple[str, str, str], ...]  # field, now, then
    target_version: str  # what was read of the target; a changed one sends the plan back for review
    expected: str
    undo: str
    risk: str
    needs_approval: str = ""  # the rule that asks for a person; empty: none does


@dataclass(frozen=True)
class Effect:
    """One write as it stands. Times come from the database's clock."""

    key: str
    state: EffectState
    plan: WritePlan
    planned_at: datetime
    sent_params: str = ""  # fingerprint of the parameters this key was first sent with
    approved_digest: str = ""
    approved_by: int | None = None
    approved_at: datetime | None = None
    approval_expires_at: datetime | None = None  # of the request while it waits, then of the approval given
    sent_at: datetime | None = None
    times_sent: int = 0
    look_ups: int = 0
    last_answer: Answer | None = None
    answered_at: datetime | None = None
    next_look_at: datetime | None = None
    receipt: Mapping[str, Any] | None = None
    reason: str = ""  # why the service refused, or what does not fit

    @property
    def digest(self) -> str:
        """What an approval is bound to: this operation key, and everything in the plan."""
        return fingerprint({"key": self.key, **vars(self.plan)})

    @property
    def unresolved(self) -> bool:
        return self.state in UNRESOLVED


def approval_is_valid(effect: Effect, now: datetime) -> bool:
    """Whether a person approved exactly this effect's plan and the approval has not lapsed."""
    return (
        effect.approved_digest == effect.digest
        and effect.approval_expires_at is not None
        and now < effect.approval_expires_at
    )


def may_send(effect: Effect) -> None:
    """Raise EffectError unless sending this effect's plan is permitted now, as far as its own history decides.

    Permitted: never sent, or proven absent (a permitted resend keeps the key). A key belongs to one set of parameters.
    """
    if effect.sent_params and effect.sent_params != fingerprint(effect.plan.params):
        raise EffectError("This operation key was sent with other parameters.", field="operation_key")
    if effect.state not in UNSENT | {EffectState.ABSENT}:
        raise EffectError(f"This write is {effect.state.value}; it must not be sent again.", field="effect")


def what_a_failure_means(failure: Failure, looking: bool) -> Answer:
    """The answer that a failed submission, or a failed look-up (`looking`), amounts to."""
    done_nothing = failure.executed is False or failure.error_class in DEFINITELY_NOT_EXECUTED
    return Answer.NOT_EXECUTED if done_nothing and not looking else Answer.UNREACHABLE


def in_doubt(effect: Effect, answer: Answer) -> Answer:
    """`answer` in the light of what was said before: what was acknowledged once cannot simply be absent."""
    said_before = effect.state is EffectState.ACKNOWLEDGED or effect.last_answer is Answer.CONTRADICTORY
    return Answer.CONTRADICTORY if answer is Answer.ABSENT and said_before else answer


def still_answers(effect: Effect, answer: Answer, attempt: int) -> bool:
    """Whether an answer to the `attempt`-th sending, come late, says something about the write as it stands.

    That a request was accepted or received stays true; that an earlier one was not is no news of a later one; and that
    nobody answered, or nothing was found, is no news at all.
    """
    if not effect.unresolved or answer in {Answer.UNREACHABLE, Answer.NOT_FOUND_YET}:
        return False
    return attempt == effect.times_sent or answer in {Answer.ACCEPTED, Answer.PENDING}


def absence_is_proof(sent_at: datetime | None, now: datetime, grace: timedelta) -> bool:
    """Whether "not there", said by the authoritative store, proves that the request can no longer arrive."""
    return sent_at is not None and now >= sent_at + grace
