"""What came of the last thing that a person said to a run, told from recorded times."""

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models import Subquery
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from runs.domain.states import Move, StepKind, StepStatus
from runs.models import InboxEvent, Run, Step
from takeover.console import desk, words

MOST_SENTENCES = 8
MOST_EVENTS = 60
A_WHILE = timedelta(seconds=10)  # from here on a wait is told as other durations are


@dataclass(frozen=True)
class Aftermath:
    """The event that was carried out, when, and what workers did because of it up to the next stop."""

    event: InboxEvent
    who: str  # empty: whoever looks
    taken_up_after: str
    sentences: list[str]


def of(run: Run, last: InboxEvent | None, person: User) -> Aftermath | None:
    """None where nothing was said yet, or the last of it was refused or waits."""
    if last is None or last.result != InboxEvent.Result.APPLIED or last.settled_at is None:
        return None
    applied = run.events.filter(kind="event_applied", actor=last.actor).order_by("-id").values("pk")[:1]
    after = list(run.events.filter(pk__gt=Subquery(applied)).order_by("id")[:MOST_EVENTS])
    stops = [event for event in after if event.kind == "stopped"]
    steps = run.step_rows.filter(started_at__gte=last.received_at).exclude(settled_at=None).order_by("seq")
    until = stops[0].at if stops else None
    made = [step for step in steps[:MOST_EVENTS] if until is None or step.started_at <= until]
    replaced = any(event.kind == "plan_replaced" and (until is None or event.at <= until) for event in after)
    decided = last.name == Move.APPROVAL_GRANTED
    return Aftermath(
        event=last,
        who="" if last.actor_id == person.pk else desk.name_of(last.actor),
        taken_up_after=spell_short(last.settled_at - last.received_at),
        sentences=[*_reads(made, replaced, decided), *_writes(made), *_end(run, len(stops))][:MOST_SENTENCES],
    )


def _reads(steps: list[Step], replaced: bool, decided: bool) -> list[str]:
    reads = [step for step in steps if step.kind == StepKind.READ]
    told = []
    if reads:
        told.append(ngettext("%d source was read again.", "%d sources were read again.", len(reads)) % len(reads))
    if replaced:
        told.append(_("What was read had changed, so the write was planned anew."))
    elif decided and reads and any(step.kind == StepKind.WRITE for step in steps):
        told.append(_("The write was still exactly the one that had been decided about."))
    return told


def _writes(steps: list[Step]) -> list[str]:
    told = []
    for step in steps:
        if step.kind == StepKind.WRITE:
            told.append(_("It was sent under key %(key)s.") % {"key": step.operation_key})
        if step.kind in {StepKind.WRITE, StepKind.LOOK_UP} or step.status == StepStatus.FAILED:
            told.append(step.summary or words.taken_for(step.code))
    return [sentence for sentence in told if sentence]


def _end(run: Run, stops: int) -> list[str]:
    """How it stopped because of that; nothing where somebody let it go on from there."""
    if not stops:
        return [] if run.is_final else [_("A worker is still at it.")]
    if stops > 1 or not run.outcome:
        return []
    stopped = {
        "outcome": words.word(run.outcome, words.OUTCOME),
        "reason": words.word(run.stop_reason, words.REASON),
    }
    return [_("Then it stopped: %(outcome)s (%(reason)s).") % stopped]


def spell_short(length: timedelta) -> str:
    """A wait in the unit that tells something: "84 ms", "3.2 s", and from ten seconds on as every duration."""
    if length >= A_WHILE:
        return words.spell(length)
    if length >= timedelta(seconds=1):
        return _("%.1f s") % length.total_seconds()
    return _("%d ms") % max(0, round(length.total_seconds() * 1000))
