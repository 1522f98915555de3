"""The database in the data folder: made whole or not at all, and refused in a sentence when it cannot be used."""

import os
from pathlib import Path

import pytest

from takeover.supervisor import CannotStart, postgres


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder that looks like a database of this version."""
    folder = tmp_path / "postgres"
    folder.mkdir()
    (folder / "PG_VERSION").write_text(f"{postgres.MAJOR}\n")
    return folder


def start(folder: Path) -> None:
    postgres.server(folder, folder.parent, os.environ)


def test_an_incomplete_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()

    with pytest.raises(CannotStart, match=r"not a complete PostgreSQL database .* or choose another --data-dir"):
        start(tmp_path / "postgres")


def test_a_database_of_another_version_is_refused(made: Path) -> None:
    (made / "PG_VERSION").write_text("17\n")

    with pytest.raises(CannotStart, match=r"was written by PostgreSQL 17 and this is PostgreSQL 18"):
        start(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_database_of_somebody_else_is_refused(made: Path) -> None:
    os.chown(made, 12345, -1)

    with pytest.raises(CannotStart, match="belongs to user 12345"):
        start(made)


def test_a_pid_file_that_names_somebody_else_is_removed(made: Path) -> None:
    file = made / "postmaster.pid"
    file.write_text(f"{os.getpid()}\n")

    start(made)

    assert not file.exists()
