"""Whether a step costs more late in a long run, or among many stored ones. Works in a process of `bench.nursery`.

History is made by copying what a run of the engine left: its rows, with all their constraints, but without living it.
"""

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg

from bench.contenders import connect
from bench.contenders.takeover import carry, make

READS = 50  # of the workflow `reading`
AT_ONCE = 20_000  # runs copied in one statement
OF_RUN = {"id": "new.id", "run_id": "new.run_id"}
GUARDED = ("runs_run", "runs_step", "runs_event")

# What `copies` fills in: an INSERT of all columns of a table, those of the old row but for what is given.
STORE = """
WITH run AS MATERIALIZED (
    SELECT gen_random_uuid() AS id, 'stored ' || n AS subject FROM generate_series(%(first)s::int, %(last)s::int) AS n
), run_row AS (
    {run} FROM run, runs_run AS old WHERE old.id = %(like)s
), step AS MATERIALIZED (
    SELECT nextval('runs_step_id_seq') AS id, run.id AS run_id, old.id AS old_id
      FROM run, runs_step AS old WHERE old.run_id = %(like)s
), step_row AS (
    {step} FROM step AS new JOIN runs_step AS old ON old.id = new.old_id
), payload AS (
    {payload} FROM step AS new JOIN runs_steppayload AS old ON old.step_id = new.old_id
), event AS MATERIALIZED (
    SELECT nextval('runs_event_id_seq') AS id, run.id AS run_id, old.id AS old_id
      FROM run, runs_event AS old, generate_series(1, 2) WHERE old.run_id = %(like)s
), event_row AS (
    {event} FROM event AS new JOIN runs_event AS old ON old.id = new.old_id
), event_text AS (
    {text} FROM event AS new JOIN runs_eventtext AS old ON old.event_id = new.old_id
)
SELECT count(*) FROM event
"""
LENGTHEN = """
WITH step AS MATERIALIZED (
    SELECT nextval('runs_step_id_seq') AS id, nextval('runs_event_id_seq') AS event_id,
           %(run)s::uuid AS run_id, n AS seq
      FROM generate_series(1, %(steps)s::int) AS n
), old_event AS (
    SELECT id FROM runs_event WHERE run_id = %(like)s AND kind = 'step_settled'
), step_row AS (
    {step} FROM step AS new, runs_step AS old WHERE old.run_id = %(like)s
), payload AS (
    {payload} FROM step AS new, runs_steppayload AS old JOIN runs_step ON runs_step.id = old.step_id
     WHERE runs_step.run_id = %(like)s
), event_row AS (
    {event} FROM step AS new, runs_event AS old WHERE old.id = (SELECT id FROM old_event)
), event_text AS (
    {text} FROM step AS new, runs_eventtext AS old WHERE old.event_id = (SELECT id FROM old_event)
)
UPDATE runs_run SET steps = %(steps)s::int WHERE id = %(run)s
"""


def copies(database: psycopg.Connection, table: str, given: Mapping[str, str]) -> str:
    rows = database.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER'", (table,)
    )
    names = [name for (name,) in rows]
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(given.get(n, f'old.{n}') for n in names)}"


def grow(histories: list[int], stored: list[int], times: int) -> dict[str, Any]:
    """Milliseconds a step after each history, and among so many stored runs; each with its ratio to the smallest."""
    with connect() as database:
        like = make("glance", ["growth"])[0]
        carry(like)
        carry(make("reading", ["growth warm"])[0])
        long = _after(database, like, histories, times)
        among: dict[int, float] = {}
        events, seconds, have = 0, 0.0, 0
        for size in stored:
            began = time.monotonic()
            events += _store(database, like, have, size)
            seconds, have = seconds + time.monotonic() - began, size
            among[size] = statistics.median(_step_ms(f"among {size} {number}") for number in range(times))
        return {
            "step_of_run": _with_ratios(long),
            "runs_stored": _with_ratios(among),
            "events_stored": events,
            "stored_in_s": round(seconds, 1),
        }


def _after(database: psycopg.Connection, like: UUID, histories: list[int], times: int) -> dict[int, float]:
    found: dict[int, list[float]] = {steps: [] for steps in histories}
    lengthen = LENGTHEN.format(
        step=copies(database, "runs_step", OF_RUN | {"seq": "new.seq"}),
        payload=copies(database, "runs_steppayload", {"step_id": "new.id"}),
        event=copies(database, "runs_event", {"id": "new.event_id", "run_id": "new.run_id"}),
        text=copies(database, "runs_eventtext", {"event_id": "new.event_id"}),
    )
    for number in range(times):
        for steps in histories:
            subject = f"after {steps} {number}"
            run = make("reading", [subject])[0]
            with _made_not_lived(database):
                database.execute(lengthen, {"like": like, "run": run, "steps": steps})
            found[steps].append(_timed(run))
    return {steps: statistics.median(times) for steps, times in found.items()}


def _store(database: psycopg.Connection, like: UUID, have: int, size: int) -> int:
    events = 0
    store = STORE.format(
        run=copies(database, "runs_run", {"id": "run.id", "subject": "run.subject"}),
        step=copies(database, "runs_step", OF_RUN),
        payload=copies(database, "runs_steppayload", {"step_id": "new.id"}),
        event=copies(database, "runs_event", OF_RUN),
        text=copies(database, "runs_eventtext", {"event_id": "new.id"}),
    )
    with _made_not_lived(database):
        for first in range(have + 1, size + 1, AT_ONCE):
            last = min(size, first + AT_ONCE - 1)
            row = database.execute(store, {"like": like, "first": first, "last": last}).fetchone()
            events += row[0] if row else 0
    # What autovacuum does in its own time: what is measured is a step among stored runs, and not the clearing up after
    # millions of rows that were written within minutes.
    database.execute("VACUUM (ANALYZE)")
    return events


@contextmanager
def _made_not_lived(database: psycopg.Connection) -> Iterator[None]:
    """What allows only a life's own order of changes stands aside; keys, foreign keys and checks do not."""
    for table in GUARDED:
        database.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    yield
    for table in GUARDED:
        database.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def _step_ms(subject: str) -> float:
    return _timed(make("reading", [subject])[0])


def _timed(run: UUID) -> float:
    began = time.monotonic()
    carry(run)
    return (time.monotonic() - began) * 1000 / READS


def _with_ratios(found: dict[int, float]) -> dict[str, dict[str, float]]:
    smallest = next(iter(found.values()))
    return {str(size): {"ms": round(ms, 2), "ratio": round(ms / smallest, 2)} for size, ms in found.items()}
