"""The guarantee behind the wake-ups: whatever is due and was forgotten is found here.

Needs the database alone. Where the broker is out of reach it carries runs on itself; two sweepers do no harm, because a
run is only ever taken by its conditional claim.
"""

import logging
from time import monotonic
from uuid import UUID

from runs.engine.advance import advance
from runs.engine.tasks import wake
from runs.models import Run

log = logging.getLogger(__name__)
AT_ONCE = 500  # runs looked at in one pass, the most overdue first
QUIET = 10.0  # seconds before a run that was already woken is woken again
BY_ITSELF = 20  # runs carried on in one pass while the broker is away


class Sweeper:
    def __init__(self) -> None:
        self.woken: dict[UUID, float] = {}

    def sweep(self) -> int:
        """One pass. Returns how many due runs it woke or carried on."""
        now = monotonic()
        self.woken = {run: at for run, at in self.woken.items() if now - at < QUIET}
        due = Run.objects.due().exclude(pk__in=self.woken).order_by("due_at").values_list("pk", flat=True)[:AT_ONCE]
        broker_is_there, carried = True, 0
        for run in due:
            if broker_is_there and (broker_is_there := wake(run)):
                self.woken[run] = now
            elif carried < BY_ITSELF:
                self.carry_on(run)
                carried += 1
        return len(due)

    def carry_on(self, run: UUID) -> None:
        try:
            advance(run)
        except Exception:
            log.exception("Run %s could not be carried on", run)  # its lease runs out; the next pass tries again
