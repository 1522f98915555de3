"""The one door for writes from above: what it accepts, what it refuses, and that a refusal changes nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from runs.domain.errors import Failure
from runs.domain.proposals import Act
from runs.interventions import claims, sending, starting
from runs.interventions.possible import possible_events
from runs.interventions.refusals import Refused
from runs.models import Event, InboxEvent, Refusal, Run
from runs.workflows.refund_request import WORKFLOW as REFUND
from tests.engine.conftest import Engine
from tests.engine.library import Library
from tests.people import person
from tests.threads import at_once

# Starting


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "order_id"),
        ({"order_id": 7}, "order_id"),
        ({"order_id": ""}, "order_id"),
        ({"order_id": "../orders"}, "order_id"),
        ({"order_id": "B456", "amount": 3}, "amount"),
        ({"order_id": "B456", "customer_id": None}, "customer_id"),
        ([], "input"),
        ({"order_id": "x" * 30_000}, "input"),
    ],
)
def test_input_that_does_not_fit_is_refused_with_its_field(engine: Engine, given: Any, field: str) -> None:
    with pytest.raises(Refused) as refused:
        starting.start("refund_request", given, person("support"))

    assert refused.value.field == field
    assert refused.value.message.startswith(f"{field}: ")
    assert refused.value.status == 400
    assert not Run.objects.exists()


def test_an_unknown_workflow_is_refused_and_the_known_ones_are_named(engine: Engine) -> None:
    with pytest.raises(Refused, match=r"there are .*refund_request") as refused:
        starting.start("refund", {"order_id": "B456"}, person("support"))
    assert refused.value.status == 404


def test_an_unknown_order_is_refused_and_nothing_is_started(engine: Engine) -> None:
    with pytest.raises(Refused) as refused:
        starting.start("refund_request", {"order_id": "Z999"}, person("support"))

    assert (refused.value.field, refused.value.status) == ("order_id", 404)
    assert not Run.objects.exists()
    assert not Event.objects.exists()


def test_a_service_that_cannot_be_asked_does_not_keep_a_run_from_starting(engine: Engine) -> None:
    engine.back_office.fault("B456", "unavailable", where="authority")
    run, new = starting.start("refund_request", {"order_id": "B456"}, person("support"))
    assert new
    assert run.state == "received"


def test_starting_needs_the_permission_and_the_refusal_is_on_record(engine: Engine) -> None:
    for _ in range(3):
        with pytest.raises(Refused, match="start run") as refused:
            starting.start("refund_request", {"order_id": "B456"}, person("charlie"))
    assert refused.value.status == 403
    rows = Refusal.objects.filter(person=person("charlie"), attempted="start", code="forbidden")
    assert sum(row.count for row in rows) == 3
    assert rows.count() <= 2  # one a minute, and the minute may turn


def test_a_double_click_is_one_run_and_one_write(engine: Engine) -> None:
    def click() -> tuple[Run, bool]:
        return starting.start("refund_request", {"order_id": "B456"}, person("support"))

    person("support")
    results = at_once(*[click] * 6)

    assert len({run.pk for run, _ in results}) == 1
    assert [new for _, new in results].count(True) == 1
    engine.carry_on(results[0][0])
    assert len(engine.calls("B456", "submit")) == 1


def test_a_second_click_after_the_first_run_ended_is_the_same_run_under_the_same_request_key(engine: Engine) -> None:
    first, _ = starting.start("refund_request", {"order_id": "B456"}, person("support"), request_key="form-1")
    engine.carry_on(first)

    second, new = starting.start("refund_request", {"order_id": "B456"}, person("support"), request_key="form-1")

    assert (second.pk, new) == (first.pk, False)


# Cases


def test_of_two_people_who_claim_at_once_one_wins_and_the_other_is_told_who(engine: Engine) -> None:
    run = engine.run("D586")
    people = [person("alice"), person("ann")]

    results = at_once(*[lambda by=by: claims.claim(run.pk, by) for by in people])

    [won] = [result for result in results if isinstance(result, Run)]
    [lost] = [result for result in results if isinstance(result, Refused)]
    assert won.holder in people
    assert won.holder.get_full_name() in lost.message
    assert (lost.code, lost.status) == ("held", 409)
    assert run.events.filter(kind="case_claimed").count() == 1


def test_take_next_never_gives_two_people_the_same_case(engine: Engine) -> None:
    for order in ("X177", "W549"):
        engine.back_office.fault(order, "policy_conflict")
    runs = [engine.run(order) for order in ("X177", "W549")]
    people = [person("alice"), person("ann"), person("bob")]

    results = at_once(*[lambda by=by: claims.take_next(by) for by in people])

    taken = [run.pk for run in results if run]
    assert sorted(map(str, taken)) == sorted(str(run.pk) for run in runs)


def test_a_lapsed_claim_can_be_taken_over(engine: Engine) -> None:
    run = engine.run("D586")
    claims.claim(run.pk, person("alice"))
    Run.objects.update(held_until="2000-01-01T00:00Z")

    assert claims.claim(run.pk, person("ann")).holder == person("ann")


def test_only_the_holder_gives_a_case_back(engine: Engine) -> None:
    run = engine.run("D586")
    claims.claim(run.pk, person("alice"))
    with pytest.raises(Refused, match="do not hold"):
        claims.release(run.pk, person("ann"))
    claims.release(run.pk, person("alice"))
    run.refresh_from_db()
    assert run.holder is None


def test_what_somebody_else_holds_cannot_be_moved(engine: Engine) -> None:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    claims.claim(run.pk, person("alice"))

    with pytest.raises(Refused, match="Alice holds this case"):
        sending.send(run.pk, "reconcile_requested", person("ann"), {})


# Events


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({}, "reason"),
        ({"reason": ""}, "reason"),
        ({"reason": "   "}, "reason"),
        ({"reason": 3}, "reason"),
        ({"reason": "x", "state": "completed"}, "state"),
        ("reason", "payload"),
        ({"reason": "x" * 3000}, "reason"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_its_field(engine: Engine, payload: Any, field: str) -> None:
    run = engine.run("D586")

    with pytest.raises(Refused) as refused:
        sending.send(run.pk, "cancel_requested", person("alice"), payload)

    assert refused.value.field == field
    assert refused.value.status == 400
    assert not InboxEvent.objects.exists()
    assert Refusal.objects.filter(run=run, code="invalid").exists()


@pytest.mark.parametrize("event", ["complete", "completed", "contract_met", "", "late_result", "x" * 500])
def test_there_is_no_event_that_completes_a_run(engine: Engine, event: str) -> None:
    run = engine.run("D586")
    with pytest.raises(Refused, match="There is no event") as refused:
        sending.send(run.pk, event, person("alice"), {})
    assert refused.value.status == 404
    run.refresh_from_db()
    assert run.state == "awaiting_approval"


def test_an_event_that_the_state_does_not_allow_is_refused_and_changes_nothing(engine: Engine) -> None:
    run = engine.run("B456")
    before = (run.state, run.inbox_seq, run.token)

    with pytest.raises(Refused, match="has ended") as refused:
        sending.send(run.pk, "cancel_requested", person("alice"), {"reason": "too late"})

    run.refresh_from_db()
    assert refused.value.status == 409
    assert (run.state, run.inbox_seq, run.token) == before
    assert not run.inbox.exists()


def test_the_same_event_twice_at_once_is_accepted_once(engine: Engine) -> None:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    person("alice")

    results = at_once(*[lambda: sending.send(run.pk, "reconcile_requested", person("alice"), {})] * 4)

    assert sum(isinstance(result, InboxEvent) for result in results) == 1
    assert {result.code for result in results if isinstance(result, Refused)} == {"already_sent"}


def test_an_extension_is_somebody_elses_business_capped_and_in_the_ledger(engine: Engine) -> None:
    engine.back_office.fault("B456", "unavailable", where="orders")
    run = engine.run("B456", by="supervisor")
    payload = {"dimension": "tool_attempts", "by": 5, "reason": "the order service was down"}

    with pytest.raises(Refused, match="somebody else"):
        sending.send(run.pk, "budget_extended", person("supervisor"), payload)
    with pytest.raises(Refused, match="by: "):
        sending.send(run.pk, "budget_extended", person("bob"), {**payload, "by": 1000})
    with pytest.raises(Refused, match="dimension: must be one of"):
        sending.send(run.pk, "budget_extended", person("bob"), {**payload, "dimension": "patience"})
    before = run.budget["tool_attempts"]
    engine.back_office.clear("B456")
    run = engine.send(run, "budget_extended", "bob", **payload)

    assert run.outcome == "COMPLETED"
    assert run.budget["tool_attempts"][0] == before[0] + 5
    assert run.budget["tool_attempts"][2] > before[2]  # what was spent stays spent


def test_hostile_text_in_a_reason_is_stored_as_text_and_without_secrets(engine: Engine) -> None:
    run = engine.run("D586")
    text = "<script>alert(1)</script> card 4111 1111 1111 1111 key sk-abcdefghijklmnop1234 \x00"

    event = sending.send(run.pk, "cancel_requested", person("alice"), {"reason": text})

    assert event.payload["reason"].startswith("<script>alert(1)</script> card [removed] key [removed]")


def test_who_may_do_what_is_said_for_every_event(engine: Engine) -> None:
    run = engine.run("D586", by="supervisor")

    def of(name: str) -> dict[str, str]:
        return {str(e.kind.move): e.why_not for e in possible_events(run, person(name))}

    of_alice, of_supervisor, of_bob = of("alice"), of("supervisor"), of("bob")

    assert "to approve and reject writes" in of_alice["approval_granted"]
    assert "somebody else" in of_supervisor["approval_granted"]
    assert of_bob["approval_granted"] == ""
    assert "No write" in of_bob["reconcile_requested"] or "blocked" in of_bob["reconcile_requested"]


def test_an_event_that_a_defect_meets_is_refused_whole_and_those_after_it_are_heard(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    """Else no worker would ever get past it, and nobody could even withdraw the request."""
    library.answers = {"north": [Failure("not_found", "No such shelf.")] * 2}

    def acts_for(given: Mapping[str, Any], by: str) -> str:
        assert "customer" not in given, "a defect of the workflow"
        return by

    schema = {**REFUND.input_schema, "properties": {**REFUND.input_schema["properties"], "customer": {}}}
    run = made(
        lambda c: Act("search", {"shelf": "north"}),
        acts_for=acts_for,
        input_schema={**schema, "required": ["order_id"]},
    )
    assert run.stop_reason == "not_found"
    before = run.input

    sending.send(run.pk, "input_corrected", person("alice"), {"field": "customer", "value": "U-88", "reason": "Typo."})
    run = engine.send(run, "cancel_requested", "alice", reason="The customer withdrew.")

    assert (run.outcome, run.stop_reason, run.input) == ("CANCELLED", "cancelled_unsent", before)
    [corrected, cancelled] = run.inbox.order_by("id")
    assert (corrected.result, cancelled.result) == ("refused", "applied")
    assert "an unforeseen error (AssertionError) is in the log" in corrected.result_reason
