"""`manage.py up` as a person meets it: the whole installation from nothing, killed outright, and started again."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from takeover.supervisor.children import CLONE
from tests.processes import wait_until

# As in a terminal: neither the tests' servers nor their settings.
BARE = {name: value for name, value in os.environ.items() if not name.endswith(("_URL", "_SETTINGS_MODULE"))}


class Up:
    """One start on a data folder; what it prints goes to a file beside it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.log = folder.with_name(f"up-{len(list(folder.parent.iterdir()))}.log")
        command = [sys.executable, str(CLONE / "manage.py"), "up", "--no-demo", "--data-dir", str(folder), *options]
        with self.log.open("w") as output:
            self.process = subprocess.Popen(command, env=BARE, stdout=output, stderr=output)

    @property
    def said(self) -> str:
        return self.log.read_text()

    def wait_until_ready(self) -> None:
        wait_until(lambda: "Takeover is ready" in self.said or self.process.poll() is not None, within=120)
        assert self.process.poll() is None, self.said


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="t-") as parent:
        yield Path(parent) / "data"


@pytest.fixture
def port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def refusal(folder: Path, *options: str) -> str:
    up = Up(folder, *options)
    assert up.process.wait(60) == 1
    return up.said


def processes_of(folder: Path) -> list[int]:
    """Those that were started with this data folder in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"TAKEOVER_DATA_DIR={folder}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def test_it_serves_survives_a_kill_and_leaves_nothing_behind(folder: Path, port: str) -> None:
    first = Up(folder, "--port", port, "--workers", "1")
    try:
        first.wait_until_ready()
        assert "not signed in" not in first.said  # its own questions whether it is ready are no attempts
        addresses = json.loads((folder / "up.json").read_text())
        assert addresses["SITE_URL"] == f"http://localhost:{port}"
        assert httpx2.get(addresses["SITE_URL"], follow_redirects=True).status_code == 200
        with psycopg.connect(addresses["DATABASE_URL"]) as application:
            application.execute("SELECT FROM runs_event")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                application.execute("DELETE FROM runs_event")
        for asked in (port, "1024"):
            said = refusal(folder, "--port", asked)
            assert f"Takeover already runs on {folder} (process {first.process.pid})" in said
    finally:
        first.process.kill()
        first.process.wait()

    second = Up(folder, "--port", port, "--workers", "1")
    try:
        second.wait_until_ready()
        assert "making a database" not in second.said
        second.process.send_signal(signal.SIGINT)
        assert second.process.wait(60) == 0
    finally:
        second.process.kill()
        second.process.wait()

    assert second.said.rstrip().endswith("database system is shut down")
    assert not (folder / "up.json").exists()
    assert not processes_of(folder)


def test_a_port_that_is_taken_is_refused(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        said = refusal(folder, "--port", str(port))
        assert said.startswith(f"Port {port} is taken by another program: choose")
        assert not folder.exists()
        free = int(said.rstrip(".\n").rpartition(" ")[2])
        for suggested in (free, free + 1):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", suggested))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--port", "http"], "--port must be a whole number from 1 to 65535, not 'http'.\n"),
        (["--port", "65536"], "--port must be a whole number from 1 to 65535, not '65536'.\n"),
        (["--workers", "0"], "--workers must be a whole number from 1 to 64, not '0'.\n"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(folder: Path, options: list[str], sentence: str) -> None:
    assert refusal(folder, *options) == sentence
    assert not folder.exists()


def test_a_data_folder_that_is_a_file_is_refused(folder: Path) -> None:
    folder.touch()

    assert refusal(folder).startswith(f"The data folder {folder} cannot be written to (File exists): choose another")
