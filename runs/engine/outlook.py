"""Where a held run stands at a step boundary and what would be done next: what a decision rests on. Changes nothing."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from runs.agents.policies import POLICIES
from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Judgement, Value
from runs.domain.decision import FactsState, NextStep, OpenEffect, Situation
from runs.domain.effects import UNSENT, Answer, Effect, EffectState, WritePlan, approval_is_valid, fingerprint
from runs.domain.proposals import Ask, Claim, Proposal, Write
from runs.engine import calls
from runs.engine.calls import Planned
from runs.engine.held import Held
from runs.workflows.definition import Context, Read, Workflow


@dataclass(frozen=True)
class Outlook:
    situation: Situation
    found: str = ""  # what the rules would rest a stop on, as a sentence
    call: Planned | None = None
    proposal: Proposal | None = None
    effect: Effect | None = None  # the write that is proposed, as it would be put up or sent
    charge: Charge = field(default_factory=dict)


def look(held: Held) -> Outlook:
    workflow, context = held.workflow, held.context()
    assert workflow
    facts, found, unread = _facts(workflow, context)
    opening_is_fresh = all(context.fresh(read.fact) for read in workflow.reads if read.opens)
    authorised = workflow.authorised(context) if opening_is_fresh else None
    eligible = workflow.eligible(context) if facts is FactsState.COMPLETE else None

    open_effect = held.open_effect
    next_step, call, proposal, effect = NextStep.NONE, None, None, None
    charge: Charge = {}
    if open_effect:
        charge = calls.look_up_charge(held)
        call = _look_up(workflow, open_effect, charge)
    elif unread:
        next_step, charge = NextStep.READ, calls.read_charge()
        call = Planned(workflow.tools[unread.tool], unread.params(context), charge, unread.expects, read=unread)
    elif facts is FactsState.COMPLETE and authorised and authorised.value is Value.MET:
        proposal = POLICIES[held.run.policy](workflow, context)
        match proposal:
            case Write(plan):
                effect = _effect_for(workflow, context, plan)
                next_step, charge = NextStep.WRITE, calls.write_charge(effect)
                call = Planned(workflow.tools[plan.operation], plan.params, charge, plan.expected, effect=effect)
            case Claim():
                next_step, charge = NextStep.CLAIM, {Dimension.STEPS: 1}
            case Ask(question):
                next_step, found = NextStep.ASK, question

    failure = held.failure
    situation = Situation(
        contract=held.contract(),
        authorised=authorised.value if authorised else Value.UNKNOWN,
        facts=facts,
        eligible=eligible.value if eligible else Value.UNKNOWN,
        next_step=next_step,
        cancel_requested=held.run.cancel_requested,
        effects=frozenset(known.state for known in held.effects),
        open_effect=_open(held, open_effect, charge) if open_effect else None,
        contradiction=_contradicts(held),
        refused=any(known.state is EffectState.REJECTED for known in held.effects),
        short_of=None if open_effect else held.ledger.short_of(charge),
        overdue=_overdue(held),
        repeats=held.progress.repeats,
        failure=failure,
        failed_kind=NextStep.WRITE if held.failed_kind == "write" else NextStep.READ,
        errors_in_a_row=held.progress.errors_in_a_row,
        max_same_error=workflow.max_same_error,
        attempts_left=held.progress.failures.get(held.progress.error_operation, 0) < workflow.retries,
        approval_needed=bool(effect and effect.plan.needs_approval),
        approval_valid=bool(effect and approval_is_valid(effect, effect.plan, held.now())),
        approval_rejected=bool(held.rejected),
        approval_lapsed=bool(effect and effect.approved_digest == effect.plan.digest),
    )
    return Outlook(situation, _found(held, situation, found, authorised, eligible), call, proposal, effect, charge)


def _facts(workflow: Workflow, context: Context) -> tuple[FactsState, str, Read | None]:
    """The state of all facts together, why, and the first that has not been read since the last stop."""
    unread = None
    for read in workflow.reads:
        fact = context.fresh(read.fact)
        if fact is None:
            unread = unread or read
            continue
        state, says = read.check(fact)
        if state is not FactsState.COMPLETE:
            return state, says, unread
    return (FactsState.UNREAD if unread else FactsState.COMPLETE), "", unread


def _look_up(workflow: Workflow, effect: Effect, charge: Charge) -> Planned:
    tool = workflow.tools[workflow.tools[effect.plan.operation].look_up]
    return Planned(tool, effect.plan.params, charge, "what became of the write", effect=effect)


def _open(held: Held, effect: Effect, charge: Charge) -> OpenEffect:
    due = effect.next_look_at is None or effect.next_look_at <= held.now()
    scheduled_are_used_up = not held.ledger.left(Dimension.STATUS_CHECKS)
    return OpenEffect(
        state=effect.state,
        last_answer=effect.last_answer,
        look_up_due=due or held.asked,
        # Between follow-ups the run lies with a person: what they could still pay for does not keep it waiting.
        can_pay=held.ledger.short_of(charge) is None and (due or held.asked or not scheduled_are_used_up),
    )


def _contradicts(held: Held) -> bool:
    return not held.asked and any(
        effect.last_answer is Answer.CONTRADICTORY and effect.unresolved for effect in held.effects
    )


def _overdue(held: Held) -> bool:
    limit = held.ledger.lines.get(Dimension.WALL_TIME)
    if not limit:
        return False
    ends = held.run.created_at + timedelta(seconds=limit.limit)
    if held.progress.grace_until:
        ends = max(ends, datetime.fromisoformat(held.progress.grace_until))
    return held.now() >= ends


def _effect_for(workflow: Workflow, context: Context, plan: WritePlan) -> Effect:
    """The write as it would be made: the one planned before, or a new one where that went out with other parameters."""
    current = context.effect
    key = workflow.operation_key(context)
    if current and current.state in UNSENT | {EffectState.ABSENT}:
        if not current.sent_params or current.sent_params == fingerprint(plan.params):
            same = current.plan.digest == plan.digest
            return current if same else replace(current, plan=plan, planned_at=context.now)
        key = f"{key}-{len(context.effects) + 1}"
    return Effect(key, EffectState.PLANNED, plan, context.now)


def _found(held: Held, s: Situation, found: str, authorised: Judgement | None, eligible: Judgement | None) -> str:
    """One sentence on what a stop would rest on: the most telling thing that is known."""
    if held.rejected:
        return held.rejected
    for judged in (authorised, eligible):
        if judged and judged.value is Value.UNMET:
            return judged.evidence.says
    if s.facts in {FactsState.MISSING, FactsState.CONFLICT}:
        return found
    if held.failure:
        return held.failure.message
    effect = held.effects[-1] if held.effects else None
    return found or (effect.reason if effect else "")
