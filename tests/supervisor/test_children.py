"""One child: ready, asked to stop, insisted upon, killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from takeover.supervisor.children import Child, stop
from tests.processes import wait_until

STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
)


def python(code: str, **options: object) -> Child:
    return Child("child", [sys.executable, "-c", code], dict(os.environ), **options)  # type: ignore[arg-type]


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
    child.start(subprocess.PIPE)
    assert child.process
    assert child.process.stdout
    child.process.stdout.readline()

    stop([child])

    assert child.exit_code == -signal.SIGKILL
    child.process.stdout.close()


def test_a_hurry_does_not_wait_for_its_patience() -> None:
    child = python(STUBBORN, patience=60)
    child.start(subprocess.PIPE)
    assert child.process
    assert child.process.stdout
    child.process.stdout.readline()
    started = time.monotonic()

    stop([child], hurried=lambda: True)

    assert time.monotonic() - started < 10
    child.process.stdout.close()


def test_several_stop_side_by_side() -> None:
    slow = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit())); "
    children = [python(slow + "print(1, flush=True); time.sleep(60)") for _ in range(4)]
    for number, child in enumerate(children):
        child.name = f"child-{number}"
        child.start(subprocess.PIPE)
    for child in children:
        assert child.process
        assert child.process.stdout
        child.process.stdout.readline()
        child.process.stdout.close()
    started = time.monotonic()

    stop(children)

    assert time.monotonic() - started < 3
    assert not any(child.running for child in children)
