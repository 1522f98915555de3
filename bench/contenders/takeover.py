"""Takeover: the engine as it ships, with workflows made for the benchmark (`bench.workflows`)."""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"

import django

django.setup()

from celery.signals import worker_ready  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402

from bench.contenders import Lanes, connect, tell  # noqa: E402
from runs.domain.budget import Ledger  # noqa: E402
from runs.engine.advance import advance  # noqa: E402
from runs.engine.sweep import Sweeper  # noqa: E402
from runs.engine.tasks import wake  # noqa: E402
from runs.models import Run  # noqa: E402
from runs.models.run import ledger_as_json  # noqa: E402
from runs.workflows import registry  # noqa: E402
from takeover.celery import app  # noqa: E402

WORKERS = False
BESIDE = ("sweep",)


def prepare() -> None:
    call_command("migrate", verbosity=0)
    User.objects.create(username="bench")


def make(workflow: str, names: Iterable[str]) -> list[UUID]:
    """Runs as the API makes them, with nobody told about them."""
    requester, known = User.objects.get(username="bench"), registry.find(workflow)
    assert known
    runs = [
        Run(
            workflow=workflow,
            workflow_version=known.version,
            policy="scripted",
            subject=name,
            input={"item": name},
            first_input={"item": name},
            asked_by=["bench"],
            requester=requester,
            acts_for="bench",
            role="bench",
            budget=ledger_as_json(Ledger.of(known.budgets)),
        )
        for name in names
    ]
    return [run.pk for run in Run.objects.bulk_create(runs)]


def carry(run: UUID) -> None:
    while advance(run):
        pass


def lanes(lanes: Lanes, steps: int, workflow: str = "reading") -> Callable[[], None]:
    """A worker's own function, without the broker: a message is needed every five seconds only."""
    made = [make(workflow, lane) for lane in lanes]
    warm = make(workflow, [f"warm-{os.getpid()}-{number}" for number in range(len(lanes))])
    pool = ThreadPoolExecutor(len(lanes))
    list(pool.map(carry, warm))

    def lane(runs: list[UUID]) -> None:
        for run in runs:
            carry(run)

    return lambda: [*pool.map(lane, made)] and None


@worker_ready.connect
def _ready(**_: Any) -> None:
    tell(ready=True)


def work(slot: int, at_once: int) -> None:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "CRITICAL"]
    app.worker_main(["--quiet", "worker", "-n", f"slot{slot}@bench", "-P", "threads", "-c", str(at_once), *quiet])


def sweep() -> None:
    sweeper = Sweeper()
    tell(ready=True)
    while True:
        sweeper.sweep()
        time.sleep(1)


def start(run: str, slot: int) -> None:
    wake(make("effects", [run])[0])


def finished() -> set[str]:
    return set(Run.objects.filter(workflow="effects", outcome="COMPLETED").values_list("subject", flat=True))


def wakes(count: int) -> list[float]:
    """Milliseconds from sending a run's message to the commit that claims it, one after another."""
    found = []
    runs = make("glance", (f"wake-{uuid4()}" for _ in range(count)))
    with connect() as database:
        for run in runs:
            began = time.monotonic()
            wake(run)
            while not database.execute("SELECT 1 FROM runs_run WHERE id = %s AND token > 0", (run,)).fetchone():
                time.sleep(0.0002)
            found.append((time.monotonic() - began) * 1000)
            while not database.execute("SELECT 1 FROM runs_run WHERE id = %s AND outcome <> ''", (run,)).fetchone():
                time.sleep(0.002)  # the next one finds an idle worker, as Celery's does
    return found
