"""The case as a lease: whoever holds it works on it; it expires, and can be given back."""

from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from runs.domain.interventions import Permission
from runs.domain.states import Outcome, State
from runs.interventions import waking
from runs.interventions.refusals import get_run, refuse, require
from runs.models import Event, Run

CLAIM_LASTS = timedelta(minutes=30)


def claim(run_id: UUID, by: User) -> Run:
    """Take a case for half an hour, or prolong one's own claim. Refused, naming the holder, while somebody has it."""
    require(by, Permission.OPERATE, "claim", None)
    run = get_run(run_id)
    if run.is_final:
        refuse(by, "claim", run, "ended", "The run has ended; there is nothing left to do.", status=409)
    with transaction.atomic():
        mine = (
            Run.objects.unfinished().filter(pk=run.pk).filter(Q(holder=None) | Q(holder=by) | Q(held_until__lt=Now()))
        )
        if mine.update(holder=by, held_until=Now() + CLAIM_LASTS):
            if run.holder_id != by.pk or not run.is_held():
                Event.objects.record(run, "case_claimed", by)
            waking.nudge_after_commit(run.pk)
            return get_run(run_id)
    held = not_theirs(get_run(run_id), by) or "Somebody else was first. Try again."
    refuse(by, "claim", run, "held", held, status=409)


def release(run_id: UUID, by: User) -> None:
    """Give a case back. Only the holder can."""
    require(by, Permission.OPERATE, "release", None)
    run = get_run(run_id)
    with transaction.atomic():
        if Run.objects.filter(pk=run.pk, holder=by).update(holder=None, held_until=None):
            Event.objects.record(run, "case_released", by)
            waking.nudge_after_commit(run.pk)
            return
    refuse(by, "release", run, "not_yours", "You do not hold this case.", status=409)


def take_next(by: User, outcome: str = "") -> Run | None:
    """Claim the most urgent case that nobody has. Two people at once get two different ones."""
    require(by, Permission.OPERATE, "take_next", None)
    cases = Run.objects.with_people().unclaimed()
    # Those that wait for the machine go on by themselves; they are taken only when asked for.
    waiting = cases.filter(outcome=outcome) if outcome else cases.exclude(outcome=Outcome.WAITING)
    # A decision has a list of its own, and is not for everybody.
    waiting = waiting.exclude(state=State.AWAITING_APPROVAL)
    with transaction.atomic():
        run = waiting.most_urgent_first().select_for_update(skip_locked=True, of=("self",)).first()
        if run is None:
            return None
        Run.objects.filter(pk=run.pk).update(holder=by, held_until=Now() + CLAIM_LASTS)
        Event.objects.record(run, "case_claimed", by)
        waking.nudge_after_commit(run.pk)
    return get_run(run.pk)


def not_theirs(run: Run, by: User) -> str:
    """Who else holds the case, in a sentence; empty when it is free or their own."""
    if run.is_held() and run.holder_id != by.pk and run.holder and run.held_until:
        return f"{run.holder.get_username()} holds this case until {run.held_until:%H:%M} UTC."
    return ""
