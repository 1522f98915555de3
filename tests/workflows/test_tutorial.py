"""docs/writing-a-workflow.md, executed: its files are written, its commands run, and what they print is compared.

The workflow lives in a package in a temporary folder, known to the product by a setting alone; its runs are carried by
a real worker, against the tutorial's own service.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from takeover.supervisor.children import CLONE, Child
from tests.agents import provider
from tests.agents.provider import KEY, call
from tests.people import person
from tests.processes import wait_until

PAGE = CLONE / "docs" / "writing-a-workflow.md"
BLOCK = re.compile(r"^```(\S*)[ ]?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
WITHIN = 120  # seconds, for one block of commands
OVER = "-- over --"
NOT_SET = {"WORKFLOWS", "SERVICES", "PYTHONPATH", "DJANGO_SETTINGS_MODULE"}  # in the shell of somebody new
# What differs from run to run: ids of runs, and keys, digests and ages made of them.
CHANGING = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"-[0-9a-f]{16}\b"), "-KEY"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"), "TIME"),
)


class Block(NamedTuple):
    language: str
    path: str
    content: str


BLOCKS = [Block(*found) for found in BLOCK.findall(PAGE.read_text())]


class Afternoon:
    """Somebody who works through the page, in a folder and at a shell of their own."""

    def __init__(self, folder: Path, env: dict[str, str], start_worker: Callable[..., object]) -> None:
        self.folder, self.start_worker = folder, start_worker
        self.port = free_port()
        self.printed = folder / ".printed"
        known = {name: value for name, value in env.items() if name not in NOT_SET}
        with self.printed.open("wb") as out:  # no pipe: what stays in the background would hold its end
            self.bash = subprocess.Popen(
                ["bash"],
                cwd=folder,
                env=known,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.works = False

    def write(self, block: Block) -> None:
        file = self.folder / block.path
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as out:
            out.write(f"\n\n{block.content}" if out.tell() else block.content)

    def run(self, commands: str) -> str:
        """What the commands print. A worker that knows what is exported by then is there for the first run."""
        if "runs start" in commands and not self.works:
            told = dict(
                line.split("=", 1) for line in self._run("env | grep -E '^(WORKFLOWS|SERVICES|LIBRARY|PYTHON)'")
            )
            self.start_worker(**told)
            self.works = True
        commands = commands.replace("~/takeover/.venv/bin/python", sys.executable).replace("~/takeover", str(CLONE))
        printed = "\n".join(self._run(commands.replace("8850", self.port)))
        return printed.replace(f"{self.folder}/", "").replace(self.port, "8850")

    def _run(self, commands: str) -> list[str]:
        before = len(self.printed.read_bytes())
        assert self.bash.stdin
        self.bash.stdin.write(f"{{\n{commands}\n}} < /dev/null; echo {OVER}\n")
        self.bash.stdin.flush()
        over = f"{OVER}\n".encode()  # bytes: a character may be there by half
        wait_until(lambda: self.printed.read_bytes()[before:].endswith(over), WITHIN)
        return self.printed.read_bytes()[before:].removesuffix(over).decode().splitlines()

    def end(self) -> None:
        os.killpg(self.bash.pid, signal.SIGKILL)  # with the service that it left in the background
        self.bash.communicate()


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def as_compared(text: str) -> str:
    for pattern, instead in CHANGING:
        text = pattern.sub(instead, text)
    return text.strip()


@pytest.fixture
def afternoon(start_worker: Callable[..., Child], product_env: dict[str, str], tmp_path: Path) -> Iterator[Afternoon]:
    folder = tmp_path / "desk"
    folder.mkdir()
    with provider.running() as model:
        model.answers[:] = [call("renew_loan")]
        of_model = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.url}
        working = Afternoon(folder, product_env, lambda **told: start_worker(**told, **of_model))
        yield working
        working.end()


def test_every_block_of_the_page_is_of_a_kind_that_is_executed_or_compared() -> None:
    page = PAGE.read_text()

    assert 2 * len(BLOCKS) == page.count("```") + 2 * page.count("~~~")
    assert {block.language for block in BLOCKS} == {"python", "sh", "text"}
    assert all(block.path for block in BLOCKS if block.language == "python"), "which file does it belong to?"


def test_the_page_works_as_it_is_written(afternoon: Afternoon) -> None:
    for name in ("support", "supervisor"):
        person(name)
    printed: str | None = None
    for number, block in enumerate(BLOCKS, 1):
        match block.language:
            case "python":
                assert printed in (None, ""), f"before block {number} something was printed that the page does not show"
                afternoon.write(block)
            case "sh":
                assert printed in (None, ""), f"before block {number} something was printed that the page does not show"
                printed = as_compared(afternoon.run(block.content))
            case "text":
                assert printed == as_compared(block.content), f"block {number} of the page"
                printed = None
            case other:
                pytest.fail(f"Block {number} is {other or 'of no language'}, and nothing executes it.")
    assert printed in (None, "")
    assert afternoon.works, "nothing was run"
    types = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(afternoon.folder / ".mypy"), "loans"],
        cwd=afternoon.folder,
        env=os.environ | {"MYPYPATH": str(CLONE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN,
    )
    assert types.returncode == 0, types.stdout
