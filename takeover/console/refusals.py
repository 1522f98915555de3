"""Refused attempts at the web's edge: on record for people who are signed in, a count and few log lines for strangers.

What the rules refuse is recorded by `runs.interventions`; here it is about pages that somebody may not see at all. A
stranger who only looks is led to the sign-in page, which is no attempt at anything.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from time import monotonic

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from runs.models import Refusal

log = logging.getLogger(__name__)
QUIET = 10.0  # seconds between two log lines
ONE_REFUSED = "%d attempt by somebody who is not signed in was refused (%d since the start)"
MANY_REFUSED = "%d attempts by people who are not signed in were refused (%d since the start)"


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
        log.warning(ONE_REFUSED if new == 1 else MANY_REFUSED, new, total)


strangers = Strangers()


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The page for what somebody may not see; the attempt goes on record."""
    if isinstance(request.user, User):
        put_on_record(request, request.user, "see", "forbidden")
    return render(request, "403.html", {"exception": str(exception)}, status=403)


def put_on_record(request: HttpRequest, person: User, verb: str, code: str) -> None:
    match = request.resolver_match
    Refusal.objects.count_up(None, person, f"{verb} {match.view_name if match else 'a page'}", code, timezone.now())
