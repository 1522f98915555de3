"""One external call: what it would cost, its intent, the call itself, and what its answer means.

The intent is committed before the call leaves, and for a write that commit is the moment it counts as sent.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Fact, Value
from runs.domain.effects import (
    UNRESOLVED,
    Answer,
    Effect,
    EffectError,
    EffectState,
    KeyTerms,
    absence_is_proof,
    after,
    binding_of,
    compensated,
    in_doubt,
    may_send,
    still_contradicted,
    undone_elsewhere,
    what_a_failure_means,
)
from runs.domain.errors import Failure, classify
from runs.domain.progress import Gain, Progress, attempt_fingerprint, changes
from runs.domain.redaction import clean, redact
from runs.domain.states import Closed, StepKind, StepStatus
from runs.engine import commit
from runs.engine.commit import LeaseLost
from runs.engine.held import Held, pace
from runs.engine.services import service
from runs.models import Step
from runs.secrets import known_secrets
from runs.tools.tool import Call, Result, Tool, ToolFailed
from runs.workflows.definition import is_the_engines_own

log = logging.getLogger(__name__)
MARGIN = 5.0  # seconds between a call's deadline and the end of the lease that covers it
MOST_WORDS = 500  # characters of one sentence from outside


@dataclass(frozen=True)
class Planned:
    """A call that is about to be made."""

    tool: Tool
    params: Mapping[str, Any]
    charge: Charge
    expects: str
    learns: str = ""  # the fact that a read is for
    effect: Effect | None = None
    judges: str = ""  # of a read: the key of the write whose undoing it decides about
    way: str = ""  # of a read that the policy chose: what is closed if it fails for good
    attempt: str = ""  # the kind of attempt it is, where the workflow limits that

    @property
    def key(self) -> str:
        return self.effect.key if self.effect else ""


def make(held: Held, planned: Planned) -> None:
    """Commit the intent, make the call, and leave its settlement pending for the next commit."""
    if is_the_engines_own(planned.learns) and not planned.judges and planned.tool.kind is not StepKind.TURN:
        raise ValueError(f"What {planned.tool.name} reads was to be kept as {planned.learns!r}, which is the engine's.")
    before = monotonic()  # not later than what is saved as the instant of sending
    held.ledger = held.ledger.reserve(planned.charge)
    if planned.tool.kind is StepKind.WRITE:
        _mark_as_sent(held, planned)
    step = _intend(held, planned)
    held.keep(planned.tool.deadline + MARGIN)
    now = monotonic()
    if now - before > MARGIN:
        # The commit, or this process, stood still: others may have begun to count on it that nothing arrives any more.
        raise LeaseLost
    result = _perform(held, planned, now + planned.tool.deadline)
    step["settled_at"] = held.now()
    _settle(held, planned, step, result)


def _mark_as_sent(held: Held, planned: Planned) -> None:
    effect = planned.effect
    assert effect
    permit = may_send(effect, terms_of(planned.tool), held.now())
    if not effect.times_sent and Dimension.STATUS_CHECKS in held.ledger.lines:
        assert held.workflow
        held.ledger = held.ledger.for_another_write(held.workflow.planned(Dimension.STATUS_CHECKS))
    held.put(
        replace(
            effect,
            state=EffectState.SENT,
            binding=binding_of(effect.plan),
            sent_at=held.now(),
            times_sent=effect.times_sent + 1,
            last_answer=None,
            next_look_at=None,
            reason="",
        )
    )
    held.record("write_sent", operation_key=effect.key, target=effect.plan.target, digest=effect.digest, permit=permit)


def _intend(held: Held, planned: Planned) -> dict[str, Any]:
    held.run.steps += 1
    now = held.now()
    step = {
        "seq": held.run.steps,
        "stretch": held.run.stretch,
        "kind": planned.tool.kind,
        "operation": planned.tool.name,
        "operation_key": planned.key,
        "expects": planned.expects[:200],
        "charge": dict(planned.charge),
        "status": StepStatus.INTENT,
        "summary": "",
        "fingerprint": "",
        "started_at": now,
        "deadline_at": now + timedelta(seconds=planned.tool.deadline),
        "request": redact(planned.params, known_secrets(), held.identifiers()),
    }
    held.pending.intents.append(step)
    return {"seq": step["seq"]}


def only_read(held: Held, planned: Planned, until: float) -> Result | Failure:
    """Make a call that reads, over by `until`, and write nothing of it down."""
    if planned.tool.kind is not StepKind.READ:
        raise ValueError(f"{planned.tool.name} does more than read.")
    return _perform(held, planned, until)


def _perform(held: Held, planned: Planned, until: float) -> Result | Failure:
    try:
        return _clean(held, planned.tool.perform(service(planned.tool.service), _call(held, planned), until))
    except ToolFailed as failed:
        return replace(failed.failure, message=held.readable(failed.failure.message)[:MOST_WORDS])
    except Exception as problem:
        # A tool's own defect is an unknown error of this call, never a success and never the end of the loop.
        log.exception("Tool %s failed in an unforeseen way", planned.tool.name)
        return Failure("unforeseen", f"The tool failed in an unforeseen way ({type(problem).__name__}).")


def _call(held: Held, planned: Planned) -> Call:
    effect = held.effect(planned.key)
    may_still_arrive = effect is not None and not _can_no_longer_arrive(held, effect)
    return Call(planned.tool.name, planned.params, planned.key, may_still_arrive)


def _can_no_longer_arrive(held: Held, effect: Effect) -> bool:
    assert held.workflow
    return absence_is_proof(effect, terms_of(held.workflow.tools[effect.plan.operation]), held.now())


def terms_of(tool: Tool) -> KeyTerms:
    """What holds for this tool's operation keys. A request is on its way for its worker's time, the call's, the
    service's."""
    in_flight = timedelta(seconds=MARGIN + tool.deadline) + pace(tool.in_flight_grace)
    return KeyTerms(in_flight, tool.key_kept_for)


def must_not_be_sent(effect: Effect, tool: Tool, now: datetime) -> str:
    """Why this write's own history forbids sending it, as a sentence; empty where it does not."""
    try:
        may_send(effect, terms_of(tool), now)
    except EffectError as refusal:
        return str(refusal)
    return ""


def _clean(held: Held, result: Result) -> Result:
    """An answer as it may be kept: rules go on to judge it, so nothing that identifies is taken out."""
    return replace(
        result,
        data=clean(result.data),
        says=held.readable(result.says)[:MOST_WORDS],
        reference=held.readable(result.reference)[:MOST_WORDS],
        receipt=clean(result.receipt),
        reason=held.readable(result.reason)[:MOST_WORDS],
    )


def _settle(held: Held, planned: Planned, step: dict[str, Any], result: Result | Failure) -> None:
    failed = isinstance(result, Failure)
    before = _known(held, planned)
    data = {} if isinstance(result, Failure) else redact(result.data, known_secrets(), held.identifiers())
    answer = _answered(held, planned, result) if planned.effect else None
    if planned.learns and isinstance(result, Result):
        # Which turn a proposal is of tells whether it was dealt with already.
        known = {**result.data, "turn": step["seq"]} if planned.tool.kind is StepKind.TURN else result.data
        held.learn(Fact(planned.learns, known, planned.tool.source, held.now(), result.reference, held.run.stretch))
        _undone_elsewhere(held, planned)
    spend(held, planned.charge, result.used if isinstance(result, Result) else None)
    attempt = attempt_fingerprint(planned.tool.source, planned.tool.name, planned.params, data)
    if isinstance(result, Failure):
        held.failed(planned, result)
    else:
        held.failure = None
        held.progress = held.progress.succeeded(planned.tool.name)
        if planned.way:
            held.progress = held.progress.observed(attempt)
            held.take_up()
    gain = _gain(before, _known(held, planned))
    held.progress = _progressed(held, planned, gain)
    settled = {
        **step,
        "gain": {name: value for name, value in vars(gain).items() if value},
        "status": StepStatus.FAILED if failed else StepStatus.DONE,
        "summary": result.message if isinstance(result, Failure) else result.says,
        "code": result.code if isinstance(result, Failure) else answer or "",
        "error_class": result.error_class if isinstance(result, Failure) else "",
        "fingerprint": attempt,
        "response": data,
    }
    held.pending.settled_steps.append(settled)
    effect = held.effect(planned.key)
    held.in_hand = {
        "seq": step["seq"],
        "summary": settled["summary"],
        "operation_key": planned.key,
        "attempt": effect.times_sent if effect else 0,
        "answer": answer,
        "receipt": effect.receipt if effect else None,
        "reason": effect.reason if effect else "",
    }
    held.record(
        "step_settled",
        seq=step["seq"],
        operation=planned.tool.name,
        status=settled["status"],
        code=settled["code"],
        fingerprint=settled["fingerprint"],
    )


def _undone_elsewhere(held: Held, planned: Planned) -> None:
    """Where a write is not there any more that was to be undone, nothing is left to do about it."""
    effect = held.effect(planned.judges)
    undo = held.workflow.undo[effect.plan.operation] if held.workflow and effect else None
    if effect and undo and undo.undone:
        judged = undo.undone(effect, held.facts[planned.learns])
        if judged.value is Value.MET:
            held.put(undone_elsewhere(effect))
            held.record("effect_compensated", operation_key=effect.key, by="", says=judged.evidence.says)


@dataclass(frozen=True)
class _Known:
    """What a step may change: the assertions, the fact it reads, the write it is about."""

    values: Mapping[str, Value]
    fact: Fact | None
    evidence: Collection[str] | None  # where the workflow says what counts
    effect: EffectState | None


def _known(held: Held, planned: Planned) -> _Known:
    effect = held.effect(planned.key)
    counts = held.workflow.evidence if held.workflow else None
    return _Known(
        values={name: judged.value for name, judged in held.judgements().items()},
        fact=held.facts.get(planned.learns),
        evidence=counts(held.context()) if counts else None,
        effect=effect.state if effect else None,
    )


def _gain(before: _Known, after: _Known) -> Gain:
    found: Collection[str] = []
    if before.evidence is not None and after.evidence is not None:
        found = sorted({*after.evidence} - {*before.evidence})
    elif after.fact and (before.fact is None or before.fact.data != after.fact.data):
        found = [after.fact.reference or after.fact.name]
    return Gain(
        changed=changes(before.values, after.values),
        evidence=list(found),
        effect=(before.effect, after.effect) if before.effect and after.effect else None,
    )


def _progressed(held: Held, planned: Planned, gain: Gain) -> Progress:
    """What the run remembers of this step. A way whose call came back just as before is not taken a third time."""
    assert held.workflow
    progress = held.progress.gained(gain, planned.attempt or None, held.workflow.fruitless)
    return progress.close(planned.way, Closed.NOTHING_NEW) if planned.way and progress.repeats else progress


def spend(held: Held, charge: Charge, used: Charge | None = None) -> None:
    """What was reserved is spent, or what was really `used`."""
    held.ledger = held.ledger.settle(charge, used)
    held.mark_soft()


def _answered(held: Held, planned: Planned, result: Result | Failure) -> Answer:
    """What a submission's or a look-up's answer means for the write."""
    effect = held.effect(planned.key)
    assert effect
    looking = planned.tool.kind is StepKind.LOOK_UP
    if isinstance(result, Failure):
        answer, receipt, reason = what_a_failure_means(result, looking), None, result.message
    else:
        answer, receipt, reason = result.answer or Answer.UNREACHABLE, result.receipt, result.reason
    answer = settle_effect(held, effect, answer, receipt, reason, looked=looking)
    now = held.effect(planned.key)
    assert now
    held.put(replace(now, next_look_at=_next_look(held, planned, effect, now, result)))
    if looking:
        held.asked = None
    return answer


def settle_effect(
    held: Held, effect: Effect, answer: Answer, receipt: Any, reason: str, *, looked: bool = False
) -> Answer:
    """Take an answer in. What permitted the write is read again before it could ever be sent once more.

    Returns what it was taken for, in the light of what was said before.
    """
    if (doubted := in_doubt(effect, answer)) is not answer:
        answer, reason = doubted, "The service says that it is not there, and at another time knew of it"
    state, unsettled = after(effect.state, answer), still_contradicted(effect, answer)
    held.put(
        replace(
            effect,
            state=state,
            last_answer=effect.last_answer if unsettled else answer,
            answered_at=held.now(),
            look_ups=effect.look_ups + looked,
            next_look_at=None,
            receipt=receipt or effect.receipt,
            reason=effect.reason if unsettled else reason,
        )
    )
    if state is EffectState.ABSENT:
        held.run.stretch += 1
        held.progress = held.progress.read_again()
    held.record("effect_answered", operation_key=effect.key, before=effect.state, after=state, answer=answer)
    if effect.undoes and state is EffectState.CONFIRMED:
        undone, undoing = held.effect(effect.undoes), held.effect(effect.key)
        assert undone
        assert undoing
        held.put(compensated(undone, undoing))
        held.record("effect_compensated", operation_key=undone.key, by=effect.key)
    return answer


def _next_look(held: Held, planned: Planned, before: Effect, now: Effect, result: Result | Failure) -> datetime | None:
    """When the authority is asked next: after a lost answer at once, then by backoff, then by follow-up."""
    if now.state not in UNRESOLVED:
        return None
    if planned.tool.kind is StepKind.WRITE and now.state is EffectState.UNKNOWN:
        return held.now()
    assert held.workflow
    line = held.ledger.lines.get(Dimension.STATUS_CHECKS)
    waits = held.workflow.look_up_after
    scheduled = line is not None and line.available > 0
    wait = pace(waits[min(now.look_ups, len(waits) - 1)] if scheduled else held.workflow.follow_up_after)
    then = held.now() + max(wait, result.asked_wait() if isinstance(result, Failure) else timedelta())
    # A person who asks in between does not put off what was due anyway.
    planned_before = before.next_look_at
    return min(planned_before, then) if planned_before and planned_before > held.now() else then


def settle_interrupted(held: Held) -> None:
    """Close the call a dead worker left behind: its reservation is spent, a read is repeated, a write is unknown."""
    # Each intent's commit settles the call before it, so only the latest can be open.
    for row in Step.objects.filter(run=held.run, seq=held.run.steps, status=StepStatus.INTENT):
        held.run.stretch += 1  # how long ago that was, nobody knows: what was read before is read again
        held.progress = held.progress.read_again()
        spend(held, {Dimension(name): amount for name, amount in row.charge.items()})
        held.pending.settled_steps.append(
            {
                "seq": row.seq,
                "status": StepStatus.INTERRUPTED,
                "summary": "The worker stopped before an answer was saved.",
                "code": "interrupted",
                "error_class": classify("interrupted"),
                "fingerprint": "",
                "gain": {},
                "settled_at": held.now(),
                "response": None,
            }
        )
        held.record("step_interrupted", seq=row.seq, operation=row.operation)
        held.woken = True
        if row.kind == StepKind.LOOK_UP:
            held.asked = _asked_before(held, row.charge)
        effect = held.effect(row.operation_key)
        if row.kind == StepKind.WRITE and effect and effect.state is EffectState.SENT:
            settle_effect(held, effect, Answer.UNREACHABLE, None, "The worker stopped before an answer was saved.")


def _asked_before(held: Held, charge: Mapping[str, int]) -> Dimension | None:
    """Who wanted the look-up that a dead worker had begun; None where it was due by itself, and is again.

    A callback's is not made up for from what timers and people have.
    """
    if Dimension.FOLLOW_UP_CHECKS in charge:
        return Dimension.FOLLOW_UP_CHECKS
    called = Dimension.CALLBACK_CHECKS in charge and held.ledger.left(Dimension.CALLBACK_CHECKS)
    return Dimension.CALLBACK_CHECKS if called else None


def keep_late(held: Held) -> None:
    """The lease was lost with an answer in hand: append it as evidence."""
    if held.in_hand:
        commit.keep_late_result(held.lease.run, str(held.in_hand["seq"]), held.in_hand)
