"""What the documents quote from a benchmark must be there to be measured."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_core_s_benchmark_runs_and_says_what_it_measured() -> None:
    command = [sys.executable, str(ROOT / "bench" / "decide.py"), "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["import"]["import_ms"] > 0
    assert all(row["ns"] > 0 and row["per_second"] > 0 for row in figures["decide"])
    assert figures["memory"]["ratio"]["bytes"] < 1.5, "a long history makes a run larger"
