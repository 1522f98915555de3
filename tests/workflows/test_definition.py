"""A workflow that could not be carried out safely is refused when it is declared, with a sentence that says why."""

from dataclasses import replace
from typing import Any

import pytest

from runs.tools.back_office import LOOK_UP_REFUND, READ_ORDER, SUBMIT_REFUND
from runs.workflows.definition import Reading, Scope, Writing
from runs.workflows.refund_request import READS, WORKFLOW

SUBMIT = WORKFLOW.operations[SUBMIT_REFUND.name]
assert isinstance(SUBMIT, Writing)
assert SUBMIT.undo


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"contract": ()}, "has an empty contract: nothing could ever complete it."),
        ({"input_schema": {"type": "object"}}, "tells customers about 'order_id', which its input may leave out."),
        ({"reads": READS[::-1]}, "the reads that open come first."),
        (
            {"reads": (replace(READS[0], tool="gone"),)},
            "'authority' is read by 'gone', and it has no read tool of that name.",
        ),
        (
            {"reads": (replace(READS[0], tool=SUBMIT_REFUND.name),)},
            "'authority' is read by 'submit_refund', and it has no read tool of that name.",
        ),
        (
            {"tools": {name: tool for name, tool in WORKFLOW.tools.items() if name != LOOK_UP_REFUND.name}},
            "'submit_refund' is looked up by 'look_up_refund', and it has no look_up tool of that name.",
        ),
        (
            {"tools": {**WORKFLOW.tools, SUBMIT_REFUND.name: replace(SUBMIT_REFUND, look_up=READ_ORDER.name)}},
            "'submit_refund' is looked up by 'read_order', and it has no look_up tool of that name.",
        ),
        (
            {"operations": {READ_ORDER.name: SUBMIT}},
            "what the policy may choose is done by 'read_order', and it has no write tool of that name.",
        ),
        (
            {"operations": {SUBMIT_REFUND.name: Reading("Reads it.", lambda c, given: "fact")}},
            "what the policy may choose is done by 'submit_refund', and it has no read tool of that name.",
        ),
        (
            {"operations": {SUBMIT_REFUND.name: replace(SUBMIT, undo=replace(SUBMIT.undo, read=LOOK_UP_REFUND.name))}},
            "whether 'submit_refund' can be undone is read by 'look_up_refund', and it has no read tool of that name.",
        ),
        (
            {"operations": {SUBMIT_REFUND.name: replace(SUBMIT, arguments={"type": "object"})}},
            "the arguments of 'submit_refund' need a schema of an object that permits no other properties.",
        ),
        (
            {"tools": {**WORKFLOW.tools, "read_it": READ_ORDER}},
            "the tool 'read_order' stands under the name 'read_it'.",
        ),
        ({"reads": (*READS, READS[-1])}, "reads the fact 'policies' twice."),
        (
            {"reads": (*READS, replace(READS[-1], fact="proposal"))},
            "reads the fact 'proposal', which is a name of the engine's own.",
        ),
        ({"contract": (*WORKFLOW.contract, WORKFLOW.contract[0])}, "has the assertion 'authorised' twice."),
        (
            {"operations": {SUBMIT_REFUND.name: replace(SUBMIT, amendable=("note",))}},
            "the arguments of 'submit_refund': 'note' is no text or whole number that a person could change.",
        ),
        ({"scopes": {"less": Scope("Less", frozenset({"paid"}))}}, "scope 'less' drops 'paid', which is no assertion."),
        (
            {"scopes": {"less": Scope("Less", frozenset())}},
            "scope 'less' has to drop some assertions, and to keep some.",
        ),
        (
            {"scopes": {"less": Scope("Less", frozenset(one.name for one in WORKFLOW.contract))}},
            "scope 'less' has to drop some assertions, and to keep some.",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(declared: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match="Workflow 'refund_request'") as refused:
        replace(WORKFLOW, **declared)
    assert str(refused.value).endswith(says)


def test_arguments_without_a_valid_schema_are_refused() -> None:
    odd = replace(SUBMIT, arguments={"type": "object", "additionalProperties": False, "required": 7})
    with pytest.raises(ValueError, match="the arguments of 'submit_refund' have no valid schema"):
        replace(WORKFLOW, operations={SUBMIT_REFUND.name: odd})


def test_an_input_without_a_valid_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="Workflow 'refund_request': the input has no valid schema: "):
        replace(WORKFLOW, input_schema={**WORKFLOW.input_schema, "required": 7})


def test_a_write_tool_that_nothing_can_look_up_is_refused() -> None:
    with pytest.raises(ValueError, match="declares no look-up"):
        replace(SUBMIT_REFUND, look_up="")
