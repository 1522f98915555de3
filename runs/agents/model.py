"""A model as the policy of any workflow: where it has not been asked yet it is consulted, else its answer is proposed.

Asking is a step of the engine like any other: its intent is committed with a reservation that no answer should exceed,
its answer is kept with the run, and a worker that dies in between pays for no second one. An answer is a proposal:
the control layer holds it against what the workflow declares.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Any

from runs.agents import prompt
from runs.agents.schemas import without_nulls
from runs.domain.budget import Charge, Dimension
from runs.domain.proposals import Act, Ask, Claim, Consult, Proposal
from runs.tools.tool import Tool
from runs.workflows.definition import Context, Workflow

OVERHEAD = 2_000  # tokens: the frame of a message, and what a service adds to explain tools to its model
MOST_TOKENS = 10**9  # that a service may say it used; whoever says more, says nothing


@dataclass(frozen=True)
class Model:
    """A model as this installation may ask it."""

    name: str  # as its service knows it
    most_output: int  # tokens of one answer
    prices: tuple[str, str] | None = None  # of a million tokens put in and got out, in the workflows' currency
    limit_name: str = "max_tokens"  # what the service calls `most_output`
    secrets: tuple[str, ...] = field(default=(), repr=False)  # values that must not reach it


CONFIGURED: dict[str, Model] = {}  # by service; filled when the product starts (runs.apps)


def driven_by(tool: Tool) -> Callable[[Workflow, Context], Proposal]:
    """The policy that asks the model behind `tool`."""

    def propose(workflow: Workflow, context: Context) -> Proposal:
        if context.answer is not None:
            return proposal_of(context.answer, workflow)
        return _consult(tool, workflow, context)

    return propose


def proposal_of(answer: Mapping[str, Any], workflow: Workflow) -> Proposal:
    """What a model's answer proposes. Nothing here is believed: what does not fit is refused by who asks for it."""
    operation, arguments = answer["operation"], answer["arguments"]
    if operation == prompt.CLAIM:
        return Claim(arguments.get("says"))
    if operation == prompt.ASK:
        return Ask(arguments.get("question"))
    declared = workflow.operations.get(operation)
    return Act(operation, without_nulls(declared.arguments, arguments) if declared else arguments)


def _consult(tool: Tool, workflow: Workflow, context: Context) -> Proposal:
    model = CONFIGURED.get(tool.service)
    if model is None:
        return Ask(f"No key for the service {tool.service!r} is configured, so no model can be asked. Who goes on?")
    if Dimension.COST in {*workflow.turns, *workflow.budgets} and model.prices is None:
        return Ask(f"This workflow limits what it costs, and no prices of {model.name} are configured. Who goes on?")
    asked = prompt.ask(workflow, context, model.secrets)
    params = {
        "model": model.name,
        "most_output": model.most_output,
        "limit_name": model.limit_name,
        "prices": list(model.prices or ()),
        **asked,
    }
    tokens = _at_most(asked)
    # No step: those count actions, and who thinks before each is not to have half as many.
    charge = {Dimension.MODEL_TURNS: 1, **tokens_and_cost(params, tokens, model.most_output)}
    return Consult(tool.name, params, charge)


def _at_most(asked: Mapping[str, Any]) -> int:
    """More tokens than the prompt can have: a token stands for at least one byte of it."""
    return len(repr(asked).encode()) + OVERHEAD


def tokens_and_cost(params: Mapping[str, Any], put_in: int, got_out: int) -> Charge:
    """The charge for so many tokens. A price of a million tokens is that of one in millionths."""
    charge = {Dimension.INPUT_TOKENS: put_in, Dimension.OUTPUT_TOKENS: got_out}
    if params["prices"]:
        per_input, per_output = map(Decimal, params["prices"])
        cost = put_in * per_input + got_out * per_output
        charge[Dimension.COST] = int(cost.to_integral_value(ROUND_CEILING))
    return charge
