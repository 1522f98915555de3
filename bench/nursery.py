"""One contender's processes: `python -m bench.nursery NAME`, a line of JSON in, lines of JSON out.

The contender is imported once and each of its processes is forked, so that one that was killed is replaced in a moment.
`{"do": NAME, ...}` forks a process that calls that function with what else the line says, and is answered with its
number; `{"kill": NUMBER}` kills one of them. All of them end with this one.
"""

import ctypes
import importlib
import json
import os
import random
import signal
import sys
import time
from resource import RUSAGE_SELF, getrusage
from types import ModuleType
from typing import Any

from bench.contenders import tell, wait_for_go

PR_SET_PDEATHSIG = 1


def main() -> None:
    contender = importlib.import_module(f"bench.contenders.{sys.argv[1]}")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    for line in sys.stdin:
        asked = json.loads(line)
        if doomed := asked.get("kill"):
            os.kill(doomed, signal.SIGKILL)
            os.waitpid(doomed, 0)  # until then no other process can have its number
            tell(killed=doomed)
            continue
        if asked["do"] == "about":
            tell(workers=contender.WORKERS, beside=contender.BESIDE)
            continue
        pid = os.fork()
        if pid == 0:
            _child(contender, asked.pop("do"), asked)
        tell(forked=pid)


def _child(contender: ModuleType, name: str, arguments: dict[str, Any]) -> None:
    """Never returns. What it was asked for ends with a line that says so, or that says what went wrong."""
    code = 0
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        random.seed()
        if name in {"work", *contender.BESIDE, "prepare"}:
            found = getattr(contender, name)(**arguments)
        else:
            found = OWN[name](contender, **arguments)
        tell(done=name, found=found)
    except BaseException as problem:
        tell(failed=name, problem=f"{type(problem).__name__}: {problem}")
        code = 1
    os._exit(code)


def lanes(contender: ModuleType, lanes: list[list[str]], steps: int, **more: Any) -> dict[str, float]:
    go = contender.lanes(lanes, steps, **more)
    wait_for_go()
    began = time.monotonic()
    go()
    return {"seconds": time.monotonic() - began, "rss_mb": getrusage(RUSAGE_SELF).ru_maxrss / 1024}


def feed(contender: ModuleType, open_at_once: int, slots: int, patience: float) -> dict[str, Any]:
    """Keep so many runs open until told to stop; then wait until all came to their end, or for `patience` seconds."""
    name = contender.__name__.rpartition(".")[2]
    tell(ready=True)
    started: list[str] = []
    while not signal.sigtimedwait({signal.SIGUSR1}, 0.05):
        for _ in range(open_at_once - len(set(started) - contender.finished())):
            started.append(f"{name}-{len(started):05}")
            contender.start(started[-1], len(started) % slots)
    stopped = time.monotonic()
    while (left := set(started) - contender.finished()) and time.monotonic() - stopped < patience:
        time.sleep(0.05)
    return {"runs": started, "unfinished": sorted(left), "settled_in_s": time.monotonic() - stopped}


def wakes(contender: ModuleType, count: int) -> list[float]:
    contender.wakes(3)
    return list(contender.wakes(count))


def make(contender: ModuleType, workflow: str, prefix: str, count: int, wake: bool) -> None:
    runs = contender.make(workflow, (f"{prefix}-{number:05}" for number in range(count)))
    for run in runs if wake else ():
        contender.wake(run)


def growth(contender: ModuleType, **arguments: Any) -> dict[str, Any]:
    from bench.growth import grow

    return grow(**arguments)


OWN = {"lanes": lanes, "feed": feed, "wakes": wakes, "make": make, "growth": growth}

if __name__ == "__main__":
    main()
