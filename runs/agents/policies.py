"""Who proposes the next action. A policy sees what was read and returns one proposal; it decides nothing."""

import json
import logging
from collections.abc import Callable

from runs.domain.effects import WritePlan, names_otherwise
from runs.domain.proposals import Ask, Claim, Proposal, Write
from runs.domain.redaction import clean, clean_text
from runs.domain.states import StepKind
from runs.workflows.definition import Context, Workflow

log = logging.getLogger(__name__)
MOST_WORDS = 500  # characters of what an agent says
MOST_PLAN = 20_000  # characters of a proposed write

Policy = Callable[[Workflow, Context], Proposal]


def propose(policy: str, workflow: Workflow, context: Context) -> Proposal:
    """What a policy proposes. Where that is no proposal, or none that may be considered, a person is asked."""
    try:
        answer = POLICIES[policy](workflow, context)
    except Exception as problem:
        log.exception("Policy %s broke down", policy)
        return Ask(f"The agent broke down ({type(problem).__name__}); the error is in the log.")
    match answer:
        case Write(WritePlan() as plan):
            wrong = _what_is_wrong(plan, workflow, context)
            return Ask(clean_text(wrong)[:MOST_WORDS]) if wrong else answer
        case Claim(str(says)):
            return Claim(clean_text(says[:MOST_WORDS]))
        case Ask(str(question)):
            return Ask(clean_text(question[:MOST_WORDS]))
    return Ask(f"The agent answered with a {type(answer).__name__} that is no proposal.")


def _what_is_wrong(plan: WritePlan, workflow: Workflow, context: Context) -> str:
    """Why a planned write is not even considered, as a sentence; empty where it is."""
    try:
        text = json.dumps(vars(plan), allow_nan=False)
        content = json.loads(text)
        kept = clean(content) == content and isinstance(content["params"], dict)
    except (TypeError, ValueError, RecursionError):
        kept = False
    if not kept or len(text) > MOST_PLAN:
        return "The agent proposed a write that cannot be put on record: no plain data, or too much of it."
    tool = workflow.tools.get(plan.operation)
    if tool is None or tool.kind is not StepKind.WRITE:
        return f"The agent proposed “{plan.operation}”, which is no write of this workflow."
    # What was read, and who was asked, is about the request's own subject and holds for no other.
    if name := names_otherwise(plan.params, context.input):
        return f"The agent proposed a write for {name} {plan.params[name]}, and was asked for {context.input[name]}."
    return ""


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
