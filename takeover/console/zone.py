"""Times in the viewer's own zone: the one they chose, or else the one that their browser has told us."""

from collections.abc import Callable
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

CHOSEN = "zone"  # set by takeover.console.you
BROWSERS = "timezone"  # set by console.js

Answer = Callable[[HttpRequest], HttpResponseBase]


def _zone(request: HttpRequest) -> ZoneInfo | None:
    return _named(request.COOKIES.get(CHOSEN, "")) or _named(request.COOKIES.get(BROWSERS, ""))


def _named(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):  # unknown, or not a zone's name at all
        return None


def BrowserTimeZone(get_response: Answer) -> Answer:  # noqa: N802 - it stands among classes
    def answer(request: HttpRequest) -> HttpResponseBase:
        with timezone.override(_zone(request)):
            return get_response(request)

    return answer
