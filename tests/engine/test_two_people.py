"""Events that take two people, and those that take something back."""

import pytest

from runs.domain.interventions import CATALOGUE, Sender
from runs.engine.commit import keep_late_result
from runs.interventions import claims, sending
from runs.interventions.refusals import Refused
from runs.models import Handoff, InboxEvent, Run
from runs.workflows import registry
from tests.engine.conftest import Engine
from tests.people import person

CLOSING = {"reason": "The service was switched off for good.", "reference": "ticket 4711"}


@pytest.fixture
def contradicted(engine: Engine) -> Run:
    """A write that landed under a receipt for another order: nobody can settle it."""
    engine.back_office.fault("B456", "other_order")
    run = engine.run("B456")
    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "receipts_contradict")
    return run


def close(run: Run, who: str, confirming: InboxEvent | None = None) -> InboxEvent:
    answers = str(confirming.pk) if confirming else ""
    return sending.send(run.pk, "closed_unresolved", person(who), CLOSING, answers)


def closed(engine: Engine, run: Run) -> Run:
    close(run, "bob", confirming=close(run, "alice"))
    return engine.carry_on(run, until=lambda run: run.is_final)


def test_one_person_cannot_close_a_run_whose_write_is_unresolved(engine: Engine, contradicted: Run) -> None:
    before = {name: value for name, value in vars(contradicted).items() if name != "_state"}

    event = close(contradicted, "alice")
    run = engine.carry_on(contradicted)

    assert event.result == "proposed"
    assert {name: value for name, value in vars(run).items() if name != "_state"} == before
    with pytest.raises(Refused, match="You proposed this; somebody else has to confirm it") as no:
        close(run, "alice")
    assert no.value.status == 409


def test_the_second_needs_the_permission_and_is_somebody_else(contradicted: Run) -> None:
    first = close(contradicted, "alice")

    with pytest.raises(Refused, match="To confirm it needs the permission to approve and reject writes"):
        close(contradicted, "ann", confirming=first)

    assert InboxEvent.objects.filter(result="").count() == 0


def test_two_people_close_it_and_the_unknown_stays_on_record(engine: Engine, contradicted: Run) -> None:
    run = closed(engine, contradicted)

    assert (run.state, run.outcome, run.stop_reason) == ("failed", "NEEDS_HUMAN", "receipts_contradict")
    assert run.effects_at_risk == 1
    assert run.effects.get().state == "unknown"
    assert (run.due_at, run.owner, run.answer_by, run.question) == (None, "", None, "")
    assert run.recovery == "manual"
    assert list(run.inbox.values_list("result", flat=True)) == ["applied", "applied"]
    package = Handoff.objects.filter(run=run).latest("version").package
    assert package["state"] == "failed"
    assert package["customer_says"]["en"].startswith("We could not establish what became of")
    assert package["effects"][0]["unresolved"]
    assert len(engine.calls("B456", "submit")) == 1


def test_what_was_proposed_before_the_run_moved_on_is_no_first_half_any_more(engine: Engine, contradicted: Run) -> None:
    close(contradicted, "alice")
    run = engine.send(contradicted, "reconcile_requested", "alice")
    assert run.stop_reason == "receipts_contradict"

    assert close(run, "bob").result == "proposed"


def test_a_run_that_is_still_asked_about_by_itself_is_not_closed(engine: Engine) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_lags")
    run = engine.run("B456")
    assert run.outcome == "WAITING"

    with pytest.raises(Refused, match="still asked about the write by itself"):
        close(run, "alice")


@pytest.fixture
def approved_and_held_up(engine: Engine) -> Run:
    """Approved, and before it could be sent the policies had come into conflict."""
    run = engine.run("D586")
    engine.back_office.fault("D586", "policy_conflict")
    run = engine.send(run, "approval_granted", "bob", run.effects.get().plan_digest)
    assert run.stop_reason == "facts_in_conflict"
    assert run.effects.get().state == "approved"
    return run


def test_an_approval_is_taken_back_before_it_was_used(engine: Engine, approved_and_held_up: Run) -> None:
    run = engine.send(approved_and_held_up, "approval_revoked", "bob", reason="The wrong order.")

    effect = run.effects.get()
    assert (effect.state, effect.approved_digest) == ("planned", "")
    engine.back_office.clear("D586")
    run = engine.send(run, "policy_confirmed", "alice", reference="policy board, 3 October")
    assert (run.state, run.stop_reason) == ("awaiting_approval", "approval_required")
    assert not engine.calls("D586", "submit")


def test_there_is_nothing_to_take_back_where_no_approval_is_unused(engine: Engine, contradicted: Run) -> None:
    with pytest.raises(Refused, match="No approval is waiting to be used"):
        sending.send(contradicted.pk, "approval_revoked", person("bob"), {"reason": "Just so."})


@pytest.mark.parametrize("move", [move for move, kind in CATALOGUE.items() if kind.sender is not Sender.PERSON])
def test_no_person_can_say_what_only_services_and_the_clock_say(contradicted: Run, move: str) -> None:
    with pytest.raises(Refused, match="There is no event") as no:
        sending.send(contradicted.pk, move, person("bob"), {})
    assert no.value.status == 404


def test_a_closed_run_is_nobody_s_next_case(engine: Engine, contradicted: Run) -> None:
    closed(engine, contradicted)

    assert claims.take_next(person("ann")) is None
    assert not Run.objects.with_people().exists()


def test_who_holds_the_case_does_not_keep_the_second_person_from_confirming(engine: Engine, contradicted: Run) -> None:
    claims.claim(contradicted.pk, person("alice"))
    assert closed(engine, contradicted).state == "failed"


def test_a_proposal_is_let_go_when_the_run_stops_again(engine: Engine, contradicted: Run) -> None:
    proposal = close(contradicted, "alice")
    engine.send(contradicted, "reconcile_requested", "alice")

    proposal.refresh_from_db()
    assert (proposal.result, proposal.result_reason) == (
        "refused",
        "The run moved on before a second person confirmed it.",
    )
    assert proposal.settled_at


def test_what_arrives_after_the_closing_is_evidence_and_changes_nothing(engine: Engine, contradicted: Run) -> None:
    close(contradicted, "bob", confirming=close(contradicted, "alice"))
    effect = contradicted.effects.get()
    late = {"operation_key": effect.operation_key, "attempt": 1, "answer": "accepted", "receipt": None, "reason": ""}
    keep_late_result(contradicted.pk, "4", late)

    run = engine.carry_on(contradicted, until=lambda run: run.is_final)

    assert run.inbox.get(name="late_result").result == "refused"
    assert run.effects.get().state == "unknown"
    assert run.effects_at_risk == 1


def test_a_run_whose_workflow_is_gone_can_be_closed(
    engine: Engine, contradicted: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "find", lambda name, version=None: None)
    assert closed(engine, contradicted).state == "failed"


def test_an_approval_is_taken_back_before_any_worker_has_seen_it(engine: Engine) -> None:
    run = engine.run("D586")
    sending.send(run.pk, "approval_granted", person("bob"), {}, run.effects.get().plan_digest)

    run = engine.send(run, "approval_revoked", "bob", reason="The wrong order.")

    assert run.stop_reason == "approval_required"
    assert run.effects.get().approved_digest == ""
    assert not engine.calls("D586", "submit")


def test_to_say_the_same_by_chance_is_no_confirmation(engine: Engine, contradicted: Run) -> None:
    first = close(contradicted, "alice")

    with pytest.raises(Refused) as no:
        close(contradicted, "bob")

    assert (no.value.status, no.value.field) == (409, "answers")
    assert no.value.message.startswith(f"Alice proposed this, number {first.pk}: “{CLOSING['reason']}”")
    assert engine.carry_on(contradicted).state == "blocked"


def test_who_may_not_propose_any_more_has_not_proposed(contradicted: Run) -> None:
    first = close(contradicted, "alice")
    person("alice").groups.clear()

    assert close(contradicted, "bob", confirming=first).result == "proposed"


def test_a_run_that_is_followed_up_by_itself_is_not_closed(engine: Engine) -> None:
    engine.back_office.fault("B456", "pending", lookups=9)
    run = engine.run("B456")
    for _ in range(3):
        run = engine.later(run)
    assert (run.outcome, run.stop_reason) == ("LIMIT_REACHED", "limit_status_checks")

    with pytest.raises(Refused, match="still asked about the write by itself"):
        close(run, "alice")


def test_after_a_write_that_was_closed_unknown_the_next_one_for_that_order_needs_a_person(
    engine: Engine, contradicted: Run
) -> None:
    closed(engine, contradicted)
    engine.back_office.clear("B456")

    run = engine.run("B456")

    assert run.pk != contradicted.pk
    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "approval_required")
    rule = run.effects.get().plan["needs_approval"]
    assert rule.startswith("an earlier write for order B456 was closed with its outcome unknown (refund-B456-")
    assert len(engine.calls("B456", "submit")) == 1


def test_whoever_holds_the_case_an_approval_can_be_taken_back(engine: Engine, approved_and_held_up: Run) -> None:
    claims.claim(approved_and_held_up.pk, person("alice"))

    run = engine.send(approved_and_held_up, "approval_revoked", "bob", reason="The wrong order.")

    assert run.effects.get().approved_digest == ""
