# ruff: noqa: S608 - tables by our own names
"""The application's role may write the record and never change it, and may do all that the product needs."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings as product
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from runs.domain.effects import EffectState
from runs.domain.states import StopReason
from runs.engine.advance import advance
from runs.engine.retention import Retention
from runs.interventions import claims, sending, starting
from runs.interventions.refusals import Refused
from runs.models import Event, EventText, Handoff, Run, StepPayload, privileges
from runs.timeline import timeline
from takeover.management.checkup import Level, sessions
from tests.console import rows
from tests.people import person
from tests.processes import BackOffice, wait_until

ROLE = f"takeover_app_{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}"
HERE = "default"


@pytest.fixture
def application(db: None) -> None:
    """The application's role, for this test's transaction alone."""
    privileges.make_role(ROLE, "", HERE)
    privileges.grant(ROLE, HERE)
    with connection.cursor() as cursor:
        cursor.execute(f"GRANT {ROLE} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE")


@contextmanager
def signed_in_as(role: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {role}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET ROLE")


def why_refused(statement: str, *parameters: Any) -> str:
    """What the database says to `statement` from the application's role; empty where it is done. It is undone."""
    try:
        with signed_in_as(ROLE), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            transaction.set_rollback(True)
    except DatabaseError as problem:
        return str(problem).splitlines()[0]
    return ""


@pytest.fixture
def on_record(application: None) -> Run:
    run = rows.run("B456", person("alice"), StopReason.NO_PROGRESS)
    rows.event(run, "stopped")
    Handoff.objects.create(run=run, version=1, package={}, made_at=timezone.now())
    return run


RECORD = {"runs_event": "kind = 'nothing'", "runs_eventtext": "text = '{}'", "runs_handoff": "package = '{}'"}


@pytest.mark.parametrize(("table", "change"), RECORD.items())
def test_what_is_on_record_stays_as_it_is(table: str, change: str, on_record: Run) -> None:
    for verb in (
        f"UPDATE {table} SET {change}",
        f"DELETE FROM {table}",
        f"TRUNCATE {table} CASCADE",
        f"SELECT FROM {table} FOR UPDATE",
        f"MERGE INTO {table} USING runs_run ON true WHEN MATCHED THEN DELETE",
    ):
        assert why_refused(verb) == f"permission denied for table {table}", verb
    assert not why_refused(f"SELECT * FROM {table}")


def test_the_record_is_written_by_the_application(on_record: Run) -> None:
    with signed_in_as(ROLE):
        event = Event.objects.record(on_record, "case_claimed", None)
        Handoff.objects.create(run=on_record, version=2, package={}, made_at=timezone.now())
    assert EventText.objects.get(event=event).content() == {}


@pytest.mark.parametrize("table", privileges.LAW)
def test_the_law_is_read_by_the_application_and_not_written(table: str, application: None) -> None:
    for verb in (f"INSERT INTO {table} DEFAULT VALUES", f"DELETE FROM {table}", f"TRUNCATE {table}"):
        assert why_refused(verb) == f"permission denied for table {table}", verb
    assert not why_refused(f"SELECT * FROM {table}")


@pytest.mark.parametrize("table", privileges.KEPT)
def test_no_row_of_a_run_is_deleted(table: str, application: None) -> None:
    for verb in (f"DELETE FROM {table}", f"TRUNCATE {table} CASCADE"):
        assert why_refused(verb) == f"permission denied for table {table}", verb


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE runs_run DISABLE TRIGGER ALL",
        "ALTER TABLE runs_event DISABLE TRIGGER ALL",
        "ALTER TABLE runs_run DROP CONSTRAINT run_state_is_known",
        "DROP TRIGGER a_run_moves ON runs_run",
        "CREATE OR REPLACE FUNCTION runs_walk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "DROP FUNCTION runs_walk CASCADE",
        "DROP TABLE runs_eventtext",
        "CREATE TABLE of_its_own ()",
        "CREATE TRIGGER another BEFORE UPDATE ON runs_run FOR EACH ROW EXECUTE FUNCTION runs_refuse()",
        "SET session_replication_role = replica",
        "SELECT setval(pg_get_serial_sequence('runs_event', 'id'), 1)",
    ],
)
def test_no_guard_is_switched_off_by_the_application(statement: str, application: None) -> None:
    says = why_refused(statement)
    assert says.startswith(("must be owner of ", "permission denied "))


def test_a_run_is_carried_out_as_the_application(
    application: None, back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)
    support, bob = person("support"), person("bob")
    with signed_in_as(ROLE):
        run, _ = starting.start("refund_request", {"order_id": "D586"}, support)
        advance(run.pk)
        plan = run.effects.get().plan_digest
        claims.claim(run.pk, support)
        with pytest.raises(Refused):
            sending.send(run.pk, "approval_granted", support, {}, plan)
        sending.send(run.pk, "approval_granted", bob, {}, plan)
        Run.objects.update(due_at=timezone.now() - timedelta(seconds=1))
        advance(run.pk)
        run.refresh_from_db()
    assert (run.outcome, run.effects.get().state) == ("COMPLETED", EffectState.CONFIRMED)


def test_people_sign_in_and_work_as_the_application(on_record: Run) -> None:
    client = Client()
    with signed_in_as(ROLE):
        assert client.login(username="alice", password="alice")
        assert client.get(f"/runs/{on_record.pk}/").status_code == 200
        client.logout()
    assert not Session.objects.exists()


# Whether it is so


def test_nothing_is_amiss_for_the_application(application: None) -> None:
    with signed_in_as(ROLE):
        assert privileges.shortcomings() == []


def test_the_owner_is_told_that_the_record_is_not_protected(db: None) -> None:
    [says] = privileges.shortcomings()
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        [role] = cursor.fetchone()
    assert says.startswith(f"The application signs in to the database as {role}, who ")
    assert "the record is not protected from the application" in says


def test_what_was_granted_by_hand_is_named_and_goes_with_the_next_migration(application: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"GRANT UPDATE (kind), DELETE ON runs_event TO {ROLE}")
    with signed_in_as(ROLE):
        [says] = privileges.shortcomings()
    assert says.startswith(f"The role {ROLE} may UPDATE and DELETE on runs_event, which is written once: run manage.py")
    privileges.grant(ROLE, HERE)
    with signed_in_as(ROLE):
        assert privileges.shortcomings() == []


@pytest.mark.parametrize(
    ("granted", "says"),
    [
        ("UPDATE ON runs_event TO PUBLIC", "UPDATE on runs_event, which is written once"),
        ("INSERT ON runs_transition TO {role}", "INSERT on runs_transition, which only migrations change"),
        ("DELETE ON runs_run TO {role}", "DELETE on runs_run, which its work does not need"),
        ("CREATE ON SCHEMA public TO PUBLIC", "make functions in the schema public, by which it can act as the owner"),
    ],
)
def test_more_than_is_needed_is_named_and_goes_whoever_it_was_granted_to(
    granted: str, says: str, application: None
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"GRANT {granted.format(role=ROLE)}")
    with signed_in_as(ROLE):
        [found] = privileges.shortcomings()
    assert found.startswith(f"The role {ROLE} may {says}: run manage.py migrate")
    privileges.grant(ROLE, HERE)
    with signed_in_as(ROLE):
        assert privileges.shortcomings() == []


@pytest.mark.parametrize(
    "change", ["ALTER TABLE runs_run DISABLE TRIGGER a_run_moves", "DROP TRIGGER a_run_moves ON runs_run"]
)
def test_a_guard_that_is_switched_off_is_named(change: str, application: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(change)
    with signed_in_as(ROLE):
        assert privileges.asleep() == ["a_run_moves on runs_run"]


def test_the_doctor_does_not_vouch_for_sessions_that_the_application_cannot_see(application: None) -> None:
    known = connection.get_connection_params()
    address = {name: known[name] for name in ("dbname", "host", "port", "user", "password") if known.get(name)}
    with psycopg.connect(**address) as of_the_owner:
        of_the_owner.execute("SELECT 1")
        with signed_in_as(ROLE):
            found = sessions()
    assert found.level is Level.UNKNOWN
    assert "of other roles may hold open" in found.says


def test_a_command_whose_role_may_not_look_says_so_in_a_sentence(
    application: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"REVOKE SELECT ON runs_seal FROM {ROLE}")
    with signed_in_as(ROLE), pytest.raises(SystemExit) as ended, transaction.atomic():
        call_command("audit", "status")
    assert ended.value.code == 2
    assert "may not do this: run manage.py migrate with OWNER_DATABASE_URL." in capsys.readouterr().err


# How it comes about


def test_two_migrations_may_make_the_role_at_the_same_moment(transactional_db: None) -> None:
    problems: list[Exception] = []

    def make_it_too() -> None:
        try:
            privileges.make_role(ROLE, "", HERE)
        except Exception as problem:
            problems.append(problem)
        finally:
            connection.close()

    def it_waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND transactionid = %s::xid)", [me])
            return bool(cursor.fetchone()[0])

    other = threading.Thread(target=make_it_too)
    try:
        with transaction.atomic():
            privileges.make_role(ROLE, "", HERE)
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_current_xact_id()::xid::text")
                [me] = cursor.fetchone()
            other.start()
            wait_until(it_waits)
        other.join(15)
        assert not other.is_alive()
        assert problems == []
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP ROLE IF EXISTS {ROLE}")


def test_a_password_stands_in_no_statement(db: None) -> None:
    with CaptureQueriesContext(connection) as sent:
        privileges.make_role(ROLE, "winter-of-79", HERE)
    statements = " ".join(str(query["sql"]) for query in sent)
    assert "CREATE ROLE" in statements
    assert "SCRAM-SHA-256$" in statements
    assert "winter-of-79" not in statements


def test_an_owner_who_may_make_no_role_is_told_what_to_do(application: None) -> None:
    sentence = r"There is no role absent_one, and .* may not make one: CREATE ROLE absent_one LOGIN PASSWORD"
    with signed_in_as(ROLE), pytest.raises(privileges.NoSuchRole, match=sentence):
        privileges.make_role("absent_one", "", HERE)


@pytest.mark.parametrize("name", ["", "boss"])
def test_the_owner_is_not_the_application(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(product.DATABASES, "owner", {"USER": "boss"})
    monkeypatch.setitem(product.DATABASES["default"], "USER", name)
    with pytest.raises(CommandError, match="DATABASE_URL must name a role of its own, not the owner's"):
        call_command("migrate", database="owner", skip_checks=True)


# Retention


@pytest.fixture
def long_ago(application: None) -> tuple[Run, Run]:
    """A run that ended and one that is open, both of last month, each with two texts and a payload."""
    alice, then = person("alice"), timezone.now() - timedelta(days=30)
    ended, still_open = rows.run("B456", alice, StopReason.CONTRACT_MET), rows.run("A123", alice)
    for run in (ended, still_open):
        for _ in range(2):
            rows.event(run, "stopped")
        StepPayload.objects.create(step=rows.step(run, 1, "read", "read_order", "", started_at=then))
    Event.objects.update(at=then)
    rows.event(ended, "closed")
    StepPayload.objects.create(step=rows.step(ended, 2, "read", "read_order", "", started_at=timezone.now()))
    return ended, still_open


def forget(what: str, older_than: str, at_most: int, past: int = 0) -> tuple[int, int | None]:
    with signed_in_as(ROLE), connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM runs_forget_{what}(%s::interval, %s, %s)", [older_than, past, at_most])
        gone, reached = cursor.fetchone()
        return gone, reached


def test_retention_takes_old_texts_of_runs_that_ended_and_leaves_their_events(long_ago: tuple[Run, Run]) -> None:
    ended, still_open = long_ago
    first, second, third, fourth = EventText.objects.order_by("pk").values_list("pk", flat=True)[:4]
    assert forget("texts", "40 days", 10) == (0, None)
    assert forget("texts", "20 days", 1) == (1, first)
    assert forget("texts", "20 days", 2, past=first) == (1, third), "the one of the open run is passed over"
    assert forget("texts", "20 days", 10, past=third) == (0, fourth)
    assert forget("texts", "20 days", 10, past=fourth) == (0, None)
    assert second
    assert ended.events.count() == 3
    assert EventText.objects.filter(event__run=ended).get().event.kind == "closed"
    assert EventText.objects.filter(event__run=still_open).count() == 2


def test_retention_takes_old_payloads_of_runs_that_ended_and_leaves_their_steps(long_ago: tuple[Run, Run]) -> None:
    ended, still_open = long_ago
    assert [forget("payloads", "20 days", 10)[0] for _ in range(2)] == [1, 0]
    assert ended.step_rows.count() == 2
    assert StepPayload.objects.filter(step__run=still_open).exists()
    assert StepPayload.objects.get(step__run=ended).step.seq == 2


def test_the_sweeper_forgets_what_is_old_and_no_more_at_a_time_than_it_should(
    long_ago: tuple[Run, Run], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, still_open = long_ago
    settings.PAYLOADS_KEPT, settings.TEXTS_KEPT = timedelta(days=20), timedelta(days=20)
    monkeypatch.setattr("runs.engine.retention.AT_ONCE", 1)
    monkeypatch.setattr("runs.engine.retention.IN_ONE_TICK", 2)
    retention = Retention()
    gone = [retention.tick() for _ in range(4)]
    assert sum(gone) == 3
    assert max(gone) <= 4
    assert StepPayload.objects.filter(step__run=still_open).count() == 1
    assert any("not kept any more" in line["says"] for line in timeline(ended))


def test_without_a_limit_nothing_is_forgotten(long_ago: tuple[Run, Run], settings: Settings) -> None:
    settings.PAYLOADS_KEPT = settings.TEXTS_KEPT = None
    assert Retention().tick() == 0


@pytest.mark.parametrize("what", ["texts", "payloads"])
@pytest.mark.parametrize(
    ("older_than", "at_most", "says"),
    [
        ("23 hours", 10, "older_than: nothing younger than a day is forgotten."),
        ("-40 days", 10, "older_than: nothing younger than a day is forgotten."),
        (None, 10, "older_than: nothing younger than a day is forgotten."),
        ("40 days", 0, "at_most: from 1 to 100000 rows at a time."),
        ("40 days", None, "at_most: from 1 to 100000 rows at a time."),
    ],
)
def test_nobody_makes_the_record_forget_what_is_young(
    what: str, older_than: str | None, at_most: int | None, says: str, application: None
) -> None:
    assert why_refused(f"SELECT runs_forget_{what}(%s::interval, 0, %s::integer)", older_than, at_most) == says


def test_forgetting_is_for_the_application_and_nobody_else(application: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"REVOKE EXECUTE ON FUNCTION runs_forget_texts FROM {ROLE}")
    says = why_refused("SELECT runs_forget_texts('40 days', 0, 10)")
    assert says == "permission denied for function runs_forget_texts"
