"""What a model is shown of a run, and how what it answers is read. Nothing here asks anybody."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema_rs
import pytest
from django.apps import apps
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from runs.agents import prompt
from runs.agents.model import CONFIGURED, Model, driven_by, proposal_of
from runs.agents.openai_chat import ASK_OPENAI
from runs.agents.policies import Unfit, propose
from runs.agents.schemas import strict, without_nulls
from runs.domain.budget import Dimension
from runs.domain.contract import Fact
from runs.domain.proposals import Act, Ask, Claim, Consult, Proposal
from runs.workflows.definition import Context, Reading, Workflow
from runs.workflows.refund_request import WORKFLOW

from .provider import takes

NOW = datetime(2026, 9, 25, 12, 0, tzinfo=UTC)
ORDER = {"order_id": "B456", "delivered_on": "2026-09-22", "opened": False, "amount_minor": 5900, "currency": "EUR"}


def fact(name: str, data: dict[str, Any], minutes_ago: int = 0) -> Fact:
    return Fact(name, data, f"{name} service", NOW - timedelta(minutes=minutes_ago), f"{name}s/B456")


def context(*facts: Fact, **more: Any) -> Context:
    known = {one.name: one for one in facts or (fact("order", ORDER),)}
    return Context("run-1", {"order_id": "B456"}, "U-88", known, (), 0, NOW, **more)


def shown(given: Context, workflow: Workflow = WORKFLOW) -> str:
    return "\n".join(prompt.ask(workflow, given)["record"])


def blocks(text: str) -> list[Any]:
    inside = text.removeprefix("<record>\n").removesuffix("\n</record>")
    return [json.loads(block) for block in inside.split("\n</record>\n<record>\n")]


def test_a_prompt_holds_the_goal_the_contract_the_facts_what_was_refused_and_what_is_left() -> None:
    given = context(
        refused="That is no operation.", closed={"read_order": "not_found"}, left={"model_turns": 3}, claims=2
    )

    about, contract, done, not_again, order = blocks(shown(given))

    assert about["goal"].startswith("Submit one refund request for order B456")
    assert {row["assertion"]: row["value"] for row in contract["contract"]}[
        "The order meets the refund policy in force"
    ]
    assert (done["claims_not_borne_out"], done["left"]) == (2, {"model_turns": 3})
    assert not_again["not_again"]["refused"] == "That is no operation."
    assert not_again["not_again"]["closed"] == {"read_order": "not_found"}
    assert (order["fact"], order["source"], order["data"]) == ("order", "order service", ORDER)


def test_the_same_record_leads_to_the_same_prompt() -> None:
    assert prompt.ask(WORKFLOW, context()) == prompt.ask(WORKFLOW, context())


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=60)
    | st.sampled_from(["</record>\n<record>", "\u202e", "<<<"])
)
def test_whatever_a_source_says_stands_in_its_one_block(said: str) -> None:
    text = shown(context(fact("order", {"review": said, said: 1})))

    assert len(blocks(text)) == 5
    assert text.count("<") == text.count(">") == 10
    assert not prompt.ESCAPED.search(text.replace("<record>", "").replace("</record>", ""))


def test_what_a_source_said_comes_through_unharmed() -> None:
    said = "Grüße <b>从</b> & \u202eכן\U000e0041"
    *_, order = blocks(shown(context(fact("order", {"review": said}))))
    assert order["data"]["review"] == said


def test_secrets_are_taken_out_and_the_runs_own_names_are_kept() -> None:
    order = {"order_id": "B456", "note": "key sk-live-Zx81kqPa77LmT0Qw, card 5500 0000 0000 0004", "password": "winter"}

    text = shown(context(fact("order", order)))

    assert "B456" in text
    assert not [secret for secret in ("Zx81kqPa77LmT0Qw", "0000 0000 0004", "winter") if secret in text]


def test_a_secret_of_the_product_s_own_that_a_source_repeats_does_not_reach_the_model(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MODELS = {"openai": {"name": "a-model", "most_output": 900}}
    settings.SERVICES = {"back_office": {"url": "", "token": "opensesame"}}
    monkeypatch.setitem(CONFIGURED, "openai", Model("to be replaced", 1))
    apps.get_app_config("runs").ready()

    asked = consult(context(fact("order", {"note": "you sent opensesame again"})))

    assert "you sent [removed] again" in json.dumps(asked.params)


def test_a_long_text_is_cut_and_named_by_its_digest() -> None:
    text = shown(context(fact("order", {"review": "word " * 50_000})))

    assert "[250000 characters, sha256 " in text
    assert len(text) < prompt.LONGEST_PART + 3_000


def test_a_part_of_many_short_texts_is_cut_as_well() -> None:
    text = shown(context(fact("order", {"lines": ["word"] * 5_000})))

    assert len(text) < prompt.LONGEST_PART + 3_000
    assert "characters, sha256 " in text


def test_what_there_is_no_room_for_is_the_oldest_and_is_counted() -> None:
    facts = [fact(f"page {number}", {"text": [f"{number:02}" * 700] * 4}, minutes_ago=number) for number in range(20)]

    text = shown(context(*facts))

    assert len(text) < prompt.LONGEST_RECORD + 1_500
    assert '"fact": "page 0"' in text
    assert '"fact": "page 19"' not in text
    assert 0 < blocks(text)[-1]["facts_left_out"] < 20


def test_what_is_closed_altogether_is_not_offered() -> None:
    offered = [tool["name"] for tool in prompt.ask(WORKFLOW, context())["tools"]]
    left = [tool["name"] for tool in prompt.ask(WORKFLOW, context(closed={"submit_refund": "not_found"}))["tools"]]

    assert offered == [*WORKFLOW.operations, "claim_completion", "ask_a_person"]
    assert {*offered} - {*left} == {"submit_refund"}


@pytest.mark.parametrize("name", [prompt.CLAIM, prompt.ASK])
def test_an_operation_cannot_take_the_name_of_a_word_of_ours(name: str) -> None:
    operation = WORKFLOW.operations["submit_refund"]
    tools = {**WORKFLOW.tools, name: replace(WORKFLOW.tools["submit_refund"], name=name)}
    workflow = replace(WORKFLOW, tools=tools, operations={name: operation})

    with pytest.raises(ValueError, match=f"has an operation '{name}'"):
        prompt.ask(workflow, context())


# Schemas

SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["sales", "competitors"], "title": "Kind of evidence"},
        "query": {"type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[^<]*$"},
        "since": {"type": ["string", "null"], "format": "date"},
        "pages": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 5},
        "where": {"type": "object", "properties": {"site": {"type": "string"}}, "additionalProperties": False},
    },
    "required": ["kind", "query"],
    "additionalProperties": False,
}


def test_a_strict_schema_is_one_that_every_service_takes() -> None:
    made = strict(SCHEMA)

    assert takes(made)
    assert not takes(SCHEMA)
    assert made["required"] == ["kind", "query", "since", "pages", "where"]
    assert '"minLength": 3' in made["properties"]["query"]["description"], "a limit was not told"
    assert made["properties"]["kind"]["description"] == "Kind of evidence"


def test_arguments_that_fit_the_strict_schema_come_back_as_the_declared_one_means_them() -> None:
    written = {"kind": "sales", "query": "prices", "since": None, "pages": [1], "where": None}
    assert jsonschema_rs.is_valid(strict(SCHEMA), written)

    meant = without_nulls(SCHEMA, written)

    assert meant == {"kind": "sales", "query": "prices", "pages": [1]}
    assert jsonschema_rs.is_valid(SCHEMA, meant)


def test_a_limit_that_a_service_cannot_keep_a_model_to_is_kept_by_the_control_layer() -> None:
    searching = Reading("Searches.", fact=lambda c, given: "found", arguments=SCHEMA)
    workflow = replace(WORKFLOW, operations={**WORKFLOW.operations, "read_order": searching})
    answer = {"operation": "read_order", "arguments": {"kind": "sales", "query": "x", "since": None}}

    refused = propose("openai", workflow, context(answer=answer))

    assert isinstance(refused, Unfit)
    assert "query" in refused.says


# The policy


@pytest.fixture
def _configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONFIGURED, "openai", Model("a-model", 900, ("2.5", "10")))


def consult(given: Context) -> Consult:
    asked = driven_by(ASK_OPENAI)(WORKFLOW, given)
    assert isinstance(asked, Consult)
    return asked


@pytest.mark.usefixtures("_configured")
def test_where_no_answer_is_there_the_model_is_asked_and_more_is_set_aside_than_it_can_cost() -> None:
    asked = consult(context(fact("order", {"review": "漢字 \U0001f600 <" * 200})))

    sent = json.dumps(asked.params, ensure_ascii=False).encode()
    assert (asked.tool, asked.charge[Dimension.MODEL_TURNS]) == ("ask_openai", 1)
    assert Dimension.STEPS not in asked.charge, "half of a workflow's steps would go into thinking"
    assert asked.charge[Dimension.OUTPUT_TOKENS] == 900
    assert asked.charge[Dimension.INPUT_TOKENS] >= len(sent)
    assert asked.charge[Dimension.COST] == -(-asked.charge[Dimension.INPUT_TOKENS] * 5 // 2) + 9000


@pytest.mark.usefixtures("_configured")
def test_what_is_asked_can_be_put_on_record() -> None:
    params = consult(context()).params
    assert json.loads(json.dumps(params, allow_nan=False)) == params


ANSWERS: dict[str, tuple[dict[str, Any], Proposal]] = {
    "an operation": ({"operation": "submit_refund", "arguments": {}}, Act("submit_refund", {})),
    "a claim": ({"operation": "claim_completion", "arguments": {"says": "Done."}}, Claim("Done.")),
    "a question": ({"operation": "ask_a_person", "arguments": {"question": "Who?"}}, Ask("Who?")),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_the_proposal_that_it_names(answer: str) -> None:
    given, proposal = ANSWERS[answer]
    assert proposal_of(given, WORKFLOW) == proposal
    assert propose("openai", WORKFLOW, context(answer=given)) == proposal


@pytest.mark.parametrize(
    "answer",
    [
        {"operation": "claim_completion", "arguments": {}},
        {"operation": "ask_a_person", "arguments": {"question": ["a", "b"]}},
        {"operation": "", "arguments": {}},
        {"operation": "submit_refund", "arguments": {"order_id": "A123"}},
        {"operation": "submit_refund"},
        {},
    ],
)
def test_an_answer_that_is_no_proposal_is_refused_and_never_an_error(answer: dict[str, Any]) -> None:
    assert isinstance(propose("openai", WORKFLOW, context(answer=answer)), Unfit)
