"""What the rules cost: importing them, deciding, accounting, and whether a long history makes a step dearer.

    .venv/bin/python bench/decide.py [--quick] [--json]

With --json the last line is one JSON object. All times are processor time, so that neighbours disturb them little: an
import's is the median of several interpreters, everything else the best of several repetitions.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time
from timeit import Timer
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from runs.domain.budget import READ, Dimension, Ledger  # noqa: E402
from runs.domain.contract import Value  # noqa: E402
from runs.domain.decision import FactsState, NextStep, OpenEffect, Situation, decide  # noqa: E402
from runs.domain.effects import Answer, Effect, EffectState, WritePlan, after  # noqa: E402
from runs.domain.errors import ErrorClass, Failure  # noqa: E402
from runs.domain.progress import Progress, attempt_fingerprint  # noqa: E402
from runs.domain.states import Move, State, transition  # noqa: E402

CALM = Situation(Value.UNKNOWN, Value.MET, FactsState.COMPLETE, Value.MET, NextStep.WRITE)
OPEN_EFFECT = OpenEffect(EffectState.UNKNOWN, look_up_due=True, can_pay=True)
SITUATIONS = {  # the rule that decides, and what decides it
    1: ("lease lost", replace(CALM, holds_lease=False)),
    8: ("contract met", replace(CALM, contract=Value.MET)),
    9: ("look-up due", replace(CALM, open_effect=OPEN_EFFECT)),
    10: ("steps used up", replace(CALM, short_of=Dimension.STEPS)),
    12: ("read to be retried", replace(CALM, failure=Failure("rate_limited", ""))),
    14: ("approval needed", replace(CALM, approval_needed=True)),
    15: ("act, the longest way", CALM),
}
ROUND = 6  # steps after which `Memory.after_step` begins anew
HISTORIES = (10, 10_000)  # steps; both end at the same place of a round
TOOLS = ("authority", "orders", "policy")
PLAN = WritePlan("refund", "order B456", {"order_id": "B456", "amount": 4900}, (), "7", "a receipt", "none", "low")


@dataclass(frozen=True)
class Memory:
    """All that the rules know of a run between two steps."""

    ledger: Ledger
    progress: Progress
    effect: Effect

    @classmethod
    def at_the_start(cls) -> "Memory":
        ledger = Ledger.of({Dimension.STEPS: 10**9, Dimension.TOOL_ATTEMPTS: 10**9, Dimension.EXTERNAL_WRITES: 1})
        effect = Effect("key-1", EffectState.SENT, PLAN, datetime(2026, 9, 25, tzinfo=UTC), times_sent=1)
        return cls(ledger, Progress(), effect)

    def after_step(self, number: int) -> "Memory":
        """A read that fails every other time, and a look-up that finds the write still pending."""
        tool = TOOLS[number % len(TOOLS)]
        progress = self.progress.observed(attempt_fingerprint("shop", tool, {"order_id": "B456"}, {"seen": number}))
        progress = progress.failed(tool, ErrorClass.TRANSIENT) if number % 2 else progress.succeeded(tool)
        effect = replace(
            self.effect,
            state=after(self.effect.state, Answer.PENDING),
            look_ups=self.effect.look_ups + 1,
            last_answer=Answer.PENDING,
        )
        return Memory(self.ledger.reserve(READ).settle(READ), progress, effect)

    def after_steps(self, count: int) -> "Memory":
        memory = self
        for number in range(count):
            memory = memory.after_step(number)
        return memory


LEDGER = Memory.at_the_start().ledger


@dataclass(frozen=True)
class Bench:
    seconds: float  # that one repetition takes, about
    starts: int  # of an interpreter
    repetitions: int = 5

    def ns(self, *calls: Callable[[], object]) -> list[float]:
        """Nanoseconds of processor time that each call takes, in turns: what disturbs one disturbs the others."""
        timers = [Timer(call, timer=process_time) for call in calls]
        numbers = [max(1, int(self.seconds / max(timer.timeit(100) / 100, 1e-9))) for timer in timers]
        rounds = [
            [timer.timeit(number) / number for timer, number in zip(timers, numbers, strict=True)]
            for _ in range(self.repetitions)
        ]
        return [round(min(times) * 1e9, 1) for times in zip(*rounds, strict=True)]

    def importing(self) -> dict[str, float]:
        modules = [file.stem for file in sorted((ROOT / "runs" / "domain").glob("*.py")) if file.stem != "__init__"]
        names = ", ".join(f"runs.domain.{module}" for module in modules)
        full = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {names}"
        said = subprocess.run(
            [sys.executable, "-I", "-c", f"{full}; print(*sys.modules)"], capture_output=True, check=True
        )
        theirs = [
            name for name in said.stdout.decode().split() if not name.startswith(("runs", "__", "_frozen", "sys"))
        ]
        library = f"import sys; import {', '.join(theirs)}"
        triples = [(self._start_ms("pass"), self._start_ms(library), self._start_ms(full)) for _ in range(self.starts)]
        bare_ms, library_ms, full_ms = (statistics.median(times) for times in zip(*triples, strict=True))
        return {
            "bare_start_ms": round(bare_ms, 2),
            "standard_library_ms": round(library_ms - bare_ms, 2),
            "import_ms": round(full_ms - library_ms, 2),
        }

    def _start_ms(self, code: str) -> float:
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-I", "-c", code], check=True)
        now = getrusage(RUSAGE_CHILDREN)
        return (now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime) * 1000

    def deciding(self) -> list[dict[str, Any]]:
        for rule, (name, situation) in SITUATIONS.items():
            assert decide(situation).rule == rule, name
        times = self.ns(*(partial(decide, situation) for _, situation in SITUATIONS.values()))
        return [
            {"rule": rule, "situation": name, "ns": ns, "per_second": round(1e9 / ns)}
            for (rule, (name, _)), ns in zip(SITUATIONS.items(), times, strict=True)
        ]

    def remembering(self) -> dict[str, Any]:
        """What is held after a history of each length, and what the next step costs."""
        _remember(ROUND)  # fills caches that would count as held by whoever comes first
        memories, held = zip(*map(_remember, HISTORIES), strict=True)
        times = self.ns(*(partial(memory.after_steps, ROUND) for memory in memories))
        short, long = ({"bytes": size, "step_ns": round(ns / ROUND, 1)} for size, ns in zip(held, times, strict=True))
        ratio = {what: round(long[what] / short[what], 2) for what in short}
        return {str(HISTORIES[0]): short, str(HISTORIES[1]): long, "ratio": ratio}


def _remember(steps: int) -> tuple[Memory, int]:
    """The memory after so many steps, and how many bytes it occupies."""
    gc.collect()
    tracemalloc.start()
    memory = Memory.at_the_start().after_steps(steps)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return memory, held


def main() -> None:
    parser = argparse.ArgumentParser(description="What the rules cost.")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: some seconds in all")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    bench = Bench(seconds=0.01 if options.quick else 0.2, starts=5 if options.quick else 25)
    found = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "import": bench.importing(),
        "decide": bench.deciding(),
        "transition_ns": bench.ns(partial(transition, State.BLOCKED, Move.RECONCILE_REQUESTED))[0],
        "reserve_and_settle_ns": bench.ns(lambda: LEDGER.reserve(READ).settle(READ))[0],
        "memory": bench.remembering(),
    }
    _tell(found)
    if options.json:
        print(json.dumps(found))


def _tell(found: dict[str, Any]) -> None:
    print(f"Python {found['python']} on {found['cores']} cores\n")
    starts = found["import"]
    print(
        f"import of runs.domain  {starts['import_ms']:8.1f} ms, on top of {starts['standard_library_ms']} ms for the"
        f" standard library's modules that it uses and {starts['bare_start_ms']} ms for a bare start\n"
    )
    for one in found["decide"]:
        print(f"rule {one['rule']:>2}  {one['situation']:<22} {one['ns']:8.0f} ns {one['per_second']:>12,} decisions/s")
    for name in ("transition", "reserve_and_settle"):
        ns = found[f"{name}_ns"]
        print(f"         {name.replace('_', ' '):<22} {ns:8.0f} ns {round(1e9 / ns):>12,} /s")
    print()
    for steps in HISTORIES:
        one = found["memory"][str(steps)]
        print(f"after {steps:>6,} steps: {one['bytes']:>6,} bytes held, {one['step_ns']:8.0f} ns for a step")
    ratio = found["memory"]["ratio"]
    print(f"ratio, 1 is flat:    {ratio['bytes']:.2f} in bytes, {ratio['step_ns']:.2f} in time")


if __name__ == "__main__":
    main()
