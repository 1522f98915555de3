"""Models behind an OpenAI-compatible chat completions service, asked through OpenAI's SDK."""

from typing import Any

import httpx2

from runs.agents import answers
from runs.domain.states import StepKind
from runs.tools.http import HttpService
from runs.tools.tool import Call, Result, Service, Tool


def _ask(service: Service, call: Call, until: float) -> Result:
    try:
        import openai
    except ImportError:
        raise answers.not_installed("openai") from None
    params: Any = call.params

    def ask(connection: HttpService, http: httpx2.Client) -> Any:
        client = openai.OpenAI(api_key=connection.token, base_url=connection.url, http_client=http, max_retries=0)
        return client.chat.completions.with_raw_response.create(
            model=params["model"],
            messages=[
                {"role": "system", "content": params["system"]},
                {"role": "user", "content": "\n".join(params["record"])},
            ],
            tools=[_tool(tool) for tool in params["tools"]],
            tool_choice="required",
            parallel_tool_calls=False,
            extra_body={params["limit_name"]: params["most_output"]},
        )

    data = answers.answered(ask, service, until)
    usage = _usage(data)
    match data:
        case {"choices": [{"finish_reason": "length"}, *_]}:
            raise answers.cut_off(call)
        case {"choices": [{"finish_reason": "content_filter"}, *_]}:
            return answers.declined(call, data, None, usage)
        case {"choices": [{"message": {"refusal": str(said)}}, *_]} if said:
            return answers.declined(call, data, said, usage)
        case {"choices": [{"message": {"tool_calls": [{"function": {"name": str(name), "arguments": given}}]}}]}:
            return answers.proposed(call, data, name, given, usage)
        case {"choices": [{"message": {"tool_calls": [_, _, *_] as calls}}, *_]}:
            raise answers.not_one_call(len(calls))
    raise answers.not_one_call(0)


def _tool(tool: dict[str, Any]) -> Any:
    function = {"name": tool["name"], "description": tool["says"], "parameters": tool["arguments"], "strict": True}
    return {"type": "function", "function": function}


def _usage(data: dict[str, Any]) -> tuple[object, object]:
    match data:
        case {"usage": {"prompt_tokens": put_in, "completion_tokens": got_out}}:
            return put_in, got_out
    return None, None


ASK_OPENAI = Tool("ask_openai", "Ask the model", "OpenAI-compatible model", "openai", StepKind.TURN, _ask, deadline=60)
