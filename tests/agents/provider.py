"""A model service on a loopback port that speaks both wire formats, with a model in it that says what a test tells it.

It refuses what the real ones refuse: no key, a schema that no strict mode takes, a request for several calls at once.
What it was asked is kept. Each answer is given once, in order; the last one for as long as it is asked.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-0123456789abcdef"
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


@dataclass(frozen=True)
class Says:
    """What the model answers: `calls` are names with arguments; a text of arguments is sent as it is."""

    calls: tuple[tuple[str, Any], ...] = ()
    text: str = ""
    stop: str = ""  # "length", "refusal", "filter"
    put_in: object = 1200
    got_out: object = 40
    usage: bool = True


@dataclass(frozen=True)
class Fault:
    """An answer that is none."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: Mapping[str, Any] = field(default_factory=dict)
    drips: bool = False  # byte after byte, for as long as somebody listens
    cut: bool = False  # half of the body, and then the connection ends


Answer = Says | Fault | Callable[[dict[str, Any]], Says | Fault]


def call(name: str, **arguments: Any) -> Says:
    return Says(calls=((name, arguments),))


class Provider(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.over = threading.Event()
        self.forget()

    def forget(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave early are what some tests are about."""

    def next(self, request: dict[str, Any]) -> Says | Fault:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(request) if callable(answer) else answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running() -> Iterator[Provider]:
    with Provider() as provider:
        threading.Thread(target=provider.serve_forever, args=(0.01,), daemon=True).start()
        yield provider
        provider.over.set()
        provider.shutdown()


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(request)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if wrong := self._what_is_wrong(request):
            self._send(Fault(*wrong))
            return
        answer = self.server.next(request)
        if isinstance(answer, Says):
            words = as_chat if self.path == CHAT else as_messages
            answer = Fault(body=json.dumps(words(answer, request["model"])).encode())
        self._send(answer)

    def _what_is_wrong(self, request: dict[str, Any]) -> tuple[int, dict[str, str], bytes] | None:
        chat = self.path == CHAT
        if self.path not in {CHAT, MESSAGES} or (not chat and not self.headers.get("anthropic-version")):
            return 404, {}, error("not_found_error", "no such address")
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            return 401, {}, error("authentication_error", "invalid key")
        if chat:
            schemas = [(tool["function"]["strict"], tool["function"]["parameters"]) for tool in request["tools"]]
            one_call = request["tool_choice"] == "required" and request["parallel_tool_calls"] is False
            limit = request.get("max_completion_tokens")
        else:
            schemas = [(tool["strict"], tool["input_schema"]) for tool in request["tools"]]
            one_call = request["tool_choice"]["disable_parallel_tool_use"]
            limit = request.get("max_tokens")
        if not one_call or type(limit) is not int or request.get("stream"):
            return 400, {}, error("invalid_request_error", "several calls, no limit, or a stream")
        if not all(is_strict and takes(schema) for is_strict, schema in schemas):
            return 400, {}, error("invalid_request_error", "a schema that strict mode does not take")
        return None

    def _send(self, answer: Fault) -> None:
        body = answer.body or (json.dumps({"type": "error", "error": answer.error}).encode() if answer.error else b"")
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(10**6 if answer.drips else len(body)))
        self.end_headers()
        if answer.drips:
            while not self.server.over.wait(0.02):
                self.wfile.write(b" ")
                self.wfile.flush()
        self.wfile.write(body[: len(body) // 2] if answer.cut else body)


def error(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


def takes(schema: Mapping[str, Any]) -> bool:
    """Whether the narrower of both strict modes takes a schema."""
    if not schema.keys() <= {"type", "enum", "const", "anyOf", "items", "properties", "required", "description",
                             "additionalProperties"}:  # fmt: skip
        return False
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False and schema["required"] == [*schema["properties"]]
        return closed and all(map(takes, schema["properties"].values()))
    return all(map(takes, [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]))


def as_chat(says: Says, model: str) -> dict[str, Any]:
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(says.calls)
    ]
    refused = says.text if says.stop == "refusal" else None
    stop = {"length": "length", "filter": "content_filter", "refusal": "stop"}.get(says.stop)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused else says.text or None,
        "refusal": refused,
    }
    if calls:
        message["tool_calls"] = calls
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": f"{model}-2026-09-01",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": stop or ("tool_calls" if calls else "stop"),
            }
        ],
        **(
            {"usage": {"prompt_tokens": says.put_in, "completion_tokens": says.got_out, "total_tokens": 0}}
            if says.usage
            else {}
        ),
    }


def as_messages(says: Says, model: str) -> dict[str, Any]:
    text = [{"type": "text", "text": says.text}] if says.text and says.stop not in {"refusal", "filter"} else []
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}
        for number, (name, given) in enumerate(says.calls)
    ]
    stop = {"length": "max_tokens", "filter": "refusal", "refusal": "refusal"}.get(says.stop)
    refusal = {"type": "refusal", "category": None, "explanation": says.text or None}
    # What is read from a cache is counted beside the rest.
    usage = {"input_tokens": says.put_in, "output_tokens": says.got_out, "cache_read_input_tokens": None}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": f"{model}-20260901",
        "content": [*text, *calls],
        "stop_reason": stop or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "stop_details": refusal if stop == "refusal" else None,
        **({"usage": usage} if says.usage else {}),
    }
