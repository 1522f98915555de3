"""The guarantee behind the wake-ups: whatever is due and was forgotten is found here.

Needs the database alone. Where the broker is out of reach it carries runs on itself; two sweepers do no harm, because a
run is only ever taken by its conditional claim.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from time import monotonic
from uuid import UUID

from runs.engine import stopping
from runs.engine.advance import advance
from runs.engine.tasks import wake
from runs.models import Run

log = logging.getLogger(__name__)
AT_ONCE = 500  # runs looked at in one pass, the most overdue first
QUIET = 10.0  # seconds before a run that was already woken is woken again
BY_ITSELF = 20  # runs carried on in one pass while the broker is away


class Sweeper:
    def __init__(self, sign: Callable[[], object] = lambda: None) -> None:
        self.sign = sign  # called often enough to show that this sweeper is at work
        self.woken: dict[tuple[UUID, datetime], float] = {}  # what was due, and when it was woken for that

    def sweep(self) -> int:
        """One pass. Returns how many due runs it woke or carried on."""
        now = monotonic()
        self.woken = {due: at for due, at in self.woken.items() if now - at < QUIET}
        due_runs = Run.objects.due().order_by("due_at").values_list("pk", "due_at")[:AT_ONCE]
        due = [(run, due_at) for run, due_at in due_runs if due_at and (run, due_at) not in self.woken]
        broker_is_there, carried = True, 0
        for run, due_at in due:
            if stopping.asked():
                break
            if broker_is_there and (broker_is_there := wake(run)):
                self.woken[run, due_at] = now
            elif carried < BY_ITSELF:
                self.carry_on(run)
                carried += 1
                self.sign()
        return len(due)

    def carry_on(self, run: UUID) -> None:
        try:
            advance(run)
        except Exception:
            log.exception("Run %s could not be carried on", run)  # its lease runs out; the next pass tries again
