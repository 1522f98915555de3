"""Refused attempts at the web's edge: on record for people who are signed in, a count and few log lines for strangers.

What the rules refuse is recorded by `runs.interventions`; here it is about pages that somebody may not see at all.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.views.defaults import permission_denied

from runs.models import Refusal

log = logging.getLogger(__name__)
QUIET = 10.0  # seconds between two log lines


class Strangers:
    """Counts per process. A stranger gets no row and no line of their own: neither can be filled from outside."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.said = 0
        self.said_at = float("-inf")

    def refuse(self, attempted: str) -> None:
        with self.lock:
            self.counts[attempted] += 1
            total = self.counts.total()
            if self.clock() - self.said_at < QUIET:
                return
            new, self.said, self.said_at = total - self.said, total, self.clock()
        log.warning("%d attempts by people who are not signed in were refused (%d since the start)", new, total)


strangers = Strangers()


class SignInRequired(LoginRequiredMiddleware):
    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> Any:
        strangers.refuse("page")
        return super().handle_no_permission(request, view_func)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """The page for what somebody may not see; the attempt goes on record."""
    if isinstance(request.user, User):
        match = request.resolver_match
        attempted = f"see {match.view_name if match else 'a page'}"
        Refusal.objects.count_up(None, request.user, attempted, "forbidden", timezone.now())
    else:
        strangers.refuse("page")
    return permission_denied(request, exception)
