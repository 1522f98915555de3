"""Which connections a process may keep: a worker no pool, the web server nothing without one."""

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from pytest_django.fixtures import Settings

from takeover.supervisor.children import CLONE

POOL = {"min_size": 1}


@pytest.mark.parametrize(
    ("worker", "pool", "age", "found"),
    [
        ("1", False, None, []),
        ("1", POOL, 0, ["takeover.E001"]),
        ("1", True, None, ["takeover.E001"]),
        ("0", POOL, 0, []),
        ("0", False, None, ["takeover.E002"]),
        ("0", False, 60, ["takeover.E002"]),
        ("0", False, 0, []),  # slower, and not wrong: a connection a request
    ],
)
def test_connections_that_do_not_fit_the_process_are_an_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, worker: str, pool: Any, age: int | None, found: list[str]
) -> None:
    databases = copy.deepcopy(settings.DATABASES)
    databases["default"] |= {"CONN_MAX_AGE": age, "OPTIONS": {"pool": pool}}
    monkeypatch.setattr("takeover.checks.settings.DATABASES", databases)
    monkeypatch.setenv("WORKER", worker)

    assert [problem.id for problem in run_checks() if str(problem.id).startswith("takeover.")] == found


def said_at_start(worker: str, *command: str, folder: Path) -> tuple[int, str]:
    env = os.environ | {
        "WORKER": worker,
        "CELERY_SKIP_CHECKS": "1",
        "DJANGO_SETTINGS_MODULE": "takeover.settings",
        "REDIS_URL": f"unix://{folder}/nobody.sock",
        "DATABASE_URL": "postgresql://takeover@127.0.0.1:1/takeover",
    }
    done = subprocess.run(
        [sys.executable, "-m", *command], env=env, cwd=CLONE, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stderr


def test_a_worker_with_a_pool_does_not_start_even_where_checks_are_skipped(tmp_path: Path) -> None:
    code, said = said_at_start("0", "celery", "-A", "takeover.celery", "worker", "-P", "solo", folder=tmp_path)
    assert code == 1
    assert "Start it with WORKER=1" in said


def test_a_web_server_that_would_keep_a_connection_a_thread_does_not_start(tmp_path: Path) -> None:
    code, said = said_at_start("1", "uvicorn", "takeover.asgi:application", "--port", "0", folder=tmp_path)
    assert code != 0
    assert "Start it without WORKER" in said


@pytest.mark.parametrize(
    "command",
    [("1", "celery", "-A", "takeover.celery", "worker", "-P", "solo"), ("0", "uvicorn", "takeover.asgi:application")],
    ids=["worker", "web server"],
)
def test_nothing_starts_with_a_workflow_that_cannot_be_imported(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKFLOWS", "shipped nowhere.at.all")
    code, said = said_at_start(*command, folder=tmp_path)
    assert code == 1
    assert said.splitlines()[-1].startswith("WORKFLOWS names nowhere.at.all, and there is no module nowhere: install")
    assert "Traceback" not in said
