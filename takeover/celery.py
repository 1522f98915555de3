"""The Celery application. Tasks are thin; see `runs.engine.tasks`."""

import os
import warnings
from pathlib import Path

from celery import Celery
from celery.platforms import SecurityWarning
from celery.signals import task_prerun, worker_ready
from django.db import close_old_connections

# Root is dangerous to a worker that unpickles its messages; this one reads JSON only.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("takeover")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["runs.engine"])


@task_prerun.connect
def drop_dead_connections(**_: object) -> None:
    # Connections outlive tasks (CELERY_DB_REUSE_MAX), so one that died with a restarted database must be noticed here.
    close_old_connections()


@worker_ready.connect
def tell_the_supervisor(**_: object) -> None:
    if marker := os.environ.get("WORKER_READY_FILE"):
        Path(marker).touch()
