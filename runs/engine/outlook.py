"""Where a held run stands at a step boundary and what would be done next: what a decision rests on. Changes nothing."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from runs.agents.policies import propose
from runs.domain.budget import CLAIM, FIRST_WRITE, READ, RESEND, Charge, Dimension
from runs.domain.contract import Judgement, Value
from runs.domain.decision import FactsState, NextStep, OpenEffect, Situation
from runs.domain.effects import (
    MEANING,
    SENDABLE,
    UNRESOLVED,
    Answer,
    Effect,
    EffectState,
    WritePlan,
    approval_is_valid,
    binding_of,
)
from runs.domain.proposals import Ask, Claim, Proposal, Write
from runs.domain.states import Recovery, StepKind
from runs.engine.calls import Planned, must_not_be_sent
from runs.engine.held import Held
from runs.engine.undoing import next_undo
from runs.models import Effect as EffectRow
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
    undo = Recovery.NONE
    if open_effect:
        charge = held.ledger.look_up(held.asked)
        call = _look_up(workflow, open_effect, charge)
    elif held.run.undoing:
        undoing = next_undo(held, workflow, context)
        undo, next_step, found, call = undoing.recovery, undoing.step, undoing.found, undoing.call
        charge, effect = (call.charge, call.effect) if call else ({}, None)
    elif unread:
        next_step, charge = NextStep.READ, READ
        call = Planned(workflow.tools[unread.tool], unread.params(context), charge, unread.expects, learns=unread.fact)
    elif facts is FactsState.COMPLETE and authorised and authorised.value is Value.MET:
        proposal = propose(held.run.policy, workflow, context)
        match proposal:
            case Write(plan):
                plan = replace(plan, needs_approval=plan.needs_approval or _left_open_before(held))
                effect = effect_for(workflow, context, plan)
                next_step, charge = NextStep.WRITE, (RESEND if effect.times_sent else FIRST_WRITE)
                call = Planned(workflow.tools[plan.operation], plan.params, charge, plan.expected, effect=effect)
                if says := must_not_be_sent(effect, call.tool, held.now()):
                    next_step, found, call = NextStep.ASK, says, None
            case Claim():
                next_step, charge = NextStep.CLAIM, CLAIM
            case Ask(question):
                next_step, charge, found = NextStep.ASK, CLAIM, question

    failure = held.failure
    wanted = [known for known in held.effects if not known.undoes]
    situation = Situation(
        contract=held.contract(),
        authorised=authorised.value if authorised else Value.UNKNOWN,
        facts=facts,
        eligible=eligible.value if eligible else Value.UNKNOWN,
        next_step=next_step,
        holds_lease=held.now() < held.kept_until,
        cancel_requested=held.run.cancel_requested,
        undo=undo,
        effects=frozenset(known.state for known in wanted),
        open_effect=_open(held, open_effect, charge) if open_effect else None,
        contradiction=_contradicts(held),
        refused=any(known.state is EffectState.REJECTED for known in wanted),
        short_of=None if open_effect else held.ledger.short_of(charge),
        overdue=_overdue(held),
        repeats=held.progress.repeats + held.progress.handed_back,
        failure=failure,
        failed_kind=_kind_of(held.failed_call),
        errors_in_a_row=held.progress.errors_in_a_row,
        max_same_error=workflow.max_same_error,
        attempts_left=held.progress.failures.get(held.progress.error_operation, 0) < workflow.retries,
        remaining_short_of=_remaining_short_of(held, workflow, context),
        worth_it=not _past_soft_mark(held) or workflow.worth_it(context),
        paused=held.run.paused,
        approval_needed=bool(effect and effect.plan.needs_approval),
        approval_valid=bool(effect and approval_is_valid(effect, held.now())),
        approval_rejected=bool(held.rejected),
        approval_lapsed=bool(effect and effect.approved_digest == effect.digest),
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
        look_up_due=due or held.asked is not None,
        # Between follow-ups the run lies with a person: what they could still pay for does not keep it waiting.
        can_pay=held.ledger.short_of(charge) is None and (due or held.asked is not None or not scheduled_are_used_up),
    )


def _contradicts(held: Held) -> bool:
    return not held.asked and any(
        effect.last_answer is Answer.CONTRADICTORY and effect.unresolved for effect in held.effects
    )


def _overdue(held: Held) -> bool:
    """Whether the wall time is used up, unless a decision made in time is still being carried out."""
    grace_until = held.progress.grace_until
    in_grace = bool(grace_until) and held.now() < datetime.fromisoformat(grace_until)
    return held.ledger.at(held.elapsed()).left(Dimension.WALL_TIME) == 0 and not in_grace


def _remaining_short_of(held: Held, workflow: Workflow, context: Context) -> Dimension | None:
    """Past a soft mark: the budget that could not pay for what is left to do."""
    return held.ledger.short_of(workflow.remaining(context)) if _past_soft_mark(held) else None


def _past_soft_mark(held: Held) -> bool:
    # What is left to do about a write that is open, or to be undone, is not what the workflow planned.
    return bool(held.ledger.at(held.elapsed()).crossed_soft()) and not held.open_effect and not held.run.undoing


def _kind_of(failed: Planned | None) -> NextStep:
    return NextStep.WRITE if failed and failed.tool.kind is StepKind.WRITE else NextStep.READ


def _left_open_before(held: Held) -> str:
    """The rule that asks for a person where an earlier run for the same subject ended with its write unknown."""
    run = held.run
    earlier = EffectRow.objects.filter(run__workflow=run.workflow, run__subject=run.subject, state__in=UNRESOLVED)
    left = earlier.exclude(run=run.pk).order_by("-planned_at").first()
    return (
        f"an earlier write for {run.subject} was closed with its outcome unknown ({left.operation_key})" if left else ""
    )


def effect_for(workflow: Workflow, context: Context, plan: WritePlan) -> Effect:
    """The write as it would be made: the one planned before, or a new one where that went out with other parameters."""
    key = workflow.operation_key(context)
    current = next((effect for effect in reversed(context.effects) if effect.key.startswith(key)), None)
    if current is None:
        return Effect(key, EffectState.PLANNED, plan, context.now)
    again = replace(current, plan=plan)
    if current.state in SENDABLE and current.binding not in {"", binding_of(plan)}:
        return Effect(f"{key}-{len(context.effects) + 1}", EffectState.PLANNED, plan, context.now)
    # A key is kept from its first use on: when it was planned stays, also where the plan was renewed.
    is_new = again.digest != current.digest and not current.times_sent
    return replace(again, planned_at=context.now) if is_new else again


def _found(held: Held, s: Situation, found: str, authorised: Judgement | None, eligible: Judgement | None) -> str:
    """One sentence on what a stop would rest on: the most telling thing that is known."""
    if held.rejected:
        return held.rejected
    if s.undo is Recovery.MANUAL:
        return found
    for judged in (authorised, eligible):
        if judged and judged.value is Value.UNMET:
            return judged.evidence.says
    if s.facts in {FactsState.MISSING, FactsState.CONFLICT}:
        return found
    if held.failure and held.failed_call:
        source, said = held.failed_call.tool.source, held.failure.message
        return f"The {source}: {said}" if held.failure.in_our_words else f"The {source} answered: “{said}”"
    effect = held.effects[-1] if held.effects else None
    if found or not effect:
        return found
    return effect.reason or (MEANING[effect.last_answer] if effect.last_answer else "")
