"""`bin/setup.sh` where it cannot go on: one sentence that says why, and what to do."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from takeover.supervisor.children import CLONE

# All that the script may find beside the stub: no other Python of this machine, and no uv.
TOOLS = ("cat", "cksum", "grep", "mv", "sh")

TOO_OLD = """
case $1 in
--version) echo Python 3.9.2 ;;
*) exit 1 ;;
esac
"""
WITHOUT_VENV = """
case $2 in
*venv*) exit 1 ;;
esac
"""


@dataclass(frozen=True)
class Clone:
    """A fresh clone on a machine with the given python3, or with none."""

    root: Path
    tools: Path

    def set_up(self, python: str = "") -> str:
        if python:
            stub = self.tools / "python3"
            stub.write_text(f"#!{self.tools / 'sh'}\n{python}")
            stub.chmod(0o755)
        script = f'set -eu; root="{self.root}"; . "$root/bin/setup.sh"; set_up "$root/requirements.lock"'
        done = subprocess.run(
            [self.tools / "sh", "-c", script],
            env={"PATH": str(self.tools)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    clone = Clone(tmp_path / "clone", tmp_path / "tools")
    (clone.root / "bin").mkdir(parents=True)
    shutil.copy(CLONE / "bin" / "setup.sh", clone.root / "bin")
    (clone.root / "requirements.lock").touch()
    clone.tools.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (clone.tools / tool).symlink_to(found)
    return clone


def test_a_python_that_is_too_old_is_named(clone: Clone) -> None:
    said = clone.set_up(TOO_OLD)
    assert said.startswith("Takeover needs Python 3.11 or newer and found Python 3.9.2: install one")


def test_a_machine_without_python_is_told_what_to_install(clone: Clone) -> None:
    assert "found no python3: install one (Debian: apt install python3 python3-venv)" in clone.set_up()


def test_a_python_without_venv_is_told_which_package_has_it(clone: Clone) -> None:
    said = clone.set_up(WITHOUT_VENV).splitlines()[-1]
    assert said.startswith("This Python has no venv module: install it (Debian: apt install python3-venv)")
    assert not (clone.root / ".venv").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_clone_that_cannot_be_written_to_is_named(clone: Clone) -> None:
    clone.root.chmod(0o500)
    said = clone.set_up(WITHOUT_VENV)
    assert said == f"{clone.root} cannot be written to, and .venv belongs there: clone to a folder of your own.\n"
