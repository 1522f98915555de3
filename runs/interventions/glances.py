"""Looking at a proposed write: what it rests on is read again by a worker, while somebody looks."""

from django.db import transaction

from runs.engine.tasks import ask_for_a_glance
from runs.models import Glance, Run


def look_at(run: Run, plan_digest: str) -> Glance | None:
    """What was last read about the plan that waits in `run`; asks for a new reading, unless there was one just now.

    None: nothing was asked about this plan yet, because another one of this run was just now.
    """
    found = Glance.objects.ask(run, plan_digest)
    if found and found.is_new:
        transaction.on_commit(lambda: ask_for_a_glance(run.pk), robust=True)
    return found or last_at(run, plan_digest)  # somebody else may have asked at the same instant


def last_at(run: Run, plan_digest: str) -> Glance | None:
    return Glance.objects.filter(pk=run.pk, plan_digest=plan_digest).first()
