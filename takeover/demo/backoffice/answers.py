"""What leaves the back office: an answer, or a refusal on the way to one."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.responses import JSONResponse, Response, StreamingResponse

CHUNK = 64 * 1024

JSON = "application/json"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Answer:
    """`body` as an object is sent as JSON, as bytes it is sent as it is; `padding` streams that many bytes after it."""

    status: int
    body: Mapping[str, object] | bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    padding: int = 0

    def response(self) -> Response:
        headers = {**self.headers, "Cache-Control": "no-store"}
        if not isinstance(self.body, bytes):
            return JSONResponse(dict(self.body), self.status, headers)
        if self.padding:
            return StreamingResponse(padded(self.body, self.padding), self.status, headers, JSON)
        return Response(self.body, self.status, headers, JSON)


async def padded(start: bytes, padding: int) -> AsyncIterator[bytes]:
    yield start
    chunk = b"x" * CHUNK
    for _ in range(padding // CHUNK):
        await asyncio.sleep(0)  # lets the loop notice that the reader has left
        yield chunk


def error(status: int, code: str, message: str, **more: object) -> Answer:
    """Every error has a stable code for programs and a sentence for people."""
    return Answer(status, {"code": code, "message": message, **more})


class Refusal(Exception):
    """Raised where a call cannot go on; carries the answer that it gets instead."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer
        self.said = {} if isinstance(answer.body, bytes) else answer.body


def invalid(field_name: str, message: str) -> Refusal:
    return Refusal(error(422, "invalid_input", message, field=field_name))
