"""The data folder of one installation: who holds it, where its sockets are, what a killed start left behind."""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import stat
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from takeover.supervisor import CannotStart, postgres
from takeover.supervisor.children import Child

ROOM = 200 * 1024 * 1024  # bytes; an empty database takes about 50 MB
APART = "takeover-"  # how a temporary folder for sockets is called


class Installation:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses_file = folder / "up.json"  # read by `takeover.environment`
        self.children_file = folder / "children.json"
        self.demo_done = folder / "demo-done"

    @contextmanager
    def held(self) -> Iterator[None]:
        """The folder is ours, empty of leftovers and with a place for sockets, until the block ends."""
        self._make()
        lock = self._lock()
        try:
            self._stop_leftovers()
            self._make_sockets()
            yield
        finally:
            self.addresses_file.unlink(missing_ok=True)
            self.children_file.unlink(missing_ok=True)
            self._remove_sockets()
            os.close(lock)

    @property
    def sockets(self) -> Path:
        return (self.folder / "sockets").resolve()

    def publish(self, addresses: Mapping[str, str]) -> None:
        """Let `manage.py` in another terminal find what runs here."""
        _write(self.addresses_file, json.dumps(addresses, indent=2))

    def callback_secret(self) -> str:
        """What the demo's back office signs its callbacks with, made once for this folder."""
        file = self.folder / "callback-secret"
        if not file.exists():
            _write(file, f"whsec_{b64encode(secrets.token_bytes(32)).decode()}")
        return file.read_text()

    def record(self, children: Sequence[Child]) -> None:
        alive = [Leftover.of(child) for child in children if child.running]
        _write(self.children_file, json.dumps([asdict(leftover) for leftover in alive if leftover]))

    def _make(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise CannotStart(cannot_write(self.folder, error)) from None
        if shutil.disk_usage(self.folder).free < ROOM:
            raise CannotStart(f"The disk that holds {self.folder} is full: free 200 MB, or choose another --data-dir.")

    def _lock(self) -> int:
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 20).decode() or "unknown"
            os.close(lock)
            raise CannotStart(
                f"Takeover already runs on {self.folder} (process {holder}): "
                f"stop it with Ctrl-C in its terminal or `kill {holder}`, or choose another --data-dir and --port."
            ) from None
        os.truncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        return lock

    def _stop_leftovers(self) -> None:
        try:
            found = [Leftover(**entry) for entry in json.loads(self.children_file.read_text())]
        except (OSError, ValueError, TypeError):
            return
        for leftover in reversed(found):
            leftover.stop()

    def _make_sockets(self) -> None:
        """In the data folder; where that has too long a path or cannot hold sockets, in a private temporary one."""
        self._remove_sockets()
        place = self.folder / "sockets"
        place.mkdir(mode=0o700)
        if _holds_sockets(place):
            return
        place.rmdir()
        other = Path(tempfile.mkdtemp(prefix=APART))
        if not _holds_sockets(other):
            other.rmdir()
            raise CannotStart(
                f"No unix socket can be made in {place} or in {other.parent} "
                "(a path of more than 107 bytes is too long): set TMPDIR to a short path such as /tmp."
            )
        place.symlink_to(other)

    def _remove_sockets(self) -> None:
        place = self.folder / "sockets"
        if not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
            return
        other = place.readlink()
        if _is_our_temporary(other):
            shutil.rmtree(other, ignore_errors=True)
        place.unlink()


@dataclass(frozen=True)
class Leftover:
    """A child as it was recorded: enough to be sure, later, that a process is this child and nobody else."""

    pid: int
    started: str
    command: list[str]
    stop_signal: int

    @classmethod
    def of(cls, child: Child) -> "Leftover | None":
        if child.process is None or (started := _start_time(child.process.pid)) is None:
            return None
        return cls(child.process.pid, started, list(child.argv), child.stop_signal)

    @property
    def exists(self) -> bool:
        return _start_time(self.pid) == self.started

    @property
    def alive(self) -> bool:
        if not self.exists:
            return False
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:
            return False
        # The recorded command may begin with the program that started this one in its place (`unshare`).
        return bool(command) and self.command[-len(command) :] == command

    def stop(self) -> None:
        if not self.alive:
            return
        for signum in (self.stop_signal, signal.SIGKILL):
            deadline = time.monotonic() + 15
            with contextlib.suppress(ProcessLookupError):
                if self.alive:
                    os.kill(self.pid, signum)
            # On its way out it has no command any more, and still its ports.
            while self.exists and time.monotonic() < deadline:
                time.sleep(0.05)


def _start_time(pid: int) -> str | None:
    """Clock ticks since boot; None for a process that is gone, or dead and not yet collected."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _holds_sockets(folder: Path) -> bool:
    path = folder / postgres.SOCKET
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(str(path))
        except OSError:
            return False
    path.unlink()
    return True


def _is_our_temporary(folder: Path) -> bool:
    """Whether we made it. Once the temporary folder was emptied, anybody may put a link of that name there instead."""
    if folder.parent != Path(tempfile.gettempdir()) or not folder.name.startswith(APART):
        return False
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700 and found.st_uid == os.geteuid()


def _write(file: Path, text: str) -> None:
    """Whole or not at all, and for the owner's eyes: the addresses may contain passwords."""
    partial = file.with_suffix(".partial")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    partial.rename(file)


def cannot_write(folder: Path, error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"The disk that holds {folder} is full: free 200 MB, or choose another --data-dir."
    return f"The data folder {folder} cannot be written to ({error.strerror}): choose another with --data-dir."
