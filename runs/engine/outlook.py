"""Where a held run stands at a step boundary and what would be done next: what a decision rests on. Changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from runs.agents.policies import MODELS, Unfit, propose
from runs.domain.budget import CLAIM, FIRST_WRITE, READ, RESEND, SCHEDULED_LOOK_UP, BudgetExceeded, Charge, Dimension
from runs.domain.compensation import UNDO
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
    first_key,
    made_anew,
)
from runs.domain.errors import Failure
from runs.domain.progress import way_of
from runs.domain.proposals import Act, Ask, Claim, Consult, Exhausted, HandOver, Proposal, Wait
from runs.domain.states import Closed, Recovery, StepKind
from runs.domain.telling import as_sentence
from runs.engine.calls import Planned, must_not_be_sent
from runs.engine.held import Held
from runs.engine.undoing import next_undo
from runs.models import Effect as EffectRow
from runs.tools.tool import Tool
from runs.workflows.definition import PROPOSAL, Context, Read, Reading, Workflow, amendment_of

LONGEST_WRITE = 100  # characters of an operation key: there is room for its being made anew, and undone


@dataclass(frozen=True)
class Next:
    """What would be done next, if nothing speaks against it."""

    step: NextStep = NextStep.NONE
    charge: Charge = field(default_factory=dict)
    call: Planned | None = None
    effect: Effect | None = None  # the write that is proposed, as it would be put up or sent
    proposal: Proposal | None = None
    found: str = ""  # what the rules would rest a stop on, as a sentence
    undo: Recovery = Recovery.NONE
    closed: Closed | None = None  # what it failed of before, for good
    checks_a_claim: bool = False  # reads what the contract rests on


@dataclass(frozen=True)
class Outlook:
    situation: Situation
    next: Next
    found: str


def look(held: Held) -> Outlook:
    workflow, context = held.workflow, held.context()
    assert workflow
    facts, says, unread = _facts(workflow, context)
    opening_is_fresh = all(context.fresh(read.fact) for read in workflow.reads if read.opens)
    authorised = workflow.authorised(context) if opening_is_fresh else None
    eligible = workflow.eligible(context) if facts is FactsState.COMPLETE else None

    open_effect = held.open_effect
    may_act = facts is FactsState.COMPLETE and authorised and authorised.value is Value.MET
    if open_effect:
        coming = _look_up(held, workflow, open_effect)
    elif held.run.undoing:
        coming = _undo(held, workflow, context)
    elif unread:
        coming = _insists(held, workflow, context) or Next(NextStep.READ, READ, _read(workflow, context, unread))
    else:
        coming = _proposed(held, workflow, context) if may_act else Next()

    effect, failure = coming.effect, held.failure
    past_soft_mark = _past_soft_mark(held)
    wanted = [known for known in held.effects if not known.undoes]
    situation = Situation(
        contract=held.contract(),
        authorised=authorised.value if authorised else Value.UNKNOWN,
        facts=facts,
        eligible=eligible.value if eligible else Value.UNKNOWN,
        next_step=coming.step,
        holds_lease=held.now() < held.kept_until,
        cancel_requested=held.run.cancel_requested,
        undo=coming.undo,
        effects=frozenset(known.state for known in wanted),
        open_effect=_open(held, open_effect, coming.charge) if open_effect else None,
        contradiction=_contradicts(held),
        refused=any(known.state is EffectState.REJECTED for known in wanted),
        short_of=None if open_effect else held.ledger.short_of(coming.charge),
        overdue=_overdue(held),
        repeats=held.progress.repeats + held.progress.handed_back,
        new_path=isinstance(coming.proposal, Act) and coming.closed is None,
        kinds_closed=held.progress.kinds_closed(workflow.fruitless),
        closed=coming.closed,
        failure=failure,
        failed_kind=_kind_of(held.failed_call),
        errors_in_a_row=held.progress.errors_in_a_row,
        max_same_error=workflow.max_same_error,
        attempts_left=held.progress.failures.get(held.progress.error_operation, 0) < workflow.retries,
        remaining_short_of=held.ledger.short_of(workflow.remaining(context)) if past_soft_mark else None,
        worth_it=not past_soft_mark or workflow.worth_it(context),
        paused=held.run.paused,
        approval_needed=bool(effect and effect.plan.needs_approval),
        approval_valid=bool(effect and approval_is_valid(effect, held.now())),
        approval_rejected=bool(effect and effect.digest in held.progress.rejected),
        approval_lapsed=bool(effect and effect.approved_digest == effect.digest),
    )
    found = says if facts in {FactsState.MISSING, FactsState.CONFLICT} else coming.found
    return Outlook(situation, coming, _found(held, situation, found, authorised, eligible))


# What comes next


def _look_up(held: Held, workflow: Workflow, effect: Effect) -> Next:
    charge = held.ledger.look_up(held.asked)
    tool = workflow.tools[workflow.tools[effect.plan.operation].look_up]
    call = Planned(tool, effect.plan.params, charge, "what became of the write", effect=effect)
    return Next(NextStep.NONE, charge, call)


def _undo(held: Held, workflow: Workflow, context: Context) -> Next:
    undoing = next_undo(held, workflow, context)
    call = undoing.call
    charge, effect = (call.charge, call.effect) if call else ({}, None)
    return Next(undoing.step, charge, call, effect, found=undoing.found, undo=undoing.recovery)


def _insists(held: Held, workflow: Workflow, context: Context) -> Next | None:
    """Whether the policy has no other way than the one that a person rejected just now: then nothing is read again
    for it."""
    if not held.rejected:
        return None
    coming = _proposed(held, workflow, context)
    insists = coming.effect and coming.effect.digest in held.progress.rejected
    return replace(coming, step=NextStep.NONE, charge={}, call=None) if insists else None


def _read(workflow: Workflow, context: Context, read: Read) -> Planned:
    return Planned(workflow.tools[read.tool], read.params(context), READ, read.expects, learns=read.fact)


def _proposed(held: Held, workflow: Workflow, context: Context) -> Next:
    """What the policy proposes, as the workflow would carry it out."""
    proposal = propose(held.run.policy, workflow, context)
    match proposal:
        case Act(operation, arguments):
            return replace(_act(held, workflow, context, operation, arguments), proposal=proposal)
        case Consult(tool, params, charge):
            call = Planned(MODELS[tool], params, charge, "what the model proposes", learns=PROPOSAL)
            return Next(NextStep.TURN, charge, call, proposal=proposal)
        case Claim():
            if check := next(iter(workflow.checks(context)), None):
                call = Planned(workflow.tools[check.tool], check.params, READ, check.expects, learns=check.fact)
                return Next(NextStep.READ, READ, call, checks_a_claim=True)
            return Next(NextStep.CLAIM, CLAIM, proposal=proposal)
        case Wait(says):
            return Next(NextStep.WAIT, SCHEDULED_LOOK_UP, proposal=proposal, found=says)
        case HandOver():
            return Next(NextStep.HAND_OVER, CLAIM, proposal=proposal)
        case Exhausted(question):
            return Next(NextStep.EXHAUSTED, CLAIM, proposal=proposal, found=question)
        case Ask(question):
            return Next(NextStep.ASK, CLAIM, proposal=proposal, found=question)
        case Unfit(says):
            return _unfit(context, says)


def _unfit(context: Context, says: str) -> Next:
    """A model is told and may do better; a script would say the same again."""
    return Next(NextStep.ASK if context.answer is None else NextStep.REFUSED, CLAIM, found=says)


def _act(held: Held, workflow: Workflow, context: Context, name: str, arguments: Mapping[str, Any]) -> Next:
    operation, tool = workflow.operations[name], workflow.tools[name]
    if isinstance(operation, Reading):
        kind = operation.kind(arguments)
        failed_of = context.closed.get(kind) or context.is_closed(name, arguments)
        call = Planned(
            tool,
            operation.params(context, arguments),
            READ,
            operation.says,
            learns=operation.fact(context, arguments),
            attempt=kind,
            way=way_of(name, arguments),
        )
        if failed_of:
            says = f"“{tool.label}” is proposed again, and failed for good before: {failed_of.replace('_', ' ')}."
            return Next(NextStep.READ, READ, call, found=says, closed=Closed(failed_of))
        return Next(NextStep.READ, READ, call)
    key, changed_by, left_out = operation.key(context, arguments), "", ""
    if says := _not_ours(held, key):
        return _unfit(context, says)
    if amendment := context.facts.get(amendment_of(key)):
        changed, by = {**arguments, **amendment.data["changes"]}, amendment.data["by"]
        if not workflow.takes(name, changed, context.input):
            # Put up as it was proposed: whoever decides sees that, and it can be changed again.
            left_out = f"what {by} changed does not fit the rest of what is proposed, and was left out"
        else:
            arguments, changed_by = changed, f"{by} changed it"
    if says := operation.not_now(context, arguments):
        return _unfit(context, says)
    plan = operation.plan(context, arguments)
    asked_for_by = left_out, plan.needs_approval or changed_by or _left_open_before(held)
    plan = replace(plan, needs_approval="; ".join(rule for rule in asked_for_by if rule))
    effect = effect_for(context, plan, key)
    charge = RESEND if effect.times_sent else FIRST_WRITE
    if says := must_not_be_sent(effect, tool, held.now()):
        return replace(_unfit(context, says), effect=effect)
    call = Planned(tool, plan.params, charge, plan.expected, effect=effect)
    return Next(NextStep.WRITE, charge, call, effect, found=as_sentence(held.progress.rejected.get(effect.digest, "")))


# Where the run stands


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


def _past_soft_mark(held: Held) -> bool:
    # What is left to do about a write that is open, or to be undone, is not what the workflow planned.
    return bool(held.ledger.at(held.elapsed()).crossed_soft()) and not held.open_effect and not held.run.undoing


def _kind_of(failed: Planned | None) -> NextStep:
    return NextStep.WRITE if failed and failed.tool.kind is StepKind.WRITE else NextStep.READ


def _not_ours(held: Held, key: str) -> str:
    """Why a write of this run cannot go by this key, as a sentence; empty where it can."""
    if not key or len(key) > LONGEST_WRITE or first_key(key) != key or key.startswith(UNDO):
        return f"A write cannot go by the operation key {key[:LONGEST_WRITE]!r}."
    taken = not held.effect(key) and EffectRow.objects.filter(operation_key=key).exists()
    return f"The operation key {key!r} belongs to another run." if taken else ""


def _left_open_before(held: Held) -> str:
    """The rule that asks for a person where an earlier run for the same subject ended with its write unknown."""
    run = held.run
    earlier = EffectRow.objects.filter(run__workflow=run.workflow, run__subject=run.subject, state__in=UNRESOLVED)
    left = earlier.exclude(run=run.pk).order_by("-planned_at").first()
    return (
        f"an earlier write for {run.subject} was closed with its outcome unknown ({left.operation_key})" if left else ""
    )


def effect_for(context: Context, plan: WritePlan, key: str) -> Effect:
    """The write as it would be made: the one planned before, or a new one where that went out with other parameters."""
    current = next((effect for effect in reversed(context.effects) if first_key(effect.key) == key), None)
    if current is None:
        return Effect(key, EffectState.PLANNED, plan, context.now)
    again = replace(current, plan=plan)
    if current.state in SENDABLE and current.binding not in {"", binding_of(plan)}:
        return Effect(made_anew(key, len(context.effects) + 1), EffectState.PLANNED, plan, context.now)
    # A key is kept from its first use on: when it was planned stays, also where the plan was renewed.
    is_new = again.digest != current.digest and not current.times_sent
    return replace(again, planned_at=context.now) if is_new else again


def _found(held: Held, s: Situation, found: str, authorised: Judgement | None, eligible: Judgement | None) -> str:
    """One sentence on what a stop would rest on: the most telling thing that is known."""
    if s.approval_rejected:
        return found
    if s.undo is Recovery.MANUAL:
        return found
    for judged in (authorised, eligible):
        if judged and judged.value is Value.UNMET:
            return judged.evidence.says
    if s.facts in {FactsState.MISSING, FactsState.CONFLICT} or s.closed:
        return found
    if s.short_of:
        return str(BudgetExceeded(s.short_of))
    if held.failure and held.failed_call:
        return told_by(held.failed_call.tool, held.failure)
    effect = held.effects[-1] if held.effects else None
    if found or not effect:
        return found
    return effect.reason or (MEANING[effect.last_answer] if effect.last_answer else "")


def told_by(tool: Tool, failure: Failure) -> str:
    """A failed call as a sentence, which says whose words it is in."""
    source, said = tool.source, failure.message
    return f"The {source}: {said}" if failure.in_our_words else f"The {source} answered: “{said}”"
