"""bench/engine.py runs in an environment of its own and says so in any other; its ledger counts."""

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from takeover.supervisor.children import Child
from tests.processes import launch

ROOT = Path(__file__).resolve().parents[2]


def test_without_the_contenders_it_says_what_to_start() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "engine.py", "--quick"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.startswith("The contenders are not installed here: start bench/engine")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])

    def answers() -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    child = launch(
        Child("ledger", [sys.executable, "-m", "bench.ledger", str(port)], {"PATH": ""}, is_ready=answers),
        tmp_path / "ledger.log",
    )
    yield port
    child.kill()


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request(method, path, json.dumps(body) if body else None)
        return json.load(connection.getresponse())


def test_the_ledger_counts_what_arrived_twice_of_the_runs_that_are_asked_for(ledger: int) -> None:
    for run, step in (("a-1", 0), ("a-1", 0), ("a-1", 1), ("b-1", 0), ("b-1", 0)):
        ask(ledger, "POST", "/effects", {"run": run, "step": step, "operation_key": f"{run}-{step}"})

    assert ask(ledger, "GET", "/summary?prefix=a-") == {"effects": 3, "duplicates": 1, "by_run": {"a-1": 2}}
    assert len(ask(ledger, "GET", "/effects?operation_key=a-1-0")["records"]) == 2
    assert ask(ledger, "GET", "/effects?operation_key=c-1-0") == {"records": []}


def test_the_contenders_environment_has_the_product_s_own_packages_in_the_same_versions() -> None:
    def pinned(lock: str) -> set[str]:
        return {line.split()[0] for line in (ROOT / lock).read_text().splitlines() if line[:1].isalpha()}

    assert pinned("requirements.lock") <= pinned("bench/contenders.lock")
