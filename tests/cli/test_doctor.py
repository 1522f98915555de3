"""`manage.py doctor`: what is wrong, in sentences, whatever else is wrong as well."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from pytest_django.fixtures import Settings

from runs.domain.effects import EffectState
from runs.domain.states import StopReason
from runs.models import Event, InboxEvent, Run, Worker
from takeover.management import checkup
from takeover.management.checkup import CHECKS, Check, Finding, Level
from takeover.supervisor.children import CLONE
from tests.console import rows
from tests.people import person
from tests.processes import BackOffice, Broker, Standing, wait_until

AN_HOUR_AGO = timezone.now() - timedelta(hours=1)
HERE = {"folder": str(CLONE)}


def look(name: str) -> Finding:
    return next(check.look() for check in CHECKS if check.name == name)


def doctor(*words: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("doctor", *words, stdout=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


# The whole


def test_a_healthy_installation_has_nothing_but_good_lines(
    worker: Standing,
    sweeper: Standing,
    back_office: BackOffice,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    settings.DEMO = True
    settings.SERVICES = {
        "back_office": {"url": back_office.url, "token": "demo-key"},
        "documents": {"folder": tmp_path},
    }
    wait_until(lambda: {row.kind for row in Worker.objects.all()} == {"worker", "sweeper"}, within=30)

    monkeypatch.setattr(checkup, "shortcomings", list)  # the tests' own role owns the tables

    code, out = doctor()

    assert [line for line in out.splitlines() if not line.startswith("ok ")] == []
    assert len(out.splitlines()) == len(CHECKS)
    assert code == 0


def test_where_nothing_answers_it_says_so_and_that_the_rest_is_unknown(tmp_path: Path) -> None:
    nowhere = {
        "DATABASE_URL": f"postgresql:///takeover?host={tmp_path}",
        "REDIS_URL": f"unix://{tmp_path}/nobody.sock",
        "BACK_OFFICE_URL": "http://127.0.0.1:1",
        "TAKEOVER_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "takeover.settings",
    }
    done = subprocess.run(
        [sys.executable, CLONE / "manage.py", "doctor", "--json"],
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (done.returncode, done.stderr) == (1, "")
    said = json.loads(done.stdout)
    assert said["level"] == "broken"
    assert {line["check"] for line in said["checks"] if line["level"] == "broken"} == {"database", "broker", "services"}
    assert {line["level"] for line in said["checks"] if by_name(line["check"]).of_database} == {"unknown"}
    assert by_name("disk") in [by_name(line["check"]) for line in said["checks"] if line["level"] != "unknown"]


def test_where_nothing_runs_it_says_so_in_one_line(tmp_path: Path) -> None:
    nowhere = {
        "DATABASE_URL": f"postgresql:///takeover?host={tmp_path}",
        "REDIS_URL": f"unix://{tmp_path}/nobody.sock",
        "TAKEOVER_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "takeover.settings",
        "SECRET_KEY": "short",
        "DEMO": "1",
    }
    done = subprocess.run(
        [sys.executable, CLONE / "manage.py", "doctor"],
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    said = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (1, "")
    assert [line[:2] for line in said if line[1] != "disk"] == [["broken", "installation"], ["broken", "secret"]]
    assert said[0][2].startswith(f"Nothing runs here: neither the database nor the broker of {tmp_path} answers.")


def by_name(name: str) -> Check:
    return next(check for check in CHECKS if check.name == name)


def test_a_check_that_fails_leaves_the_others_alone(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Finding:
        raise ZeroDivisionError("no luck")

    def asks_for_what_is_not_there() -> Finding:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM nowhere")
        raise AssertionError

    table = (Check("odd", fails), Check("no table", asks_for_what_is_not_there), Check("debug", checkup.debug))
    monkeypatch.setattr(checkup, "CHECKS", table)
    monkeypatch.setattr(connection, "close", lambda: None)  # the test's own transaction

    assert [finding for _, finding in checkup.examine()] == [
        Finding(Level.UNKNOWN, "This could not be looked at: no luck"),
        Finding(Level.UNKNOWN, 'This could not be looked at: relation "nowhere" does not exist'),
        Finding(Level.OK, "DEBUG is off."),
    ]


def test_what_is_broken_ends_with_one_and_a_warning_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for level, code in (("ok", 0), ("unknown", 0), ("warning", 0), ("broken", 1)):
        finding = Finding(Level(level), "So it is.")
        monkeypatch.setattr(checkup, "CHECKS", (Check("debug", checkup.debug), Check("other", lambda f=finding: f)))  # type: ignore[misc]
        ended, out = doctor("--json")
        assert (ended, json.loads(out)["level"]) == (code, level)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_what_others_wrote_does_not_steer_the_terminal(words: tuple[str], monkeypatch: pytest.MonkeyPatch) -> None:
    steering = "\x1b[2J \x9b2J \u202e"
    monkeypatch.setattr(checkup, "CHECKS", (Check("debug", lambda: Finding(Level.OK, f"It says {steering}.")),))
    _, out = doctor(*words)
    assert not {"\x1b", "\x9b", "\u202e"} & set(out)


# What this process was told


@pytest.mark.parametrize(
    ("check", "told", "level", "says"),
    [
        ("debug", {"DEBUG": True}, "broken", "unset it"),
        ("secret key", {"SECRET_KEY": "short"}, "broken", "set a random one"),
        ("secret key", {"SECRET_KEY": "django-insecure-" + 40 * "x"}, "broken", "set a random one"),
        ("hosts", {"ALLOWED_HOSTS": []}, "broken", "name the site's host"),
        ("hosts", {"ALLOWED_HOSTS": ["*"]}, "warning", "name the site's host"),
        ("pace", {"ENGINE_PACE": 0.5}, "broken", "ENGINE_PACE is 0.5"),
        ("pace", {"ENGINE_PACE": 0.5, "DEMO": True}, "warning", "in a demo that is meant"),
        ("credentials", {}, "warning", "set BACK_OFFICE_TOKEN"),
        ("credentials", {"SERVICES": {"shop": {"url": "https://shop.test", "token": "demo-key"}}}, "broken", "shop"),
        ("services", {"SERVICES": {}}, "broken", "Workflows use back_office, documents, which SERVICES does not name"),
        (
            "services",
            {"SERVICES": {"back_office": {"url": "http://127.0.0.1:1", "token": "x"}, "documents": HERE}},
            "broken",
            "back_office at http://127.0.0.1:1 does not answer",
        ),
        (
            "services",
            {"SERVICES": {"back_office": HERE, "documents": {"folder": "/no/such/folder"}}},
            "broken",
            "documents: there is no folder /no/such/folder that can be written in",
        ),
    ],
)
def test_a_setting_that_contradicts_is_named(
    settings: Settings, check: str, told: dict[str, Any], level: str, says: str
) -> None:
    for name, value in told.items():
        setattr(settings, name, value)

    found = look(check)

    assert found.level == level
    assert says in found.says


def test_a_credential_in_an_address_is_not_repeated(settings: Settings) -> None:
    address = "http://us:winter@127.0.0.1:1/winter?key=winter"
    settings.SERVICES = {"back_office": {"url": address, "token": "x"}, "documents": HERE}
    says = look("services").says
    assert says.startswith("back_office at http://127.0.0.1:1 does not answer")
    assert "winter" not in says


def test_a_worker_with_a_pool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look("connections").level is Level.OK
    monkeypatch.setenv("WORKER", "1")
    assert look("connections").level is Level.BROKEN


def test_a_disk_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, level in ((10 << 30, "ok"), (1 << 30, "warning"), (100 << 20, "broken")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        assert look("disk").level == level


# The database


def test_a_migration_that_is_missing_or_unknown_is_named(db: None) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("runs", "9999_of_tomorrow")
    assert look("migrations") == Finding(
        Level.WARNING, "The database is newer than this code (9999_of_tomorrow): install the version that made it."
    )
    recorder.record_unapplied(
        "runs", max(name for app, name in recorder.applied_migrations() if app == "runs" and name < "9")
    )
    assert look("migrations").level is Level.BROKEN


def test_a_record_that_its_application_could_change_is_named(db: None) -> None:
    found = look("record")
    assert found.level is Level.WARNING
    assert "the record is not protected" in found.says


def test_a_guard_that_is_switched_off_breaks_the_installation(transactional_db: None) -> None:
    assert look("guards").level is Level.OK
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE runs_run DISABLE TRIGGER a_run_moves")
        try:
            found, (code, _) = look("guards"), doctor()
        finally:
            cursor.execute("ALTER TABLE runs_run ENABLE TRIGGER a_run_moves")
    assert found.level is Level.BROKEN
    assert "a_run_moves on runs_run" in found.says
    assert code == 1


def test_an_event_that_is_not_sealed_for_long_is_named(db: None) -> None:
    assert look("seals").level is Level.OK
    run = rows.run("B456", person("alice"))
    rows.event(run, "stopped")
    Event.objects.update(at=AN_HOUR_AGO)
    found = look("seals")
    assert found.level is Level.WARNING
    assert "is not sealed yet" in found.says


def test_clocks_that_differ_are_named(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for ahead in (timedelta(minutes=3), timedelta(minutes=-3)):
        monkeypatch.setattr(checkup, "now", lambda ahead=ahead: timezone.now() + ahead)
        found = look("clock")
        assert found.level is Level.WARNING
        assert "apart" in found.says


def test_another_isolation_level_is_named(transactional_db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_isolation = 'repeatable read'")
        try:
            assert look("isolation").level is Level.BROKEN
        finally:
            cursor.execute("RESET default_transaction_isolation")


def test_a_database_that_takes_no_writes_is_named(transactional_db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
        try:
            assert look("database").level is Level.BROKEN
        finally:
            cursor.execute("RESET default_transaction_read_only")


def test_a_session_idle_in_a_transaction_is_named(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "TOO_LONG", timedelta())
    known = connection.get_connection_params()
    address = {name: known[name] for name in ("dbname", "host", "port", "user", "password") if known.get(name)}
    with psycopg.connect(**address) as idle:
        idle.execute("SELECT 1")
        wait_until(lambda: look("sessions").level is Level.WARNING)
        assert f"pg_terminate_backend({idle.info.backend_pid})" in look("sessions").says
    assert look("sessions").level is Level.OK


# What carries runs on


def test_the_message_that_tries_the_broker_leaves_nothing_there(transactional_db: None) -> None:
    assert look("broker").says.startswith("A message comes back")
    assert Broker().client.keys("*doctor.*") == []


def a_worker(**values: Any) -> Worker:
    worker = Worker.objects.sign("w", kind=Worker.Kind.WORKER, slots=4)
    Worker.objects.filter(pk=worker.pk).update(**values)
    return worker


@pytest.mark.parametrize(
    ("values", "level", "says"),
    [
        ({}, "ok", "1 worker alive, 4 slots."),
        ({"canary_sent_at": AN_HOUR_AGO, "canary_seen_at": timezone.now()}, "ok", "1 worker alive"),
        ({"canary_sent_at": AN_HOUR_AGO}, "warning", "has not received its message for 1 h"),
        ({"canary_sent_at": AN_HOUR_AGO, "in_hand": 4}, "warning", "Every slot of 1 worker is in use"),
        ({"last_sign_at": AN_HOUR_AGO}, "broken", "No worker is alive"),
        ({"stopped_at": timezone.now()}, "broken", "No worker is alive"),
    ],
)
def test_a_workers_health_is_what_it_hears(db: None, values: dict[str, Any], level: str, says: str) -> None:
    a_worker(**values)
    found = look("workers")
    assert found.level == level
    assert says in found.says


def test_a_worker_that_ended_without_a_word_is_named(db: None) -> None:
    a_worker(last_sign_at=AN_HOUR_AGO)
    Worker.objects.sign("another", kind=Worker.Kind.WORKER)
    assert "1 ended without a word" in look("workers").says


def test_a_sweeper_that_is_missing_is_named(db: None) -> None:
    a_worker()
    assert look("sweepers").level is Level.BROKEN
    Worker.objects.sign("s", kind=Worker.Kind.SWEEPER)
    assert look("sweepers").level is Level.OK


# Rows that stand still


def due(minutes: int, **values: Any) -> Callable[[], Run]:
    return lambda: rows.run("B456", person("support"), due_at=timezone.now() - timedelta(minutes=minutes), **values)


def unread() -> None:
    InboxEvent.objects.create(run=due(0)(), name="paused", received_at=AN_HOUR_AGO)


def forgotten() -> None:
    run = rows.run("B456", person("support"), StopReason.OUTCOME_UNCONFIRMED, role="")
    rows.write(run, EffectState.UNKNOWN, next_look_at=None)


@pytest.mark.parametrize(
    ("check", "make", "level"),
    [
        ("due runs", due(0), "ok"),
        ("due runs", due(3), "warning"),
        ("due runs", due(20), "broken"),
        ("leases", due(3), "ok"),
        ("leases", due(3, owner="a"), "warning"),
        ("dispatches", due(0, dispatches=5), "warning"),
        ("inbox", unread, "warning"),
        ("workflows", due(0), "ok"),
        ("workflows", due(0, workflow_version=99), "warning"),
        ("workflows", due(0, workflow="gone"), "warning"),
        ("open writes", forgotten, "warning"),
    ],
)
def test_a_row_that_stands_still_is_found(db: None, check: str, make: Callable[[], object], level: str) -> None:
    assert look(check).level is Level.OK
    make()
    assert look(check).level == level


def test_a_row_that_stands_still_is_named(db: None) -> None:
    run = due(3, owner="a")()
    assert f"1 run (the oldest is {run.pk})" in look("leases").says
