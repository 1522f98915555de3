"""How a run stops: the outcome, the question, who answers until when, and the package, all in the stop's own commit."""

import logging
from datetime import datetime
from typing import Any

from runs import case
from runs.domain.budget import Dimension
from runs.domain.effects import put_up
from runs.domain.money import Money
from runs.domain.states import SHORT, Move, Outcome, State, StopReason, asks_by_itself, recovery
from runs.engine.held import Held
from runs.models import InboxEvent, Step

log = logging.getLogger(__name__)
WITHOUT_HANDOFF = {Outcome.COMPLETED, Outcome.CANCELLED}
KEEPS_THE_PROPOSAL = {StopReason.PAUSED, StopReason.APPROVAL_REQUIRED}  # what a model proposed is still to be done


def stop(held: Held, reason: StopReason, found: str = "", rule: int = 0) -> None:
    """Stop for `reason` and give the run back. `found` says in a sentence what the rules rest on; `rule` is the one of
    the fifteen that decided, or 0 where the run was stopped before they were asked."""
    run, workflow, now = held.run, held.workflow, held.now()
    held.mark_soft()
    if reason not in KEEPS_THE_PROPOSAL:
        held.take_up()
    _move(held, reason)
    outcome = reason.outcome
    run.outcome, run.stop_reason = outcome, reason
    run.undoing = run.undoing and reason not in {StopReason.NOT_REVERSIBLE, StopReason.CANCELLED_COMPENSATED}
    run.recovery = recovery(reason, effect_open=held.open_effect is not None, undoing=run.undoing)
    run.stopped_at = now
    run.stretch += 1
    run.role = workflow.role if workflow else "administrator"
    run.question = ""
    run.answer_by = None
    if outcome in SHORT:
        run.question = held.readable(_question(held, reason, found))
    if outcome in {Outcome.NEEDS_HUMAN, Outcome.LIMIT_REACHED}:
        run.answer_by = now + workflow.answer_within if workflow else now
        if reason is StopReason.APPROVAL_REQUIRED and (waiting := put_up(held.effects)):
            run.answer_by = waiting.approval_expires_at
    stake = _stake(held, reason)
    run.stake_minor, run.stake_currency = (stake.minor, stake.currency) if stake else (None, None)
    held.record("stopped", outcome=outcome, reason=reason, rule=rule, says=found or reason.replace("_", " "))
    run.due_at = next_due(held)
    _let_proposals_go(held)
    if outcome not in WITHOUT_HANDOFF:
        _hand_off(held, now)
    held.give_back(run.due_at)


def _let_proposals_go(held: Held) -> None:
    """What one person proposed was about the stop before this one, unless a second one confirmed it just now."""
    settled = [event["id"] for event in held.pending.inbox]
    for proposal in held.run.inbox.filter(result=InboxEvent.Result.PROPOSED).exclude(pk__in=settled):
        why = "The run moved on before a second person confirmed it."
        held.pending.inbox.append({"id": proposal.pk, "result": InboxEvent.Result.REFUSED, "result_reason": why})


def close_unresolved(held: Held) -> None:
    """End a run that two people closed although a write's outcome is unknown. How it had stopped is kept, and the
    write stays open in every figure."""
    run, now = held.run, held.now()
    run.recovery = recovery(StopReason(run.stop_reason), effect_open=True, undoing=False, ended=True)
    run.stopped_at = now
    run.stretch += 1
    run.question, run.answer_by, run.due_at = "", None, None
    held.record("closed_unresolved", outcome=run.outcome, reason=run.stop_reason)
    _hand_off(held, now)
    held.give_back(None)


def _question(held: Held, reason: StopReason, found: str) -> str:
    if held.workflow is None:
        return found
    try:
        return str(held.workflow.question(held.context(), reason, found) or found)
    except Exception:
        log.exception("The question of %s could not be put into words", held.run)
        return found or f"The run stopped: {reason.replace('_', ' ')}. How should it go on?"


def _stake(held: Held, reason: StopReason) -> Money | None:
    """None where the workflow knows of none or cannot say it. To who is not entitled, nothing that was read is told."""
    if held.workflow is None or reason is StopReason.NOT_AUTHORISED:
        return None
    try:
        stake = held.workflow.stake(held.context())
        if stake is not None and not isinstance(stake, Money):
            raise TypeError(type(stake))
    except Exception:
        log.exception("What is at stake in %s could not be said", held.run)
        return None
    return stake


def next_due(held: Held) -> datetime | None:
    """When a stopped run must be looked at again without anybody asking."""
    run, effect = held.run, held.open_effect
    if held.state is State.AWAITING_APPROVAL:
        waiting = put_up(held.effects)
        return waiting.approval_expires_at if waiting else None
    outcome = Outcome(run.outcome) if run.outcome else None
    if effect and asks_by_itself(outcome, held.ledger.left(Dimension.FOLLOW_UP_CHECKS) or 0):
        return effect.next_look_at or held.now()
    if outcome is Outcome.WAITING and effect is None and held.progress.look_again_at:
        return datetime.fromisoformat(held.progress.look_again_at)
    return None


def _move(held: Held, reason: StopReason) -> None:
    match reason.outcome:
        case Outcome.COMPLETED:
            if held.state is State.RECEIVED:
                held.move(Move.STARTED)
            if held.state is not State.VALIDATING:
                held.move(Move.VALIDATION_DUE)
            evidence = {name: j.evidence.says for name, j in held.judgements().items()}
            held.move(Move.CONTRACT_MET, evidence=evidence)
        case Outcome.DECLINED:
            held.move(Move.DECLINED, reason=reason)
        case Outcome.CANCELLED:
            held.move(Move.WITHDRAWN, reason=reason)
        case _ if reason is StopReason.APPROVAL_REQUIRED:
            waiting = put_up(held.effects)
            held.move(Move.APPROVAL_REQUIRED, digest=waiting.digest if waiting else "")
        case _ if reason is StopReason.APPROVAL_EXPIRED and held.state is State.AWAITING_APPROVAL:
            held.move(Move.APPROVAL_LAPSED)
        case _ if reason is StopReason.PAUSED:
            by = held.paused_by
            held.move(Move.PAUSED, by.actor_id if by else None, payload=by.payload if by else {})
        case _:
            held.move(Move.STOPPED_SHORT, reason=reason)


def _hand_off(held: Held, now: datetime) -> None:
    run = held.bring_up_to_date()
    stored = run.step_rows.order_by("-seq")[: case.STEPS_SHOWN]
    unsaved = {step["seq"]: step for step in held.pending.settled_steps}
    steps = [_with_result(step, unsaved.get(step.seq)) for step in reversed(stored)]
    package = case.package(run, held.facts, held.effects, held.ledger, steps, now)
    held.pending.handoffs.append({"version": run.stretch, "package": package, "made_at": now})


def _with_result(step: Step, result: dict[str, Any] | None) -> dict[str, Any]:
    line = case.step_as_json(step)
    return {**line, **{name: result[name] for name in line if name in result}} if result else line
