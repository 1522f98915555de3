"""The wake-up. A message carries a run's number and nothing else; whether anything may happen, the database decides."""

import logging
from uuid import UUID

from celery import shared_task
from django.db.models.functions import Now
from kombu.exceptions import OperationalError

from runs.engine import glance
from runs.engine.advance import advance
from runs.models import Worker

log = logging.getLogger(__name__)


@shared_task(name="runs.advance", ignore_result=True)
def advance_run(run_id: str) -> None:
    if advance(UUID(run_id)):
        wake(UUID(run_id))


@shared_task(name="runs.glance", ignore_result=True, acks_late=False)
def take_a_glance(run_id: str) -> None:
    glance.answer(UUID(run_id))


@shared_task(name="runs.canary", ignore_result=True, acks_late=False)
def canary(worker: str) -> None:
    """Received: the worker hears. See `runs.engine.liveness`."""
    Worker.objects.filter(pk=worker).update(canary_seen_at=Now())


def wake(run_id: UUID) -> bool:
    """Ask some worker to look at a run. False where the broker cannot be reached: the sweeper sees to it then."""
    try:
        advance_run.delay(str(run_id))
    except OperationalError as problem:
        log.warning("The broker is out of reach (%s); the sweeper will find run %s", problem, run_id)
        return False
    return True


def ask_for_a_glance(run_id: UUID) -> None:
    """Ask some worker to read what a proposed write rests on. A lost message costs nothing: who looks asks again."""
    try:
        take_a_glance.delay(str(run_id))
    except OperationalError as problem:
        log.warning("The broker is out of reach (%s); run %s is not read for those who look at it", problem, run_id)
