"""A folder of documents as the tests see it: what people put there, what stands there now, and a system that fails."""

import errno
import itertools
import json
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from runs.tools import folder as module
from runs.tools.folder import Folder
from runs.tools.tool import Call, Result, Tool

RAIN = "# Rain in the valley\n\nIt rained on 91 days in 2025. That is fewer than usual.\nMay was dry.\n"
WELLS = "# Wells\n\nThe wells fell by two metres in 2025.\n"


class Documents:
    """The folder itself is the ledger: `content` is all that happened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = Folder(path)
        self.put("originals/rain.md", RAIN)
        self.put("originals/wells.md", WELLS)

    def put(self, name: str, text: str | bytes) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def text(self, name: str) -> str:
        return (self.path / name).read_text()

    def content(self) -> dict[str, str]:
        """Every file by name, with what it says."""
        files = sorted(file for file in self.path.rglob("*") if file.is_file())
        return {str(file.relative_to(self.path)): file.read_text(errors="replace") for file in files}

    def names(self, below: str) -> list[str]:
        return [name.removeprefix(f"{below}/") for name in self.content() if name.startswith(f"{below}/")]

    def effects(self, digest: str, keys: Iterable[str] = ()) -> list[dict[str, Any]]:
        """What took effect under a digest's name, as the books of a service would have it; `revises` says where.
        `keys`: what its runs made, where nothing that stands may tell any more."""
        lines = [json.loads(line) for line in self.content().get("index.jsonl", "").splitlines()]
        entries = [line["operation_key"] for line in lines if "entry" in line and line["digest"] == digest]
        taken_out = [line["removes"] for line in lines if "removes" in line]
        found = [("index", key, key in taken_out) for key in entries]
        found += [(where, self.key_of(f"{where}/{digest}"), False) for where in ("digests", "outbox")]
        # What was taken away has no name of its own any more; of one run are all whose keys end alike.
        of_one_run = {key.partition("-")[2] for key in [*keys, *(key for _, key, _ in found)] if key}
        away = [self.key_of(f"removed/{name}") for name in self.names("removed")]
        found += [("digests", key, True) for key in away if key.partition("-")[2] in of_one_run]
        return [
            {
                "order_id": digest,
                "operation_key": key,
                "state": "cancelled" if undone else "accepted",
                "revises": where,
                "at": "",
            }
            for where, key, undone in found
            if key
        ]

    def key_of(self, name: str) -> str:
        """Under which operation key a file was made; empty where it is not there, or people made it."""
        before, made, mark = self.content().get(name, "").partition("<!-- made under ")
        return mark.partition(",")[0] if made and not before else ""

    def do(
        self, tool: Tool, key: str = "", *, may_still_arrive: bool = False, within: float = 5, **params: Any
    ) -> Result:
        return tool.perform(self.folder, Call(tool.name, params, key, may_still_arrive), monotonic() + within)


class System:
    """`os` as the folder's tools see it, with some of its functions exchanged."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self.functions = functions

    def __getattr__(self, name: str) -> Any:
        return self.functions.get(name) or getattr(os, name)


def strike(
    patch: pytest.MonkeyPatch,
    function: str,
    error: int,
    *,
    after: bool = False,
    passes: int = 0,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """A call of a function of the system fails, before or after it was carried out: the first one, or the one that
    comes when so many have passed. `meanwhile`: what happens in that moment as well."""
    calls = itertools.count()

    def struck(*given: Any, **named: Any) -> Any:
        if next(calls) != passes:
            return getattr(os, function)(*given, **named)
        if after:
            getattr(os, function)(*given, **named)
        meanwhile()
        raise OSError(error, os.strerror(error))

    patch.setattr(module, "os", System(**{function: struck}))


def lose_the_answer(patch: pytest.MonkeyPatch, passes: int = 0, meanwhile: Callable[[], object] = lambda: None) -> None:
    """A file gets to its place, and the disk does not say so: the first one, or the one after so many."""
    strike(patch, "rename", errno.EIO, after=True, passes=passes, meanwhile=meanwhile)


def die_at(function: str, when: str) -> None:
    """This process kills itself when it first calls a function of the system: before or after it is carried out."""

    def deadly(*given: Any, **named: Any) -> None:
        if when == "after":
            getattr(os, function)(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, "os", System(**{function: deadly}))  # noqa: B010 - a module cannot be assigned something else
