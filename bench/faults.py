"""Does a run survive the death of its process, wherever that comes? Every crash point of every story, one by one.

    .venv/bin/python bench/faults.py [--quick] [--json] [STORY …]

Each attempt has an order of its own at a real back office, and processes of its own: one dies at a point, and the next
carries on by the sweeper alone. The ten invariants of tests/faults/invariants.py are held against the service's books
at once after the death, and at the end. Then pairs on the write path: who recovers dies as well. Then processes that
stand still, are taken for dead and go on. With --json the last line is one JSON object; the exit code is 1 where
anything was broken.

--quick takes every twenty-fifth point of each story and a pair for each point of the write path; less where the machine
is too slow for that in a minute.
"""

import argparse
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import monotonic
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PATH = "write"  # whose pairs of points are taken
BESIDE = ("pairs", "stood still")  # walks of that story that are no story of their own
EVERY = 25  # th point of a quick walk
SECONDS = 40  # of a quick walk, after which it only has a look at what is left

Trial = tuple[str, Callable[[], list[str]]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a part of the points, within a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("story", nargs="*", help=f"these stories only; also {', '.join(BESIDE)}")
    chosen = parser.parse_args()
    if "DATABASE_URL" not in os.environ:  # a PostgreSQL of its own, gone with it
        services = [sys.executable, "-m", "takeover.supervisor.services", "--", sys.executable, *sys.argv]
        os.chdir(ROOT)
        os.execv(sys.executable, services)  # noqa: S606
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        result = measure(Path(folder), chosen.story, chosen.quick)
    if chosen.json:
        print(json.dumps(result))
    return int(result["violations"] > 0)


def measure(folder: Path, only: list[str], quick: bool) -> dict[str, Any]:
    began = monotonic()
    with trials_in(folder) as trials:
        from tests.faults.stories import STORIES

        if unknown := set(only) - {*STORIES, *BESIDE}:
            sys.exit(f"There is no story {unknown.pop()!r}; there are {', '.join([*STORIES, *BESIDE])}.")
        every, until = (EVERY, began + SECONDS) if quick else (1, inf)
        walks = only or [*STORIES, *BESIDE]
        deaths = {story: walk(story, single(trials, story, every), until) for story in walks if story in STORIES}
        others = {}
        if "pairs" in walks:
            others["pairs"] = walk("pairs", pair(trials, quick), until)
        if "stood still" in walks:
            others["stood_still"] = walk("stood still", stood_still(trials, every), until)
        attempts = trials.attempts
    seconds, processor = monotonic() - began, sum(sum(getrusage(who)[:2]) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    print(f"{attempts} processes, {seconds:.0f} s, {processor / attempts:.3f} s of processor time each")
    return {
        "deaths": deaths,
        **others,
        "violations": sum(part["violations"] for part in (*deaths.values(), *others.values())),
        "processes": attempts,
        "seconds": round(seconds, 1),
        "processor_s_per_process": round(processor / attempts, 4),
    }


def walk(name: str, trials: Iterator[Trial], until: float) -> dict[str, int]:
    """Make these attempts, but one at the most from `until` on; print what they broke, and count."""
    count = {"points": 0, "violations": 0}
    for where, attempt in trials:
        if count["points"] and monotonic() > until:
            print(f"{name}: the time is up, and points are left out")
            break
        found = attempt()
        count["points"] += 1
        count["violations"] += bool(found)
        for line in found:
            print(f"  {name}, {where}: {line}")
    print(f"{name:20} {count['points']:5} points  {count['violations']:3} with something broken", flush=True)
    return count


def single(trials: Any, story: str, every: int) -> Iterator[Trial]:
    for number in range(1, len(trials.points(story)) + 1, every):
        yield str(number), lambda number=number: trials.die(story, number)


def pair(trials: Any, quick: bool) -> Iterator[Trial]:
    """Pairs of points of which each leaves another world behind than the point before: all, or one for each first."""
    for first in new(trials.points(PATH)):
        seconds = new(trials.points_after(PATH, first))
        for second in seconds[len(seconds) // 2 :][:1] if quick else seconds:
            yield f"{first} and {second}", lambda both=(first, second): trials.die(PATH, *both)


def new(points: list[Any]) -> list[int]:
    return [number for number, point in enumerate(points, 1) if point.new]


def stood_still(trials: Any, every: int) -> Iterator[Trial]:
    free = [number for number, point in enumerate(trials.points(PATH), 1) if point.free]
    for number in free[::every]:
        yield str(number), lambda number=number: trials.stand_still(PATH, number)


@contextmanager
def trials_in(folder: Path) -> Iterator[Any]:
    """Trials against a database, a back office and a fork server that are gone afterwards."""
    sys.path.insert(0, str(ROOT))
    os.environ |= {"DJANGO_SETTINGS_MODULE": "takeover.settings", "WORKER": "1", "LOG_LEVEL": "ERROR"}
    import django

    django.setup()
    from django.db import connection

    from takeover.supervisor.children import stop
    from tests import processes
    from tests.faults.crashing import ForkServer
    from tests.faults.trials import Trials

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    product = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    child = processes.start_back_office(folder, port)
    office = processes.BackOffice(f"http://127.0.0.1:{port}")
    server = ForkServer(processes.product_env(office.url, folder / "documents"), folder / "forks.log")
    try:
        yield Trials(server, office)
    finally:
        server.stop()
        office.client.close()
        stop([child])
        processes.disconnect_everybody_else()
        connection.creation.destroy_test_db(product, verbosity=0)


if __name__ == "__main__":
    sys.exit(main())
