"""The life of one external write (docs/rules.md, 8).

A committed intent counts as sent. An unknown outcome is looked up by operation key before anything is sent again, and
sending again is permitted once per proof of absence, with the same key and the same parameters.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from runs.domain.errors import DomainError, Failure


class EffectState(StrEnum):
    PLANNED = "planned"  # described, not sent
    APPROVED = "approved"  # a person approved exactly this plan
    SENT = "sent"  # the intent is committed: it may have been delivered
    ACKNOWLEDGED = "acknowledged"  # the authority says pending
    UNKNOWN = "unknown"  # no answer, or none that counts
    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    ABSENT = "absent"  # the authority says definitely: not there
    COMPENSATED = "compensated"  # it was confirmed, and a write of its own undid it


UNRESOLVED = frozenset({EffectState.SENT, EffectState.ACKNOWLEDGED, EffectState.UNKNOWN})
UNSENT = frozenset({EffectState.PLANNED, EffectState.APPROVED})
SENDABLE = UNSENT | {EffectState.ABSENT}  # nothing of it is out there


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


# After these nobody knows yet.
INDEFINITE = frozenset(answer for (_, answer), after in LIFE.items() if after in UNRESOLVED)


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
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_as_kept)
    return hashlib.sha256(text.encode()).hexdigest()


def _as_kept(value: object) -> str:
    """As it is written down, so that a plan that was read back has the digest that was approved."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


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
    binding: str = ""  # what this key was first sent for: `binding_of` that plan
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
    undoes: str = ""  # the key of the write that this one compensates

    @property
    def digest(self) -> str:
        """What an approval is bound to: this operation key, and everything in the plan."""
        return fingerprint({"key": self.key, **vars(self.plan)})

    @property
    def unresolved(self) -> bool:
        return self.state in UNRESOLVED


def put_up(effects: Iterable[Effect]) -> Effect | None:
    """The write that was put before a person, the last time, and not decided about yet; None where there is none."""
    undecided = [effect for effect in effects if effect.state in SENDABLE and not effect.approved_digest]
    waiting = [(effect.approval_expires_at, effect) for effect in undecided if effect.approval_expires_at]
    return max(waiting, key=lambda one: one[0])[1] if waiting else None


class Undecidable(StrEnum):
    """Why a decision about the plan with one digest, made at one instant, decides nothing."""

    NOTHING_WAITS = "nothing_waits"
    ANOTHER_PLAN = "another_plan"
    TOO_LATE = "too_late"


def undecidable(waiting: Effect | None, digest: str, at: datetime) -> Undecidable | None:
    """What stands against deciding about `waiting`, which was put up; None where nothing does."""
    if waiting is None:
        return Undecidable.NOTHING_WAITS
    if digest != waiting.digest:
        return Undecidable.ANOTHER_PLAN
    lapsed = waiting.approval_expires_at is not None and at >= waiting.approval_expires_at
    return Undecidable.TOO_LATE if lapsed else None


def approval_is_valid(effect: Effect, now: datetime) -> bool:
    """Whether a person approved exactly this effect's plan and the approval has not lapsed."""
    return (
        effect.approved_digest == effect.digest
        and effect.approval_expires_at is not None
        and now < effect.approval_expires_at
    )


@dataclass(frozen=True)
class KeyTerms:
    """What a service declares about operation keys, once per tool. Without a declaration nothing is assumed."""

    in_flight: timedelta  # how long after its intent a request may still arrive
    kept_for: timedelta | None = None  # from the first use of a key; None: for good

    def remembers(self, effect: Effect, now: datetime) -> bool:
        """Whether the service still knows this key, if it ever got it. Counted from the plan, which is never later."""
        return self.kept_for is None or now < effect.planned_at + self.kept_for


class Permit(StrEnum):
    """Why a write may be sent."""

    FIRST = "first"  # it never was
    PROVEN_ABSENT = "proven_absent"  # the authority has shown that it is not there: once per proof


def made_anew(key: str, number: int) -> str:
    """The operation key of a write that takes the place of one under `key`, which was sent for something else."""
    return f"{key}~{number}"


def first_key(key: str) -> str:
    """The key as its workflow made it, of a write that may have been made anew; no workflow's own looks like that."""
    return re.sub(r"~\d+\Z", "", key)


def binding_of(plan: WritePlan) -> str:
    """What an operation key is bound to from its first sending on: the scope it is valid in, and the parameters."""
    return fingerprint({"operation": plan.operation, "target": plan.target, "params": plan.params})


def may_send(effect: Effect, terms: KeyTerms, now: datetime) -> Permit:
    """Why sending this effect's plan is permitted now, as far as its own history decides; EffectError if it is not.

    A permitted resend keeps the key. Once the service may have forgotten a key, asking about it is all that is safe.
    """
    if effect.binding and effect.binding != binding_of(effect.plan):
        raise EffectError("This operation key was sent for something else.", field="operation_key")
    if effect.state in UNSENT:
        return Permit.FIRST
    if not terms.remembers(effect, now):
        raise EffectError("The service may have forgotten this operation key; only a look-up is safe.", "operation_key")
    if effect.state is EffectState.ABSENT:
        return Permit.PROVEN_ABSENT
    raise EffectError(f"This write is {effect.state.value}; it must not be sent again.", field="effect")


def absence_is_proof(effect: Effect, terms: KeyTerms, now: datetime) -> bool:
    """Whether "not there", said by the authoritative store, proves that the request did not and cannot take effect.

    Not while it may be on its way, and not once the service may have forgotten the key.
    """
    if effect.sent_at is None:
        return False
    return now >= effect.sent_at + terms.in_flight and terms.remembers(effect, now)


def compensated(effect: Effect, undoing: Effect) -> Effect:
    """`effect` once the write `undoing` is confirmed to have undone it. History stays: key, receipt, times.

    Raises EffectError unless `undoing` names this effect as what it undoes, and both are confirmed.
    """
    if undoing.undoes != effect.key:
        raise EffectError(f"{undoing.key} does not undo {effect.key}.", field="undoes")
    for one, field in ((effect, "effect"), (undoing, "undoing")):
        if one.state is not EffectState.CONFIRMED:
            raise EffectError(f"The write {one.key} is {one.state.value}, not confirmed.", field=field)
    return replace(effect, state=EffectState.COMPENSATED)


def undone_elsewhere(effect: Effect) -> Effect:
    """`effect` once its service shows that somebody else undid it. Raises EffectError unless it is confirmed."""
    if effect.state is not EffectState.CONFIRMED:
        raise EffectError(f"The write {effect.key} is {effect.state.value}, not confirmed.", field="effect")
    return replace(effect, state=EffectState.COMPENSATED)


def names_otherwise(receipt: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first field of `wanted` (subject, operation key, parameters) in which `receipt` names something else.

    Empty where there is none. What a receipt leaves out it does not name; true is not 1.
    """
    for field, value in wanted.items():
        given = receipt.get(field)
        if given is not None and (given != value or type(given) is not type(value)):
            return field
    return ""


def names(receipt: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether `receipt` counts for this subject and operation key: it names all of `wanted`, and nothing else."""
    return all(receipt.get(field) is not None for field in wanted) and not names_otherwise(receipt, wanted)


def what_a_failure_means(failure: Failure, looking: bool) -> Answer:
    """The answer that a failed submission, or a failed look-up (`looking`), amounts to."""
    return Answer.NOT_EXECUTED if failure.did_nothing and not looking else Answer.UNREACHABLE


def in_doubt(effect: Effect, answer: Answer) -> Answer:
    """`answer` in the light of what was said before: what was acknowledged once cannot simply be absent, nor can what
    the receipts contradict each other about, whoever says so.
    """
    contradicts = effect.last_answer is Answer.CONTRADICTORY and answer in {Answer.ABSENT, Answer.NOT_EXECUTED}
    acknowledged = effect.state is EffectState.ACKNOWLEDGED and answer is Answer.ABSENT
    return Answer.CONTRADICTORY if contradicts or acknowledged else answer


def still_contradicted(effect: Effect, answer: Answer) -> bool:
    """Whether the authority contradicted itself about this write, and `answer` says nothing that would settle it."""
    return effect.last_answer is Answer.CONTRADICTORY and answer in {Answer.UNREACHABLE, Answer.NOT_FOUND_YET}


def still_answers(effect: Effect, answer: Answer, attempt: int) -> bool:
    """Whether an answer to the `attempt`-th sending, come late, says something about the write as it stands.

    That a request was accepted or received stays true; that an earlier one was not is no news of a later one; and that
    nobody answered, or nothing was found, is no news at all.
    """
    if not effect.unresolved or answer in {Answer.UNREACHABLE, Answer.NOT_FOUND_YET}:
        return False
    return attempt == effect.times_sent or answer in {Answer.ACCEPTED, Answer.PENDING}
