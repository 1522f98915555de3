"""Answers that are lost on their way back, from the database, the broker and a service: nothing happens twice."""

from urllib.parse import urlsplit

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from runs.engine import commit
from runs.engine.advance import advance
from runs.engine.sweep import Sweeper
from runs.engine.tasks import wake
from runs.interventions import starting
from runs.models import Run
from tests.engine.conftest import Engine
from tests.faults.detours import commits_that_wait, in_another_thread, somebody_else, when
from tests.faults.proxy import Fate, Proxy
from tests.faults.test_workers import a_run_nobody_was_told_about
from tests.people import person
from tests.processes import BackOffice, Broker, Standing, wait_until

COMMIT = b"UPDATE runs_run\n       SET state"
CLAIM = b"UPDATE runs_run\n   SET token"
END = b"COMMIT\0"  # of a transaction of several statements
CUT = [Fate.ANSWER_LOST, Fate.REQUEST_LOST, Fate.BROKEN_OFF]
CLEAN_RUN = 5  # commits: the intents of four calls, and the stop
SUBMISSION = 4  # the commit from which on a refund counts as sent


def the_lease_runs_out(run: Run) -> None:
    Run.objects.filter(pk=run.pk).exclude(owner="").update(due_at=timezone.now())


def assert_completed_once(engine: Engine, run: Run) -> None:
    run.refresh_from_db()
    assert (run.outcome, run.owner, run.due_at) == ("COMPLETED", "", None)
    assert len(engine.calls("B456", "submit")) == len(engine.effects("B456")) == 1
    assert run.events.filter(kind="stopped", text_row__text__contains="contract_met").count() == 1


# A commit of a worker's


@pytest.mark.parametrize("fate", CUT)
@pytest.mark.parametrize("nth", range(1, CLEAN_RUN + 1))
def test_whichever_commit_is_not_answered_the_worker_goes_on_as_if_it_had_been(
    engine: Engine, to_database: Proxy, nth: int, fate: Fate
) -> None:
    run = engine.start("B456")
    lost = to_database.doom(COMMIT, fate, nth)

    assert not advance(run.pk)

    assert lost.met.is_set()
    assert_completed_once(engine, run)
    assert (run.token, run.revision) == (1, CLEAN_RUN)
    assert list(run.step_rows.values_list("status", flat=True)) == ["done"] * 4
    assert engine.calls("B456", "lookup") == []  # nobody had to ask what became of it


@pytest.mark.parametrize("fate", CUT)
def test_a_run_that_ends_without_an_answer_ends_once(engine: Engine, to_database: Proxy, fate: Fate) -> None:
    run = engine.start("B456")
    lost = to_database.doom(END, fate)

    assert not advance(run.pk)

    assert lost.met.is_set()
    assert_completed_once(engine, run)
    assert (run.token, run.revision) == (1, CLEAN_RUN)


@pytest.mark.parametrize("fate", CUT)
def test_a_run_that_is_given_back_without_an_answer_is_given_back_once(
    engine: Engine, to_database: Proxy, settings: Settings, fate: Fate
) -> None:
    settings.ENGINE_SLICE = 0
    run = engine.start("B456")
    lost = to_database.doom(COMMIT, fate, nth=2)  # after the first call

    assert advance(run.pk)

    assert lost.met.is_set()
    run.refresh_from_db()
    assert (run.owner, run.token, run.revision) == ("", 1, 2)
    while advance(run.pk):
        pass
    assert_completed_once(engine, run)


def test_a_commit_that_is_still_being_carried_out_when_it_is_made_again_is_made_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    run = engine.start("B456")
    with in_another_thread() as worker, somebody_else() as other:
        to_database: Proxy = request.getfixturevalue("to_database")
        when(monkeypatch, "read_policies", lambda: other.execute("SELECT FROM runs_run FOR UPDATE"))
        going_on = worker.submit(advance, run.pk)
        wait_until(lambda: commits_that_wait(other) == 1)
        to_database.cut()  # the server does not notice, and goes on waiting for the row
        wait_until(lambda: commits_that_wait(other) == 2)
        other.rollback()
        assert not going_on.result()

    connection.close()  # which was cut too
    assert_completed_once(engine, run)
    assert (run.token, run.revision) == (1, CLEAN_RUN)
    assert run.events.filter(kind="write_sent").count() == 1


@pytest.mark.parametrize("fate", [Fate.ANSWER_LOST, Fate.REQUEST_LOST])
@pytest.mark.parametrize("nth", range(1, CLEAN_RUN + 1))
def test_where_the_database_stays_away_after_a_commit_the_next_worker_finds_out(
    engine: Engine, to_database: Proxy, monkeypatch: pytest.MonkeyPatch, nth: int, fate: Fate
) -> None:
    monkeypatch.setattr(commit, "RECONNECT_WITHIN", 0)
    run = engine.start("B456")

    def is_away() -> None:
        to_database.away = True

    to_database.doom(COMMIT, fate, nth, then=is_away)

    with pytest.raises(OperationalError):
        advance(run.pk)

    to_database.away = False
    connection.close()
    assert len(engine.calls("B456", "submit")) == (nth > SUBMISSION)  # what nobody knows to be saved is not sent
    the_lease_runs_out(run)
    run = engine.carry_on(run)
    if run.outcome == "WAITING":  # for the proof that nothing is on its way
        run = engine.later(run)
    assert_completed_once(engine, run)


def test_where_another_worker_took_the_run_meanwhile_the_one_without_an_answer_stops(
    engine: Engine, to_database: Proxy
) -> None:
    run = engine.start("B456")

    def another_takes_it() -> None:
        the_lease_runs_out(run)
        advance(run.pk)
        connection.close()  # of the proxy's thread

    to_database.doom(COMMIT, Fate.ANSWER_LOST, SUBMISSION, then=another_takes_it)

    assert not advance(run.pk)

    run.refresh_from_db()
    assert (run.outcome, run.token) == ("WAITING", 2)
    assert engine.calls("B456", "submit") == []  # neither knew it to be unsent: the second asked, the first stopped
    assert_completed_once(engine, engine.later(run))


def test_a_commit_that_the_database_refuses_twice_is_not_made(engine: Engine) -> None:
    run = engine.start("B456")
    lease = commit.claim(run.pk, 30)
    assert lease
    run.refresh_from_db()
    run.state = "no state that fits into twenty characters"

    with pytest.raises(Exception, match="too long"):
        commit.commit(lease, run, commit.Pending(), inbox_seen=0, hold_for=5)

    run.refresh_from_db()
    assert (run.state, run.revision) == ("received", 0)


# A claim


def test_a_claim_whose_answer_is_lost_is_nobodys_until_its_lease_runs_out(engine: Engine, to_database: Proxy) -> None:
    run = engine.start("B456")
    to_database.doom(CLAIM, Fate.ANSWER_LOST)

    with pytest.raises(OperationalError):
        advance(run.pk)

    connection.close()
    run.refresh_from_db()
    assert (run.token, run.revision, run.dispatches) == (1, 0, 1)
    assert not advance(run.pk)
    assert Sweeper().sweep() == 0
    the_lease_runs_out(run)
    assert Sweeper().sweep() == 1
    advance(run.pk)
    assert_completed_once(engine, run)


# A person's decision


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", found.append)
    return found


@pytest.fixture
def waiting(engine: Engine) -> Run:
    """A refund above 100 EUR: it waits for Bob."""
    engine.back_office.change_order("B456", amount_minor=150_00)
    run = engine.run("B456")
    assert run.stop_reason == "approval_required"
    return run


@pytest.fixture
def bob(transactional_db: None) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(person("bob"))
    return client


def approve(bob: Client, run: Run) -> tuple[int, str]:
    """Bob presses Approve. Returns the status and the text of what he sees."""
    seen = {"answers": run.effects.get().plan_digest}
    answer = bob.post(reverse("event", args=[run.pk, "approval_granted"]), seen)
    return answer.status_code, answer.content.decode()


def test_a_decision_that_landed_without_an_answer_is_accepted_and_counts_once(
    engine: Engine, waiting: Run, bob: Client, to_database: Proxy, woken: list[str]
) -> None:
    lost = to_database.doom(END, Fate.ANSWER_LOST)
    in_between = len(waiting.events.all())

    status, _ = approve(bob, waiting)

    assert lost.met.is_set()
    assert status == 302  # back to the case, as always
    assert woken == [str(waiting.pk)]
    assert waiting.inbox.get().name == "approval_granted"
    assert len(waiting.events.all()) == in_between + 1

    status, page = approve(bob, waiting)

    assert status == 409
    assert "Bob approved this plan" in page
    assert_completed_once(engine, engine.carry_on(waiting, until=lambda run: run.outcome == "COMPLETED"))


def test_a_decision_that_did_not_land_is_not_called_accepted_and_can_be_made_again(
    engine: Engine, waiting: Run, bob: Client, to_database: Proxy, woken: list[str]
) -> None:
    to_database.doom(END, Fate.REQUEST_LOST)

    status, page = approve(bob, waiting)

    assert status == 500
    assert "may or may not have been saved" in page
    assert not woken
    assert not waiting.inbox.exists()
    assert approve(bob, waiting)[0] == 302
    assert_completed_once(engine, engine.carry_on(waiting, until=lambda run: run.outcome == "COMPLETED"))


def test_a_start_whose_answer_is_lost_is_found_by_the_second_press(
    engine: Engine, to_database: Proxy, woken: list[str]
) -> None:
    support = person("support")
    to_database.doom(END, Fate.ANSWER_LOST)

    with pytest.raises(OperationalError):
        starting.start("refund_request", {"order_id": "B456"}, support)

    connection.close()
    run, is_new = starting.start("refund_request", {"order_id": "B456"}, support)
    assert not is_new
    assert not woken  # nobody was told, so the sweeper finds it
    assert Sweeper().sweep() == 1
    advance(run.pk)
    assert_completed_once(engine, run)


# A wake-up


def test_a_wake_up_that_is_sent_twice_for_want_of_a_receipt_moves_the_run_once(
    worker: Standing, back_office: BackOffice, to_broker: Proxy
) -> None:
    run = Run.objects.create(**a_run_nobody_was_told_about())
    lost = [to_broker.doom(b"LPUSH", Fate.ANSWER_LOST) for _ in range(2)]

    assert not wake(run.pk)  # as far as anybody knows here; the sweeper would see to it

    assert all(each.met.is_set() for each in lost)
    wait_until(lambda: Run.objects.get(pk=run.pk).outcome == "COMPLETED")
    wait_until(Broker().is_empty)
    run.refresh_from_db()
    assert list(run.step_rows.values_list("seq", flat=True)) == [1, 2, 3, 4]
    assert "Traceback" not in worker.said()


# A service


@pytest.mark.parametrize("fate", [Fate.ANSWER_LOST, Fate.BROKEN_OFF])
def test_a_submission_whose_answer_is_cut_off_is_looked_up_and_not_sent_again(
    engine: Engine, settings: Settings, fate: Fate
) -> None:
    with Proxy(urlsplit(engine.back_office.url).port or 0) as to_service:
        settings.SERVICES = {"back_office": {"url": f"http://127.0.0.1:{to_service.port}", "token": "demo-key"}}
        lost = to_service.doom(b"POST /refunds", fate)
        run = engine.run("B456")

    assert lost.met.is_set()
    assert_completed_once(engine, run)
    assert len(engine.calls("B456", "lookup")) == 1


def test_a_submission_that_never_arrived_is_sent_again_only_after_its_absence_is_proven(
    engine: Engine, settings: Settings
) -> None:
    with Proxy(urlsplit(engine.back_office.url).port or 0) as to_service:
        settings.SERVICES = {"back_office": {"url": f"http://127.0.0.1:{to_service.port}", "token": "demo-key"}}
        to_service.doom(b"POST /refunds", Fate.REQUEST_LOST)
        run = engine.run("B456")
        assert (run.outcome, run.stop_reason) == ("WAITING", "effect_unknown")
        run = engine.later(run)

    assert_completed_once(engine, run)
    key = {call["operation_key"] for call in engine.calls("B456", "submit") + engine.calls("B456", "lookup")}
    assert key == {run.effects.get().operation_key}
