"""A small turn of `bench/chaos.py`, on servers of its own: the full size is for the bench."""

import json
import os
import subprocess
import sys

from takeover.supervisor.children import CLONE

NOT_THE_TESTS_OWN = {"DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "TAKEOVER_DATA_DIR"}


def test_with_everything_killed_at_random_nothing_is_doubled_lost_or_stuck() -> None:
    command = [sys.executable, "bench/chaos.py", "--setting", "threads", "--runs", "16", "--seconds", "8", "--json"]
    env = {name: value for name, value in os.environ.items() if name not in NOT_THE_TESTS_OWN}

    done = subprocess.run(command, cwd=CLONE, env=env, check=False, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    found = json.loads(done.stdout.splitlines()[-1])["settings"]["threads"]
    assert found["wrong"] == []
    assert (found["duplicates"], found["lost"], found["stuck"], found["idle_in_transaction"]) == (0, 0, 0, 0)
    assert sum(found["stopped_for"].values()) == found["runs"] == 16
    assert found["blows"]
