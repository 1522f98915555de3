"""What every request and every answer goes through, and the pages for requests that lead nowhere."""

import logging
import re
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string

from takeover.api.bodies import API

SESSION = re.compile(r"[a-z0-9]{1,64}")

Answer = Callable[[HttpRequest], HttpResponseBase]


# Requests and answers


def Edge(get_response: Answer) -> Answer:  # noqa: N802 - it stands among classes
    def answer(request: HttpRequest) -> HttpResponseBase:
        return _private(_refusal(request) or get_response(request))

    return answer


def _refusal(request: HttpRequest) -> HttpResponse | None:
    """What Django would stumble over is dropped, or refused before anything reads the form."""
    is_page = not request.path.startswith(API)  # the API knows no sessions, and decodes by itself what it is sent
    if not is_page or not SESSION.fullmatch(request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")):
        request.COOKIES.pop(settings.SESSION_COOKIE_NAME, None)  # it may hold what no database can look up
    if is_page and (request.encoding or "utf-8").lower() != "utf-8":
        return HttpResponse("A form is sent in UTF-8.\n", status=400, content_type="text/plain; charset=utf-8")
    return None


def _private(response: HttpResponseBase) -> HttpResponseBase:
    """Pages carry names and counters, error pages too; files have been answered before they come here."""
    response.headers.setdefault("Cache-Control", "no-store, private")
    return response


class NoTraceOfRefusals(logging.Filter):
    """A refused request is one line in the log, and none where the API has told of it at its own, limited rate; only
    our own faults have a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "status_code", 500) >= 500:  # Django sets it, and the request
            return True
        record.exc_info = record.exc_text = None
        request = getattr(record, "request", None)
        return request is None or not request.path.startswith(API)


# Pages. Django's own read the form again, which fails once more when the form was at fault.


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Says what is wrong where we found it; what Django finds suspicious it describes to the log."""
    said = str(exception) if isinstance(exception, BadRequest) else ""
    return render(request, "400.html", {"exception": said}, status=400)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    said = exception.args[0] if exception.args else ""
    return render(request, "404.html", {"exception": said if isinstance(said, str) else ""}, status=404)


def fault(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(render_to_string("500.html"), status=500)
