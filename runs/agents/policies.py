"""Who proposes the next action. A policy sees what was read and returns one proposal; it decides nothing."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runs.agents.anthropic_messages import ASK_ANTHROPIC
from runs.agents.model import driven_by
from runs.agents.openai_chat import ASK_OPENAI
from runs.domain.effects import names_otherwise
from runs.domain.proposals import Act, Ask, Claim, Consult, Exhausted, HandOver, Proposal, Wait
from runs.domain.redaction import clean, clean_text
from runs.tools.tool import Tool
from runs.workflows.definition import Context, Workflow

log = logging.getLogger(__name__)
MOST_WORDS = 500  # characters of what an agent says
MOST_ARGUMENTS = 20_000  # characters of what an agent proposes an operation with

Policy = Callable[[Workflow, Context], Proposal]


@dataclass(frozen=True)
class Unfit:
    """A proposal that is not even considered, and why, as a sentence."""

    says: str


def propose(policy: str, workflow: Workflow, context: Context) -> Proposal | Unfit:
    """What a policy proposes, once it is known to be one of the things that may be proposed."""
    try:
        answer = POLICIES[policy](workflow, context)
    except Exception as problem:
        log.exception("Policy %s broke down", policy)
        return Unfit(f"The agent broke down ({type(problem).__name__}); the error is in the log.")
    match answer:
        case Act(str(operation), arguments):
            wrong = _what_is_wrong(operation, arguments, workflow, context)
            return Unfit(clean_text(wrong)[:MOST_WORDS]) if wrong else answer
        case Claim(str(says)):
            return Claim(clean_text(says[:MOST_WORDS]))
        case Ask(str(question)):
            return Ask(clean_text(question[:MOST_WORDS]))
        case Exhausted(str(question)):
            return Exhausted(clean_text(question[:MOST_WORDS]))
        case Wait(str(says)):
            return Wait(clean_text(says[:MOST_WORDS]))
        case HandOver(str(task), str(giver), str(taker)):
            return HandOver(*(clean_text(text[:MOST_WORDS]) for text in (task, giver, taker)))
        case Consult(str(tool)) if tool in MODELS:
            return answer
    return Unfit(f"The agent answered with a {type(answer).__name__} that is no proposal.")


def _what_is_wrong(operation: str, arguments: Any, workflow: Workflow, context: Context) -> str:
    """Why a proposed operation is not even considered, as a sentence; empty where it is."""
    try:
        text = json.dumps(arguments, allow_nan=False)
        kept = clean(json.loads(text)) == arguments and isinstance(arguments, Mapping)
    except (TypeError, ValueError, RecursionError):
        kept = False
    if not kept or len(text) > MOST_ARGUMENTS:
        return "The agent proposed something that cannot be put on record: no plain data, or too much of it."
    if operation not in workflow.operations:
        return f"The agent proposed “{operation}”, which is no operation of this workflow."
    # What was read, and who was asked, is about the request's own subject and holds for no other.
    if name := names_otherwise(arguments, context.input):
        return f"The agent proposed {operation} for {name} {arguments[name]}, and was asked for {context.input[name]}."
    if error := next(workflow.validators[operation].iter_errors(arguments), None):
        where = ".".join(map(str, error.instance_path)) or "the arguments"
        return f"The agent proposed {operation} with {where} as it must not be: {error.message}"
    return ""


def scripted(workflow: Workflow, context: Context) -> Proposal:
    """The workflow's own plan."""
    return workflow.script(context)


def overconfident(workflow: Workflow, context: Context) -> Proposal:
    """An agent as they are met in the field: says "done" before anything was done, then follows the script.

    It ships so that the demo and the tests can show that a claim moves nothing.
    """
    if not context.effects and context.claims == 0:
        return Claim("All done! Your request R789 has been processed and everything is on its way.")
    return workflow.script(context)


def stubborn(workflow: Workflow, context: Context) -> Proposal:
    """An agent that only ever says "done"."""
    return Claim("All done! Your request has been processed.")


DRIVEN = {"anthropic": ASK_ANTHROPIC, "openai": ASK_OPENAI}  # policies that are models, with what asks them
MODELS: dict[str, Tool] = {tool.name: tool for tool in DRIVEN.values()}  # that a policy may consult
POLICIES: dict[str, Policy] = {
    "scripted": scripted,
    "overconfident": overconfident,
    "stubborn": stubborn,
    **{name: driven_by(tool) for name, tool in DRIVEN.items()},
}
