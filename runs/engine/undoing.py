"""Undoing what took effect and is not wanted any more (docs/rules.md, 8): what comes next of it. Changes nothing.

Before anything is touched, each write that stands is read again at its service, and one that cannot be undone leaves
all of them to a person. Then they are undone one by one, the latest first, each by a write with a life of its own.
"""

from dataclasses import dataclass, replace

from runs.domain.budget import READ, UNDO
from runs.domain.compensation import Action, action_of, compensation_key, in_order, plan, standing
from runs.domain.contract import Value
from runs.domain.decision import NextStep
from runs.domain.effects import Effect, EffectState
from runs.domain.states import Recovery
from runs.engine.calls import Planned, must_not_be_sent
from runs.engine.held import Held
from runs.workflows.definition import Context, Workflow, standing_of


@dataclass(frozen=True)
class NextUndo:
    recovery: Recovery  # COMPENSATE, or MANUAL if a person has to see to it
    found: str = ""  # why the product cannot, as a sentence
    call: Planned | None = None

    @property
    def step(self) -> NextStep:
        return NextStep.WRITE if self.call and self.call.effect else NextStep.READ if self.call else NextStep.NONE


def next_undo(held: Held, workflow: Workflow, context: Context) -> NextUndo:
    stands = standing(held.effects)
    obstacles: list[str] = []
    actions: list[Action] = []
    for effect in in_order(held.effects):
        why_not = ""
        if effect in stands:
            declared = workflow.undo.get(effect.plan.operation)
            if declared is None:
                why_not = f"This workflow declares no way to undo {effect.plan.operation}."
            elif context.fresh(standing_of(effect)) is None:
                return NextUndo(Recovery.COMPENSATE, call=_read(workflow, effect))
            else:
                why_not = _obstacle(held, workflow, context, effect)
        obstacles += [why_not] if why_not else []
        actions.append(action_of(effect, reversible=not why_not))
    next_one = plan(actions)
    if next_one.mode is not Recovery.COMPENSATE or next_one.nothing_to_undo:
        return NextUndo(Recovery.MANUAL, " ".join(obstacles))
    first = next(effect for effect in stands if effect.key == next_one.actions[0])
    undoing = _undoing(held, workflow, context, first)
    tool = workflow.tools[undoing.plan.operation]
    call = Planned(tool, undoing.plan.params, UNDO, undoing.plan.expected, effect=undoing)
    return NextUndo(Recovery.COMPENSATE, call=call)


def _read(workflow: Workflow, effect: Effect) -> Planned:
    undo = workflow.undo[effect.plan.operation]
    expects = f"whether {effect.plan.target} can still be undone"
    return Planned(
        workflow.tools[undo.read], undo.params(effect), READ, expects, learns=standing_of(effect), judges=effect.key
    )


def _undoing(held: Held, workflow: Workflow, context: Context, effect: Effect) -> Effect:
    """The write that undoes `effect`: the one that was planned before, or a new one."""
    fact = context.facts[standing_of(effect)]
    planned = workflow.undo[effect.plan.operation].plan(effect, fact)
    key = compensation_key(effect.key)
    if known := held.effect(key):
        return replace(known, plan=planned)
    return Effect(key, EffectState.PLANNED, planned, context.now, undoes=effect.key)


def _obstacle(held: Held, workflow: Workflow, context: Context, effect: Effect) -> str:
    """Why `effect` cannot be undone by the product now, as a sentence; empty where it can."""
    fact = context.facts[standing_of(effect)]
    judged = workflow.undo[effect.plan.operation].reversible(effect, fact)
    if judged.value is not Value.MET:
        return f"This cannot be undone: {effect.plan.target} ({judged.evidence.says})."
    undoing = _undoing(held, workflow, context, effect)
    if undoing.state is EffectState.REJECTED:
        return f"The service refused to undo {effect.plan.target}: {undoing.reason}."
    return must_not_be_sent(undoing, workflow.tools[undoing.plan.operation], held.now())
