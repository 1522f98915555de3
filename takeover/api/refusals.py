"""Refused callbacks: a count on record and a line in the log, neither of which can be filled from outside."""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from time import monotonic

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from runs.models import Refusal

log = logging.getLogger(__name__)
QUIET = 10.0  # seconds between two entries of one kind


class Tally:
    """Counts per process. A kind is a service of ours and a code; it is written down at once, and then no more often
    than every QUIET seconds, with all that came meanwhile. What a burst ends with is written down with the next one.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.written_at: dict[tuple[str, str], float] = {}

    def count(self, service: str, code: str) -> None:
        kind = (service if service in settings.SERVICES else "unknown", code)
        with self.lock:
            self.counts[kind] += 1
            if self.clock() - self.written_at.get(kind, float("-inf")) < QUIET:
                return
            self.written_at[kind] = self.clock()
            count = self.counts.pop(kind)
        service, code = kind
        log.warning("Callbacks refused: %d of %s (%s)", count, service, code)
        try:
            Refusal.objects.count_up(None, None, f"callback of {service}", code, timezone.now(), count)
        except (DatabaseError, InterfaceError) as problem:
            log.warning("That could not be put on record: %s", problem)


tally = Tally()
