"""One run, one row: how urgent, about what, why it stopped, what it may have written, the question, who has it."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2s

from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import get_language

from runs import case
from runs.models import Run
from takeover.console import desk, moments, words
from takeover.console.moments import Due, Moment
from takeover.console.queue import writes

NO_NEWS = {"is_new", "due", "ended", "since", "held_until"}  # of a row: what only this list says, and time that goes by


@dataclass(frozen=True)
class Row:
    """What the queue shows of one run, and nothing else: to the same reader, two that are equal look the same."""

    run_id: uuid.UUID
    stop: int  # the stop that it shows, counted from the first
    is_open: bool
    title: str
    workflow: str
    question: str
    stands_as: str  # its outcome, or that it runs
    state: str  # in words, while it runs; empty once it stopped
    reason: str  # in words, once it stopped
    error: str
    ending: str  # in words, once it ended
    writes: str  # what may have happened outside, in words
    mark: str
    stake: str  # empty: none, or not known
    asks_again: bool  # a service can be asked about a write of it
    holder: str  # empty: nobody has it now
    mine: bool
    moved_on: bool  # no longer part of the pile in which it is shown
    is_new: bool
    due: Due | None  # none: it has ended, or nobody said when it has to be answered
    ended: Moment | None
    since: Moment | None  # its stop, or its start while it runs
    held_until: Moment | None

    @property
    def address(self) -> str:
        return desk.address_of(self.run_id)

    @property
    def is_free(self) -> bool:
        return self.is_open and not self.holder

    @property
    def stamp(self) -> str:
        """Changes whenever something that this row shows changes; of the time that goes by, only with the words of its
        due time. Ends with the stop that it shows."""
        shown = [value for name, value in vars(self).items() if name not in NO_NEWS]
        text = repr([*shown, self.due and self.due.words])
        return f"{blake2s(text.encode(), digest_size=6).hexdigest()}-{self.stop}"


def rows(
    runs: list[Run], person: User, since: datetime | None = None, still: set[uuid.UUID] | None = None
) -> list[Row]:
    """`runs` as rows. `since`: what stopped later is new; `still`: what has not left the pile."""
    told = writes.of(runs)
    return [
        _row(
            run,
            person,
            told[run.pk],
            is_new=bool(since and run.stopped_at and run.stopped_at > since),
            moved_on=still is not None and run.pk not in still,
        )
        for run in runs
    ]


def _row(run: Run, person: User, written: tuple[str, str], is_new: bool, moved_on: bool) -> Row:
    holder = run.holder if run.is_held() else None
    return Row(
        run_id=run.pk,
        stop=run.stretch,
        is_open=not run.is_final,
        title=case.title(run),
        workflow=f"{words.workflow(run.workflow)} v{run.workflow_version}",
        question=run.question,
        stands_as=desk.stands_as(run) or "running",
        state="" if run.outcome else words.word(run.state, words.STATE),
        reason=words.word(run.stop_reason, words.REASON) if run.outcome else "",
        error=words.error_beside(run) if run.outcome else "",
        ending=words.word(desk.stands_as(run), words.STANDING) if run.is_final else "",
        writes=written[0],
        mark=written[1],
        stake=str(run.stake or ""),
        asks_again=not run.is_final and run.effects_at_risk > 0,
        holder=desk.name_of(holder),
        mine=holder == person,
        moved_on=moved_on,
        is_new=is_new,
        due=None if run.is_final else moments.due(run.answer_by),
        ended=moments.clock(run.stopped_at) if run.is_final else None,
        since=moments.ago(run.stopped_at or run.created_at),
        held_until=moments.until(run.held_until) if holder else None,
    )


def drawn(found: list[Row], operates: bool) -> list[SafeString]:
    """The rows of a list. Most look as they did a moment ago, to whoever looks, and are not drawn anew."""
    zone, language = timezone.get_current_timezone_name(), get_language()
    return [_drawn(row, operates, zone, language) for row in found]


@lru_cache(maxsize=2048)  # of two or three kilobytes each
def _drawn(row: Row, operates: bool, _zone: str, _language: str | None) -> SafeString:
    return render_to_string("_row.html", {"row": row, "operates": operates})
