"""What the engine costs and withstands, beside others that make steps durable, on one machine and one PostgreSQL.

    bench/engine [--quick] [--json] [--only steps,wakes,kills,growth,pools]

It starts its own PostgreSQL, which flushes what is committed, its own Valkey, and a service with effects and a ledger;
all of it is gone afterwards. Contenders take turns in every round, and what is told is the median. With --json the last
line is one JSON object. --quick does the same with small numbers, within a minute.
"""

import argparse
import http.client
import json
import os
import platform
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

try:
    import dbos  # noqa: F401 - the one that no other environment here has
except ImportError:
    sys.exit("The contenders are not installed here: start bench/engine, which installs them into .cache/ first.")

from bench.contenders import EFFECTS, NAMES, TABLES, connect  # noqa: E402
from bench.keeping import Kept, Nursery  # noqa: E402
from bench.pools import fairness, pools  # noqa: E402

PARTS = ("steps", "wakes", "kills", "growth", "pools")
STEPS = 50  # of a run
SLOTS = 2  # workers of each contender: one for each of two cores
ANSWERS_AFTER = 0.2  # seconds that the ledger takes for an effect: most kills hit one that has happened unanswered
# What a worker that died had in hand is free after so many seconds, not 30; the others' like settings are cut as well.
SOONER = {"ENGINE_LEASE": "8"}


@dataclass(frozen=True)
class Size:
    rounds: int
    runs: dict[int, int]  # at once -> one after another in each lane
    wakes: int
    kills: int
    killed_at_once: int  # contenders
    patience: float  # seconds in which all runs must come to their end once nobody is killed any more
    open_runs: int
    histories: list[int]
    stored: list[int]
    growth_times: int
    sleepers: int
    in_a_worker: int  # runs at once
    together: int


FULL = Size(
    rounds=5,
    runs={1: 6, 8: 4},
    wakes=200,
    kills=200,
    killed_at_once=1,
    patience=90,
    open_runs=100,
    histories=[10, 1_000, 10_000],
    stored=[1_000, 100_000, 1_000_000],
    growth_times=9,
    sleepers=64,
    in_a_worker=16,
    together=10_000,
)
QUICK = Size(
    rounds=1,
    runs={1: 1, 8: 1},
    wakes=12,
    kills=3,
    killed_at_once=5,
    patience=20,
    open_runs=16,
    histories=[10, 100, 1_000],
    stored=[50, 500, 5_000],
    growth_times=3,
    sleepers=16,
    in_a_worker=4,
    together=100,
)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the engine costs and withstands, beside others of its kind.")
    parser.add_argument("--quick", action="store_true", help="small numbers: within a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help=f"of {', '.join(PARTS)}")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"--only: there is no part {unknown[0]!r}; there are {', '.join(PARTS)}.")
    if "BENCH_SERVERS" not in os.environ:
        _with_own_servers()
    size = QUICK if options.quick else FULL
    found = _measure(size, parts)
    _tell(found, size)
    if options.json:
        print(json.dumps(found))


def _with_own_servers() -> None:
    """Start anew beside servers of its own. What DATABASE_URL and REDIS_URL name is never touched."""
    env = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    services = [sys.executable, "-m", "takeover.supervisor.services", "--durable", "--"]
    os.chdir(ROOT)
    os.execve(sys.executable, [*services, sys.executable, *sys.argv], env | {"BENCH_SERVERS": "1"})  # noqa: S606


def _measure(size: Size, parts: Sequence[str]) -> dict[str, Any]:
    with connect() as database:
        database.execute(TABLES)
    found: dict[str, Any] = {"machine": _machine()}
    with _ledger() as url, Kept(NAMES, os.environ | SOONER | {"LEDGER_URL": url}) as kept:
        for name in NAMES:
            kept[name].run("prepare")
        if "steps" in parts:
            found |= _steps(kept, size)
        if "wakes" in parts:
            found["wake_ms"] = _wakes(kept, size)
        if "kills" in parts:
            with ThreadPoolExecutor(size.killed_at_once) as pool:
                done = pool.map(lambda name: _kills(kept[name], url, size), NAMES)
                found["kills"] = dict(zip(NAMES, done, strict=True))
        if "growth" in parts:
            found["growth"] = kept["takeover"].run(
                "growth", histories=size.histories, stored=size.stored, times=size.growth_times
            )
        if "pools" in parts:
            found["pools"] = pools(kept["takeover"], size.sleepers, size.in_a_worker)
            found["together"] = fairness(kept["takeover"], size.together, size.in_a_worker)
    return found


def _machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    with connect() as database:
        server = database.execute("SHOW server_version").fetchone()
        began = time.monotonic()
        for number in range(50):
            database.execute("INSERT INTO bench_run VALUES ('machine', %s, 0)", (str(number),))
        commit_ms = (time.monotonic() - began) * 1000 / 50
    return {
        "cores": os.cpu_count(),
        "processor": model,
        "python": platform.python_version(),
        "postgresql": server[0] if server else "",
        "one_row_committed_ms": round(commit_ms, 2),
        "load": round(os.getloadavg()[0], 1),
    }


# Steps


@dataclass(frozen=True)
class Counters:
    """What the database counted: transactions that wrote, and bytes of its log."""

    transactions: int
    wal: int

    @classmethod
    def now(cls) -> "Counters":
        with connect() as database:
            row = database.execute(
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
                " pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
            ).fetchone()
        assert row
        return cls(*row)


def _steps(kept: Kept, size: Size) -> dict[str, Any]:
    speed: dict[str, dict[str, list[float]]] = {name: {str(n): [] for n in size.runs} for name in NAMES}
    commits: dict[str, list[float]] = {name: [] for name in NAMES}
    wal: dict[str, list[float]] = {name: [] for name in NAMES}
    memory: dict[str, float] = {}
    for number in range(size.rounds):
        for name in NAMES:
            for at_once, runs in size.runs.items():
                one = _drive(kept[name], f"{number}-{at_once}", at_once, runs)
                speed[name][str(at_once)].append(one["steps_per_s"])
                if at_once == 1:
                    commits[name].append(one["commits"])
                    wal[name].append(one["wal"])
                memory[name] = one["rss_mb"]
    writes = [_drive(kept["takeover"], f"w{n}", 1, 3, steps=11, workflow="writing") for n in range(size.rounds)]
    medians = {
        name: {n: round(statistics.median(found)) for n, found in lanes.items()} for name, lanes in speed.items()
    }
    return {
        "steps_per_s": medians,
        "times_takeover": {
            name: {n: round(found / medians["takeover"][n], 2) for n, found in lanes.items()}
            for name, lanes in medians.items()
        },
        "commits_per_step": {
            "read": round(statistics.median(commits["takeover"]), 2),
            "write": round(statistics.median(one["commits"] for one in writes), 2),
            **{name: round(statistics.median(found), 2) for name, found in commits.items() if name != "takeover"},
        },
        "wal_bytes_per_step": {
            "read": round(statistics.median(wal["takeover"])),
            "write": round(statistics.median(one["wal"] for one in writes)),
            **{name: round(statistics.median(found)) for name, found in wal.items() if name != "takeover"},
        },
        "worker_rss_mb": {name: round(mb) for name, mb in memory.items()},
    }


def _drive(nursery: Nursery, label: str, at_once: int, runs: int, steps: int = STEPS, **more: Any) -> dict[str, float]:
    """`at_once` lanes of so many runs each: one process for one lane, one for each slot for more."""
    processes = min(at_once, SLOTS)
    lanes = [[f"{label}-{lane}-{run}" for run in range(runs)] for lane in range(at_once)]
    workers, shares = [], [lanes[number::processes] for number in range(processes)]
    if nursery.has_workers:
        workers = [nursery.start("work", slot=slot, at_once=len(share)) for slot, share in enumerate(shares)]
        shares = [lanes]
    drivers = [nursery.start("lanes", lanes=share, steps=steps, **more) for share in shares]
    before, began = Counters.now(), time.monotonic()
    for driver in drivers:
        nursery.go(driver)
    done = [nursery.done(driver) for driver in drivers]
    seconds, after = time.monotonic() - began, Counters.now()
    rss_mb = nursery.rss_mb(workers[0]) if workers else done[0]["rss_mb"]
    for worker in workers:
        nursery.kill(worker)
    total = at_once * runs * steps
    return {
        "steps_per_s": total / seconds,
        "commits": (after.transactions - before.transactions) / total,
        "wal": (after.wal - before.wal) / total,
        "rss_mb": rss_mb,
    }


# From a message to the first commit


def _wakes(kept: Kept, size: Size) -> dict[str, Any]:
    pair = ("takeover", "celery")
    workers = {name: kept[name].start("work", slot=9, at_once=1) for name in pair}
    found: dict[str, list[float]] = {name: [] for name in pair}
    for _ in range(4):
        for name in pair:
            found[name] += kept[name].run("wakes", count=size.wakes // 4)
    memory = {name: round(kept[name].rss_mb(worker)) for name, worker in workers.items()}
    for name, worker in workers.items():
        kept[name].kill(worker)
    medians = {name: round(statistics.median(ms), 2) for name, ms in found.items()}
    p95 = {name: round(statistics.quantiles(ms, n=20)[-1], 2) for name, ms in found.items()}
    ratio = round(medians["takeover"] / medians["celery"], 2)
    return {"median": medians, "p95": p95, "ratio": ratio, "celery_worker_rss_mb": memory}


# Workers killed in the middle


def _kills(nursery: Nursery, ledger: str, size: Size) -> dict[str, Any]:
    """Kill a worker, put another into its place, and again; then see what the ledger says of each run."""
    chance = random.Random(4)
    for name in nursery.beside:
        nursery.start(name)
    workers = [nursery.start("work", slot=slot, at_once=8) for slot in range(SLOTS)]
    feeder = nursery.start("feed", open_at_once=size.open_runs, slots=SLOTS, patience=size.patience)
    for _ in range(size.kills):
        time.sleep(chance.uniform(0.3, 1.0))
        slot = chance.randrange(SLOTS)
        nursery.kill(workers[slot])
        workers[slot] = nursery.start("work", slot=slot, at_once=8)
    nursery.go(feeder)
    fed = nursery.done(feeder)
    for pid in [*workers, *nursery.running]:
        nursery.kill(pid)
    summary = _ask(ledger, f"/summary?prefix={nursery.name}-")
    by_run, unfinished = summary["by_run"], set(fed["unfinished"])
    return {
        "kills": size.kills,
        "runs": len(fed["runs"]),
        "effects": summary["effects"],
        "duplicates": summary["duplicates"],
        "stuck": len(unfinished),
        # Said to be finished, and an effect is missing.
        "lost": sum(by_run.get(run, 0) < EFFECTS for run in fed["runs"] if run not in unfinished),
        "settled_in_s": round(fed["settled_in_s"], 1),
    }


@contextmanager
def _ledger() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "bench.ledger", str(port), str(ANSWERS_AFTER)], cwd=ROOT)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                _ask(url, "/summary?prefix=-")
                break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


def _ask(ledger: str, path: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(ledger.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", path)
        return dict(json.load(connection.getresponse()))
    finally:
        connection.close()


# Telling


def _tell(found: dict[str, Any], size: Size) -> None:
    machine = found["machine"]
    print(f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, PostgreSQL", end=" ")
    print(
        f"{machine['postgresql']}; one row committed in {machine['one_row_committed_ms']} ms; load {machine['load']}\n"
    )
    if "steps_per_s" in found:
        print(f"steps/s, median of {size.rounds} rounds; in brackets beside Takeover")
        print(f"{'':<16}{'1 run':>16}{'8 runs':>16}{'commits/step':>14}{'WAL B/step':>12}{'RSS MB':>8}")
        for name in NAMES:
            speed, beside = found["steps_per_s"][name], found["times_takeover"][name]
            cells = [f"{speed[n]} ({beside[n]:.2f})" for n in speed]
            commits = found["commits_per_step"].get(name, found["commits_per_step"]["read"])
            wal = found["wal_bytes_per_step"].get(name, found["wal_bytes_per_step"]["read"])
            rss = found["worker_rss_mb"][name]
            print(f"{name:<16}{cells[0]:>16}{cells[1]:>16}{commits:>14}{wal:>12}{rss:>8}")
        commits, wal = found["commits_per_step"]["write"], found["wal_bytes_per_step"]["write"]
        print(f"{'  a write of it':<48}{commits:>14}{wal:>12}\n")
    if "wake_ms" in found:
        wake = found["wake_ms"]
        print("from a message to the first commit, ms: median (95 %), and a worker's RSS")
        for name, ms in wake["median"].items():
            print(f"{name:<16}{ms:>8} ({wake['p95'][name]}) {wake['celery_worker_rss_mb'][name]:>8} MB")
        print(f"{'ratio':<16}{wake['ratio']:>8}\n")
    if "kills" in found:
        print(f"{'workers killed':<16}{'kills':>8}{'runs':>8}{'effects':>9}", end="")
        print(f"{'duplicate':>11}{'stuck':>7}{'lost':>6}{'settled in':>12}")
        for name, one in found["kills"].items():
            figures = f"{one['kills']:>8}{one['runs']:>8}{one['effects']:>9}{one['duplicates']:>11}"
            print(f"{name:<16}{figures}{one['stuck']:>7}{one['lost']:>6}{one['settled_in_s']:>10} s")
        print()
    if "growth" in found:
        for what, said in (("step_of_run", "at a run's step"), ("runs_stored", "among stored runs")):
            for count, one in found["growth"][what].items():
                print(f"{said:<20}{int(count):>10,}{one['ms']:>8} ms a step, ratio {one['ratio']}")
        print(f"{found['growth']['events_stored']:,} events, made in {found['growth']['stored_in_s']} s\n")
    if "pools" in found:
        for pool, one in found["pools"].items():
            print(f"{pool:<10}{one['runs']} runs of a second each in {one['seconds']} s, {one['pss_mb']} MB in all")
        all_of_them = found["together"]
        print(f"{all_of_them['runs']} runs due at once, done in {all_of_them['seconds']} s,", end=" ")
        print(f"{all_of_them['unserved']} unserved; waits {all_of_them['wait_s']} s;", end=" ")
        print(f"furthest behind its turn: {all_of_them['behind']} runs\n")


if __name__ == "__main__":
    main()
