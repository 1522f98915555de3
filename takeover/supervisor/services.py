"""Run one command against a PostgreSQL and a Valkey of its own: `python -m takeover.supervisor.services -- COMMAND`.

For tests and benchmarks: the servers live in a temporary folder and are gone with the command. As everywhere,
DATABASE_URL or REDIS_URL in the environment name servers that are there already. What is committed is flushed to the
disk, as in an installation, only with `--durable` before the command: tests do not need it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from takeover.supervisor import CannotStart, postgres, valkey
from takeover.supervisor.children import Child, stop

START_WITHIN = 60


def main(command: list[str]) -> int:
    durable = command[:1] == ["--durable"]
    command = command[durable:]
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        print("Name the command to run: python -m takeover.supervisor.services -- COMMAND", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="takeover-") as folder:
            try:
                return _run(command, Path(folder), durable)
            finally:
                postgres.remove_what_is_apart(Path(folder, "postgres"))
    except CannotStart as sentence:
        print(sentence, file=sys.stderr)
        return 1


def _run(command: list[str], folder: Path, durable: bool) -> int:
    env = os.environ | {"TAKEOVER_DATA_DIR": str(folder)}
    sockets = folder / "sockets"
    sockets.mkdir(mode=0o700)
    children: list[Child] = []
    if not env.get("DATABASE_URL"):
        server, env["DATABASE_URL"] = postgres.server(folder / "postgres", sockets, env, throw_away=not durable)
        children.append(server)
    if not env.get("REDIS_URL"):
        server, env["REDIS_URL"] = valkey.server(sockets, env)
        children.append(server)
    try:
        for child in children:
            with (folder / f"{child.name}.log").open("wb") as log:
                child.start(log)
        for child in children:
            _wait_for(child, folder)
        return _call(command, env)
    finally:
        stop(children)


def _wait_for(child: Child, folder: Path) -> None:
    deadline = time.monotonic() + START_WITHIN
    while not child.ready:
        if not child.running or time.monotonic() > deadline:
            log = (folder / f"{child.name}.log").read_text(errors="replace").strip()
            raise CannotStart(f"{child.name} did not start. It said:\n{log}")
        time.sleep(0.02)


def _call(command: list[str], env: dict[str, str]) -> int:
    # A terminal sends Ctrl-C to the command as well: it ends in its own time, and the servers after it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(command, env=env, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    except OSError as error:
        raise CannotStart(f"{command[0]} cannot be run: {error.strerror}.") from None
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
