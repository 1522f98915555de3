"""The connection to the caller: cutting it without an answer, and waiting on it."""

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

# How often a waiting call looks whether the process is about to stop.
GLANCE = 0.2


class CuttableProtocol(H11Protocol):
    """ASGI has no word for "hang up", so each connection hands its own to the calls that come in on it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        super().connection_made(transport)
        self.app_state = {**self.app_state, "cut": transport.abort}


class Cut(Response):
    """Answers by hanging up: not one byte leaves."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cut: Callable[[], None] = scope["state"]["cut"]
        cut()
        while (await receive())["type"] != "http.disconnect":
            pass  # uvicorn answers 500 for us unless it has noticed that nobody is there


async def left(request: Request, seconds: float) -> bool:
    """Waits until the caller leaves or the time is up; says whether it left."""
    try:
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True


async def hang(request: Request, seconds: float, *, even_alone: bool) -> bool:
    """Waits the time out (or, unless `even_alone`, until the caller leaves). False: the process is stopping."""
    ends = asyncio.get_running_loop().time() + seconds
    alone = False
    while (rest := ends - asyncio.get_running_loop().time()) > 0:
        if request.app.state.stopping():
            return False
        if alone:
            await asyncio.sleep(min(rest, GLANCE))
        elif await left(request, min(rest, GLANCE)):
            if not even_alone:
                return True
            alone = True
    return True
