"""The Celery application. Tasks are thin; see `runs.engine.tasks`."""

import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from celery import Celery
from celery.platforms import SecurityWarning
from celery.signals import (
    celeryd_after_setup,
    celeryd_init,
    task_prerun,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)
from django.db import Error, close_old_connections

# Root is dangerous to a worker that unpickles its messages; this one reads JSON only.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("takeover")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["runs.engine"])


@task_prerun.connect
def drop_dead_connections(**_: object) -> None:
    # Connections outlive tasks (CELERY_DB_REUSE_MAX), so one that died with a restarted database must be noticed here.
    close_old_connections()


@celeryd_init.connect
def refuse_what_fits_no_worker(**_: object) -> None:
    from takeover import checks

    if problems := checks.at_start(is_worker=True):
        sys.exit(checks.sentence(problems[0]))  # Celery would log an exception, and start all the same


@celeryd_after_setup.connect
def listen_to_canaries(instance: Any, **_: object) -> None:
    from runs.engine import liveness

    instance.name_of_this_start = liveness.new_name()
    instance.app.amqp.queues.select_add(liveness.queue_of(instance.name_of_this_start))


@worker_ready.connect
def tell_the_supervisor(sender: Any, **_: object) -> None:
    from runs.engine import liveness

    liveness.Watchdog(sender.controller.name_of_this_start, sender.controller).start()
    if marker := os.environ.get("WORKER_READY_FILE"):
        Path(marker).touch()


@worker_shutting_down.connect
def finish_the_steps(**_: object) -> None:
    from runs.engine import stopping

    stopping.ask()


@worker_shutdown.connect
def say_goodbye(sender: Any, **_: object) -> None:
    from runs.models import Worker

    with suppress(Error):
        Worker.objects.stopped(sender.name_of_this_start)
