"""Celery: each step is a task that commits one row and sends the next one, on the product's own settings: late
acknowledgement, connections that are kept. What a killed worker had is sent again after the visibility time-out."""

import os
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"

import django

django.setup()

from celery.signals import worker_ready  # noqa: E402
from django.db import connection  # noqa: E402

from bench.contenders import EFFECTS, RECORD, Lanes, connect, have_steps, make_effect, tell  # noqa: E402
from takeover.celery import app  # noqa: E402

WORKERS = True
BESIDE: tuple[str, ...] = ()
app.conf.broker_transport_options = {
    **app.conf.broker_transport_options,
    "global_keyprefix": "bench-celery:",
    "visibility_timeout": 5,  # seconds; its default is an hour
    "unacked_restore_interval": 1,  # seconds; both together look every 100 s by default
    "unacked_restore_throttle": 1,
}


@app.task(name="bench.step", ignore_result=True)
def step(run: str, number: int, count: int, effects: bool) -> None:
    with connection.cursor() as cursor:
        if effects:
            cursor.execute(
                "SELECT 1 FROM bench_step WHERE contender = 'celery' AND run = %s AND step = %s", (run, number)
            )
            if not cursor.fetchone():
                make_effect(run, number)
        cursor.execute(RECORD, ("celery", run, number))
    if number + 1 < count:
        step.delay(run, number + 1, count, effects)


@worker_ready.connect
def _ready(**_: Any) -> None:
    tell(ready=True)


def prepare() -> None:
    """Its rows are those of the benchmark."""


def lanes(lanes: Lanes, count: int) -> Callable[[], None]:
    """A lane is one chain, as long as its runs together."""
    runs, length = [lane[0] for lane in lanes], count * len(lanes[0])
    app.connection_for_write().ensure_connection()

    def go() -> None:
        for run in runs:
            step.delay(run, 0, length, False)
        with connect() as database:
            last = "SELECT count(*) FROM bench_step WHERE contender = 'celery' AND run = ANY(%s) AND step = %s"
            while (database.execute(last, (runs, length - 1)).fetchone() or [0])[0] < len(runs):
                time.sleep(0.005)

    return go


def work(slot: int, at_once: int) -> None:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "CRITICAL"]
    app.worker_main(["--quiet", "worker", "-n", f"slot{slot}@bench", "-P", "threads", "-c", str(at_once), *quiet])


def start(run: str, slot: int) -> None:
    step.delay(run, 0, EFFECTS, True)


def finished() -> set[str]:
    return have_steps("celery", EFFECTS)


def wakes(count: int) -> list[float]:
    """Milliseconds from sending a message to the row that its task committed, one after another."""
    found = []
    with connect() as database:
        for _ in range(count):
            run, began = f"wake-{uuid4()}", time.monotonic()
            step.delay(run, 0, 1, False)
            while not database.execute(
                "SELECT 1 FROM bench_step WHERE contender = 'celery' AND run = %s", (run,)
            ).fetchone():
                time.sleep(0.0002)
            found.append((time.monotonic() - began) * 1000)
    return found
