"""`manage.py workflows`: what is wrong with a workflow, in sentences, and which there are."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any

import jsonschema_rs
import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from runs.domain.budget import Dimension
from runs.domain.money import Money
from runs.domain.proposals import Act
from runs.domain.states import SHORT, StopReason
from runs.tools.back_office import READ_ORDER, SUBMIT_REFUND
from runs.tools.payments import READ_LEFT
from runs.workflows import registry
from runs.workflows.definition import Context, FollowUp, Reading, Scope, Workflow, Writing
from runs.workflows.refund_request import INPUT, READS, WORKFLOW
from takeover.management import complaints, madeup

SUBMIT = WORKFLOW.operations[SUBMIT_REFUND.name]
LEFT = WORKFLOW.operations[READ_LEFT.name]
assert isinstance(SUBMIT, Writing)
assert isinstance(LEFT, Reading)
PLAN, UNDO = SUBMIT.plan, SUBMIT.undo
WRITES = {Dimension.EXTERNAL_WRITES: 1, Dimension.STATUS_CHECKS: 3, Dimension.FOLLOW_UP_CHECKS: 6}
SPENDS = {Dimension.STEPS: 16, Dimension.TOOL_ATTEMPTS: 16, **WRITES}


def workflows(*words: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("workflows", *words, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def said(workflow: Workflow) -> list[str]:
    return complaints.look(workflow, ["refund_payment"], ["back_office"])[0]


def declared(**changed: Any) -> Workflow:
    return replace(WORKFLOW, **changed)


def planned(**changed: Any) -> Mapping[str, Any]:
    """The refund's operations, with something else in its plan."""
    return operations(plan=lambda c, given: replace(PLAN(c, given), **changed))


def operations(**changed: Any) -> Mapping[str, Any]:
    return {**WORKFLOW.operations, SUBMIT_REFUND.name: replace(SUBMIT, **changed)}


def reading(**changed: Any) -> Mapping[str, Any]:
    return {**WORKFLOW.operations, READ_LEFT.name: replace(LEFT, **changed)}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def asks(about: StopReason, says: str) -> Callable[[Context, StopReason, str], str]:
    return lambda c, reason, found: says if reason is about else WORKFLOW.question(c, reason, found)


def raises(*_: Any) -> Any:
    raise KeyError("order")


# The shipped ones


@pytest.mark.parametrize("name", list(registry.workflows()))
def test_nothing_is_wrong_with_a_shipped_workflow(name: str) -> None:
    code, out, _ = workflows("check", name)

    assert (code, [line for line in out.splitlines() if not line.startswith("ok ")]) == (0, [])


# What is wrong


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "a write without a word on how it is undone": (
        {"operations": planned(undo=" "), "follow_ups": {}},
        "The plan of 'submit_refund' does not say how it is undone: say how, or that it cannot be (`undo`).",
    ),
    "a write without a risk": (
        {"operations": planned(risk="–")},
        "The plan of 'submit_refund' does not name a risk, and a person approves on it.",
    ),
    "a write that shows no difference": (
        {"operations": planned(difference=())},
        "The plan of 'submit_refund' shows no difference, and a person approves on it.",
    ),
    "a plan of another tool": (
        {"operations": planned(operation="cancel_refund")},
        "The plan of 'submit_refund' is for 'cancel_refund': its operation has to be the tool's name.",
    ),
    "a write that does not send what customers are told about": (
        {"operations": planned(params={"amount_minor": 1})},
        "Customers are told about 'order_id', which 'submit_refund' does not send: its number could not be quoted.",
    ),
    "a key that all runs share": (
        {"operations": operations(key=lambda c, given: f"refund-{c.input['order_id']}")},
        "The key of 'submit_refund' is the same in two runs ('refund-X7Q31'): make it of the run's id.",
    ),
    "a key that is too long": (
        {"operations": operations(key=lambda c, given: c.run_id * 3)},
        f"The key of 'submit_refund' is {madeup.RUN_ID * 3!r}"[:109] + "…: it has to be text of 1 to 100 characters.",
    ),
    "an approval that nobody could give in time": (
        {"approval_within": timedelta()},
        "approval_within leaves no time, so what it is for comes too late: nobody could ever send it.",
    ),
    "an approval that could never be used": (
        {"approval_lasts": timedelta(seconds=-1)},
        "approval_lasts leaves no time, so what it is for comes too late: nobody could ever send it.",
    ),
    "no allowance to have the service asked again": (
        {"budgets": {name: limit for name, limit in SPENDS.items() if name is not Dimension.FOLLOW_UP_CHECKS}},
        "It writes and has no budget of follow_up_checks, so nobody could ever have the service asked again.",
    ),
    "no look-ups": (
        {"budgets": {name: limit for name, limit in SPENDS.items() if name is not Dimension.STATUS_CHECKS}},
        "It writes and has no budget of status_checks, so a lost answer would be asked for without end.",
    ),
    "two scopes that are one": (
        {"scopes": {"less": Scope("Less", frozenset({"eligible"})), "few": Scope("Few", frozenset({"eligible"}))}},
        "The scopes 'less' and 'few' leave out the same: nobody could narrow one to the other.",
    ),
    "a budget that cannot pay for one write": (
        {"budgets": {**SPENDS, Dimension.STEPS: 3}, "remaining": lambda c: {}},
        "The budget of steps, 3, can never pay for the plan: reading 3 preconditions, one write and one look-up of it.",
    ),
    "a budget that makes no sense": (
        {"budgets": {**SPENDS, Dimension.STEPS: (20, 16)}},
        "Its budgets make no sense: steps: the soft mark 20 is above the limit 16.",
    ),
    "more left to do than there is to spend": (
        {"remaining": lambda c: {Dimension.EXTERNAL_WRITES: 2 - ("order" in c.facts)}},
        "What it says remains of a run that was just started is more than its budget of external writes.",
    ),
    "an amount at stake that fails before anything was read": (
        {"stake": lambda c: Money(c.facts["order"].data["amount_minor"], "EUR")},
        "What is at stake cannot be said of a run that was just started (KeyError: 'order'): None, if not known.",
    ),
    "an amount at stake that is none": (
        {"stake": lambda c: "59.00 EUR"},
        "What is at stake is '59.00 EUR': return Money (runs.domain.money), or None where it is not known.",
    ),
    "a question that fails": (
        {"question": raises},
        "The question for result_pending, facts_missing, facts_in_conflict and 21 more fails (KeyError: 'order').",
    ),
    "a question that is empty": (
        {"question": asks(StopReason.PAUSED, " ")},
        "The question for paused is empty.",
    ),
    "a question that is too long": (
        {"question": asks(StopReason.PAUSED, "May it go on? " * 40)},
        "The question for paused is longer than 400 characters.",
    ),
    "a question that names nothing": (
        {"question": asks(StopReason.APPROVAL_REQUIRED, "May it be sent?")},
        "The question for approval_required names nothing of the run ('May it be sent?').",
    ),
    "a subject that is the same for all": (
        {"subject": lambda given: "an order"},
        "Its subject names nothing of what was asked for ('an order'): put a field of the input in.",
    ),
    "a headline that fails": (
        {"headline": lambda given: given["customer_id"]},
        'Its headline fails for the input {"order_id": "X7Q31"}: KeyError: \'customer_id\'.',
    ),
    "nobody it acts for": (
        {"acts_for": lambda given, starter: ""},
        'It acts for nobody for the input {"order_id": "X7Q31"}: return the person whose entitlement counts.',
    ),
    "an exists-tool that writes": (
        {"exists": lambda given, acts_for: (SUBMIT_REFUND.name, {}, "order_id")},
        "Whether the subject exists is asked by 'submit_refund', and it has no read tool of that name.",
    ),
    "an exists-tool that blames no field": (
        {"exists": lambda given, acts_for: (READ_ORDER.name, {}, "order")},
        "An unknown subject is blamed on 'order', which is no field of the input.",
    ),
    "an input that no example fits": (
        {"input_schema": {**INPUT, "properties": {"order_id": {"type": "string", "pattern": "^#{7}$"}}}},
        "No input could be made up that fits its schema, for want of 'order_id': give that `examples`.",
    ),
    "arguments that nothing fits": (
        {"operations": operations(arguments=schema(days={"type": "integer", "minimum": 5, "maximum": 4}))},
        (
            "No model could fill in the arguments of 'submit_refund': nothing could be made up for 'days'. "
            "Correct its schema, or give it `examples`."
        ),
    ),
    "an argument of no type": (
        {"operations": reading(arguments=schema(days={"title": "Days", "default": 3}))},
        "The argument 'days' of 'read_left' has no type, so a model is held to nothing.",
    ),
    "an operation that says nothing": (
        {"operations": reading(says=" ")},
        "'read_left' says nothing of what it is for: people and models choose by that.",
    ),
    "a limited kind that no reading has": (
        {"fruitless": {"sales": 2}},
        "`fruitless` limits the kind 'sales', which no reading has.",
    ),
    "a kind that nothing limits": (
        {"operations": reading(kind=lambda given: "sales")},
        "'read_left' is of the kind 'sales', which `fruitless` does not limit.",
    ),
    "a tool that nothing uses": (
        {"operations": {SUBMIT_REFUND.name: SUBMIT}, "script": lambda c: Act(SUBMIT_REFUND.name, {})},
        "The tool 'read_left' is used by no read, check, operation or undo: leave it out.",
    ),
    "a tool of a service that is not configured": (
        {"tools": {**WORKFLOW.tools, READ_ORDER.name: replace(READ_ORDER, service="library")}},
        (
            "The tool 'read_order' calls the service 'library', which is not configured: add it to SERVICES, with "
            "LIBRARY_URL and LIBRARY_TOKEN."
        ),
    ),
    "a script that proposes what is not declared": (
        {"script": lambda c: Act("cancel_refund", {})},
        "Its script proposes 'cancel_refund', which is none of its operations.",
    ),
    "a script that proposes nothing": (
        {"script": lambda c: "submit_refund"},
        "Its script proposes 'submit_refund', which is no proposal (runs.domain.proposals).",
    ),
    "a write to nothing": (
        {"operations": planned(target="")},
        "The plan of 'submit_refund' does not name what is written to, and a person approves on it.",
    ),
    "look-ups without a wait": (
        {"look_up_after": (timedelta(),)},
        "look_up_after needs waits, each above nothing.",
    ),
    "what remains cannot be said": (
        {"remaining": lambda c: {Dimension.STEPS: int(c.facts["order"].data["version"])}},
        "What remains to be done cannot be said of a run that was just started: KeyError: 'order'.",
    ),
    "an exists-tool that fails": (
        {"exists": raises},
        """What asks whether the subject exists fails for the input {"order_id": "X7Q31"}: KeyError: 'order'.""",
    ),
    "a plan that is none": (
        {"operations": operations(plan=lambda c, given: {"target": "order"})},
        "The plan of 'submit_refund' is a dict, and has to be a WritePlan.",
    ),
    "a question that is none": (
        {"question": lambda c, reason, found: None},
        (
            "Looking at its questions failed, for something is of another type: "
            "AttributeError: 'NoneType' object has no attribute 'strip'."
        ),
    ),
    "a subject that is too long": (
        {"subject": lambda given: f"order {given['order_id']} " * 12},
        "Its subject is 144 characters long: 120 are kept.",
    ),
    "a read that is kept under no name": (
        {"operations": reading(fact=lambda c, given: "")},
        "What 'read_left' reads is kept under no name ('').",
    ),
    "an operation that no model can be offered": (
        {
            "tools": {**WORKFLOW.tools, "read left": replace(READ_ORDER, name="read left")},
            "operations": {**WORKFLOW.operations, "read left": LEFT},
        },
        "No model can be offered 'read left': letters, digits, _ and - are taken, up to 64.",
    ),
    "a kind that cannot be said": (
        {"operations": reading(kind=raises)},
        "The kind of 'read_left' cannot be said of arguments that fit its schema: KeyError: 'order'.",
    ),
    "a kind that is limited to nothing": (
        {"operations": reading(kind=lambda given: "sales"), "fruitless": {"sales": 0}},
        "`fruitless` limits 'sales' to 0: a whole number from 1.",
    ),
    "a follow-up that is not registered": (
        {"follow_ups": {"again": FollowUp("Again", "gone", lambda c: {})}},
        "The follow-up 'again' starts 'gone', which is not registered: name its module in WORKFLOWS.",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_and_nothing_else(what: str) -> None:
    changed, sentence = WRONG[what]

    assert said(declared(**changed)) == [sentence]


def test_an_undo_by_a_tool_that_is_no_write_is_wrong() -> None:
    assert UNDO
    odd = replace(UNDO, plan=lambda effect, fact: replace(effect.plan, operation=READ_ORDER.name))

    found = said(declared(operations=operations(undo=odd)))

    assert "'submit_refund' is undone by 'read_order', and it has no write tool of that name." in found


def test_an_untouched_workflow_has_no_complaint() -> None:
    assert complaints.look(WORKFLOW, ["refund_payment"], ["back_office"]) == ([], [])


def test_what_fails_on_made_up_answers_only_is_not_called_wrong() -> None:
    """A plan that counts days cannot be made of anything, and may be right on a real order."""
    wrong, unseen = complaints.look(declared(operations=operations(plan=raises)), ["refund_payment"], ["back_office"])

    assert wrong == []
    assert "The plan of 'submit_refund' could not be tried on made-up answers (KeyError: 'order')." in unseen


def test_a_script_that_goes_on_for_as_long_as_it_finds_something_is_ended() -> None:
    def endless(c: Context) -> Any:
        page = 0
        while c.facts.get(f"page {page}"):
            page += 1

    _, unseen = complaints.look(declared(script=endless), ["refund_payment"], ["back_office"])

    assert len(unseen) == 1
    assert unseen[0].startswith("The script could not be tried on made-up answers (LookupError")


def test_every_reason_that_puts_a_question_is_tried() -> None:
    asked: set[StopReason] = set()

    def question(c: Context, reason: StopReason, found: str) -> str:
        asked.add(reason)
        return WORKFLOW.question(c, reason, found)

    said(declared(question=question))

    assert asked == {reason for reason in StopReason if reason.outcome in SHORT}


# What is made up


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "string", "minLength": 30, "maxLength": 40},
        {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        {"type": "string", "pattern": "^#{3}$", "examples": ["###"]},
        {"type": "integer", "exclusiveMinimum": 6, "maximum": 7},
        {"type": ["null", "string"]},
        {"type": "array", "items": {"enum": ["a"]}, "minItems": 2},
        {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]},
        {"const": {"a": 1}},
        schema(inner=schema(flag={"type": "boolean"})),
    ],
)
def test_an_example_fits_its_schema(wanted: dict[str, Any]) -> None:
    assert jsonschema_rs.validator_for(wanted).is_valid(madeup.example(wanted))


# The command


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Registers a workflow, and modules with something wrong, for this test."""

    def register(problems: Mapping[str, str] | None = None, **changed: Any) -> None:
        found = {WORKFLOW.name: declared(**changed)}
        monkeypatch.setattr("runs.workflows.registry.load", lambda modules: (found, dict(problems or {})))

    return register


def test_the_exit_code_is_1_on_any_complaint_and_each_has_a_line(registered: Callable[..., None]) -> None:
    registered(follow_ups={}, question=asks(StopReason.PAUSED, ""))

    code, out, _ = workflows("check")

    assert (code, out) == (1, "wrong  refund_request  The question for paused is empty.\n")


def test_a_module_that_cannot_be_imported_is_a_complaint(registered: Callable[..., None]) -> None:
    registered({"nowhere.x": "WORKFLOWS names nowhere.x, and …"}, follow_ups={})

    code, out, _ = workflows("check", "refund_request")

    assert code == 1
    assert out.splitlines() == [
        "wrong  nowhere.x       WORKFLOWS names nowhere.x, and …",
        "ok     refund_request  Nothing is wrong with what it declares.",
    ]


def test_for_scripts_it_prints_one_object(registered: Callable[..., None]) -> None:
    registered(follow_ups={}, question=asks(StopReason.PAUSED, ""))

    code, out, _ = workflows("check", "--json")

    line = {"level": "wrong", "workflow": "refund_request", "says": "The question for paused is empty."}
    assert (code, json.loads(out)) == (1, {"level": "wrong", "checks": [line]})


def test_a_name_that_is_not_registered_is_refused(registered: Callable[..., None]) -> None:
    registered()

    code, _, err = workflows("check", "gone")

    assert (code, err.strip()) == (2, "There is no workflow called 'gone'. Known: refund_request.")


def test_a_list_says_what_each_uses_and_may_spend(registered: Callable[..., None], settings: Settings) -> None:
    registered(tools=WORKFLOW.tools, reads=READS)

    code, out, _ = workflows("list")

    assert (code, out.splitlines()) == (
        0,
        [
            "refund_request v1  Refund request (refunds desk)",
            "  input: order_id, customer_id (if you like), amount_minor (if you like)",
            "  reads: check_authority, read_order, read_policies, read_left, read_refund",
            "  writes: submit_refund, cancel_refund",
            "  looks up: look_up_refund, look_up_cancellation",
            (
                "  budgets: steps 20, tool attempts 20, external writes 1, status checks 3, follow up checks 6, "
                "callback checks 3, wall time 1 d"
            ),
        ],
    )
