"""The data folder: one holder at a time, sockets where they fit, and leftovers that are surely ours."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import pytest

from takeover.supervisor import CannotStart, postgres, valkey
from takeover.supervisor.children import Child, stop
from takeover.supervisor.installation import Installation, Leftover
from takeover.supervisor.stack import Options, Stack, told_elsewhere
from takeover.supervisor.watch import Watch
from tests.processes import wait_until


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Unlike pytest's own temporary folders, short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder) / "data"


@pytest.fixture
def orphan() -> Iterator[Child]:
    child = Child("orphan", [sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ))
    child.start(subprocess.DEVNULL)
    yield child
    child.kill()


def recorded(child: Child) -> Leftover:
    leftover = Leftover.of(child)
    assert leftover
    return leftover


def test_a_second_start_on_the_same_folder_is_refused(short_path: Path) -> None:
    with (
        Installation(short_path).held(),
        pytest.raises(CannotStart, match=f"already runs on {short_path} .process {os.getpid()}."),
        Installation(short_path).held(),
    ):
        pass


def test_the_folder_is_closed_to_others_and_so_are_the_addresses(short_path: Path) -> None:
    installation = Installation(short_path)
    with installation.held():
        installation.publish({"SITE_URL": "http://localhost:8000"})

        assert short_path.stat().st_mode & 0o777 == 0o700
        assert installation.addresses_file.stat().st_mode & 0o777 == 0o600
        assert json.loads(installation.addresses_file.read_text()) == {"SITE_URL": "http://localhost:8000"}

    assert not installation.addresses_file.exists()


def test_the_secret_of_callbacks_is_made_once_and_for_the_owners_eyes(short_path: Path) -> None:
    short_path.mkdir()

    made = Installation(short_path).callback_secret()

    assert made == Installation(short_path).callback_secret()
    assert made != "whsec_"
    assert (short_path / "callback-secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("given", ["", "whsec_bmV3IQ== whsec_b2xk"])
def test_both_sides_of_a_callback_are_given_the_secret_and_no_command_line_shows_it(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    for name in ("BACK_OFFICE_URL", "BACK_OFFICE_CALLBACK_SECRETS"):
        monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv("BACK_OFFICE_CALLBACK_SECRETS", given)
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.setenv(name, "given")
    monkeypatch.setattr("takeover.supervisor.stack._check_database", lambda name, address: None)
    monkeypatch.setattr("takeover.supervisor.stack._check_broker", lambda address: None)
    short_path.mkdir()
    installation = Installation(short_path)
    stack = Stack(Options(short_path, 8000, 1, demo=True), installation, Watch(installation))

    stack.start_servers()
    office, web = stack._back_office(), stack._web()

    secret = office.env["CALLBACK_SECRET"]
    assert secret == (given.split()[0] if given else installation.callback_secret())
    assert secret in web.env["BACK_OFFICE_CALLBACK_SECRETS"]
    assert "http://127.0.0.1:8000/api/callbacks/back_office/" in office.argv
    assert not [word for child in (office, web) for word in child.argv if "whsec_" in word]


def test_the_key_of_the_seals_is_the_sweepers_and_reaches_no_other_process(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's server least of all: whoever rules it could read it there, and make the record anew."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BACK_OFFICE_URL", "http://127.0.0.1:8801")
    monkeypatch.setenv("AUDIT_KEY", "k" * 32)
    started: list[Child] = []
    monkeypatch.setattr(Watch, "bring_up", lambda self, *groups: started.extend(chain(*groups)))
    monkeypatch.setattr(Watch, "run", lambda self, *children: started.extend(children))
    short_path.mkdir()
    installation = Installation(short_path)
    stack = Stack(Options(short_path, 8000, 1, demo=True), installation, Watch(installation))

    with installation.held():
        stack.start_servers()
        stack.start_product()
        stack.fill_the_demo()

    assert {"postgres", "valkey", "worker-1", "sweeper", "web", "demo"} == {child.name for child in started}
    assert [child.name for child in started if child.env.get("AUDIT_KEY")] == ["sweeper"]


def test_a_long_path_gets_its_sockets_elsewhere_and_takes_them_away_again(tmp_path: Path) -> None:
    installation = Installation(tmp_path / ("long" * 30))
    with installation.held():
        place = installation.sockets

        assert len(str(place)) < 60
        assert place.stat().st_mode & 0o777 == 0o700

    assert not place.exists()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of ours, closed to others, that somebody else wants to see removed."""
    folder = tmp_path / "victim"
    folder.mkdir(mode=0o700)
    (folder / "work").touch()
    return folder


def test_a_link_in_place_of_our_old_sockets_leads_to_no_removal(
    short_path: Path, victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted = tmp_path / "takeover-abcdefgh"
    planted.symlink_to(victim)
    short_path.mkdir()
    (short_path / "sockets").symlink_to(planted)

    with Installation(short_path).held():
        pass

    assert (victim / "work").exists()
    assert planted.is_symlink()
    assert not (short_path / "sockets").exists()


@pytest.mark.parametrize(
    ("name", "mode", "owner"),
    [
        ("takeover-open", 0o755, None),
        ("others", 0o700, None),
        ("deep/takeover-x", 0o700, None),
        ("takeover-y", 0o700, 9),
    ],
)
def test_only_a_folder_that_we_made_for_sockets_is_removed(
    short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: int, owner: int | None
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / name
    folder.mkdir(parents=True)
    folder.chmod(mode)
    if owner:
        monkeypatch.setattr(os, "geteuid", lambda: owner)
    short_path.mkdir()
    (short_path / "sockets").symlink_to(folder)

    with Installation(short_path).held():
        pass

    assert folder.is_dir()


def test_sockets_that_a_killed_start_left_elsewhere_are_removed_by_the_next(tmp_path: Path) -> None:
    installation = Installation(tmp_path / ("long" * 30))
    installation.folder.mkdir()
    installation._make_sockets()
    left = installation.sockets

    with installation.held():
        assert installation.sockets != left
        assert not left.exists()


def test_a_folder_that_is_a_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").touch()

    with (
        pytest.raises(CannotStart, match=r"cannot be written to \(File exists\): choose another with --data-dir"),
        Installation(tmp_path / "data").held(),
    ):
        pass


def test_a_leftover_is_stopped(short_path: Path, orphan: Child) -> None:
    short_path.mkdir()
    Installation(short_path).record([orphan])

    with Installation(short_path).held():
        assert orphan.exit_code == -signal.SIGTERM


@pytest.mark.parametrize("difference", [{"started": "1"}, {"command": ["somebody", "else"]}])
def test_a_process_that_only_has_the_same_number_is_left_alone(
    short_path: Path, orphan: Child, difference: dict[str, object]
) -> None:
    short_path.mkdir()
    entry = asdict(recorded(orphan)) | difference
    Installation(short_path).children_file.write_text(json.dumps([entry]))

    with Installation(short_path).held():
        assert orphan.running


def test_a_command_that_was_started_through_another_program_is_recognised() -> None:
    child = Child("sleep", ["env", "sleep", "60"], dict(os.environ))
    child.start(subprocess.DEVNULL)
    try:
        wait_until(lambda: recorded(child).alive)
    finally:
        child.kill()


def test_the_servers_are_recognised(short_path: Path) -> None:
    with Installation(short_path).held():
        sockets = Installation(short_path).sockets
        database, _ = postgres.server(short_path / "postgres", sockets, os.environ, throw_away=True)
        broker, _ = valkey.server(sockets, os.environ)
        for child in (database, broker):
            child.start(subprocess.DEVNULL)
            wait_until(lambda child=child: child.ready)  # type: ignore[misc]

        assert [recorded(child).alive for child in (database, broker)] == [True, True]

        stop([database, broker])


@pytest.mark.parametrize("damage", ["", "{", '[{"pid": 1}]', "[3]"])
def test_a_damaged_record_of_children_is_ignored(short_path: Path, damage: str) -> None:
    short_path.mkdir()
    Installation(short_path).children_file.write_text(damage)

    with Installation(short_path).held():
        pass


def test_services_and_workflows_of_ones_own_are_told_to_other_terminals_as_well() -> None:
    told = told_elsewhere({"SERVICES": "library, archive", "WORKFLOWS": "loans.workflow"})

    assert {"WORKFLOWS", "SERVICES", "LIBRARY_URL", "LIBRARY_TOKEN", "ARCHIVE_TOKEN"} <= set(told)
    assert "AUDIT_KEY" not in told
