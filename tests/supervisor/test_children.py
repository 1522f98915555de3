"""One child: ready, asked to stop, insisted upon, killed."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

from takeover.supervisor.children import Child, stop
from tests.processes import wait_until

STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
)


def python(code: str, **options: object) -> Child:
    return Child("child", [sys.executable, "-c", code], dict(os.environ), **options)  # type: ignore[arg-type]


def listen_until_it_speaks(child: Child) -> None:
    child.start(subprocess.PIPE)
    assert child.process
    assert child.process.stdout
    with child.process.stdout as said:
        said.readline()


def test_it_is_ready_when_it_touched_its_marker(tmp_path: Path) -> None:
    marker = tmp_path / "ready"
    marker.touch()  # a stale one does not count
    child = python(f"import time; time.sleep(0.2); open({str(marker)!r}, 'w'); time.sleep(60)", marker=marker)

    child.start(subprocess.DEVNULL)

    assert not child.ready
    wait_until(lambda: child.ready)
    stop([child])


def test_it_stops_when_asked() -> None:
    child = python("import time; time.sleep(60)")
    child.start(subprocess.DEVNULL)

    stop([child])

    assert child.exit_code == -signal.SIGTERM


def test_it_is_killed_when_its_patience_is_over() -> None:
    child = python(STUBBORN, patience=0.2)
    listen_until_it_speaks(child)

    stop([child])

    assert child.exit_code == -signal.SIGKILL


def test_a_hurry_does_not_wait_for_its_patience() -> None:
    child = python(STUBBORN, patience=math.inf)
    listen_until_it_speaks(child)

    stop([child], hurried=lambda: True)

    assert child.exit_code == -signal.SIGKILL


def test_several_are_asked_before_any_is_waited_for(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    code = f"""
import signal, sys, time

def stop(*_):
    open({str(asked)!r}, "a").write("x")
    while open({str(asked)!r}).read() != "xxxx":  # until all four have been asked
        time.sleep(0.01)
    sys.exit()

signal.signal(signal.SIGTERM, stop)
print(1, flush=True)
time.sleep(60)
"""
    children = [python(code, patience=30) for _ in range(4)]
    for number, child in enumerate(children):
        child.name = f"child-{number}"
        listen_until_it_speaks(child)

    stop(children)

    assert [child.exit_code for child in children] == [0] * 4
