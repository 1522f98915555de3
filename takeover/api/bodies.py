"""How much of a request to the API is read at all: Django itself would first put a body of any size on the disk."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

MOST_BYTES = 16 * 1024
API = "/api/"

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Coroutine[Any, Any, None]]


class ShortBodies:
    """Hands on one byte more than is allowed and no further: enough for a view to see that it is too much."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        is_ours = scope["type"] == "http" and scope["path"].startswith(API)
        await self.application(scope, _short(receive) if is_ours else receive, send)


def _short(receive: Receive) -> Receive:
    left = MOST_BYTES + 1

    async def receive_short() -> Mapping[str, Any]:
        nonlocal left
        event = await receive()
        while event["type"] == "http.request" and not left:
            event = await receive()  # Django counts on it that nothing follows a body but the end of the connection
        if event["type"] != "http.request":
            return event
        body = event.get("body", b"")[:left]
        left -= len(body)
        return {**event, "body": body, "more_body": event.get("more_body", False) and left > 0}

    return receive_short
