"""Models behind Anthropic's messages service, asked through Anthropic's SDK."""

from typing import Any

import httpx2

from runs.agents import answers
from runs.domain.states import StepKind
from runs.tools.http import HttpService
from runs.tools.tool import Call, Result, Service, Tool

READ_FROM_A_CACHE = ("cache_creation_input_tokens", "cache_read_input_tokens")  # counted beside the others


def _ask(service: Service, call: Call, until: float) -> Result:
    try:
        import anthropic
    except ImportError:
        raise answers.not_installed("anthropic") from None
    params: Any = call.params

    def ask(connection: HttpService, http: httpx2.Client) -> Any:
        client = anthropic.Anthropic(
            api_key=connection.token,
            base_url=connection.url,
            http_client=http,
            max_retries=0,
            timeout=ASK_ANTHROPIC.deadline,  # without, it refuses to ask for a long answer; ours is kept elsewhere
            open_telemetry=False,
        )
        return client.messages.with_raw_response.create(
            model=params["model"],
            max_tokens=params["most_output"],
            system=params["system"],
            messages=[{"role": "user", "content": "\n".join(params["record"])}],
            tools=[_tool(tool) for tool in params["tools"]],
            # Models that think refuse to be forced to call a tool, and some cannot be kept from thinking.
            tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        )

    data = answers.answered(ask, service, until)
    usage = _usage(data)
    match data:
        case {"stop_reason": "max_tokens" | "model_context_window_exceeded"}:
            raise answers.cut_off(call)
        case {"stop_reason": "refusal"}:
            return answers.declined(call, data, _said(data), usage)
        case {"content": [*blocks]}:
            calls = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"]
            match calls:
                case [{"name": str(name), "input": given}]:
                    return answers.proposed(call, data, name, given, usage)
            raise answers.not_one_call(len(calls) if len(calls) > 1 else 0)
    raise answers.not_one_call(0)


def _tool(tool: dict[str, Any]) -> Any:
    return {"name": tool["name"], "description": tool["says"], "input_schema": tool["arguments"], "strict": True}


def _said(data: dict[str, Any]) -> object:
    match data:
        case {"stop_details": {"explanation": said}}:
            return said
    return None


def _usage(data: dict[str, Any]) -> tuple[object, object]:
    match data:
        case {"usage": {"input_tokens": int(put_in), "output_tokens": got_out, **more}}:
            cached = [more.get(name) for name in READ_FROM_A_CACHE]
            return put_in + sum(count for count in cached if type(count) is int), got_out
    return None, None


ASK_ANTHROPIC = Tool("ask_anthropic", "Ask the model", "Anthropic model", "anthropic", StepKind.TURN, _ask, deadline=60)
