"""What of a body reaches Django."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from takeover.api.bodies import MOST_BYTES, Send, ShortBodies
from takeover.api.bodies import Receive as Receiving
from takeover.asgi import application

MOST_OF_A_FORM = 2_621_440  # bytes, Django's own limit
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


@pytest.mark.parametrize(("path", "most"), [("/api/callbacks/back_office/", MOST_BYTES), ("/sign-in/", MOST_OF_A_FORM)])
@pytest.mark.parametrize(
    "pieces",
    [
        (b"x" * 10_000,) * 300,
        (b"x" * 3_000_000,),
        (b"x" * MOST_BYTES, b"x" * (MOST_OF_A_FORM - MOST_BYTES), b"x", b"x"),
    ],
)
def test_a_body_that_is_too_long_ends_one_byte_after_its_limit(path: str, most: int, pieces: tuple[bytes, ...]) -> None:
    *body, end = handed_on(path, *pieces)

    assert sum(len(event["body"]) for event in body) == most + 1
    assert [event["more_body"] for event in body] == [True] * (len(body) - 1) + [False]
    assert end == END


@pytest.mark.parametrize(
    ("path", "pieces"), [("/api/callbacks/back_office/", (b"{", b"}")), ("/queue/", (b"x" * 50_000, b"x"))]
)
def test_everything_else_is_handed_on_as_it_came(path: str, pieces: tuple[bytes, ...]) -> None:
    *body, _ = handed_on(path, *pieces)

    assert [event["body"] for event in body] == list(pieces)
    assert [event["more_body"] for event in body] == [True, False]


def test_a_form_that_is_too_long_is_refused_and_not_cut_short(live_site: str) -> None:
    """Over a real connection and in pieces, so that nothing says beforehand how long it is."""
    address, token = urlsplit(live_site), "x" * 32
    sent = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": f"csrftoken={token}"}
    form = [f"csrfmiddlewaretoken={token}&username=".encode(), *[b"a" * 500_000] * 8]
    with closing(HTTPConnection(address.hostname or "", address.port, timeout=20)) as door:
        door.request("POST", "/sign-in/", iter(form), sent, encode_chunked=True)
        answer = door.getresponse()
        answer.read()

    assert answer.status in {400, 413}  # Django's releases differ
