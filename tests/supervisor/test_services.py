"""The wrapper that gives one command a PostgreSQL and a Valkey of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WRAPPER = [sys.executable, "-m", "takeover.supervisor.services", "--"]
BARE = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
LOOK = """
import os, psycopg, redis
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    print(connection.execute("SELECT current_database(), rolsuper FROM pg_roles WHERE rolname = user").fetchone())
print(redis.Redis.from_url(os.environ["REDIS_URL"]).ping(), os.environ["TAKEOVER_DATA_DIR"])
raise SystemExit(3)
"""

FLUSHED = """
import os, psycopg
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    for setting in ("fsync", "synchronous_commit"):
        print(*connection.execute(f"SHOW {setting}").fetchone())
"""

INTRUDE = """
import os, pwd, psycopg, socket
from urllib.parse import parse_qs, urlsplit
psycopg.connect(os.environ["DATABASE_URL"]).close()
[sockets] = parse_qs(urlsplit(os.environ["DATABASE_URL"]).query)["host"]
account = pwd.getpwnam("nobody")
os.setgroups([])
os.setgid(account.pw_gid)
os.setuid(account.pw_uid)
print(sockets)
try:
    socket.socket(socket.AF_UNIX).connect(sockets + "/.s.PGSQL.5432")
except PermissionError:
    print("kept out")
"""


def test_the_command_finds_both_and_its_exit_code_is_passed_on() -> None:
    done = subprocess.run([*WRAPPER, sys.executable, "-c", LOOK], env=BARE, capture_output=True, text=True, check=False)

    database, broker = done.stdout.splitlines()
    assert done.returncode == 3, done.stderr
    assert database == "('takeover', False)"
    assert broker.startswith("True ")
    assert not os.path.exists(broker.removeprefix("True "))


@pytest.mark.parametrize(("options", "flushed"), [([], "off"), (["--durable"], "on")])
def test_what_is_committed_is_flushed_to_the_disk_only_where_that_is_asked_for(
    options: list[str], flushed: str
) -> None:
    wrapper = [*WRAPPER[:-1], *options, "--"]

    done = subprocess.run(
        [*wrapper, sys.executable, "-c", FLUSHED], env=BARE, capture_output=True, text=True, check=False
    )

    assert done.stdout.split() == [flushed, flushed], done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="others need no other user to run the server as")
def test_root_without_namespaces_has_a_server_that_only_root_can_reach_and_nothing_is_left(tmp_path: Path) -> None:
    refused = tmp_path / "unshare"
    refused.write_text("#!/bin/sh\nexit 1\n")
    refused.chmod(0o755)
    env = BARE | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    done = subprocess.run(
        [*WRAPPER, sys.executable, "-c", INTRUDE], env=env, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    sockets, intruder = done.stdout.splitlines()
    assert sockets.startswith("/var/lib/takeover-")
    assert intruder == "kept out"
    assert not Path(sockets).parent.exists()


def test_servers_that_are_there_already_are_used() -> None:
    env = BARE | {"DATABASE_URL": "postgresql://mine", "REDIS_URL": "redis://mine"}
    command = ["sh", "-c", "echo $DATABASE_URL $REDIS_URL"]

    done = subprocess.run([*WRAPPER, *command], env=env, capture_output=True, text=True, check=True)

    assert done.stdout == "postgresql://mine redis://mine\n"


def test_a_command_that_is_missing_is_a_sentence() -> None:
    env = BARE | {"DATABASE_URL": "postgresql://mine", "REDIS_URL": "redis://mine"}

    done = subprocess.run([*WRAPPER, "no-such-command"], env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "no-such-command cannot be run: No such file or directory.\n"
