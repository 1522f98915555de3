"""What sealing costs: a tick that finds so many new events, recomputing the record, and the room it takes.

    .venv/bin/python -m takeover.supervisor.services -- .venv/bin/python bench/seal.py [--quick] [--json]

Fills the database that DATABASE_URL names, which must be an empty one; the command above brings one that is thrown away
afterwards, and does not wait for the disk. With --json the last line is one JSON object. A tick's times are medians.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ |= {"DJANGO_SETTINGS_MODULE": "takeover.settings", "WORKER": "1", "AUDIT_KEY": "k" * 32}
os.environ["DATABASE_ANSWERS_WITHIN"] = "3600"  # a full-size VACUUM takes its time

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from runs.engine.audit import verify  # noqa: E402
from runs.engine.seal import not_sealed, seal  # noqa: E402

PER_TICK = (0, 10, 100, 1_000, 3_000)  # events that a tick finds: those of one second
TEXT = {"name": "evidence_supplied", "payload": {"statement": "the customer called and said so " * 6}}
WRITE = """
WITH made AS (
    INSERT INTO runs_event (kind, digest)
    SELECT 'event_received', encode(sha256(convert_to(%(text)s, 'utf8')), 'hex') FROM generate_series(1, %(count)s)
 RETURNING id
)
INSERT INTO runs_eventtext (event_id, text) SELECT id, %(text)s FROM made
"""


def write(count: int, together: int = 3) -> None:
    """So many events, a few in each transaction, as the engine's commits leave them."""
    with connection.cursor() as cursor:
        while count > 0:
            cursor.execute(WRITE, {"text": json.dumps(TEXT), "count": min(together, count)})
            count -= together


def ticks(events: int, repetitions: int) -> dict[str, Any]:
    """Milliseconds of one tick that finds `events` new ones: as a clock sees it, and of this process."""
    walls, processors = [], []
    for _ in range(repetitions):
        write(events)
        wall, processor = perf_counter(), process_time()
        sealed = seal()
        walls.append((perf_counter() - wall) * 1000)
        processors.append((process_time() - processor) * 1000)
        assert sealed == events
    wall_ms, processor_ms = (round(statistics.median(times), 2) for times in (walls, processors))
    return {"events": events, "wall_ms": wall_ms, "processor_ms": processor_ms}


def fill(stored: int) -> None:
    write(stored, together=1_000)
    while not_sealed().exists():
        seal()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE runs_event, runs_eventtext, runs_seal")


def recomputing() -> dict[str, Any]:
    before = getrusage(RUSAGE_SELF).ru_maxrss
    wall, processor = perf_counter(), process_time()
    report = verify()
    seconds, processor_seconds = perf_counter() - wall, process_time() - processor
    assert not report.broken, report.broken
    return {
        "events": report.sealed,
        "seals": report.seals,
        "events_per_s": round(report.sealed / seconds),
        "processor_us_per_event": round(processor_seconds * 1e6 / report.sealed, 1),
        "grown_by_mb": round((getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
    }


def room(events: int) -> dict[str, float]:
    """Bytes for each event: what it takes itself, and what sealing adds."""
    sizes = {
        "event": "pg_table_size('runs_event') + pg_table_size('runs_eventtext')",
        "index": "pg_relation_size('event_order_of_sealing')",
        "seals": "pg_total_relation_size('runs_seal')",
    }
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(sizes.values())}")
        return {name: round(size / events, 1) for name, size in zip(sizes, cursor.fetchone(), strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description="What sealing costs.")
    parser.add_argument("--quick", action="store_true", help="fewer events: some seconds in all")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    stored, repetitions = (20_000, 5) if options.quick else (300_000, 7)
    found: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count(), "ticks": {}}
    found["ticks"]["0"] = [ticks(events, repetitions) for events in PER_TICK]
    fill(stored)
    found["ticks"][str(stored)] = [ticks(events, repetitions) for events in PER_TICK]
    found["verify"] = recomputing()
    found["bytes_per_event"] = room(found["verify"]["events"])
    _tell(found)
    if options.json:
        print(json.dumps(found))


def _tell(found: dict[str, Any]) -> None:
    print(f"Python {found['python']} on {found['cores']} cores\n")
    for stored, rows in found["ticks"].items():
        print(f"a tick with {int(stored):,} events stored before it")
        for row in rows:
            each = f"{row['wall_ms'] * 1000 / row['events']:8.1f} µs an event" if row["events"] else ""
            print(f"  {row['events']:>6,} new {row['wall_ms']:9.2f} ms, {row['processor_ms']:.2f} of processor{each}")
    verified, bytes_each = found["verify"], found["bytes_per_event"]
    print(f"\nverify: {verified['events']:,} events under {verified['seals']:,} seals, {verified['events_per_s']:,}/s;")
    print(
        f"  {verified['processor_us_per_event']} µs of processor an event, memory grown by {verified['grown_by_mb']} MB"
    )
    print(
        f"bytes for each event: {bytes_each['event']} itself with its text; sealing adds {bytes_each['index']} of index"
        f" and {bytes_each['seals']} of seals"
    )


if __name__ == "__main__":
    main()
