"""One run, one row: how urgent, about what, why it stopped, what it may have written, the question, who has it."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2s

from django.contrib.auth.models import User
from django.utils import timezone

from runs import case
from runs.models import Run
from takeover.console import desk
from takeover.console.due import Due
from takeover.console.queue import writes


@dataclass(frozen=True)
class Row:
    """One run as the queue shows it."""

    run: Run
    number: str
    address: str
    title: str
    due: Due | None  # none: it has ended, or nobody said when it has to be answered
    stake: str  # empty: none, or not known
    writes: str  # what may have happened outside, in words
    mark: str
    holder: str  # empty: nobody has it now
    mine: bool
    is_new: bool
    moved_on: bool  # no longer part of the pile in which it is shown

    @property
    def is_open(self) -> bool:
        return not self.run.is_final

    @property
    def is_free(self) -> bool:
        return self.is_open and not self.holder

    @property
    def stamp(self) -> str:
        """Changes whenever something that this row shows changes. Ends with the stop that it shows."""
        run = self.run
        shown = [
            run.state,
            run.outcome,
            run.stop_reason,
            run.error_count,
            run.question,
            run.effects_at_risk,
            self.stake,
        ]
        due = self.due and self.due.words
        text = repr([*shown, run.holder_id, self.holder, run.stopped_at, self.writes, self.moved_on, due])
        return f"{blake2s(text.encode(), digest_size=6).hexdigest()}-{run.stretch}"


def rows(
    runs: list[Run], person: User, since: datetime | None = None, still: set[uuid.UUID] | None = None
) -> list[Row]:
    """`runs` as rows. `since`: what stopped later is new; `still`: what has not left the pile."""
    told, now = writes.of(runs), timezone.now()
    made = []
    for run in runs:
        holder = run.holder if run.is_held() else None
        made.append(
            Row(
                run=run,
                number=str(run.pk),
                address=desk.address_of(run.pk),
                title=case.title(run),
                due=Due.seen(run.answer_by, now) if run.answer_by and not run.is_final else None,
                stake=str(run.stake or ""),
                writes=told[run.pk][0],
                mark=told[run.pk][1],
                holder=desk.name_of(holder),
                mine=holder == person,
                is_new=bool(since and run.stopped_at and run.stopped_at > since),
                moved_on=still is not None and run.pk not in still,
            )
        )
    return made
