"""How the web server is started, by `bin/up` and in the image."""

import json
from pathlib import Path
from typing import cast

import pytest

from takeover.supervisor.children import CLONE
from takeover.supervisor.installation import Installation
from takeover.supervisor.stack import Options, Stack
from takeover.supervisor.watch import Watch


def of_the_image() -> list[str]:
    command = (CLONE / "Dockerfile").read_text().rpartition("CMD ")[2].replace("\\\n", "")
    return list(json.loads(command))


def of_the_supervisor(folder: Path) -> list[str]:
    nobody_watches = cast(Watch, None)
    return list(Stack(Options(folder, 8000, workers=1, demo=False), Installation(folder), nobody_watches)._web().argv)


@pytest.mark.parametrize("way", ["image", "supervisor"])
def test_requests_are_read_by_the_parser_that_is_tested_whatever_else_is_installed(way: str, tmp_path: Path) -> None:
    argv = of_the_image() if way == "image" else of_the_supervisor(tmp_path)
    assert argv[argv.index("--http") + 1] == "h11"
    assert argv[argv.index("--timeout-graceful-shutdown") + 1] == "3"
