"""A folder of files as a service: nothing leads out of it, nothing stands in it half written, no wait has no end.

Each part of a name is opened below the one before it, by descriptor, and no link is followed: between a check of a path
and its use the path may come to lead elsewhere. What is written goes beside its place, is flushed, and gets there by
one rename.

Who writes holds one lock, on the folder itself, and looks at the clock once more when the file is ready. The system
lets go of the lock when a process dies. So whoever holds it after the time of a write is over, and does not find that
write, knows that it cannot come any more. A disk that hangs cannot be interrupted: the deadline is kept between two
calls of the system, not within one. `flock` on a folder needs a local file system.
"""

import errno
import fcntl
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from runs.domain.errors import Failure, quoted
from runs.tools.tool import ToolFailed

MOST_BYTES = 1_000_000  # of one file
LONGEST_PART = 200  # bytes of one part of a name
LONGEST_NAME = 1000  # characters of all of it
AT_A_TIME = 64_000  # bytes between two looks at the clock
LOOK_EVERY = 0.01  # seconds, for somebody else's lock
PART = ".part"  # what is being written; under the lock it is nobody else's

# Letters, marks and signs that count as printable, and of which nothing is seen.
BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")

BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

CODE_OF_ERRNO = {
    errno.ENOENT: "not_found",
    errno.EACCES: "access_denied",
    errno.EPERM: "access_denied",
    errno.EROFS: "access_denied",
    errno.ELOOP: "invalid_input",  # a link
    errno.ENOTDIR: "invalid_input",  # a link, or a file, where a folder should be
    errno.EISDIR: "invalid_input",
    errno.ENXIO: "invalid_input",  # a socket
}


@dataclass(frozen=True)
class Content:
    """A file as it was read: `sha256` and `size` (bytes) are of its bytes, `text` is what they say."""

    text: str
    sha256: str
    size: int


class Folder:
    """One folder. Names are relative to it, in parts divided by `/`. Everything raises ToolFailed, and nothing else."""

    def __init__(self, path: str | Path) -> None:
        self.path = path

    def read(self, name: str, until: float, most: int = MOST_BYTES) -> Content:
        """A regular file of UTF-8 text, whole: at most `most` bytes, by the monotonic instant `until`."""
        *above, last = parts(name)
        with _plainly(name), self._directory(above) as directory:
            # Looked at before it is opened: opening alone does something to some devices.
            _refuse_what_is_no_file(name, os.stat(last, dir_fd=directory, follow_symlinks=False), most)
            file = os.open(last, READ, dir_fd=directory)
            try:
                content = _all_of(name, file, until, most)
            finally:
                os.close(file)
        try:
            text = content.decode()
        except UnicodeDecodeError as problem:
            where = f"byte {problem.start + 1} of {len(content)}"
            raise refused(f"{quoted(name)} is no text in UTF-8 ({where}): save it as UTF-8.") from None
        return Content(text, hashlib.sha256(content).hexdigest(), len(content))

    def find(self, name: str, until: float) -> Content | None:
        """As `read`; None where there is definitely no such file."""
        try:
            return self.read(name, until)
        except ToolFailed as failed:
            if failed.failure.code == "not_found":
                return None
            raise

    @contextmanager
    def locked(self, until: float) -> Iterator[None]:
        """While nobody else writes here, in whichever process. Who does not get that in time has done nothing."""
        with self._directory([]) as directory:
            with _plainly("the folder", executed=False):
                while True:
                    _refuse_what_is_late(until)
                    try:
                        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        sleep(LOOK_EVERY)
            yield  # closing the descriptor lets go of it

    def write(self, name: str, text: str, until: float) -> None:
        """Put a file there, whole or not at all, in the place of one that is there. Only under the lock."""
        *above, last = parts(name)
        content = _encoded(name, text)
        with self._directory(above, make=True) as directory:
            with _plainly(name, executed=False):
                try:
                    _make(directory, content)
                    _refuse_what_is_late(until)
                except BaseException:
                    _unmake(directory)
                    raise
            with _plainly(name):  # from here on it may have happened
                os.rename(PART, last, src_dir_fd=directory, dst_dir_fd=directory)
                os.fsync(directory)

    def move(self, name: str, to: str, until: float) -> None:
        """Give a file another name, at which there is none. Only under the lock, and after having looked."""
        *above, last = parts(name)
        *above_to, last_to = parts(to)
        with self._directory(above) as directory, self._directory(above_to, make=True) as directory_to:
            _refuse_what_is_late(until)
            with _plainly(name):
                os.rename(last, last_to, src_dir_fd=directory, dst_dir_fd=directory_to)
                os.fsync(directory_to)
                os.fsync(directory)

    @contextmanager
    def _directory(self, above: list[str], make: bool = False) -> Iterator[int]:
        """A descriptor of the folder below this one that `above` leads to."""
        with _plainly("the folder", executed=False):
            try:
                directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise ToolFailed(Failure("unreachable", "The folder is not there.", executed=False)) from None
        try:
            for part in above:
                with _plainly(part, executed=False):
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(part, 0o755, dir_fd=directory)
                    below = os.open(part, BELOW, dir_fd=directory)
                os.close(directory)
                directory = below
            yield directory
        finally:
            os.close(directory)


def parts(name: object) -> list[str]:
    """The parts of a name, none of which leads anywhere but down, or looks like something else than it is."""
    if isinstance(name, str) and len(name) > LONGEST_NAME:
        raise refused(f"{quoted(name)} is too long: a name has at most {LONGEST_NAME} characters.")
    found = name.split("/") if isinstance(name, str) else [""]
    for part in found:
        if not part or part.startswith("."):
            raise refused(f"{quoted(name)} leads nowhere below the folder: no part may be empty or begin with a dot.")
        if part != part.strip() or BLANK.search(part):
            raise refused(f"{quoted(name)} begins or ends with a space, or looks like it: give the file another name.")
        if not part.isprintable():
            raise refused(f"{quoted(name)} holds a character that cannot be seen: give the file another name.")
        if unicodedata.normalize("NFC", part) != part:
            raise refused(f"{quoted(name)} is written in decomposed characters: give the file a composed (NFC) name.")
        if len(part.encode()) > LONGEST_PART:
            raise refused(f"{quoted(name)} is too long: a part of a name has at most {LONGEST_PART} bytes.")
    return found


def refused(message: str) -> ToolFailed:
    """What somebody has to correct, and what nothing was done about."""
    return ToolFailed(Failure("invalid_input", message, executed=False))


def _refuse_what_is_late(until: float) -> None:
    if monotonic() >= until:
        raise ToolFailed(Failure("no_answer", "The time for it was over before anything was done.", executed=False))


def _refuse_what_is_no_file(name: str, found: os.stat_result, most: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise refused(f"{quoted(name)} is a link, and none is followed: copy the file itself.")
    if not stat.S_ISREG(found.st_mode):
        raise refused(f"{quoted(name)} is no regular file.")
    if found.st_nlink > 1:
        # The other name may stand outside, and the file be one that nobody meant to be read here.
        raise refused(f"{quoted(name)} has another name elsewhere (a hard link): copy the file itself.")
    if found.st_size > most:
        message = f"{quoted(name)} has {found.st_size} bytes; at most {most} are read."
        raise ToolFailed(Failure("too_large", message, executed=False))


def _all_of(name: str, file: int, until: float, most: int) -> bytes:
    before = os.fstat(file)
    _refuse_what_is_no_file(name, before, most)
    content = b""
    while chunk := os.read(file, AT_A_TIME):
        content += chunk
        if monotonic() >= until:
            raise ToolFailed(Failure("no_answer", f"Reading {quoted(name)} took too long."))
        if len(content) > most:
            break
    after = os.fstat(file)
    if (len(content), after.st_size, after.st_mtime_ns) != (before.st_size, before.st_size, before.st_mtime_ns):
        raise ToolFailed(Failure("unavailable", f"{quoted(name)} was being changed while it was read."))
    return content


def _encoded(name: str, text: str) -> bytes:
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise refused(f"What is to be written to {quoted(name)} is no text.") from None
    if len(content) > MOST_BYTES:
        raise refused(f"{quoted(name)} would have {len(content)} bytes; a file has at most {MOST_BYTES}.")
    return content


def _make(directory: int, content: bytes) -> None:
    _unmake(directory)  # of somebody who died over it
    file = os.open(PART, MAKE, 0o644, dir_fd=directory)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)


def _unmake(directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(PART, dir_fd=directory)


@contextmanager
def _plainly(name: str, executed: bool | None = None) -> Iterator[None]:
    """What the system says, as a failure with a stable code. `executed`: what is known about the write it was for."""
    try:
        yield
    except OSError as problem:
        code = CODE_OF_ERRNO.get(problem.errno or 0, "unavailable")
        raise ToolFailed(Failure(code, f"{quoted(name)}: {os.strerror(problem.errno or 0)}.", executed)) from problem
