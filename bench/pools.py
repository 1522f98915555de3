"""Threads or processes for many slow calls at once, and whether anybody waits longer than their turn."""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.contenders import connect
from bench.keeping import ROOT, Nursery, memory_mb
from takeover.supervisor.children import Child

WORKERS = 2
WITHIN = 600  # seconds


def pools(nursery: Nursery, runs: int, in_a_worker: int) -> dict[str, Any]:
    """For each pool: how long it takes for so many runs whose one read takes a second, and what its workers hold."""
    found = {}
    for pool in ("threads", "prefork"):
        with _workers(nursery, pool, in_a_worker) as workers:
            began = time.monotonic()
            nursery.run("make", workflow="sleeping", prefix=pool, count=runs, wake=True)
            _wait(f"{pool}-%", runs)
            seconds = time.monotonic() - began
            pids = [pid for worker in workers for pid in _family(worker)]
            pss = sum(memory_mb(pid, "Pss") for pid in pids)
        found[pool] = {"runs": runs, "seconds": round(seconds, 1), "pss_mb": round(pss), "processes": len(pids)}
    return found


def fairness(nursery: Nursery, runs: int, in_a_worker: int) -> dict[str, Any]:
    """Runs that are all due at one instant and were woken by nobody: how long each waited for its first step."""
    with _workers(nursery, "threads", in_a_worker):
        nursery.run("make", workflow="glance", prefix="together", count=runs, wake=False)
        began = time.monotonic()
        sweeper = nursery.start("sweep")
        unserved = _wait("together-%", runs)
        seconds = time.monotonic() - began
        nursery.kill(sweeper)
    with connect() as database:
        rows = database.execute(
            "SELECT extract(epoch FROM s.started_at - r.created_at)::float8,"
            " abs(row_number() OVER (ORDER BY s.started_at) - row_number() OVER (ORDER BY r.due, r.subject))"
            " FROM (SELECT *, created_at AS due FROM runs_run WHERE subject LIKE 'together-%') AS r"
            " JOIN runs_step AS s ON s.run_id = r.id AND s.seq = 1"
        ).fetchall()
    waits = sorted(wait for wait, _ in rows)
    cut = statistics.quantiles(waits, n=100)
    return {
        "runs": runs,
        "unserved": unserved,
        "seconds": round(seconds, 1),
        "wait_s": {"p50": round(cut[49], 2), "p99": round(cut[98], 2), "max": round(waits[-1], 2)},
        "behind": int(max(behind for _, behind in rows)),
    }


@contextmanager
def _workers(nursery: Nursery, pool: str, in_a_worker: int) -> Iterator[list[Child]]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        workers = [_worker(nursery, [pool, "-c", str(in_a_worker)], number, Path(folder)) for number in range(WORKERS)]
        try:
            for worker in workers:
                with Path(folder, f"{worker.name}.log").open("wb") as log:
                    worker.start(log)
            deadline = time.monotonic() + 60
            while not all(worker.ready for worker in workers):
                if time.monotonic() > deadline or not all(worker.running for worker in workers):
                    raise RuntimeError("A worker did not start: " + Path(folder, f"{workers[0].name}.log").read_text())
                time.sleep(0.05)
            yield workers
        finally:
            for worker in workers:
                worker.kill()


def _worker(nursery: Nursery, pool: list[str], number: int, folder: Path) -> Child:
    marker = folder / f"worker-{number}.ready"
    command = ["-m", "celery", "--quiet", "-A", "takeover.celery", "worker", "-n", f"bench{number}@%h", "-P"]
    manners = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
    env = nursery.env | {
        "DJANGO_SETTINGS_MODULE": "bench.settings",
        "WORKER_READY_FILE": str(marker),
        "CELERY_SKIP_CHECKS": "1",
        "PYTHONPATH": str(ROOT),
    }
    return Child(f"worker-{number}", [sys.executable, *command, *pool, *manners], env, marker=marker)


def _wait(subjects: str, count: int) -> int:
    """Until all of them ended, or for `WITHIN`. Returns how many did not."""
    deadline, left = time.monotonic() + WITHIN, count
    with connect() as database:
        while left and time.monotonic() < deadline:
            row = database.execute(
                "SELECT count(*) FROM runs_run WHERE subject LIKE %s AND outcome = 'COMPLETED'", (subjects,)
            ).fetchone()
            left = count - (row[0] if row else 0)
            time.sleep(0.05)
    return left


def _family(worker: Child) -> list[int]:
    assert worker.process
    pid = worker.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]
