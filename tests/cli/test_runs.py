"""`manage.py runs …`: the same door as the console. Sentences on stderr, exit codes that mean something."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django.fixtures import Settings

from runs import case
from runs.domain.budget import Dimension
from runs.domain.effects import EffectState
from runs.domain.states import State, StopReason
from runs.interventions import sending
from runs.models import InboxEvent, Refusal, Run
from takeover.supervisor.children import CLONE
from tests.console import rows
from tests.people import person
from tests.processes import BackOffice, Standing
from tests.states import bring, bring_write


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def package(self) -> dict[str, Any]:
        return dict(json.loads(self.out))


def runs(*words: object) -> Answer:
    out, err = StringIO(), StringIO()
    try:
        call_command("runs", *map(str, words), stdout=out, stderr=err)
    except SystemExit as ended:
        return Answer(int(ended.code or 0), out.getvalue(), err.getvalue())
    except CommandError as usage:  # argparse, which ends with 2 at a real command line
        return Answer(2, out.getvalue(), str(usage))
    return Answer(0, out.getvalue(), err.getvalue())


@pytest.fixture(autouse=True)
def _nobody_works(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "worker" not in request.fixturenames:
        monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)


@pytest.fixture
def office(back_office: BackOffice, settings: Settings) -> BackOffice:
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    return back_office


@pytest.fixture
def waiting(db: None) -> Run:
    """Sent, answer lost, nothing found yet."""
    run = rows.run("B456", person("support"), StopReason.EFFECT_UNKNOWN, effects_at_risk=1, due_at=timezone.now())
    rows.facts(run)
    rows.write(run, EffectState.UNKNOWN, look_ups=1, last_answer="not_found_yet", answered_at=timezone.now())
    return run


@pytest.fixture
def awaiting(db: None) -> Run:
    run = rows.run("C204", person("support"), StopReason.APPROVAL_REQUIRED)
    rows.facts(run)
    rows.write(run)
    return run


# The main job, with a worker


def test_a_refund_is_started_and_waited_for(worker: Standing, office: BackOffice) -> None:
    person("support")
    started = runs("start", "refund_request", "--input", '{"order_id": "B456"}', "--as", "support", "--json")
    assert (started.code, started.err) == (0, "")
    run_id = started.package["run_id"]
    waited = runs("wait", run_id, "--until", "completed", "--timeout", 20, "--json")
    assert (waited.code, waited.err) == (0, "")
    assert waited.package["state"] == "completed"
    assert {row["value"] for row in waited.package["contract"]} == {"MET"}
    assert "R789" in waited.package["customer_says"]["en"]
    ended_otherwise = runs("wait", run_id, "--until", "WAITING")
    assert (ended_otherwise.code, ended_otherwise.err) == (1, "It ended as COMPLETED, not as WAITING.\n")


def test_waiting_goes_on_through_other_outcomes(worker: Standing, office: BackOffice) -> None:
    person("support"), person("supervisor")
    started = runs("start", "refund_request", "--input", '{"order_id": "C204"}', "--as", "support", "--json").package
    stopped = runs("wait", started["run_id"], "--json")
    assert (stopped.code, stopped.package["stop_reason"]) == (0, "approval_required")
    approved = runs("send", started["run_id"], "approval_granted", "--as", "supervisor")
    assert approved.code == 0
    assert stopped.package["effects"][0]["plan_digest"] in approved.out
    completed = runs("wait", started["run_id"], "--until", "COMPLETED", "--timeout", 20)
    assert completed.code == 0


# Starting


def test_the_same_request_twice_gives_the_same_run(db: None, office: BackOffice) -> None:
    person("support")
    words = ("start", "refund_request", "--input", '{"order_id": "B456"}', "--as", "support", "--request-key", "k1")
    first, second = runs(*words), runs(*words)
    assert first.code == second.code == 0
    assert first.out.splitlines()[-1] == second.out.splitlines()[-1]
    assert second.out.startswith("Already there, nothing new was started")
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("workflow", "given", "name", "says"),
    [
        ("no_such", '{"order_id": "B456"}', "support", "; there are booking_cancellation, "),
        (
            "refund_request",
            '{"order_id": ',
            "support",
            "input: not valid JSON: Expecting value at line 1, column 14.",
        ),
        ("refund_request", '["B456"]', "support", "input: must be a JSON object"),
        ("refund_request", "[" * 100_000, "support", "input: not valid JSON"),
        ("refund_request", "{}", "support", "order_id: is missing."),
        ("refund_request", '{"order_id": "B456", "colour": 1}', "support", "colour: is not a field of this input."),
        ("refund_request", '{"order_id": "ZZZ9"}', "support", "order_id: "),
        ("refund_request", '{"order_id": "B456"}', "nobody", "There is no account called 'nobody'."),
        ("refund_request", '{"order_id": "B456"}', "charlie", "charlie may not do this"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused_with_a_sentence(
    db: None, office: BackOffice, workflow: str, given: str, name: str, says: str
) -> None:
    person("support"), person("charlie")
    answer = runs("start", workflow, "--input", given, "--as", name)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert not Run.objects.exists()


def test_a_refused_attempt_of_somebody_known_is_on_record(db: None) -> None:
    person("charlie")
    runs("start", "refund_request", "--input", '{"order_id": "B456"}', "--as", "charlie")
    assert Refusal.objects.get().code == "forbidden"


@pytest.mark.parametrize("given", ['{"order_id": ', '["B456"]', '"B456"', "NaN"])
def test_input_that_is_no_json_object_is_a_refused_attempt_on_record(db: None, given: str) -> None:
    support = person("support")
    assert runs("start", "refund_request", "--input", given, "--as", "support").code == 2
    refused = Refusal.objects.get()
    assert (refused.person, refused.attempted, refused.code) == (support, "start", "invalid")


def test_an_account_that_is_switched_off_does_nothing(db: None) -> None:
    support = person("support")
    support.is_active = False
    support.save()
    answer = runs("start", "refund_request", "--input", '{"order_id": "B456"}', "--as", "support")
    assert (answer.code, answer.err) == (2, "The account 'support' is switched off.\n")


# Showing


def test_the_package_is_one_json_object_and_nothing_else(waiting: Run) -> None:
    answer = runs("show", waiting.pk, "--json")
    wanted = {
        "run_id",
        "workflow",
        "state",
        "outcome",
        "stop_reason",
        "contract",
        "effects",
        "budgets",
        "allowed_events",
        "forbidden_events",
    }
    assert answer.code == 0
    assert wanted <= set(answer.package)
    assert answer.package["run_id"] == str(waiting.pk)


def test_what_is_known_and_unknown_and_possible_is_told_to_a_person(waiting: Run) -> None:
    told = runs("show", waiting.pk).out
    for part in (
        "WAITING (effect_unknown)",
        "We are verifying whether your refund request for order B456 was received.\n",
        "我们正在为您核实订单 B456 的退款申请是否已被接收。\n",
        "UNKNOWN  The refund service accepted the request",
        f"unknown, key refund-B456-{str(waiting.pk)[:8]}",
        "status_checks",
        "yes  reconcile_requested",
        "Possible while a run's state is awaiting approval; this one's is blocked.",
    ):
        assert part in told


def test_of_a_run_that_ended_no_event_is_listed(db: None) -> None:
    told = runs("show", rows.run("B456", person("support"), StopReason.CONTRACT_MET).pk).out
    assert told.endswith("Events\n  none: the run has ended\n")


def test_time_is_told_as_time(waiting: Run) -> None:
    assert re.search(r"  wall_time +\d+ \w+ of 1 d spent ", runs("show", waiting.pk).out)


def test_for_whom_is_told_where_it_is_somebody_else(waiting: Run) -> None:
    assert re.search("  asked by +support, for U-88\n", runs("show", waiting.pk).out)
    own = rows.run("C881", person("support"), StopReason.FACTS_MISSING, acts_for="support")
    assert re.search("  asked by +support\n", runs("show", own.pk).out)


def test_when_it_is_asked_again_is_not_told_as_a_due_time(waiting: Run) -> None:
    Run.objects.update(answer_by=None)
    assert waiting.due_at
    told = runs("show", waiting.pk).out
    assert f"  asked again  {waiting.due_at:%Y-%m-%d %H:%M:%S} UTC\n" in told
    assert "  due " not in told


def test_a_planned_write_is_told_field_by_field(awaiting: Run) -> None:
    told = runs("show", awaiting.pk).out
    assert "amount          0.00 EUR → 59.00 EUR" in told
    assert case.read(awaiting)["effects"][0]["plan_digest"] in told


def test_a_write_that_is_put_up_again_is_told_with_its_plan(awaiting: Run) -> None:
    bring_write(awaiting.effects.get(), EffectState.ABSENT, times_sent=1)
    assert case.read(awaiting)["effects"][0]["plan_digest"] in runs("show", awaiting.pk).out


def test_of_a_write_that_is_withheld_only_the_key_is_told(db: None) -> None:
    run = rows.run("B456", person("support"), StopReason.NOT_AUTHORISED)
    effect = rows.write(run, EffectState.CONFIRMED)
    told = runs("show", run.pk).out
    assert f"Write: confirmed, key {effect.operation_key}" in told
    assert "59.00 EUR" not in told


def test_what_a_service_wrote_cannot_steer_the_terminal(waiting: Run) -> None:
    waiting.effects.update(reason="\x1b[2Jgone\nOutcome COMPLETED")
    told = runs("show", waiting.pk).out
    assert "\x1b" not in told
    assert "[U+001B][2Jgone Outcome COMPLETED" in told


@pytest.mark.parametrize("verb", ["show", "wait", "reconcile"])
@pytest.mark.parametrize(
    ("run_id", "says"),
    [("B456", "'B456' is not a run's id, which looks like"), (UUID(int=7), "There is no run")],
)
def test_a_run_that_is_not_there_is_said_so(db: None, verb: str, run_id: object, says: str) -> None:
    person("support")
    answer = runs(verb, run_id, *(["--as", "support"] if verb == "reconcile" else []))
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_the_list_is_filtered_and_limited(waiting: Run, awaiting: Run) -> None:
    assert len(runs("list").out.splitlines()) == 3
    (only,) = runs("list", "--outcome", "waiting", "--json").package["runs"]
    assert only["run_id"] == str(waiting.pk)
    assert len(runs("list", "--limit", 1, "--json").package["runs"]) == 1
    assert len(runs("list", "--workflow", "refund_request", "--json").package["runs"]) == 2


def test_a_list_that_stops_short_says_so(waiting: Run, awaiting: Run) -> None:
    assert runs("list", "--limit", 1).out.splitlines()[-1] == "These are 1 of 2; --limit 2 shows all."


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--outcome", "GREAT"], "--outcome must be one of COMPLETED"),
        (["--workflow", "none"], "Known: refund_request, "),
        (["--limit", "0"], "must be a whole number from 1 to 10000, not '0'"),
        (["--limit", "²"], "must be a whole number"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(db: None, words: list[str], says: str) -> None:
    answer = runs("list", *words)
    assert answer.code == 2
    assert says in answer.err


# Sending


def test_a_reconcile_is_handed_to_the_run_once(waiting: Run) -> None:
    first = runs("reconcile", waiting.pk, "--as", "support")
    second = runs("reconcile", waiting.pk, "--as", "support")
    assert (first.code, second.code) == (0, 2)
    left = waiting.ledger.lines[Dimension.FOLLOW_UP_CHECKS].available
    assert f"(follow-up checks: {left - 1} left after this one)\n" in first.out
    assert "Support already sent this; it is being carried out." in second.err
    assert InboxEvent.objects.get().name == "reconcile_requested"


@pytest.mark.parametrize(
    ("event", "name", "more", "says"),
    [
        ("approve_all", "supervisor", [], "There is no event 'approve_all'"),
        ("approval_granted", "support", [], "needs the permission to approve and reject writes"),
        ("approval_granted", "supervisor", ["--plan", "0" * 64], "This decision is about another plan"),
        ("approval_rejected", "supervisor", [], "reason: is missing."),
        ("approval_rejected", "supervisor", ["--payload", '{"reason": ""}'], "reason: "),
        (
            "approval_rejected",
            "supervisor",
            ["--payload", "{'reason'}"],
            "payload: not valid JSON: Expecting property name enclosed in double quotes at line 1, column 2.",
        ),
        ("reconcile_requested", "support", [], "Possible while a run's state is blocked"),
    ],
)
def test_an_event_that_cannot_be_is_refused_and_changes_nothing(
    awaiting: Run, event: str, name: str, more: list[str], says: str
) -> None:
    person(name)
    answer = runs("send", awaiting.pk, event, "--as", name, *more)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert not InboxEvent.objects.exists()


def test_a_payload_that_is_no_json_and_an_event_that_nobody_knows_are_on_record(awaiting: Run) -> None:
    bob = person("bob")
    runs("send", awaiting.pk, "approval_rejected", "--as", "bob", "--payload", "{'reason'}")
    runs("send", awaiting.pk, "approve_all", "--as", "bob")
    assert {(row.run, row.person, row.attempted, row.code) for row in Refusal.objects.all()} == {
        (awaiting, bob, "approval_rejected", "invalid"),
        (awaiting, bob, "approve_all", "unknown_event"),
    }


def test_the_second_decision_is_told_who_was_first(awaiting: Run) -> None:
    person("supervisor"), person("bob")
    assert runs("send", awaiting.pk, "approval_granted", "--as", "supervisor").code == 0
    late = runs("send", awaiting.pk, "approval_rejected", "--as", "bob", "--payload", '{"reason": "too much"}')
    assert late.code == 2
    assert "Supervisor approved this plan" in late.err


# Waiting


def test_waiting_ends_in_time_and_says_how_it_stands(waiting: Run) -> None:
    answer = runs("wait", waiting.pk, "--until", "COMPLETED", "--timeout", 0.3)
    assert answer.code == 1
    assert answer.err == "It did not get there within 0.3 seconds; it is WAITING.\n"


def test_a_run_that_has_something_to_read_or_is_in_hand_does_not_stand_still(waiting: Run) -> None:
    assert runs("wait", waiting.pk, "--timeout", 0.3).code == 0
    sending.send(waiting.pk, "reconcile_requested", person("support"), {})
    assert runs("wait", waiting.pk, "--timeout", 0.3).code == 1
    InboxEvent.objects.update(result=InboxEvent.Result.APPLIED)
    assert runs("wait", waiting.pk, "--timeout", 0.3).code == 0
    waiting.refresh_from_db()
    bring(waiting, State.VALIDATING, owner="somebody")
    assert runs("wait", waiting.pk, "--timeout", 0.3).code == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--until", "DONE"], "--until must be one of COMPLETED"),
        (["--timeout", "soon"], "must be a number of seconds"),
        (["--timeout", "nan"], "must be a number of seconds"),
        (["--timeout", "-1"], "must be a number of seconds"),
    ],
)
def test_a_wait_that_makes_no_sense_is_refused(waiting: Run, words: list[str], says: str) -> None:
    answer = runs("wait", waiting.pk, *words)
    assert answer.code == 2
    assert says in answer.err


# From a shell


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Answer]:
    """The real command line, in an installation where nothing runs."""
    servers = {"DATABASE_URL", "REDIS_URL", "BACK_OFFICE_URL", "DJANGO_SETTINGS_MODULE", "TAKEOVER_DATA_DIR"}

    def run(*words: str, **env: str) -> Answer:
        command = [sys.executable, str(CLONE / "manage.py"), "runs", *words]
        clean = {name: value for name, value in os.environ.items() if name not in servers} | env
        done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=60, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


@pytest.mark.parametrize(
    "order", [("--data-dir", "{}", "list"), ("list", "--data-dir", "{}"), ("list", "--data-dir={}")]
)
def test_where_nothing_runs_it_says_so(shell: Callable[..., Answer], tmp_path: Path, order: tuple[str, ...]) -> None:
    answer = shell(*(word.format(tmp_path) for word in order))
    assert (answer.code, answer.out) == (2, "")
    cure = "start it with bin/up, or name its folder with --data-dir."
    assert answer.err == f"Nothing is running in {tmp_path}: {cure}\n"


def test_a_database_that_does_not_answer_is_named(shell: Callable[..., Answer], tmp_path: Path) -> None:
    answer = shell("show", str(uuid4()), "--data-dir", str(tmp_path), DATABASE_URL="postgresql://x@127.0.0.1:1/x")
    assert answer.code == 2
    assert answer.err.startswith("The database that DATABASE_URL names does not answer: ")
    assert len(answer.err.splitlines()) == 1


def test_a_missing_word_ends_with_the_usage(shell: Callable[..., Answer], tmp_path: Path) -> None:
    answer = shell("start", "--data-dir", str(tmp_path))
    assert answer.code == 2
    assert "the following arguments are required: --as, WORKFLOW, --input" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.django_db(transaction=True)
def test_a_reader_that_goes_away_is_no_error(product_env: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, str(CLONE / "manage.py"), "runs", "list"]
    gone = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False, env=product_env)
    os.close(writer)
    assert gone.stderr == b""
