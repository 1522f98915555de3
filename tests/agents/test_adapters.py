"""One turn through each SDK, against a service on a loopback port that speaks its wire format, faults included."""

import json
import sys
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import pytest

from runs.agents.anthropic_messages import ASK_ANTHROPIC
from runs.agents.openai_chat import ASK_OPENAI
from runs.agents.prompt import OUR_TOOLS
from runs.agents.schemas import strict
from runs.domain.budget import Dimension
from runs.domain.errors import ErrorClass, Failure
from runs.tools.http import MOST_BYTES, HttpService
from runs.tools.tool import Call, Result, Tool, ToolFailed

from .provider import KEY, Fault, Provider, Says, call

REFUND = {
    "name": "submit_refund",
    "says": "Submit the refund.",
    "arguments": strict(
        {
            "type": "object",
            "properties": {
                "amount_minor": {"type": "integer", "minimum": 1, "title": "Amount"},
                "note": {"type": ["string", "null"], "maxLength": 200},
            },
            "required": ["amount_minor"],
            "additionalProperties": False,
        }
    ),
}
PARAMS: Mapping[str, Any] = {
    "model": "a-model",
    "most_output": 900,
    "limit_name": "max_completion_tokens",
    "prices": ["2.5", "10"],
    "prompt_version": 1,
    "system": "You propose.",
    "record": ["<record>\n{}\n</record>"],
    "tools": [REFUND, *OUR_TOOLS],
}

Ask = Callable[..., Result]


@pytest.fixture(params=[ASK_OPENAI, ASK_ANTHROPIC], ids=["openai", "anthropic"])
def tool(request: pytest.FixtureRequest) -> Tool:
    tool: Tool = request.param
    return tool


@pytest.fixture
def ask(tool: Tool, provider: Provider) -> Ask:
    def ask_with(*answers: Any, key: str = KEY, seconds: float = 20, **params: Any) -> Result:
        provider.answers[:] = answers
        path = "/v1" if tool is ASK_OPENAI else ""
        service = HttpService(f"{provider.url}{path}", key)
        return tool.perform(service, Call(tool.name, {**PARAMS, **params}), monotonic() + seconds)

    return ask_with


def failure(ask: Ask, *answers: Any, **more: Any) -> Failure:
    with pytest.raises(ToolFailed) as failed:
        ask(*answers, **more)
    return failed.value.failure


def test_one_call_of_a_tool_is_the_answer_of_a_turn(ask: Ask) -> None:
    result = ask(call("submit_refund", amount_minor=5900, note=None))

    assert result.data["operation"] == "submit_refund"
    assert result.data["arguments"] == {"amount_minor": 5900, "note": None}
    assert result.data["model"].startswith("a-model-2026")
    assert result.data["prompt_version"] == 1


def test_what_was_used_is_accounted_in_tokens_and_money(ask: Ask) -> None:
    result = ask(Says(calls=(("claim_completion", {"says": "Done."}),), put_in=1001, got_out=33))

    # 1001 at 2.50 and 33 at 10 a million are 2832.5 millionths.
    assert result.used == {Dimension.INPUT_TOKENS: 1001, Dimension.OUTPUT_TOKENS: 33, Dimension.COST: 2833}


def test_without_prices_no_cost_is_made_up(ask: Ask) -> None:
    result = ask(call("claim_completion", says="Done."), prices=[])

    assert result.used == {Dimension.INPUT_TOKENS: 1200, Dimension.OUTPUT_TOKENS: 40}


@pytest.mark.parametrize("count", [None, -1, "12", True, 1.5, 10**12])
def test_what_is_no_number_of_tokens_leaves_all_that_was_set_aside_spent(count: object, ask: Ask) -> None:
    result = ask(Says(calls=(("claim_completion", {"says": "Done."}),), got_out=count))

    assert (result.used, result.data["output_tokens"]) == (None, None)


def test_an_answer_without_usage_is_taken_and_all_that_was_set_aside_is_spent(ask: Ask) -> None:
    result = ask(Says(calls=(("claim_completion", {"says": "Done."}),), usage=False))

    assert (result.data["operation"], result.used) == ("claim_completion", None)


def test_what_is_read_from_a_cache_is_paid_for_as_well(provider: Provider) -> None:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 2000,
        "output_tokens": 5,
    }
    content = [{"type": "tool_use", "id": "t", "name": "claim_completion", "input": {"says": "Done."}}]
    body = {"id": "m", "model": "a-model", "content": content, "stop_reason": "tool_use", "usage": usage}
    provider.answers[:] = [Fault(body=json.dumps(body).encode())]

    result = ASK_ANTHROPIC.perform(
        HttpService(provider.url, KEY), Call("ask_anthropic", {**PARAMS, "prices": []}), monotonic() + 20
    )

    assert result.used == {Dimension.INPUT_TOKENS: 2310, Dimension.OUTPUT_TOKENS: 5}


def test_the_request_names_the_model_its_limit_and_strict_tools(ask: Ask, tool: Tool, provider: Provider) -> None:
    ask(call("claim_completion", says="Done."))

    (asked,) = provider.asked
    limit = "max_completion_tokens" if tool is ASK_OPENAI else "max_tokens"
    assert (asked["model"], asked[limit]) == ("a-model", 900)
    assert "stream" not in asked or asked["stream"] is False
    assert "You propose." in json.dumps(asked)
    assert "<record>" in json.dumps(asked["messages"])


def test_an_older_service_is_told_the_limit_under_its_older_name(provider: Provider) -> None:
    provider.answers[:] = [call("claim_completion", says="Done.")]
    with pytest.raises(ToolFailed):  # the loopback service is not one of those
        ASK_OPENAI.perform(
            HttpService(f"{provider.url}/v1", KEY),
            Call("ask_openai", {**PARAMS, "limit_name": "max_tokens"}),
            monotonic() + 20,
        )

    assert provider.asked[0]["max_tokens"] == 900
    assert "max_completion_tokens" not in provider.asked[0]


BAD = {
    "two calls": (
        Says(calls=(("submit_refund", {"amount_minor": 1}), ("submit_refund", {"amount_minor": 2}))),
        "invalid_output",
        "2 tools at once",
    ),
    "only words": (Says(text="I have refunded everything."), "invalid_output", "called no tool"),
    "nothing": (Says(), "invalid_output", "called no tool"),
    "cut off": (Says(calls=(("submit_refund", {}),), stop="length"), "too_large", "it may have 900 tokens"),
    "no object": (Says(calls=(("submit_refund", "[1, 2]"),)), "invalid_output", "no JSON object"),
    "long arguments": (call("submit_refund", note="x" * 30_000), "too_large", "longer than 20000 characters"),
    "wrong JSON": (Fault(body=b'{"choices": [{"mess'), "invalid_output", "not a JSON object"),
    "a list": (Fault(body=b"[]"), "invalid_output", "not a JSON object"),
    "a page": (Fault(body=b"<html>", headers={"Content-Type": "text/html"}), "invalid_output", "not a JSON object"),
    "no answer in it": (Fault(body=b'{"choices": "none", "content": 7}'), "invalid_output", "called no tool"),
    "no number": (Fault(body=b'{"choices": NaN}'), "invalid_output", "not a JSON object"),
    "nested without end": (Fault(body=b'{"a":' + b"[" * 50_000), "invalid_output", "not a JSON object"),
    "huge": (Fault(body=b" " * (MOST_BYTES + 1)), "too_large", "larger than"),
    "cut in the middle": (Fault(body=b'{"choices": []}' * 9, cut=True), "no_answer", "ended before"),
}


@pytest.mark.parametrize("bad", BAD)
def test_an_answer_that_is_none_becomes_a_failure_with_a_stable_code(bad: str, ask: Ask) -> None:
    answer, code, says = BAD[bad]

    failed = failure(ask, answer)

    assert (failed.code, says in failed.message) == (code, True), failed.message


@pytest.mark.parametrize("text", ["{'amount': 1}", '{"amount_minor": 12', "not JSON", "7"])
def test_arguments_that_are_no_json_are_refused(text: str, provider: Provider) -> None:
    provider.answers[:] = [Says(calls=(("submit_refund", text),))]
    with pytest.raises(ToolFailed, match="no JSON object"):
        ASK_OPENAI.perform(HttpService(f"{provider.url}/v1", KEY), Call("ask_openai", PARAMS), monotonic() + 20)


def test_a_call_whose_arguments_come_as_an_empty_text_has_none(provider: Provider) -> None:
    provider.answers[:] = [Says(calls=(("submit_refund", ""),))]

    result = ASK_OPENAI.perform(HttpService(f"{provider.url}/v1", KEY), Call("ask_openai", PARAMS), monotonic() + 20)

    assert result.data["arguments"] == {}


STATUSES = {
    429: ("rate_limited", ErrorClass.TRANSIENT),
    500: ("unavailable", ErrorClass.TRANSIENT),
    503: ("unavailable", ErrorClass.TRANSIENT),
    529: ("unavailable", ErrorClass.TRANSIENT),
    401: ("credential_refused", ErrorClass.AUTHENTICATION),
    403: ("access_denied", ErrorClass.PERMISSION),
    402: ("access_denied", ErrorClass.PERMISSION),
    400: ("tool_missing", ErrorClass.TOOL_MISSING),
    404: ("tool_missing", ErrorClass.TOOL_MISSING),
    413: ("tool_missing", ErrorClass.TOOL_MISSING),
    418: ("http_418", ErrorClass.UNKNOWN),
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_service_that_fails_is_asked_once_and_classified_by_its_status(
    status: int, ask: Ask, provider: Provider
) -> None:
    failed = failure(ask, Fault(status, error={"type": "some_error", "message": "Not now."}))

    assert (failed.code, failed.error_class) == STATUSES[status]
    assert "Not now." in failed.message
    assert len(provider.asked) == 1, "an SDK tried again by itself"


def test_what_a_service_asks_to_wait_is_honoured(ask: Ask) -> None:
    failed = failure(ask, Fault(429, {"Retry-After": "7"}, error={"type": "rate_limit_error", "message": "Slower."}))

    assert failed.asked_wait().total_seconds() == 7


def test_an_account_without_money_is_no_rate_limit(ask: Ask) -> None:
    failed = failure(ask, Fault(429, error={"type": "insufficient_quota", "message": "You ran out of quota."}))

    assert failed.code == "access_denied"


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"error": "gone"}', b'{"error": {"message": 7}}', b"[]"])
def test_an_error_without_words_is_told_by_its_status(body: bytes, ask: Ask) -> None:
    assert failure(ask, Fault(503, body=body)).code == "unavailable"


def test_a_wrong_key_is_refused_and_not_repeated(ask: Ask) -> None:
    failed = failure(ask, call("claim_completion", says="Done."), key="sk-wrong-0123456789")

    assert failed.code == "credential_refused"
    assert "sk-wrong" not in failed.message


def test_the_deadline_is_for_all_of_the_answer_however_it_drips(ask: Ask) -> None:
    assert failure(ask, Fault(drips=True), seconds=0.4).code == "no_answer"


def test_a_service_that_is_not_there_is_unreachable(tool: Tool) -> None:
    with pytest.raises(ToolFailed) as failed:
        tool.perform(HttpService("http://127.0.0.1:1/v1", KEY), Call(tool.name, PARAMS), monotonic() + 5)

    assert (failed.value.failure.code, failed.value.failure.executed) == ("unreachable", False)


@pytest.mark.parametrize("stop", ["refusal", "filter"])
def test_a_model_that_declines_leads_to_a_person_and_is_paid_for(stop: str, ask: Ask) -> None:
    result = ask(Says(text="I cannot help with that.", stop=stop))

    assert result.data["operation"] == "ask_a_person"
    assert "declined to propose anything" in result.data["arguments"]["question"]
    assert result.used is not None


def test_a_tool_that_was_never_offered_is_kept_as_proposed(ask: Ask) -> None:
    # Whether it may be done is not the adapter's to judge: the control layer refuses it, and says so.
    assert ask(call("wire_money", to="me")).data["operation"] == "wire_money"


def test_what_cannot_be_stored_is_taken_out_of_what_a_model_says(ask: Ask) -> None:
    # Half of a surrogate pair, and NUL: JSON can name both, and no database keeps them.
    result = ask(call("claim_\ud800", says="Done\x00 \ud800."))

    assert json.dumps(dict(result.data), ensure_ascii=False).encode()
    assert result.data["arguments"]["says"] == "Done\N{REPLACEMENT CHARACTER} ?."


def test_what_a_model_calls_itself_and_its_tools_is_kept_short(ask: Ask) -> None:
    result = ask(call("x" * 5_000 + "\x00"))

    assert len(result.data["operation"]) == 100
    assert len(result.says) < 200


def test_a_missing_package_is_said_with_its_cure(
    tool: Tool, ask: Ask, monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    monkeypatch.setitem(sys.modules, tool.service, None)

    failed = failure(ask, call("claim_completion", says="Done."))

    assert (failed.code, failed.executed) == ("tool_missing", False)
    assert f"pip install 'takeover[{tool.service}]'" in failed.message
    assert not provider.asked
