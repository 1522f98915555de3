"""How much of a request is read at all: Django itself would first put any body of any size on the disk."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from django.conf import settings

MOST_BYTES = 16 * 1024  # of a call to the API; of a form, as many as Django will take
API = "/api/"

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Coroutine[Any, Any, None]]


class ShortBodies:
    """Hands on one byte more than is allowed and no further: enough to see that it is too much."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            is_call = scope["path"].startswith(API)
            receive = _short(receive, MOST_BYTES if is_call else settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        await self.application(scope, receive, send)


def _short(receive: Receive, most: int) -> Receive:
    left = most + 1

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
