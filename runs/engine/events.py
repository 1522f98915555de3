"""What the worker that holds a run does with what people and services told it (spec section 10).

An event was validated and authorised when it was accepted; here it is held against the run as it stands now, applied
once, and marked. One that is no longer possible is refused with its reason and changes nothing.
"""

from dataclasses import replace

from runs.domain.budget import BudgetError, Dimension
from runs.domain.effects import UNSENT, Answer, EffectState, after
from runs.domain.interventions import CATALOGUE, why_not
from runs.domain.states import FINAL, Move, Recovery
from runs.engine.held import Held
from runs.models import InboxEvent


def read_inbox(held: Held) -> None:
    for event in held.open_inbox():
        refusal = _late_result(held, event) if event.name == Move.LATE_RESULT else _apply(held, event)
        held.pending.inbox.append(
            {"id": event.pk, "result": "refused" if refusal else "applied", "result_reason": refusal}
        )
        held.record("event_refused" if refusal else "event_applied", event.actor_id, name=event.name, why=refusal)
    held.more_inbox = False


def _apply(held: Held, event: InboxEvent) -> str:
    """Apply one event. Returns why it was refused, or an empty string."""
    move, actor, payload = Move(event.name), event.actor_id, event.payload
    held.run.effects_at_risk = sum(effect.unresolved for effect in held.effects)
    if refusal := why_not(CATALOGUE[move], held.run.standing()):
        return refusal
    if not held.workflow:
        return "The run's workflow is not installed; nothing can be carried out for it."
    match move:
        case Move.APPROVAL_GRANTED:
            effect = held.effects[-1]
            if event.answers != effect.plan.digest:
                return "The plan was replaced after this decision."
            now = held.now()
            if effect.approval_expires_at and now >= effect.approval_expires_at:
                return "The time for a decision had run out."
            held.put(
                replace(
                    effect,
                    state=EffectState.APPROVED if effect.state in UNSENT else effect.state,
                    approved_digest=event.answers,
                    approved_by=actor,
                    approved_at=now,
                    approval_expires_at=now + held.workflow.approval_lasts,
                )
            )
        case Move.APPROVAL_REJECTED:
            if event.answers != held.effects[-1].plan.digest:
                return "The plan was replaced after this decision."
            held.rejected = payload["reason"]
        case Move.BUDGET_EXTENDED:
            try:
                held.ledger = held.ledger.extend(Dimension(payload["dimension"]), payload["by"])
            except (BudgetError, ValueError) as problem:
                return str(problem)
        case Move.CANCEL_REQUESTED:
            held.run.cancel_requested = True
            held.asked = held.open_effect is not None and bool(held.ledger.left(Dimension.FOLLOW_UP_CHECKS))
        case Move.PAUSED:
            held.paused = payload["reason"]
        case (
            Move.RECONCILE_REQUESTED
            | Move.EFFECT_CONFIRMED
            | Move.EFFECT_REFUTED
            | Move.EVIDENCE_SUPPLIED
            | Move.CREDENTIAL_REPLACED
            | Move.ACCESS_GRANTED
        ):
            held.asked = held.open_effect is not None
        case Move.RESUMED_AFTER_REVIEW:
            held.run.cancel_requested = False
            held.run.recovery = Recovery.NONE
            held.progress = replace(held.progress, repeats=0)
    if move in {Move.RESUMED_AFTER_REVIEW, Move.POLICY_CONFIRMED, Move.BUDGET_EXTENDED, Move.APPROVAL_REJECTED}:
        # An approval that lapsed or was refused does not come back to life: the plan is put up again.
        for effect in held.effects:
            if effect.state in UNSENT:
                held.put(replace(effect, state=EffectState.PLANNED, approved_digest="", approval_expires_at=None))
    if move is not Move.PAUSED:  # the stop itself takes that transition
        held.move(move, actor, payload=payload)
    grace_until = held.now() + held.workflow.grace_after_decision
    held.progress = replace(held.progress, grace_until=grace_until.isoformat())
    held.woken = True
    return ""


def _late_result(held: Held, event: InboxEvent) -> str:
    """A result whose worker had lost the run: evidence, applied only where it still answers something."""
    answer = event.payload.get("answer")
    effect = next((e for e in held.effects if e.key == event.payload.get("operation_key")), None)
    if held.state in FINAL or not answer or not effect or not effect.unresolved:
        return "Kept as evidence; nothing was waiting for it any more."
    held.move(Move.LATE_RESULT, operation_key=effect.key, answer=answer)
    held.put(
        replace(
            effect,
            state=after(effect.state, Answer(answer)),
            last_answer=Answer(answer),
            answered_at=held.now(),
            receipt=event.payload.get("receipt") or effect.receipt,
            reason=event.payload.get("reason") or effect.reason,
        )
    )
    held.woken = True
    return ""
