"""The folder as a service: nothing leads out of it, nothing is half written, and no wait has no end."""

import errno
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from runs.domain.effects import Answer, what_a_failure_means
from runs.domain.errors import ErrorClass, Failure
from runs.tools import folder as module
from runs.tools.folder import MOST_BYTES, PART, Folder
from runs.tools.tool import ToolFailed
from tests.documents import System, strike


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "elsewhere.txt").write_text("not for you")
    path = tmp_path / "documents"
    path.mkdir()
    (path / "a.md").write_text("one")
    return Folder(path)


def soon() -> float:
    return monotonic() + 5


def failure(do: Callable[[], Any]) -> Failure:
    with pytest.raises(ToolFailed) as failed:
        do()
    return failed.value.failure


def write(folder: Folder, name: str, text: str, until: float = 0) -> None:
    with folder.locked(soon()):
        folder.write(name, text, until or soon())


def at(folder: Folder, name: str) -> Path:
    return Path(folder.path) / name


@pytest.mark.parametrize(
    "name",
    [
        "../elsewhere.txt",
        "sub/../../elsewhere.txt",
        "/etc/hostname",
        "",
        ".",
        "sub//a.md",
        "a.md/",
        ".hidden",
        "a\x00.md",
        "a\n.md",
        "a\x1b[2J.md",
        "invoice\u202efdp.md",
        "a\u200b.md",
        "a\u2028.md",
        "\ud800.md",
        "e\u0301.md",
        "x" * 201,
        "a/" * 500 + "a.md",
        "a.md ",
        "sub/\u3000a.md",
        "a.md\u3164",
        "a\ufe0f.md",
        "\u2800.md",
        None,
        7,
    ],
)
def test_a_name_that_leads_out_or_deceives_the_eye_is_refused_before_anything_is_opened(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, name: Any
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(module, "os", System(open=lambda *given, **named: opened.append("open")))

    for do in (lambda: folder.read(name, soon()), lambda: folder.write(name, "x", soon())):
        failed = failure(do)
        assert (failed.error_class, failed.executed) == (ErrorClass.INVALID_INPUT, False)
        assert failed.message.isprintable()
    assert not opened


def test_a_name_in_any_script_is_a_name(folder: Folder) -> None:
    write(folder, "雨量/é 2025 (1).md", "fell")

    assert folder.read("雨量/é 2025 (1).md", soon()).text == "fell"


def link_to_a_file(where: Path) -> None:
    where.symlink_to("a.md")


def link_that_leads_out(where: Path) -> None:
    where.symlink_to("../elsewhere.txt")


def link_to_itself(where: Path) -> None:
    where.symlink_to(where.name)


def hard_link(where: Path) -> None:
    where.hardlink_to(where.parent.parent / "elsewhere.txt")


def pipe(where: Path) -> None:
    os.mkfifo(where)


def listening_socket(where: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(where))


def folder_of_that_name(where: Path) -> None:
    where.mkdir()


def device(where: Path) -> None:
    try:
        os.mknod(where, 0o666 | 0o020000, os.makedev(1, 5))  # endless zeros
    except PermissionError:
        pytest.skip("only root can make devices")


ODD = [
    link_to_a_file,
    link_that_leads_out,
    link_to_itself,
    hard_link,
    pipe,
    listening_socket,
    folder_of_that_name,
    device,
]


@pytest.mark.parametrize("make", ODD)
def test_what_is_no_plain_file_of_its_own_is_not_read_and_nobody_waits_for_it(
    folder: Folder, make: Callable[[Path], None]
) -> None:
    make(at(folder, "odd.md"))

    failed = failure(lambda: folder.read("odd.md", soon()))

    assert failed.error_class is ErrorClass.INVALID_INPUT
    assert "odd.md" in failed.message


@pytest.mark.parametrize("make", [link_to_a_file, link_that_leads_out, hard_link, pipe])
def test_what_becomes_a_link_between_the_look_and_the_opening_is_not_followed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    odd = at(folder, "odd.md")
    odd.write_text("plain")

    def exchanged(*given: Any, **named: Any) -> os.stat_result:
        found = os.stat(*given, **named)
        odd.unlink()
        make(odd)
        return found

    monkeypatch.setattr(module, "os", System(stat=exchanged))

    assert failure(lambda: folder.read("odd.md", soon())).error_class is ErrorClass.INVALID_INPUT


def test_a_folder_that_is_a_link_is_not_gone_through_neither_to_read_nor_to_write(
    folder: Folder, tmp_path: Path
) -> None:
    at(folder, "sub").symlink_to("..")

    assert failure(lambda: folder.read("sub/elsewhere.txt", soon())).error_class is ErrorClass.INVALID_INPUT
    assert failure(lambda: write(folder, "sub/elsewhere.txt", "mine")).error_class is ErrorClass.INVALID_INPUT
    assert (tmp_path / "elsewhere.txt").read_text() == "not for you"


def test_writing_in_the_place_of_a_link_replaces_the_link_and_not_what_it_leads_to(
    folder: Folder, tmp_path: Path
) -> None:
    at(folder, "odd.md").symlink_to("../elsewhere.txt")
    at(folder, PART).symlink_to("../elsewhere.txt")

    write(folder, "odd.md", "mine")

    assert (tmp_path / "elsewhere.txt").read_text() == "not for you"
    assert not at(folder, "odd.md").is_symlink()


def test_a_file_larger_than_the_cap_is_not_read(folder: Folder) -> None:
    with at(folder, "large.md").open("wb") as file:
        file.truncate(MOST_BYTES + 1)

    assert failure(lambda: folder.read("large.md", soon())).code == "too_large"
    assert failure(lambda: folder.read("a.md", soon(), most=2)).code == "too_large"
    assert failure(lambda: write(folder, "b.md", "x" * (MOST_BYTES + 1))).error_class is ErrorClass.INVALID_INPUT


@pytest.mark.parametrize("content", [b"caf\xe9", b"\xff\xfe1\x00", b"one\xc3"])
def test_what_is_not_utf_8_is_said_to_be_so_and_where(folder: Folder, content: bytes) -> None:
    at(folder, "latin.md").write_bytes(content)

    failed = failure(lambda: folder.read("latin.md", soon()))

    assert failed.error_class is ErrorClass.INVALID_INPUT
    assert "UTF-8" in failed.message
    assert "byte" in failed.message


def test_a_file_that_is_being_changed_is_read_another_time(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(file: int, most: int) -> bytes:
        with at(folder, "a.md").open("a") as more:
            more.write("more")
        monkeypatch.undo()
        return os.read(file, most)

    monkeypatch.setattr(module, "os", System(read=read))

    assert failure(lambda: folder.read("a.md", soon())).code == "unavailable"


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (errno.ENOENT, ErrorClass.NOT_FOUND),
        (errno.EACCES, ErrorClass.PERMISSION),
        (errno.EIO, ErrorClass.TRANSIENT),
        (errno.ESTALE, ErrorClass.TRANSIENT),
        (errno.EMFILE, ErrorClass.TRANSIENT),
    ],
)
def test_what_the_system_says_of_a_read_has_a_class(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, error: int, error_class: ErrorClass
) -> None:
    strike(monkeypatch, "open", error)
    if error == errno.ENOENT:  # of the file, not of the folder
        monkeypatch.undo()
        at(folder, "a.md").unlink()

    assert failure(lambda: folder.read("a.md", soon())).error_class is error_class


def test_a_folder_that_is_not_there_is_no_missing_file(tmp_path: Path) -> None:
    gone = Folder(tmp_path / "gone")

    for do in (lambda: gone.find("a.md", soon()), lambda: write(gone, "a.md", "x")):
        assert (failure(do).code, failure(do).executed) == ("unreachable", False)
    assert not (tmp_path / "gone").exists()


# Writing


@pytest.mark.parametrize(
    ("function", "error"),
    [("open", errno.EMFILE), ("write", errno.ENOSPC), ("write", errno.EDQUOT), ("fsync", errno.EIO)],
)
def test_what_fails_before_the_file_is_in_its_place_is_known_not_to_have_happened(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, function: str, error: int
) -> None:
    strike(monkeypatch, function, error)

    failed = failure(lambda: write(folder, "a.md", "two"))

    assert what_a_failure_means(failed, looking=False) is Answer.NOT_EXECUTED
    assert [file.name for file in Path(folder.path).iterdir()] == ["a.md"]
    assert at(folder, "a.md").read_text() == "one"


@pytest.mark.parametrize("after", [False, True])
def test_what_fails_while_the_file_gets_to_its_place_is_not_known(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    strike(monkeypatch, "rename", errno.EIO, after=after)

    failed = failure(lambda: write(folder, "a.md", "two"))

    assert what_a_failure_means(failed, looking=False) is Answer.UNREACHABLE
    assert at(folder, "a.md").read_text() == ("two" if after else "one")


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_all_of_them(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "os", System(write=lambda file, content: os.write(file, content[:7])))

    write(folder, "a.md", "word " * 50)

    assert at(folder, "a.md").read_text() == "word " * 50


def test_what_a_dead_writer_left_behind_is_in_nobodys_way(folder: Folder) -> None:
    at(folder, PART).write_text("hal")

    write(folder, "a.md", "two")

    assert {file.name: file.read_text() for file in Path(folder.path).iterdir()} == {"a.md": "two"}


def test_what_is_too_late_does_not_get_to_its_place_any_more(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stood still while it wrote goes on with its work, and others count on it that nothing comes."""
    until = soon()

    def stood_still(file: int) -> None:
        os.fsync(file)
        monkeypatch.setattr(module, "monotonic", lambda: until)

    monkeypatch.setattr(module, "os", System(fsync=stood_still))

    failed = failure(lambda: write(folder, "a.md", "two", until))

    assert (failed.code, failed.executed) == ("no_answer", False)
    assert at(folder, "a.md").read_text() == "one"


def test_who_does_not_get_the_lock_in_time_has_done_nothing(folder: Folder) -> None:
    with folder.locked(soon()):
        failed = failure(lambda: Folder(folder.path).locked(monotonic() + 0.03).__enter__())

    assert (failed.code, failed.executed) == ("no_answer", False)


def test_who_waits_for_the_lock_gets_it_once_it_is_free(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()

    def wait(seconds: float) -> None:
        waits.set()
        sleep(seconds)

    monkeypatch.setattr(module, "sleep", wait)
    other = threading.Thread(target=lambda: write(folder, "a.md", "two"))
    with folder.locked(soon()):
        other.start()
        assert waits.wait(5)
        assert folder.read("a.md", soon()).text == "one"
    other.join(5)

    assert folder.read("a.md", soon()).text == "two"


def test_the_lock_is_free_again_after_a_failure(folder: Folder) -> None:
    with pytest.raises(ToolFailed), folder.locked(soon()):
        folder.write("..", "x", soon())

    write(folder, "a.md", "two")
    assert at(folder, "a.md").read_text() == "two"


def test_no_descriptor_is_left_open(folder: Folder) -> None:
    at(folder, "odd.md").symlink_to("a.md")
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(5):
        failure(lambda: folder.read("odd.md", soon()))
        failure(lambda: folder.read("no/such/file.md", soon()))
        write(folder, "sub/b.md", "x")
        with folder.locked(soon()):
            folder.move("sub/b.md", "other/b.md", soon())

    assert len(os.listdir("/proc/self/fd")) == before
