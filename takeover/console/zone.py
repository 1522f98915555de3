"""Times in the viewer's own zone: the one they chose, or else the one that their browser has told us."""

from collections.abc import Awaitable, Callable
from zoneinfo import ZoneInfo

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware

CHOSEN = "zone"  # set by takeover.console.you
BROWSERS = "timezone"  # set by console.js

Answer = Callable[[HttpRequest], HttpResponseBase]
AsyncAnswer = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def _zone(request: HttpRequest) -> ZoneInfo | None:
    return _named(request.COOKIES.get(CHOSEN, "")) or _named(request.COOKIES.get(BROWSERS, ""))


def _named(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):  # unknown, or not a zone's name at all
        return None


@sync_and_async_middleware
def BrowserTimeZone(get_response: Answer | AsyncAnswer) -> Answer | AsyncAnswer:  # noqa: N802 - it stands among classes
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with timezone.override(_zone(request)):
                return await get_response(request)  # type: ignore[no-any-return]

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with timezone.override(_zone(request)):
            return get_response(request)  # type: ignore[return-value]

    return answer
