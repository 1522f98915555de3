"""The case as a lease: whoever holds it works on it; it expires, and can be given back."""

from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from runs.domain.interventions import Permission
from runs.domain.states import Outcome, State
from runs.interventions import waking
from runs.interventions.refusals import Refused, called, get_run, refuse, require
from runs.models import Event, Run

CLAIM_LASTS = timedelta(minutes=30)
SUPERVISING = (Permission.APPROVE, Permission.EXTEND)  # either lets one hand on what somebody else holds


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


def assign(run_id: UUID, by: User, to: User) -> str:
    """Hand a case to a person who works on the queue, for as long as if they had claimed it.

    Whoever holds it may, and a supervisor may with any. Names who had it before; empty where nobody had.
    """
    require(by, Permission.OPERATE, "assign", None)
    run = get_run(run_id)
    if not operators().filter(pk=to.pk).exists():
        says = f"to: {called(to)} does not work on the queue; choose somebody who does."
        refuse(by, "assign", run, "invalid", says, "to")
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",)).select_related("holder").get(pk=run.pk)
        before = run.holder if run.is_held() else None
        problem = _why_not_assign(run, by, before)
        if problem is None:
            if before == to:
                return ""
            Run.objects.filter(pk=run.pk).update(holder=to, held_until=Now() + CLAIM_LASTS)
            had_it = _on_record(before) if before else ""
            Event.objects.record(run, "case_assigned", by, to=_on_record(to), had_it=had_it)
            waking.nudge_after_commit(run.pk)
            return had_it
    refuse(by, "assign", run, problem.code, problem.message, status=problem.status)


def may_assign(run: Run, by: User) -> bool:
    """Whether `by` may hand this case to somebody now."""
    holder = run.holder if run.is_held() else None
    return by.has_perm(f"runs.{Permission.OPERATE}") and not _why_not_assign(run, by, holder)


def _why_not_assign(run: Run, by: User, holder: User | None) -> Refused | None:
    if run.is_final:
        return Refused("ended", "The run has ended; there is nothing left to do.", status=409)
    if holder == by or any(by.has_perm(f"runs.{permission}") for permission in SUPERVISING):
        return None
    if holder:
        return Refused("held", f"{not_theirs(run, by)} Only they or a supervisor can hand it on.", status=409)
    return Refused("not_yours", "You hand on what you hold; claim the case first.", status=409)


def _on_record(person: User) -> str:
    """Names may be shared and accounts say little to people, so the record has both."""
    full, account = person.get_full_name(), person.get_username()
    return f"{full} ({account})" if full else account


def operators() -> QuerySet[User]:
    """Who may be given a case."""
    backend = "django.contrib.auth.backends.ModelBackend"
    return User.objects.with_perm(f"runs.{Permission.OPERATE}", backend=backend).order_by("username")


def not_theirs(run: Run, by: User) -> str:
    """Who else holds the case, in a sentence; empty when it is free or their own."""
    if run.is_held() and run.holder_id != by.pk and run.holder and run.held_until:
        return f"{called(run.holder)} holds this case until {run.held_until:%H:%M} UTC."
    return ""
