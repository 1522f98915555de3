"""Proposed writes that a person decides. D586 costs more than policy v3 lets pass without a supervisor."""

import pytest

from runs import case
from runs.interventions import sending
from runs.interventions.refusals import Refused
from runs.models import EventText, Run
from tests.engine.conftest import Engine
from tests.people import person

EXPENSIVE = "D586"


@pytest.fixture
def waiting(engine: Engine) -> Run:
    run = engine.run(EXPENSIVE)
    assert (run.outcome, run.stop_reason, run.state) == ("NEEDS_HUMAN", "approval_required", "awaiting_approval")
    return run


def digest(run: Run) -> str:
    value: str = run.effects.get().plan_digest
    return value


def test_a_write_that_needs_approval_is_not_sent_without_one(engine: Engine, waiting: Run) -> None:
    assert engine.calls(EXPENSIVE, "submit") == []
    [effect] = case.read(waiting)["effects"]
    assert effect["state"] == "planned"
    assert "supervisor" in effect["plan"]["needs_approval"]
    assert effect["plan"]["undo"]
    assert effect["plan"]["difference"][1][:2] == ["amount", "0.00 EUR"]
    assert waiting.answer_by
    assert waiting.answer_by.isoformat() == effect["approval_expires_at"]


def test_an_approved_write_is_sent_once_after_everything_was_read_again(engine: Engine, waiting: Run) -> None:
    run = engine.send(waiting, "approval_granted", "supervisor", digest(waiting))

    assert (run.outcome, run.stop_reason) == ("COMPLETED", "contract_met")
    assert len(engine.calls(EXPENSIVE, "submit")) == 1
    for kind in ("authority", "orders", "policies"):
        # Once more for the look at the start whether the order exists at all.
        assert len(engine.calls(EXPENSIVE, kind)) == (3 if kind == "authority" else 2)
    effect = run.effects.get()
    assert effect.approved_by == person("supervisor")
    assert effect.approved_digest == effect.plan_digest


def test_a_rejected_write_is_never_sent_and_goes_to_a_person(engine: Engine, waiting: Run) -> None:
    run = engine.send(waiting, "approval_rejected", "supervisor", digest(waiting), reason="Too much for one order")

    assert (run.outcome, run.stop_reason, run.state) == ("NEEDS_HUMAN", "approval_rejected", "blocked")
    assert engine.calls(EXPENSIVE, "submit") == []
    assert "not approved: Too much for one order. What should" in run.question


def test_a_policy_that_changed_during_the_review_is_applied_and_nothing_is_sent(engine: Engine, waiting: Run) -> None:
    engine.back_office.fault(EXPENSIVE, "policy_changed")

    run = engine.send(waiting, "approval_granted", "supervisor", digest(waiting))

    assert (run.outcome, run.stop_reason) == ("DECLINED", "not_eligible")
    assert engine.calls(EXPENSIVE, "submit") == []


def test_a_target_that_changed_during_the_review_goes_back_for_review(engine: Engine, waiting: Run) -> None:
    before = digest(waiting)
    engine.back_office.change_order(EXPENSIVE, amount_minor=39900)

    run = engine.send(waiting, "approval_granted", "supervisor", before)

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "approval_required")
    assert engine.calls(EXPENSIVE, "submit") == []
    assert digest(run) != before
    # The page that still shows the old plan is told what changed, and its approval is refused.
    with pytest.raises(Refused) as refused:
        sending.send(run.pk, "approval_granted", person("bob"), {}, before)
    assert refused.value.status == 409
    assert refused.value.code == "stale"
    assert "Supervisor approved this plan at" in refused.value.message
    with pytest.raises(Refused, match=r"389\.00 EUR became 399\.00 EUR") as refused:
        sending.send(run.pk, "approval_granted", person("bob"), {}, "0" * 64)
    assert refused.value.code == "stale"

    run = engine.send(run, "approval_granted", "bob", digest(run))
    assert run.outcome == "COMPLETED"
    [submit] = engine.calls(EXPENSIVE, "submit")
    assert submit["operation_key"] == run.effects.get().operation_key


def test_nobody_approves_what_they_asked_for(engine: Engine) -> None:
    run = engine.run(EXPENSIVE, by="supervisor")

    with pytest.raises(Refused, match="somebody else") as refused:
        sending.send(run.pk, "approval_granted", person("supervisor"), {}, digest(run))

    assert refused.value.status == 403
    assert not run.inbox.exists()
    assert run.refusals.get().code == "four_eyes"


def test_support_may_not_approve(engine: Engine, waiting: Run) -> None:
    with pytest.raises(Refused, match="to approve and reject writes"):
        sending.send(waiting.pk, "approval_granted", person("alice"), {}, digest(waiting))


def test_the_second_decision_is_told_who_was_first(engine: Engine, waiting: Run) -> None:
    sending.send(waiting.pk, "approval_rejected", person("supervisor"), {"reason": "no"}, digest(waiting))

    with pytest.raises(Refused, match="Supervisor rejected this plan at") as refused:
        sending.send(waiting.pk, "approval_granted", person("bob"), {}, digest(waiting))

    assert refused.value.status == 409
    assert engine.carry_on(waiting, until=lambda run: run.stop_reason == "approval_rejected").inbox.count() == 1


def test_a_decision_without_the_plan_it_is_about_is_refused(engine: Engine, waiting: Run) -> None:
    with pytest.raises(Refused) as refused:
        sending.send(waiting.pk, "approval_granted", person("supervisor"), {})
    assert refused.value.code == "stale"


def test_a_decision_about_a_run_whose_texts_are_not_kept_any_more_is_refused_like_any_other(
    engine: Engine, waiting: Run
) -> None:
    engine.back_office.change_order(EXPENSIVE, amount_minor=39900)
    run = engine.send(waiting, "approval_granted", "supervisor", digest(waiting))
    assert run.events.filter(kind="plan_replaced").exists()
    run = engine.send(run, "cancel_requested", "alice", reason="withdrawn")
    EventText.objects.all().delete()  # what retention does to it later

    with pytest.raises(Refused, match="about another plan"):
        sending.send(run.pk, "approval_granted", person("supervisor"), {}, "0" * 64)


def test_no_decision_in_time_means_no_execution(engine: Engine, waiting: Run) -> None:
    waiting.effects.update(approval_expires_at="2000-01-01T00:00Z")

    run = engine.carry_on(waiting, until=lambda run: run.stop_reason == "approval_expired")

    assert (run.outcome, run.state) == ("NEEDS_HUMAN", "blocked")
    assert engine.calls(EXPENSIVE, "submit") == []
    # Put up again, it needs a new approval.
    run = engine.send(run, "resumed_after_review", "alice", reason="still wanted")
    assert run.stop_reason == "approval_required"
    assert run.effects.get().approved_digest == ""


def test_an_approval_that_lapsed_before_it_was_used_is_not_used(engine: Engine, waiting: Run) -> None:
    sending.send(waiting.pk, "approval_granted", person("supervisor"), {}, digest(waiting))
    engine.back_office.fault(EXPENSIVE, "unavailable", where="policies", times=1)
    run = engine.carry_on(waiting, until=lambda run: run.due_at is not None and not run.inbox.filter(result=""))
    assert run.outcome == ""  # approved, and waiting for a retry of one read
    run.effects.update(approval_expires_at="2000-01-01T00:00Z")

    run = engine.carry_on(run)

    assert run.stop_reason == "approval_expired"
    assert engine.calls(EXPENSIVE, "submit") == []
