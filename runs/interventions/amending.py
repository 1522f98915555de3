"""What a person's change of the write that waits would come to, as far as that can be told without asking anybody.

A plan is made from what was read and from the arguments that were proposed. Those are not kept; they are taken from
what the plan sends, and believed only where planning them again comes to the very same plan.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runs import case
from runs.domain.effects import WritePlan, put_up
from runs.models import Run
from runs.workflows import registry
from runs.workflows.definition import Context, Workflow, Writing, amended_value

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Amended:
    """What would be put up instead; or why nothing would, as a sentence."""

    plan: WritePlan | None
    why_not: str = ""


@dataclass(frozen=True)
class Waiting:
    """The write that waits, with the arguments that it was proposed with."""

    workflow: Workflow
    operation: Writing
    plan: WritePlan
    arguments: Mapping[str, Any]
    context: Context

    def with_change(self, field: str, typed: str) -> Amended:
        schema = self.operation.arguments["properties"][field]
        arguments = {**self.arguments, field: amended_value(schema, typed)}
        if not self.workflow.takes(self.plan.operation, arguments, self.context.input):
            return Amended(None, "What was changed does not fit the rest of what is proposed.")
        if obstacle := self.operation.not_now(self.context, arguments):
            return Amended(None, obstacle)
        return Amended(self.operation.plan(self.context, arguments))


def waiting(run: Run) -> Waiting | None:
    """None where nothing waits, or where it cannot be told what was proposed."""
    workflow, found = registry.find(run.workflow, run.workflow_version), proposed(run)
    if not workflow or not found:
        return None
    operation, plan = found
    given = {name: plan.params[name] for name in operation.arguments["properties"] if name in plan.params}
    known = Waiting(workflow, operation, plan, given, case.context_now(run))
    try:
        again = operation.plan(known.context, given)
    except Exception:  # made on other facts, or from arguments that the plan does not show
        log.info("The write that waits in run %s cannot be planned again from what it sends", run.pk, exc_info=True)
        return None
    # A rule of the product's own may have asked for the approval.
    return known if replace(again, needs_approval=plan.needs_approval) == plan else None


def proposed(run: Run) -> tuple[Writing, WritePlan] | None:
    """The write that waits for a decision, as its workflow declares it and as it was planned."""
    workflow = registry.find(run.workflow, run.workflow_version)
    effect = put_up(row.value() for row in run.effects.all())
    operation = workflow.operations.get(effect.plan.operation) if workflow and effect else None
    return (operation, effect.plan) if effect and isinstance(operation, Writing) else None


def preview(run: Run, field: str, typed: str) -> Amended | None:
    """What the write would come to with this change; None where that shows only once it is planned anew."""
    found = waiting(run)
    if not found or field not in found.operation.amendable:
        return None
    try:
        return found.with_change(field, typed)
    except Exception:
        log.exception("What a change of %s in run %s would come to could not be said", field, run.pk)
        return None
