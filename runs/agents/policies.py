"""Who proposes the next action. A policy sees what was read and returns one proposal; it decides nothing."""

from collections.abc import Callable

from runs.domain.proposals import Claim, Proposal
from runs.workflows.definition import Context, Workflow

Policy = Callable[[Workflow, Context], Proposal]


def scripted(workflow: Workflow, context: Context) -> Proposal:
    """The workflow's own plan."""
    return workflow.script(context)


def overconfident(workflow: Workflow, context: Context) -> Proposal:
    """An agent as they are met in the field: says "done" before anything was done, then follows the script.

    It ships so that the demo and the tests can show that a claim moves nothing.
    """
    if not context.effects and context.claims == 0:
        return Claim("All done! Your refund R789 has been processed and the money is on its way.")
    return workflow.script(context)


def stubborn(workflow: Workflow, context: Context) -> Proposal:
    """An agent that only ever says "done"."""
    return Claim("All done! Your refund has been processed.")


POLICIES: dict[str, Policy] = {"scripted": scripted, "overconfident": overconfident, "stubborn": stubborn}
