"""Undoing a write that took effect and is not wanted any more: read again first, and then a write with its own life."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import case
from runs.domain.effects import Answer, EffectState
from runs.engine import calls
from runs.engine.held import Held
from runs.interventions import sending
from runs.interventions.refusals import Refused
from runs.models import Effect, Run
from runs.timeline import timeline
from runs.tools.back_office import SUBMIT_REFUND
from runs.tools.tool import Result
from tests.engine.conftest import Engine
from tests.engine.dying import Died, die_after
from tests.people import person
from tests.processes import CREDENTIAL
from tests.states import bring_write


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def too_late(engine: Engine, order_id: str = "B456") -> Run:
    """A cancellation that came when the refund was accepted already."""
    engine.back_office.fault(order_id, "answer_lost", times=1)
    engine.back_office.fault(order_id, "lookup_lags", lookups=1)
    run = engine.run(order_id)
    run = engine.send(run, "cancel_requested", "alice", reason="the customer keeps it")
    assert stopped_as(run) == ("NEEDS_HUMAN", "cancelled_too_late")
    engine.back_office.clear(order_id)
    return run


def undo(engine: Engine, run: Run) -> Run:
    return engine.send(run, "compensation_approved", "supervisor", reason="agreed with the customer")


def states(run: Run) -> dict[str, str]:
    return dict(run.effects.values_list("operation", "state"))


def test_it_is_undone_by_a_write_of_its_own(engine: Engine) -> None:
    run = too_late(engine)
    first = run.effects.get()

    run = undo(engine, run)

    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")
    assert states(run) == {"submit_refund": "compensated", "cancel_refund": "confirmed"}
    undoing = run.effects.get(operation="cancel_refund")
    assert (undoing.operation_key, undoing.undoes) == (f"undo:{first.operation_key}", first.operation_key)
    assert [effect["state"] for effect in engine.effects("B456")] == ["cancelled"]
    assert len(engine.calls("B456", "submit")) == len(engine.calls("B456", "cancel")) == 1
    assert "was undone" in case.read(run)["customer_says"]["en"]
    assert first.receipt == run.effects.get(operation="submit_refund").receipt, "history stays"


def test_whether_it_can_still_be_undone_is_read_just_before(engine: Engine) -> None:
    run = undo(engine, too_late(engine))

    kinds = list(run.step_rows.order_by("seq").values_list("operation", flat=True))
    assert kinds[-2:] == ["read_refund", "cancel_refund"]


def test_a_service_that_refuses_to_undo_leaves_it_to_a_person(engine: Engine) -> None:
    run = too_late(engine)
    engine.back_office.pay("R789")

    run = undo(engine, run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "not_reversible")
    assert run.recovery == "manual"
    assert "already_paid" in run.question
    assert states(run) == {"submit_refund": "confirmed", "cancel_refund": "rejected"}
    again = undo(engine, run)
    assert stopped_as(again) == ("NEEDS_HUMAN", "not_reversible")
    assert len(engine.calls("B456", "cancel")) == 1, "a refused write is not sent again"
    kept = engine.send(again, "resumed_after_review", "alice", reason="the customer keeps the money")
    assert stopped_as(kept) == ("COMPLETED", "contract_met")


def test_what_the_service_does_not_show_any_more_is_not_undone(engine: Engine) -> None:
    run = too_late(engine)
    engine.back_office.fault("B456", "lookup_lags")

    run = undo(engine, run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "not_reversible")
    assert "does not show request" in run.question
    assert engine.calls("B456", "cancel") == []


def test_an_undoing_whose_answer_is_lost_is_looked_up_and_not_sent_again(engine: Engine) -> None:
    run = too_late(engine)
    engine.back_office.fault("B456", "answer_lost", where="cancel", times=1)

    run = undo(engine, run)

    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")
    assert len(engine.calls("B456", "cancel")) == 1
    assert run.step_rows.filter(operation="look_up_cancellation").count() == 1


def test_while_nobody_knows_whether_it_was_undone_the_cancellation_is_being_verified(engine: Engine) -> None:
    run = too_late(engine)
    engine.back_office.fault("B456", "timeout_before_effect", where="cancel", seconds=1, times=1)

    run = undo(engine, run)

    assert stopped_as(run) == ("WAITING", "cancellation_unverified")
    assert states(run) == {"submit_refund": "confirmed", "cancel_refund": "unknown"}
    assert "still be cancelled" in case.read(run)["customer_says"]["en"]

    run = engine.later(run)

    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated"), "proven absent, it is sent once more"
    assert len(engine.calls("B456", "cancel")) == 2
    keys = {call["operation_key"] for call in engine.calls("B456", "cancel")}
    assert keys == {run.effects.get(operation="cancel_refund").operation_key}


@pytest.mark.parametrize("operation", ["read_refund", "cancel_refund", "look_up_cancellation"])
def test_a_worker_that_dies_while_it_undoes_leaves_nothing_half_done(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    run = too_late(engine)
    engine.back_office.fault("B456", "answer_lost", where="cancel", times=1)
    die_after(monkeypatch, operation)
    with pytest.raises(Died):
        undo(engine, run)
    Run.objects.filter(pk=run.pk).update(due_at="2000-01-01T00:00Z", owner="")

    run = engine.later(run)

    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")
    assert len(engine.calls("B456", "cancel")) == 1
    assert [effect["state"] for effect in engine.effects("B456")] == ["cancelled"]


def test_the_latest_is_undone_first(engine: Engine) -> None:
    """Two writes that stand: what came later may rest on what came before."""
    run = too_late(engine)
    first = run.effects.get()
    receipt = engine.back_office.submit("D041", "another-write", amount_minor=64_00)
    row = Effect.objects.get(pk=first.pk)
    row.pk, row.operation_key, row.state = None, "another-write", EffectState.PLANNED
    row.receipt = receipt
    row.plan = {**row.plan, "params": {**row.plan["params"], "order_id": "D041"}, "target": "order D041"}
    row.plan_digest = row.value().digest
    assert first.answered_at
    row.planned_at = row.sent_at = first.answered_at
    row.save()
    bring_write(row, EffectState.CONFIRMED)

    run = undo(engine, run)

    sent = run.step_rows.filter(operation="cancel_refund").order_by("seq").values_list("operation_key", flat=True)
    assert list(sent) == ["undo:another-write", f"undo:{first.operation_key}"]
    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")


def test_one_that_cannot_be_undone_leaves_them_all_as_they_are(engine: Engine) -> None:
    run = too_late(engine)
    row = run.effects.get()
    row.pk, row.operation_key, row.state = None, "another-write", EffectState.PLANNED
    row.plan = {**row.plan, "operation": "check_authority"}  # declared by nobody to be undoable
    row.save()
    bring_write(row, EffectState.CONFIRMED)

    run = undo(engine, run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "not_reversible")
    assert "declares no way to undo" in run.question
    assert engine.calls("B456", "cancel") == []


def test_whoever_asked_for_it_does_not_decide_that_it_is_undone(engine: Engine) -> None:
    run = too_late(engine)
    Run.objects.filter(pk=run.pk).update(requester=person("supervisor"))

    with pytest.raises(Refused, match="somebody else has to decide"):
        sending.send(run.pk, "compensation_approved", person("supervisor"), {"reason": "as agreed"}, "")


def test_undoing_is_bounded_by_the_steps_and_not_by_the_writes(engine: Engine) -> None:
    run = undo(engine, too_late(engine))

    lines = {line["dimension"]: line for line in case.read(run)["budgets"]}
    assert lines["external_writes"]["spent"] == 1
    assert lines["steps"]["spent"] == lines["tool_attempts"]["spent"] > 4


def test_a_limit_that_stops_undoing_keeps_that_it_was_decided(engine: Engine) -> None:
    run = too_late(engine)
    spent = run.budget["steps"][2]
    Run.objects.filter(pk=run.pk).update(budget={**run.budget, "steps": [spent, 0, spent, 0]})

    run = undo(engine, run)

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_steps")
    assert run.recovery == "compensate"
    run = engine.send(run, "budget_extended", "supervisor", dimension="steps", by=4, reason="to undo it")
    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")


def test_a_paused_run_undoes_nothing_until_it_may_go_on(engine: Engine) -> None:
    run = too_late(engine)
    Run.objects.filter(pk=run.pk).update(paused=True)

    run = undo(engine, run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "paused")
    assert engine.calls("B456", "cancel") == []
    run = engine.send(run, "unpaused", "alice")
    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")


def test_a_limit_that_stops_undoing_does_not_unsay_that_the_request_was_accepted(engine: Engine) -> None:
    run = too_late(engine)
    spent = run.budget["steps"][2]
    Run.objects.filter(pk=run.pk).update(budget={**run.budget, "steps": [spent, 0, spent, 0]})

    run = undo(engine, run)

    assert run.outcome == "LIMIT_REACHED"
    assert case.read(run)["customer_says"]["en"].startswith("The outcome of your refund request for order B456 is not")


def test_a_run_closed_with_its_undoing_in_doubt_does_not_unsay_that_the_request_was_received(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = too_late(engine)
    engine.back_office.fault("B456", "answer_lost", where="cancel", times=1)
    perform = calls._perform

    def performed(held: Held, planned: Any, until: float) -> Any:
        result = perform(held, planned, until)
        odd = Result({}, "as the test wants it", answer=Answer.CONTRADICTORY)
        return odd if planned.tool.name == "look_up_cancellation" else result

    monkeypatch.setattr(calls, "_perform", performed)
    run = undo(engine, run)
    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")

    closing = {"reason": "The service was switched off for good.", "reference": "ticket 4711"}
    first = sending.send(run.pk, "closed_unresolved", person("alice"), closing)
    sending.send(run.pk, "closed_unresolved", person("bob"), closing, str(first.pk))
    run = engine.carry_on(run, until=lambda run: run.is_final)

    assert states(run) == {"submit_refund": "confirmed", "cancel_refund": "unknown"}
    says = "We could not establish what became of your refund request for order B456."
    assert case.read(run)["customer_says"]["en"] == says


def test_an_undoing_that_nobody_can_pay_for_any_more_can_be_decided_about_again(engine: Engine) -> None:
    """Past twice the wall time no extension helps: the run must still not stay open for ever."""
    run = too_late(engine)
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(days=3))
    engine.back_office.fault("B456", "lookup_down")
    run = undo(engine, run)
    assert stopped_as(run) == ("LIMIT_REACHED", "same_error_repeated")
    engine.back_office.clear("B456")
    Run.objects.filter(pk=run.pk).update(progress={**run.progress, "grace_until": "2000-01-01T00:00+00:00"})
    run = engine.send(run, "budget_extended", "supervisor", dimension="wall_time", by=24 * 3600, reason="to undo it")
    assert stopped_as(run) == ("LIMIT_REACHED", "limit_wall_time")

    run = engine.send(run, "resumed_after_review", "alice", reason="the service is back")

    assert stopped_as(run) == ("NEEDS_HUMAN", "cancelled_too_late")
    run = undo(engine, run)
    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")


def test_what_the_agent_repeated_does_not_hold_up_undoing(engine: Engine) -> None:
    run = too_late(engine)
    Run.objects.filter(pk=run.pk).update(progress={**run.progress, "repeats": 1})

    run = undo(engine, run)

    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")


def test_what_somebody_else_undid_meanwhile_counts_as_undone_once_it_is_read_back(engine: Engine) -> None:
    run = too_late(engine)
    number = (run.effects.get().receipt or {})["request_id"]
    headers = {"Idempotency-Key": "somebody-else", **CREDENTIAL}
    engine.back_office.client.post(f"/refunds/{number}/cancel", headers=headers).raise_for_status()

    run = undo(engine, run)

    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")
    assert states(run) == {"submit_refund": "compensated"}
    kinds = list(run.step_rows.order_by("seq").values_list("operation", flat=True))
    assert kinds[-1] == "read_refund", "read back at the service, and nothing sent"
    assert len(engine.calls("B456", "cancel")) == 1, "the other's"
    assert "was undone" in case.read(run)["customer_says"]["en"]
    told = run.events.get(kind="effect_compensated").text_row.content()
    assert told["by"] == "", "nobody of ours claims it"
    assert "R789 is cancelled" in told["says"]
    assert any("Undone by somebody else" in line["says"] for line in timeline(run))


def test_what_was_undone_is_not_done_again_under_its_key(engine: Engine) -> None:
    run = undo(engine, too_late(engine))
    done = run.effects.get(operation="submit_refund").value()

    assert done.state is EffectState.COMPENSATED
    assert calls.must_not_be_sent(done, SUBMIT_REFUND, done.planned_at)
