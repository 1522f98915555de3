"""What of a body reaches Django."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from takeover.api.bodies import MOST_BYTES, Send, ShortBodies
from takeover.api.bodies import Receive as Receiving
from takeover.asgi import application

END = {"type": "http.disconnect"}


def handed_on(path: str, *pieces: bytes) -> list[Mapping[str, Any]]:
    """What an application behind the door is handed, until the end of the connection."""
    sent = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    events: Iterator[Mapping[str, Any]] = iter([*sent[:-1], {**sent[-1], "more_body": False}, END])
    got: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return next(events)

    async def send(event: Mapping[str, Any]) -> None:
        raise AssertionError(event)

    async def behind(scope: dict[str, Any], receive: Receiving, send: Send) -> None:
        while not got or got[-1] != END:
            got.append(await receive())

    asyncio.run(ShortBodies(behind)({"type": "http", "path": path}, receive, send))
    return got


def test_the_site_is_behind_it() -> None:
    assert isinstance(application, ShortBodies)


@pytest.mark.parametrize("pieces", [(b"x" * 10_000,) * 50, (b"x" * 1_000_000,), (b"x" * MOST_BYTES, b"x", b"x")])
def test_a_body_that_is_too_long_ends_one_byte_after_its_limit(pieces: tuple[bytes, ...]) -> None:
    *body, end = handed_on("/api/callbacks/back_office/", *pieces)

    assert sum(len(event["body"]) for event in body) == MOST_BYTES + 1
    assert [event["more_body"] for event in body] == [True] * (len(body) - 1) + [False]
    assert end == END


@pytest.mark.parametrize(
    ("path", "pieces"), [("/api/callbacks/back_office/", (b"{", b"}")), ("/queue/", (b"x" * 50_000, b"x"))]
)
def test_everything_else_is_handed_on_as_it_came(path: str, pieces: tuple[bytes, ...]) -> None:
    *body, _ = handed_on(path, *pieces)

    assert [event["body"] for event in body] == list(pieces)
    assert [event["more_body"] for event in body] == [True, False]
