"""Letting go of what need not be kept: the texts of events, and the requests and answers of steps (docs/database.md).

Only of runs that have ended. The database takes them away, by functions that check what they are asked for; events with
their digests, steps and handoffs stay.
"""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import connection

from runs.models import Glance

log = logging.getLogger(__name__)
AT_ONCE = 1_000  # rows looked at in one statement
IN_ONE_TICK = 20  # statements; what is left waits for the next tick


class Retention:
    """What a sweeper takes away, a little at a time. It goes through what is old in order, and then begins again."""

    def __init__(self) -> None:
        self.past = {"payloads": 0, "texts": 0}

    def tick(self) -> int:
        """Returns how many rows went. Raises DatabaseError."""
        kept_for: dict[str, timedelta | None] = {"payloads": settings.PAYLOADS_KEPT, "texts": settings.TEXTS_KEPT}
        gone = sum(self._forget(what, kept) for what, kept in kept_for.items() if kept)
        Glance.objects.forget()
        if gone:
            log.info("%d requests, answers and texts of runs that ended long ago are not kept any more", gone)
        return gone

    def _forget(self, what: str, kept: timedelta) -> int:
        total = 0
        with connection.cursor() as cursor:
            for _ in range(IN_ONE_TICK):
                cursor.execute(
                    f"SELECT gone, reached FROM runs_forget_{what}(%s::interval, %s, %s)",  # noqa: S608 - one of two words
                    [f"{kept.days} days", self.past[what], AT_ONCE],
                )
                gone, reached = cursor.fetchone()
                total += gone
                self.past[what] = reached or 0
                if reached is None:
                    break
        return total
