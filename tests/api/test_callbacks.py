"""What services may say to the product: signed, once, and never more than a hint."""

import json
import logging
from collections.abc import Callable
from http.client import HTTPConnection
from threading import Barrier, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import OperationalError, connection
from django.test import Client
from kombu.exceptions import OperationalError as BrokerAway

from runs.domain.errors import Failure
from runs.domain.states import StepKind
from runs.engine import calls
from runs.engine.sweep import Sweeper
from runs.models import Event, InboxEvent, Refusal, Run
from runs.timeline import timeline
from runs.tools.tool import Result
from takeover.api.bodies import MOST_BYTES
from takeover.api.refusals import QUIET, Tally
from takeover.edge import NoTraceOfRefusals
from tests.api.service import OLD_SECRET, OTHER_SECRET, SECRET, Service, headers
from tests.engine.conftest import Engine

Alter = Callable[[dict[str, str], str], object]


def key_of(run: Run) -> str:
    return run.effects.get().operation_key


def body_for(run: Run) -> str:
    return json.dumps({"operation_key": key_of(run)})


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def untouched(run: Run) -> bool:
    before = (run.inbox_seq, run.due_at, run.state)
    run.refresh_from_db()
    return before == (run.inbox_seq, run.due_at, run.state) and not run.inbox.exists()


@pytest.fixture
def pending(engine: Engine, service: Service) -> Run:
    """The service has received the refund and has not decided; it is asked again in half a minute."""
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    assert stopped_as(run) == ("WAITING", "effect_pending")
    return run


def decide(engine: Engine, run: Run, state: str = "accepted") -> None:
    engine.back_office.client.put(f"/control/refunds/{key_of(run)}", json={"state": state}).raise_for_status()


# What it leads to


def test_a_callback_completes_a_waiting_run_without_its_timer(engine: Engine, service: Service, pending: Run) -> None:
    decide(engine, pending)
    timer = pending.due_at
    assert timer is not None

    assert service.calls_back(key_of(pending), reference="R789").status_code == 202
    pending.refresh_from_db()
    assert pending.due_at is not None
    assert pending.due_at < timer
    run = engine.carry_on(pending)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "submit")) == 1
    assert run.budget["callback_checks"][2] == 1
    assert run.budget["status_checks"][2] == run.budget["follow_up_checks"][2] == 0
    said = [line["says"] for line in timeline(run)]
    assert f"The refund service called back about {key_of(run)}. That is no evidence." in said


def test_what_a_callback_says_is_no_evidence(engine: Engine, service: Service, pending: Run) -> None:
    assert service.calls_back(key_of(pending), reference="accepted as R789").status_code == 202

    run = engine.carry_on(pending, until=lambda run: not run.inbox.filter(result="").exists())

    assert stopped_as(run) == ("WAITING", "effect_pending")
    assert run.effects.get().state == "acknowledged"


def test_a_callback_that_is_here_before_our_own_answer_waits_for_it(
    engine: Engine, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "pending")
    perform = calls._perform

    def with_a_callback(held: Any, planned: calls.Planned, until: float) -> Result | Failure:
        result = perform(held, planned, until)
        if planned.tool.kind is StepKind.WRITE:
            decide(engine, held.run)
            before = Run.objects.get(pk=held.run.pk)
            assert service.calls_back(planned.key).status_code == 202
            after = Run.objects.get(pk=held.run.pk)
            assert after.inbox_seq == before.inbox_seq + 1
            assert (after.owner, after.token, after.due_at) == (before.owner, before.token, before.due_at)
        return result

    monkeypatch.setattr(calls, "_perform", with_a_callback)
    run = engine.start("B456")
    run = engine.carry_on(run, until=lambda run: run.outcome == "COMPLETED")

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert [call["kind"] for call in engine.back_office.ledger("B456")["calls"]][-2:] == ["submit", "lookup"]
    assert run.budget["callback_checks"][2] == 1


def test_a_callback_about_a_write_that_is_settled_moves_nothing(engine: Engine, service: Service, pending: Run) -> None:
    decide(engine, pending)
    engine.send(pending, "cancel_requested", "alice", reason="withdrawn")
    pending.refresh_from_db()
    assert stopped_as(pending) == ("NEEDS_HUMAN", "cancelled_too_late")
    stretch, looked = pending.stretch, len(engine.calls("B456", "lookup"))

    assert service.calls_back(key_of(pending)).status_code == 202
    run = engine.carry_on(pending, until=lambda run: not run.inbox.filter(result="").exists())

    kept = run.inbox.get(name="callback_received")
    assert kept.result == "refused"
    assert kept.result_reason == "No write of this run has an open outcome."
    assert (*stopped_as(run), run.stretch) == ("NEEDS_HUMAN", "cancelled_too_late", stretch)
    assert len(engine.calls("B456", "lookup")) == looked


def test_a_run_that_has_ended_keeps_a_callback_and_stays_ended(engine: Engine, service: Service) -> None:
    run = engine.run("B456")
    assert run.outcome == "COMPLETED"
    before = Run.objects.filter(pk=run.pk).values().get()

    assert service.calls_back(key_of(run), reference="R789").status_code == 202

    assert Run.objects.filter(pk=run.pk).values().get() == before
    kept = run.inbox.get()
    assert (kept.result, kept.result_reason) == ("refused", "The run had ended; kept as evidence.")
    assert kept.settled_at is not None
    newest = timeline(run)[0]["says"]
    assert newest == "The callback moved nothing. The run had ended; kept as evidence."


def test_a_callback_that_comes_while_the_run_is_ending_is_answered_too(
    engine: Engine, service: Service, pending: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(engine, pending)
    perform = calls._perform

    def with_a_callback(held: Any, planned: calls.Planned, until: float) -> Result | Failure:
        result = perform(held, planned, until)
        assert service.calls_back(planned.key).status_code == 202
        return result

    monkeypatch.setattr(calls, "_perform", with_a_callback)
    run = engine.later(pending)
    assert run.outcome == "COMPLETED"
    Sweeper().sweep()

    kept = run.inbox.get()
    assert (kept.result, kept.result_reason) == ("refused", "The run had ended; kept as evidence.")


# Twice, at once, and in numbers


def test_the_same_message_twice_counts_once(engine: Engine, service: Service, pending: Run) -> None:
    answers = [service.calls_back(key_of(pending)) for _ in range(3)]

    assert [(answer.status_code, answer.json()) for answer in answers] == [(202, {"status": "accepted"})] * 3
    assert pending.inbox.count() == 1
    engine.carry_on(pending, until=lambda run: not run.inbox.filter(result="").exists())
    assert service.calls_back(key_of(pending)).status_code == 202  # still the same
    assert pending.inbox.count() == 1


def test_the_same_message_from_all_sides_at_once_counts_once(service: Service, pending: Run) -> None:
    together, answers = Barrier(4), []

    def send() -> None:
        together.wait(10)
        answers.append(Service().calls_back(key_of(pending)).status_code)
        connection.close()

    threads = [Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert answers == [202] * 4
    assert pending.inbox.count() == 1
    assert Event.objects.filter(run=pending, kind="event_received").count() == 1


def test_a_flood_of_callbacks_costs_three_look_ups_and_takes_nothing_from_timers_and_people(
    engine: Engine, service: Service, pending: Run
) -> None:
    due_by_itself = pending.due_at
    before = {name: pending.budget[name][2] for name in ("status_checks", "follow_up_checks")}
    answers = []
    run = pending
    for number in range(30):
        answers.append(service.calls_back(key_of(run), f"msg_{number}").status_code)
        run = engine.carry_on(run, until=lambda run: not run.inbox.filter(result="").exists())

    assert answers == [202] * 20 + [429] * 10
    assert len(engine.calls("B456", "lookup")) == run.budget["callback_checks"][2] == 3
    assert {name: run.budget[name][2] for name in before} == before
    assert run.due_at == due_by_itself
    assert list(run.inbox.values_list("result", flat=True)) == ["applied"] * 3 + ["refused"] * 17
    decide(engine, run)
    assert engine.later(run).outcome == "COMPLETED"


# Who may say it


def as_it_is(headers: dict[str, str], body: str) -> None:
    pass


def with_the_old_secret(sent: dict[str, str], body: str) -> None:
    sent.update(headers(body, secret=OLD_SECRET))


def among_others(sent: dict[str, str], body: str) -> None:
    wrong = headers(body, secret=OTHER_SECRET)["webhook-signature"]
    sent["webhook-signature"] = f"v1a,b3RoZXI= {wrong} {sent['webhook-signature']}"


def aged(seconds: float) -> Alter:
    return lambda sent, body: sent.update(headers(body, late=seconds))


def with_header(name: str, value: str) -> Alter:
    return lambda sent, body: sent.update({f"webhook-{name}": value})


def without(name: str) -> Alter:
    return lambda sent, body: sent.pop(f"webhook-{name}")


def by_another(sent: dict[str, str], body: str) -> None:
    sent.update(headers(body, secret=OTHER_SECRET))


def of_another_body(sent: dict[str, str], body: str) -> None:
    sent.update(headers(body + " "))


def of_another_time(sent: dict[str, str], body: str) -> None:
    sent["webhook-timestamp"] = str(int(sent["webhook-timestamp"]) - 60)


def of_another_version(sent: dict[str, str], body: str) -> None:
    sent["webhook-signature"] = sent["webhook-signature"].replace("v1,", "v2,")


ACCEPTED: dict[str, Alter] = {
    "signed": as_it_is,
    "with the secret that is being replaced": with_the_old_secret,
    "one right signature among others": among_others,
    "four minutes old": aged(240),
    "four minutes early": aged(-240),
}
NOT_SIGNED: dict[str, tuple[Alter, str]] = {
    "by another's secret": (by_another, "signature_refused"),
    "of another body": (of_another_body, "signature_refused"),
    "of another id": (with_header("id", "msg_2"), "signature_refused"),
    "of another time": (of_another_time, "signature_refused"),
    "of another version": (of_another_version, "signature_refused"),
    "that is none": (with_header("signature", "v1"), "signature_refused"),
    "that is no base64": (with_header("signature", "v1,*"), "signature_refused"),
    "of odd letters": (with_header("signature", "v1,é"), "signature_refused"),
    "of nothing": (with_header("signature", "v1,"), "signature_refused"),
    "missing": (without("signature"), "signature_missing"),
    "empty": (with_header("signature", ""), "signature_missing"),
    "without an id": (without("id"), "signature_missing"),
    "without a time": (without("timestamp"), "signature_missing"),
    "six minutes old": (aged(360), "timestamp_refused"),
    "six minutes early": (aged(-360), "timestamp_refused"),
    "at no time": (with_header("timestamp", "yesterday"), "timestamp_refused"),
    "at the end of time": (with_header("timestamp", "1e999"), "timestamp_refused"),
    "at not a number": (with_header("timestamp", "nan"), "signature_refused"),
}


@pytest.mark.parametrize("alter", ACCEPTED.values(), ids=ACCEPTED)
def test_a_signature_that_counts(service: Service, pending: Run, alter: Alter) -> None:
    body = body_for(pending)
    sent = headers(body)
    alter(sent, body)

    assert service.sends(body, sent).status_code == 202
    assert pending.inbox.count() == 1


@pytest.mark.parametrize(("alter", "code"), NOT_SIGNED.values(), ids=NOT_SIGNED)
def test_a_signature_that_does_not_count(service: Service, pending: Run, tally: Tally, alter: Alter, code: str) -> None:
    body = body_for(pending)
    sent = headers(body)
    alter(sent, body)

    answer = service.sends(body, sent)

    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert answer.json()["message"].endswith(".")
    assert untouched(pending)
    counted = Refusal.objects.get()
    assert (counted.attempted, counted.code, counted.count) == ("callback of back_office", code, 1)
    assert (counted.person_id, counted.run_id) == (None, None)


@pytest.mark.parametrize("to", ["nobody", "silent", "Back_Office", "back_office%00", "%F0%9F%93%A6"])
def test_a_service_that_does_not_call_back_here_is_unknown(
    service: Service, pending: Run, tally: Tally, to: str
) -> None:
    body = body_for(pending)

    answer = service.sends(body, headers(body), to)

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_service")
    assert untouched(pending)


def test_another_services_write_is_as_unknown_as_one_that_never_was(
    service: Service, engine: Engine, pending: Run
) -> None:
    unsent = engine.run("C204")
    assert unsent.outcome == "NEEDS_HUMAN"
    answers = []
    for key, to in ((key_of(pending), "parcels"), ("refund-B456-0", "back_office"), (key_of(unsent), "back_office")):
        body = json.dumps({"operation_key": key})
        answers.append(service.sends(body, headers(body), to))

    assert {answer.status_code for answer in answers} == {404}
    assert {answer.json()["code"] for answer in answers} == {"unknown_operation"}
    assert len({answer.content for answer in answers}) == 1
    assert untouched(pending)
    assert untouched(unsent)


def test_no_session_no_cookie_and_no_form_has_anything_to_do_with_it(service: Service, pending: Run) -> None:
    service.client.cookies["sessionid"] = "0123456789abcdef"
    body = body_for(pending)
    with connection.execute_wrapper(no_sessions):
        answer = service.client.generic(
            "POST", "/api/callbacks/back_office/", body, "application/json; charset=utf-16", headers=headers(body)
        )

    assert answer.status_code == 202
    assert not answer.cookies
    for method in ("get", "put", "delete"):
        refused = getattr(Client(), method)("/api/callbacks/back_office/")
        assert (refused.status_code, refused.json()["code"]) == (405, "method_not_allowed")


def no_sessions(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    assert "django_session" not in sql
    assert "auth_user" not in sql
    return execute(sql, params, many, context)


# What is said

BODIES: dict[str, tuple[str, str, str]] = {  # KEY stands for the run's
    "empty": ("", "not_json", "body"),
    "broken off": ('{"operation_key": "KEY"', "not_json", "body"),
    "nested without end": ("[" * 5000, "not_json", "body"),
    "a list": ('["KEY"]', "invalid", "body"),
    "a text": ('"KEY"', "invalid", "body"),
    "nothing": ("null", "invalid", "body"),
    "no key": ('{"reference": "R789"}', "invalid", "operation_key"),
    "a key that is a number": ('{"operation_key": 789}', "invalid", "operation_key"),
    "a key that is blank": ('{"operation_key": "  "}', "invalid", "operation_key"),
    "a long key": (json.dumps({"operation_key": "k" * 121}), "invalid", "operation_key"),
    "half a letter": ('{"operation_key": "\\ud800"}', "invalid", "body"),
    "a reference that is an object": ('{"operation_key": "KEY", "reference": {}}', "invalid", "reference"),
    "a long reference": (json.dumps({"operation_key": "KEY", "reference": "r" * 201}), "invalid", "reference"),
    "an outcome": ('{"operation_key": "KEY", "state": "accepted"}', "invalid", "state"),
}


@pytest.mark.parametrize(("body", "code", "field"), BODIES.values(), ids=BODIES)
def test_what_makes_no_sense_is_refused_by_name(
    service: Service, pending: Run, tally: Tally, body: str, code: str, field: str
) -> None:
    answer = service.says(body.replace("KEY", key_of(pending)))

    assert answer.status_code == 400
    assert (answer.json()["code"], answer.json()["field"]) == (code, field)
    assert untouched(pending)


@pytest.mark.parametrize("key", ["\0", "KEY\0", "KEY'; DROP TABLE runs_run", "%", "KEY "])
def test_a_key_is_only_ever_compared(service: Service, pending: Run, key: str) -> None:
    answer = service.calls_back(key.replace("KEY", key_of(pending)))

    assert answer.json()["code"] in {"unknown_operation", "invalid"}
    assert untouched(pending)


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"operation_key": "\xe9"}'])
def test_what_is_not_utf_8_has_no_signature_that_could_count(service: Service, pending: Run, body: bytes) -> None:
    answer = service.sends(body, headers(body.decode("latin-1")))
    assert (answer.status_code, answer.json()["code"]) == (401, "signature_refused")


@pytest.mark.parametrize("message_id", ["m" * 81, "two words", "é"])
def test_an_id_that_could_not_be_kept_is_refused(service: Service, pending: Run, message_id: str) -> None:
    body = body_for(pending)

    answer = service.sends(body, headers(body, message_id))

    assert (answer.status_code, answer.json()["field"]) == (400, "webhook-id")
    assert untouched(pending)


@pytest.mark.parametrize("secret", ["demo-key", SECRET, SECRET.removeprefix("whsec_")])
def test_what_a_service_lets_slip_is_not_kept(service: Service, pending: Run, secret: str) -> None:
    assert service.calls_back(key_of(pending), reference=f"with {secret}\0, then").status_code == 202

    text = json.dumps([pending.inbox.get().payload, timeline(pending)], default=str)
    assert secret not in text
    assert key_of(pending) in text


def test_a_body_is_read_no_further_than_it_may_go(service: Service, live_site: str, tally: Tally) -> None:
    """Over a real connection: the test client hands the body over in one piece."""
    address = urlsplit(live_site)
    sent = 0

    def pieces() -> Any:
        nonlocal sent
        for _ in range(100):
            sent += MOST_BYTES
            yield b" " * MOST_BYTES

    for body in (b" " * (MOST_BYTES + 1), b" " * 3_000_000, pieces()):
        door = HTTPConnection(address.hostname or "", address.port, timeout=20)
        door.request(
            "POST", "/api/callbacks/back_office/", body, headers(" "), encode_chunked=not isinstance(body, bytes)
        )
        answer = door.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (413, "too_large")
        door.close()


def test_a_body_of_the_largest_size_is_read(service: Service, live_site: str, pending: Run) -> None:
    address = urlsplit(live_site)
    body = body_for(pending).ljust(MOST_BYTES)
    door = HTTPConnection(address.hostname or "", address.port, timeout=20)
    door.request("POST", "/api/callbacks/back_office/", body, headers(body))

    assert door.getresponse().status == 202
    door.close()
    assert pending.inbox.count() == 1


# Bad days


def test_without_a_database_the_service_is_asked_to_try_again(service: Service, pending: Run) -> None:
    def away(*query: Any) -> Any:
        raise OperationalError("the connection is lost")

    body = body_for(pending)
    with connection.execute_wrapper(away):
        answer = service.says(body)
        unsigned = service.sends(body, {})

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["Retry-After"]
    assert unsigned.status_code == 401
    assert untouched(pending)
    assert service.says(body).status_code == 202


def test_without_a_broker_it_is_kept_and_the_sweeper_finds_the_run(
    service: Service, pending: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(run_id: str) -> None:
        raise BrokerAway

    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", away)

    assert service.calls_back(key_of(pending)).status_code == 202
    assert Run.objects.due().filter(pk=pending.pk).exists()


def test_a_flood_of_strangers_fills_neither_the_table_nor_the_log(
    service: Service, pending: Run, tally: Tally, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    tally.clock = lambda: now
    body = body_for(pending)
    with caplog.at_level(logging.WARNING):
        for number in range(300):
            service.sends(body, headers(body, secret=OTHER_SECRET))
            service.sends(body, {}, to=f"service-{number}")
        now += QUIET
        service.sends(body, headers(body, secret=OTHER_SECRET))

    counted = Refusal.objects.values_list("attempted", "code", "count")
    assert sum(count for _, code, count in counted if code == "signature_refused") == 301
    assert {(attempted, code) for attempted, code, _ in counted} == {
        ("callback of back_office", "signature_refused"),
        ("callback of unknown", "unknown_service"),
    }
    assert Refusal.objects.count() <= 4  # a minute may have begun meanwhile
    to_the_terminal = [record.getMessage() for record in caplog.records if NoTraceOfRefusals().filter(record)]
    assert to_the_terminal == [
        "Callbacks refused: 1 of back_office (signature_refused)",
        "Callbacks refused: 1 of unknown (unknown_service)",
        "Callbacks refused: 300 of back_office (signature_refused)",
    ]
    assert not InboxEvent.objects.exists()
    assert SECRET not in caplog.text
