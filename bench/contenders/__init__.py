"""What is measured side by side. Each module makes the same steps durable in its own way, and has

    prepare()               makes its tables, once
    lanes(lanes, steps)     makes ready, and returns a call that takes every run of every lane through so many steps:
                            the runs of a lane one after another, the lanes at once
    work(slot, at_once)     a worker, until it is killed: takes runs of its slot on, each with `EFFECTS` effects
    start(run, slot)        hands it a run
    finished()              which runs came to their end
    WORKERS                 whether `lanes` needs workers beside it, too
    BESIDE                  what else has to run, by name

A process of a contender says that it is ready, and what it found, by `tell`.
"""

import http.client
import json
import os
import signal
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import psycopg

NAMES = ("takeover", "dbos", "langgraph", "celery", "procrastinate")
EFFECTS = 5  # of each run that is taken on while workers are killed
Lanes = Sequence[Sequence[str]]

TABLES = """
CREATE TABLE bench_step (contender text, run text, step int, PRIMARY KEY (contender, run, step));
CREATE TABLE bench_run (contender text, run text, slot int, done bool DEFAULT false, PRIMARY KEY (contender, run));
"""
RECORD = "INSERT INTO bench_step VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"


def connect() -> psycopg.Connection:
    return psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


def tell(**said: Any) -> None:
    # Past `print`, which Celery's workers turn into log lines; a line of this length is written as a whole.
    os.write(1, json.dumps({"pid": os.getpid(), **said}).encode() + b"\n")


def wait_for_go() -> None:
    """Until the benchmark sends SIGUSR1, which whoever started this has blocked."""
    tell(ready=True)
    signal.sigwait({signal.SIGUSR1})


def make_effect(run: str, step: int) -> None:
    """One effect in the ledger of `bench.ledger`, which others than Takeover call without looking back."""
    address = urlsplit(os.environ["LEDGER_URL"])
    ledger = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    try:
        ledger.request("POST", "/effects", json.dumps({"run": run, "step": step, "operation_key": f"{run}-{step}"}))
        ledger.getresponse().read()
    finally:
        ledger.close()


def hand_over(contender: str, run: str, slot: int) -> None:
    """For those whose workers are told what to do by a table of the application's own."""
    with connect() as database:
        database.execute("INSERT INTO bench_run VALUES (%s, %s, %s)", (contender, run, slot))


def handed_over(database: psycopg.Connection, contender: str, slot: int) -> list[str]:
    rows = database.execute(
        "SELECT run FROM bench_run WHERE contender = %s AND slot = %s AND NOT done ORDER BY run", (contender, slot)
    )
    return [run for (run,) in rows]


def have_steps(contender: str, count: int) -> set[str]:
    """The runs of which so many steps are recorded."""
    with connect() as database:
        rows = database.execute(
            "SELECT run FROM bench_step WHERE contender = %s GROUP BY run HAVING count(*) >= %s", (contender, count)
        )
        return {run for (run,) in rows}
