"""One external call: what it would cost, its intent, the call itself, and what its answer means.

The intent is committed before the call leaves, and for a write that commit is the moment it counts as sent.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Fact
from runs.domain.effects import Answer, Effect, EffectState, absence_is_proof, after, fingerprint, may_send
from runs.domain.errors import DEFINITELY_NOT_EXECUTED, Failure
from runs.domain.progress import attempt_fingerprint
from runs.domain.redaction import redact, redact_text
from runs.engine import commit
from runs.engine.held import Held, pace
from runs.engine.services import secrets, service
from runs.models import Step
from runs.tools.tool import Call, Result, Tool, ToolFailed, ToolKind
from runs.workflows.definition import Read

log = logging.getLogger(__name__)
MARGIN = 5.0  # seconds between a call's deadline and the end of the lease that covers it


@dataclass(frozen=True)
class Planned:
    """A call that is about to be made."""

    tool: Tool
    params: Mapping[str, Any]
    charge: Charge
    expects: str
    read: Read | None = None
    effect: Effect | None = None

    @property
    def key(self) -> str:
        return self.effect.key if self.effect else ""


def read_charge() -> Charge:
    return {Dimension.STEPS: 1, Dimension.TOOL_ATTEMPTS: 1}


def write_charge(effect: Effect) -> Charge:
    """A permitted resend is another attempt, not another write."""
    first = {} if effect.times_sent else {Dimension.EXTERNAL_WRITES: 1}
    return {Dimension.STEPS: 1, Dimension.TOOL_ATTEMPTS: 1, **first}


def look_up_charge(held: Held) -> Charge:
    """Scheduled look-ups have their own budget; people's, and those after it is used up, share another one."""
    scheduled = not held.asked and bool(held.ledger.left(Dimension.STATUS_CHECKS))
    return {Dimension.STATUS_CHECKS if scheduled else Dimension.FOLLOW_UP_CHECKS: 1}


def make(held: Held, planned: Planned) -> None:
    """Commit the intent, make the call, and leave its settlement pending for the next commit."""
    held.ledger = held.ledger.reserve(planned.charge)
    if planned.tool.kind is ToolKind.WRITE:
        _mark_as_sent(held, planned)
    step = _intend(held, planned)
    held.keep(planned.tool.deadline + MARGIN)
    result = _perform(held, planned)
    step["settled_at"] = held.now()
    try:
        _settle(held, planned, step, result)
    except Exception:
        log.exception("The answer of %s could not be taken in", planned.tool.name)
        _settle(held, planned, step, Failure("invalid_output", "The answer could not be understood."))


def _mark_as_sent(held: Held, planned: Planned) -> None:
    effect = planned.effect
    assert effect
    may_send(effect)
    held.put(
        replace(
            effect,
            state=EffectState.SENT,
            sent_params=fingerprint(effect.plan.params),
            sent_at=held.now(),
            times_sent=effect.times_sent + 1,
            last_answer=None,
            next_look_at=None,
            reason="",
        )
    )
    held.record("write_sent", operation_key=effect.key, target=effect.plan.target, digest=effect.plan.digest)


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
        "status": Step.Status.INTENT,
        "summary": "",
        "fingerprint": "",
        "started_at": now,
        "deadline_at": now + timedelta(seconds=planned.tool.deadline),
        "request": redact(planned.params, secrets()),
    }
    held.pending.intents.append(step)
    return {"seq": step["seq"]}


def _perform(held: Held, planned: Planned) -> Result | Failure:
    effect = next((e for e in held.effects if e.key == planned.key), None)
    grace = pace(planned.tool.in_flight_grace) + timedelta(seconds=planned.tool.deadline)
    call = Call(
        operation=planned.tool.name,
        params=planned.params,
        operation_key=planned.key,
        may_still_arrive=effect is not None and not absence_is_proof(effect.sent_at, held.now(), grace),
    )
    try:
        return planned.tool.perform(service(planned.tool.service), call, planned.tool.deadline)
    except ToolFailed as failed:
        return failed.failure
    except Exception as problem:
        # A tool's own defect is an unknown error of this call, never a success and never the end of the loop.
        log.exception("Tool %s failed in an unforeseen way", planned.tool.name)
        return Failure("unforeseen", f"The tool failed in an unforeseen way ({type(problem).__name__}).")


def _settle(held: Held, planned: Planned, step: dict[str, Any], result: Result | Failure) -> None:
    failed = isinstance(result, Failure)
    says = redact_text(result.message if isinstance(result, Failure) else result.says, secrets())
    data = {} if isinstance(result, Failure) else redact(result.data, secrets())
    if planned.read and isinstance(result, Result):
        held.learn(
            Fact(planned.read.fact, result.data, planned.tool.source, held.now(), result.reference, held.run.stretch)
        )
    if planned.effect:
        _answered(held, planned, result)
    held.spend(planned.charge)
    if isinstance(result, Failure):
        held.failed(planned.tool.kind, planned.tool.name, result)
    else:
        held.failure = None
        held.progress = held.progress.succeeded(planned.tool.name)
    settled = {
        **step,
        "status": Step.Status.FAILED if failed else Step.Status.DONE,
        "summary": says,
        "code": result.code if isinstance(result, Failure) else "",
        "error_class": result.error_class if isinstance(result, Failure) else "",
        "fingerprint": attempt_fingerprint(planned.tool.source, planned.tool.name, planned.params, data),
        "response": data,
    }
    held.pending.settled_steps.append(settled)
    effect = next((e for e in held.effects if e.key == planned.key), None)
    held.in_hand = {
        "seq": step["seq"],
        "summary": says,
        "operation_key": planned.key,
        "answer": effect.last_answer if effect else None,
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


def _answered(held: Held, planned: Planned, result: Result | Failure) -> None:
    """What a submission's or a look-up's answer means for the write."""
    effect = next(e for e in held.effects if e.key == planned.key)
    looking = planned.tool.kind is ToolKind.LOOK_UP
    now = held.now()
    if isinstance(result, Failure):
        not_done = result.executed is False or result.error_class in DEFINITELY_NOT_EXECUTED
        answer = Answer.NOT_EXECUTED if not_done and not looking else Answer.UNREACHABLE
        receipt, reason = None, result.message
    else:
        answer, receipt, reason = result.answer or Answer.UNREACHABLE, result.receipt, result.reason
    state = after(effect.state, answer)
    look_ups = effect.look_ups + 1 if looking else effect.look_ups
    held.put(
        replace(
            effect,
            state=state,
            last_answer=answer,
            answered_at=now,
            look_ups=look_ups,
            next_look_at=_next_look(held, planned, state, look_ups, now, result),
            receipt=redact(receipt, secrets()) if receipt else effect.receipt,
            reason=redact_text(reason, secrets()),
        )
    )
    held.record("effect_answered", operation_key=effect.key, before=effect.state, after=state, answer=answer)
    if looking:
        held.asked = False


def _next_look(
    held: Held, planned: Planned, state: EffectState, look_ups: int, now: datetime, result: Result | Failure
) -> datetime | None:
    """When the authority is asked next: after a lost answer at once, then by backoff, then by follow-up."""
    if state not in {EffectState.UNKNOWN, EffectState.ACKNOWLEDGED, EffectState.SENT}:
        return None
    if planned.tool.kind is ToolKind.WRITE and state is EffectState.UNKNOWN:
        return now
    assert held.workflow
    waits = held.workflow.look_up_after
    left = held.ledger.left(Dimension.STATUS_CHECKS) or 0
    wait = pace(waits[min(look_ups, len(waits) - 1)] if left else held.workflow.follow_up_after)
    asked_for = result.retry_after if isinstance(result, Failure) else None
    return now + max(wait, timedelta(seconds=min(asked_for or 0, 3600)))


def settle_interrupted(held: Held) -> None:
    """Close the call a dead worker left behind: its reservation is spent, a read is repeated, a write is unknown."""
    for row in Step.objects.filter(run=held.run, status=Step.Status.INTENT):
        held.spend({Dimension(name): amount for name, amount in row.charge.items()})
        held.pending.settled_steps.append(
            {
                "seq": row.seq,
                "status": Step.Status.INTERRUPTED,
                "summary": "The worker stopped before an answer was saved.",
                "code": "interrupted",
                "error_class": "transient",
                "fingerprint": "",
                "settled_at": held.now(),
                "response": None,
            }
        )
        held.record("step_interrupted", seq=row.seq, operation=row.operation)
        held.woken = True
        if row.kind == ToolKind.LOOK_UP:
            held.asked = Dimension.FOLLOW_UP_CHECKS in row.charge
        effect = held.open_effect
        if row.kind == ToolKind.WRITE and effect and effect.state is EffectState.SENT:
            unknown = after(effect.state, Answer.UNREACHABLE)
            held.put(replace(effect, state=unknown, last_answer=Answer.UNREACHABLE, next_look_at=held.now()))


def keep_late(held: Held) -> None:
    """The lease was lost with an answer in hand: append it as evidence."""
    if held.in_hand:
        commit.keep_late_result(held.lease.run, str(held.in_hand["seq"]), held.in_hand)
