"""What the adapters for model services share: the way out, what a service's errors mean, and what an answer comes to.

An SDK puts a request into its service's words. It is sent by the connection that the engine hands over, so the total
deadline, the cap on an answer's size, the credential and the pool are those of every other call, and there is one
layer of retries: the engine's.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import httpx2

from runs.agents import prompt
from runs.agents.model import MOST_TOKENS, tokens_and_cost
from runs.domain.budget import Dimension
from runs.domain.errors import Failure
from runs.domain.redaction import clean, clean_text
from runs.tools.http import HttpService, failure_of, json_object
from runs.tools.tool import Call, Result, Service, ToolFailed

MOST_ARGUMENTS = 20_000  # characters
LONGEST_NAME = 100
LONGEST_QUOTE = 300

# A request that would be refused again as it is: this model, or this address, is not one that can be asked so.
UNFIT = {400, 404, 405, 413, 422}
OUT_OF_MONEY = {"insufficient_quota", "billing_error", "billing_hard_limit_reached"}


class ByService(httpx2.BaseTransport):
    """The HTTP transport of an SDK: what it sends goes out over `service`, whole, before `until`."""

    def __init__(self, service: HttpService, until: float) -> None:
        self.service = service
        self.until = until

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        status, headers, content = self.service.send(
            request.method, str(request.url), dict(request.headers), until=self.until, content=request.read()
        )
        data = json_object(content)
        if not 200 <= status < 300:
            raise ToolFailed(_failure(status, headers, data or {}))
        if data is None:
            raise ToolFailed(Failure("invalid_output", "The answer was not a JSON object."))
        return httpx2.Response(status, headers={"Content-Type": "application/json"}, content=content)


def answered(ask: Callable[[HttpService, httpx2.Client], Any], service: Service, until: float) -> dict[str, Any]:
    """The JSON object that a service answers what `ask` sends. Raises ToolFailed for everything else.

    `ask` gets the address with its key, and the client to send with. It returns an SDK's raw response: what came is
    looked at by us, because an SDK takes any answer for what it should be.
    """
    connection = cast(HttpService, service)  # the SDKs speak HTTP and nothing else
    with httpx2.Client(transport=ByService(connection, until), trust_env=False) as client:
        try:
            data: dict[str, Any] = ask(connection, client).http_response.json()
        except Exception as problem:
            # One SDK lets a transport's error through, the other puts it into one of its own.
            if isinstance(problem.__cause__, ToolFailed):
                raise problem.__cause__ from None
            raise
    return data


def _failure(status: int, headers: Mapping[str, str], data: Mapping[str, Any]) -> Failure:
    error = data.get("error")
    error = error if isinstance(error, dict) else {"message": error}
    said = error.get("message")
    told = {"message": said} if isinstance(said, str) else {}
    failure = failure_of(status, headers, told)
    if status in UNFIT:
        quoted = f": “{said[:LONGEST_QUOTE]}”" if told and isinstance(said, str) else "."
        return Failure("tool_missing", f"The model cannot be asked this way (HTTP {status}){quoted}")
    if status == 402 or (status == 429 and {str(error.get("code")), str(error.get("type"))} & OUT_OF_MONEY):
        return Failure("access_denied", failure.message)
    if status in {408, 409, 529}:
        return Failure("unavailable", failure.message, retry_after=failure.retry_after)
    return failure


def proposed(call: Call, data: Mapping[str, Any], name: str, arguments: Any, usage: tuple[object, object]) -> Result:
    """A model's one call as the answer of a turn. Whether it may be proposed is not judged here."""
    if isinstance(arguments, str):
        # A call without arguments comes as an empty text from some services.
        arguments = json_object(arguments) if arguments.strip() else {}
    if not isinstance(arguments, dict):
        raise ToolFailed(Failure("invalid_output", "The model called a tool with arguments that are no JSON object."))
    arguments = clean(arguments)
    if len(json.dumps(arguments)) > MOST_ARGUMENTS:
        raise ToolFailed(Failure("too_large", f"The model's arguments were longer than {MOST_ARGUMENTS} characters."))
    name = clean_text(name)[:LONGEST_NAME]
    return _result(call, data, name, arguments, usage, f"Proposes {name}")


def declined(call: Call, data: Mapping[str, Any], said: object, usage: tuple[object, object]) -> Result:
    """The model, or a filter before it, will not go on: a person is asked, because asking again would be of no use."""
    words = f" “{said[:LONGEST_QUOTE]}”" if isinstance(said, str) and said else ""
    question = {"question": f"The model declined to propose anything.{words} How should this go on?"}
    return _result(call, data, prompt.ASK, question, usage, "Declines to propose anything")


def _result(
    call: Call, data: Mapping[str, Any], name: str, arguments: Any, usage: tuple[object, object], says: str
) -> Result:
    tokens = [count for count in usage if type(count) is int and 0 <= count <= MOST_TOKENS]
    used = tokens_and_cost(call.params, *tokens) if len(tokens) == 2 else None  # None: all that was set aside
    answer = {
        "operation": name,
        "arguments": arguments,
        "model": _word(data.get("model")) or call.params["model"],
        "prompt_version": call.params["prompt_version"],
        "input_tokens": used and used[Dimension.INPUT_TOKENS],
        "output_tokens": used and used[Dimension.OUTPUT_TOKENS],
    }
    return Result(answer, says, reference=_word(data.get("id")), used=used)


def _word(value: object) -> str:
    return clean_text(value)[:LONGEST_NAME] if isinstance(value, str) else ""


def cut_off(call: Call) -> ToolFailed:
    limit = call.params["most_output"]
    says = f"The model's answer was cut off: it may have {limit} tokens, and what fits beside the prompt."
    return ToolFailed(Failure("too_large", says))


def not_one_call(calls: int) -> ToolFailed:
    did = "called no tool" if calls == 0 else f"called {calls} tools at once"
    return ToolFailed(Failure("invalid_output", f"The model {did}, and was asked for one call."))


def not_installed(package: str) -> ToolFailed:
    says = f"The Python package {package!r} is not installed: pip install 'takeover[{package}]'."
    return ToolFailed(Failure("tool_missing", says, executed=False))
