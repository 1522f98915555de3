"""An input that a service refused is corrected by a person, held against the same rules, and all is read again."""

from dataclasses import replace

import pytest

from runs.domain.errors import Failure
from runs.domain.states import State
from runs.interventions import sending, starting
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.tools.tool import Call, Result, Service, ToolFailed
from runs.workflows.refund_request import WORKFLOW
from tests.engine.conftest import Engine
from tests.people import person
from tests.states import bring


@pytest.fixture
def refused_input(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The order service does not take the customer's number as it was typed."""
    run = engine.start("B456", customer_id="U-88x")

    def refuses(service: Service, call: Call, until: float) -> Result:
        raise ToolFailed(Failure("invalid_input", "No customer has such a number."))

    first = WORKFLOW.tools["check_authority"]
    with monkeypatch.context() as patch:
        patch.setitem(WORKFLOW.tools, first.name, replace(first, perform=refuses))
        run = engine.carry_on(run)
    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "input_invalid")
    return run


def correct(run: Run, field: str, value: str) -> None:
    payload = {"field": field, "value": value, "reason": "Typed wrongly."}
    sending.send(run.pk, "input_corrected", person("alice"), payload)


def test_a_corrected_input_is_read_again_from_the_start_and_completes(engine: Engine, refused_input: Run) -> None:
    run = engine.send(
        refused_input, "input_corrected", "alice", field="customer_id", value="U-88", reason="Typed wrongly."
    )

    assert (run.outcome, run.stop_reason) == ("COMPLETED", "contract_met")
    assert run.input == {"order_id": "B456", "customer_id": "U-88"}
    assert run.acts_for == "U-88"
    assert len(engine.calls("B456", "submit")) == 1


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("colour", "red", "field: must be one of amount_minor, customer_id, order_id."),
        ("customer_id", "<b>", "value: customer_id:"),
        ("order_id", "A123", "field: order B456 is what this run is about; for another one, start another run."),
    ],
)
def test_a_correction_is_refused_by_the_field_and_changes_nothing(
    refused_input: Run, field: str, value: str, says: str
) -> None:
    with pytest.raises(Refused) as no:
        correct(refused_input, field, value)

    assert no.value.message.startswith(says)
    assert no.value.field in {"field", "value"}
    run = Run.objects.get(pk=refused_input.pk)
    assert run.input == refused_input.input
    assert not run.inbox.exists()


def test_who_corrects_a_request_asks_for_it_and_does_not_decide_on_it(engine: Engine) -> None:
    run = engine.start("D586", customer_id="bob")
    bring(run, State.BLOCKED, outcome="NEEDS_HUMAN", stop_reason="input_invalid")
    correction = {"field": "customer_id", "value": "support", "reason": "Typed wrongly."}
    run = engine.send(run, "input_corrected", "supervisor", **correction)
    assert (run.stop_reason, run.acts_for) == ("approval_required", "support")
    assert run.asked_by == ["support", "bob", "supervisor"]

    for who in ("bob", "supervisor", "support"):
        with pytest.raises(Refused):
            sending.send(run.pk, "approval_granted", person(who), {}, run.effects.get().plan_digest)


def test_the_first_request_once_more_finds_the_corrected_run(refused_input: Run) -> None:
    Run.objects.filter(pk=refused_input.pk).update(request_key="shop-17")
    correct(refused_input, "customer_id", "U-88")
    Run.objects.filter(pk=refused_input.pk).update(input={"order_id": "B456", "customer_id": "U-88"})

    given = {"order_id": "B456", "customer_id": "U-88x"}
    found, is_new = starting.start("refund_request", given, person("support"), request_key="shop-17")

    assert (found.pk, is_new) == (refused_input.pk, False)


@pytest.mark.parametrize("value", ["4111111111111111", "sk-customer-000123", "demo-key-9"])
def test_a_corrected_value_is_worked_with_as_it_was_typed(engine: Engine, refused_input: Run, value: str) -> None:
    run = engine.send(refused_input, "input_corrected", "alice", field="customer_id", value=value, reason="A number.")

    assert run.input["customer_id"] == run.acts_for == value


def test_nothing_is_corrected_under_a_write_that_may_have_left(engine: Engine) -> None:
    engine.back_office.fault("B456", "other_order")
    run = engine.run("B456")
    Run.objects.filter(pk=run.pk).update(stop_reason="input_invalid")

    with pytest.raises(Refused, match="a corrected one is another run"):
        correct(run, "customer_id", "U-88")
