"""The processes of each contender, as `bench.engine` sees them."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START = 60  # seconds for a process to be ready
WORK = 1800  # and to be done


class Nursery:
    """One contender's `bench.nursery`. Every process is known by its number; what it says is kept until asked for."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.name, self.env = name, dict(env)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.nursery", name],
            env=env,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: dict[int, queue.Queue[dict[str, Any]]] = {}
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.running: list[int] = []
        threading.Thread(target=self._listen, daemon=True).start()
        about = self._ask(do="about")
        self.has_workers, self.beside = about["workers"], about["beside"]

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if not line.startswith('{"pid"'):
                print(line, end="", file=sys.stderr)
                continue
            said = json.loads(line)
            if said["pid"] == self.process.pid:
                self.answers.put(said)
            else:
                self.said.setdefault(said["pid"], queue.Queue()).put(said)
        self.answers.put({"failed": self.name, "problem": "it ended"})

    def _ask(self, **asked: Any) -> dict[str, Any]:
        assert self.process.stdin
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        answer = self.answers.get(timeout=START)
        if "failed" in answer:
            raise RuntimeError(f"{self.name}: {answer}")
        return answer

    def start(self, what: str, ready: bool = True, **arguments: Any) -> int:
        """Start a process and wait until it is ready. Returns its number."""
        pid = int(self._ask(do=what, **arguments)["forked"])
        self.running.append(pid)
        if ready:
            self._hear(pid, START)
        return pid

    def go(self, pid: int) -> None:
        os.kill(pid, signal.SIGUSR1)

    def done(self, pid: int) -> Any:
        """What it found."""
        found = self._hear(pid, WORK)["found"]
        self.running.remove(pid)
        return found

    def run(self, what: str, **arguments: Any) -> Any:
        return self.done(self.start(what, ready=False, **arguments))

    def _hear(self, pid: int, seconds: float) -> dict[str, Any]:
        try:
            said = self.said.setdefault(pid, queue.Queue()).get(timeout=seconds)
        except queue.Empty:
            raise RuntimeError(f"{self.name}: process {pid} said nothing for {seconds} s") from None
        if "failed" in said:
            raise RuntimeError(f"{self.name}: {said['failed']}: {said['problem']}")
        return said

    def kill(self, pid: int) -> None:
        if pid in self.running:
            self.running.remove(pid)
            self._ask(kill=pid)

    def rss_mb(self, pid: int) -> float:
        return memory_mb(pid, "Rss")

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(timeout=10)


class Kept:
    """All nurseries, by name, for as long as the block lasts."""

    def __init__(self, names: Sequence[str], env: Mapping[str, str]) -> None:
        self.names, self.env = names, env
        self.nurseries: dict[str, Nursery] = {}

    def __enter__(self) -> "Kept":
        self.nurseries = {name: Nursery(name, self.env) for name in self.names}
        return self

    def __exit__(self, *_: object) -> None:
        for nursery in self.nurseries.values():
            nursery.end()

    def __getitem__(self, name: str) -> Nursery:
        return self.nurseries[name]


def memory_mb(pid: int, what: str) -> float:
    """Rss, or Pss: pages that several processes share are counted once among them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1024
    return 0.0
