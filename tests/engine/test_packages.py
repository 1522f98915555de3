"""The package that a person receives says what the record says, for every way in which a run stops short."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import case, interventions
from runs.models import Run
from tests.engine.conftest import Engine
from tests.people import person

ORDER, EXPENSIVE = "B456", "D586"
Story = Callable[[Engine], Run]
STORIES: dict[str, Story] = {}


def story(tell: Story) -> Story:
    """How the back office and the people bring a run to the stop reason that the function is named after."""
    STORIES[tell.__name__] = tell
    return tell


def faulty(reason: str, fault: str, **parameters: Any) -> None:
    """A run that one fault alone stops."""

    def tell(engine: Engine) -> Run:
        engine.back_office.fault(ORDER, fault, **parameters)
        return engine.run(ORDER)

    STORIES[reason] = tell


faulty("effect_pending", "pending")
faulty("refused_by_service", "refused")
faulty("facts_missing", "order_incomplete")
faulty("facts_in_conflict", "policy_conflict")
faulty("receipts_contradict", "other_order")
faulty("credential_refused", "credential_refused", where="orders")
faulty("access_refused", "access_denied", where="policies")
faulty("not_eligible", "policy_changed")
faulty("same_error_repeated", "unavailable", where="orders")


@story
def effect_unknown(engine: Engine) -> Run:
    engine.back_office.fault(ORDER, "answer_lost")
    engine.back_office.fault(ORDER, "lookup_lags")
    return engine.run(ORDER)


@story
def outcome_unconfirmed(engine: Engine) -> Run:
    return engine.later(engine.later(effect_unknown(engine)))


@story
def limit_status_checks(engine: Engine) -> Run:
    run = STORIES["effect_pending"](engine)
    for _ in range(3):
        run = engine.later(run)
    return run


@story
def cancellation_unverified(engine: Engine) -> Run:
    return engine.send(STORIES["effect_pending"](engine), "cancel_requested", "alice", reason="withdrawn")


@story
def cancelled_too_late(engine: Engine) -> Run:
    engine.back_office.fault(ORDER, "answer_lost")
    engine.back_office.fault(ORDER, "lookup_lags", lookups=1)
    return engine.send(engine.run(ORDER), "cancel_requested", "alice", reason="withdrawn")


@story
def approval_required(engine: Engine) -> Run:
    return engine.run(EXPENSIVE)


@story
def approval_rejected(engine: Engine) -> Run:
    run = approval_required(engine)
    return engine.send(run, "approval_rejected", "supervisor", run.effects.get().plan_digest, reason="too much")


@story
def approval_expired(engine: Engine) -> Run:
    run = approval_required(engine)
    run.effects.update(approval_expires_at="2000-01-01T00:00Z")
    return engine.carry_on(run, until=lambda run: run.state == "blocked")


@story
def not_authorised(engine: Engine) -> Run:
    return engine.run(ORDER, customer_id="U-90")


@story
def no_progress(engine: Engine) -> Run:
    return engine.run(ORDER, policy="stubborn")


@story
def paused(engine: Engine) -> Run:
    run = engine.start(ORDER)
    interventions.send(run.pk, "paused", person("alice"), {"reason": "a fraud check"})
    return engine.carry_on(run)


@story
def limit_wall_time(engine: Engine) -> Run:
    run = engine.start(ORDER)
    Run.objects.update(created_at=timezone.now() - timedelta(days=2))
    return engine.carry_on(run)


@story
def limit_external_writes(engine: Engine) -> Run:
    run = engine.start(ORDER)
    run.budget["external_writes"] = [1, 0, 1, 0]
    run.save(update_fields=["budget"])
    return engine.carry_on(run)


def agreed(package: dict[str, Any]) -> dict[str, Any]:
    """A package without the time it was made at, and the wall time that had gone by."""
    budgets = [line for line in package["budgets"] if line["dimension"] != "wall_time"]
    return {**package, "made_at": None, "budgets": budgets}


@pytest.mark.parametrize("reason", STORIES)
def test_the_package_of_a_stop_agrees_with_the_record(engine: Engine, reason: str) -> None:
    run = STORIES[reason](engine)
    assert run.stop_reason == reason

    handoff = run.handoffs.order_by("version").last()
    assert handoff
    package, recorded = handoff.package, case.read(run)
    assert (package["state"], package["outcome"], package["stop_reason"]) == (run.state, run.outcome, reason)
    assert package["error"] == {"class": run.error_class, "count": run.error_count}
    assert package["acceptance"] == run.acceptance
    assert package["next_look_at"] == (run.due_at.isoformat() if run.outcome == "WAITING" and run.due_at else None)
    assert agreed(package) == agreed(recorded)


def test_every_stop_makes_a_package_of_its_own(engine: Engine) -> None:
    run = outcome_unconfirmed(engine)

    versions = [(handoff.version, handoff.package["stop_reason"]) for handoff in run.handoffs.all()]
    assert versions == [(1, "effect_unknown"), (2, "effect_unknown"), (3, "outcome_unconfirmed")]


def test_a_wait_says_when_it_ends_and_a_case_by_when_it_wants_an_answer(engine: Engine) -> None:
    waiting = case.read(STORIES["effect_pending"](engine))
    assert waiting["next_look_at"]
    assert waiting["answer_by"] is None

    handed_over = case.read(STORIES["approval_required"](engine))
    assert handed_over["next_look_at"] is None
    assert handed_over["answer_by"]


def test_a_failure_that_was_overcome_is_not_reported_as_the_runs_error(engine: Engine) -> None:
    engine.back_office.fault(ORDER, "unavailable", where="orders", times=1)
    run = STORIES["effect_pending"](engine)

    [handoff] = run.handoffs.all()
    assert handoff.package["error"] == {"class": "", "count": 0}
    assert handoff.package["first_deviation"] == "The service is not available at the moment."


def test_when_the_entitlement_is_withdrawn_during_a_review_the_package_holds_nothing_of_the_order(
    engine: Engine,
) -> None:
    run = engine.run(EXPENSIVE, customer_id="U-89")
    assert run.stop_reason == "approval_required"
    engine.back_office.change_order(EXPENSIVE, customer="U-99")

    run = engine.send(run, "approval_granted", "supervisor", run.effects.get().plan_digest)

    assert run.stop_reason == "not_authorised"
    [effect] = case.read(run)["effects"]
    assert set(effect) == {"operation_key", "state", "unresolved"}
    handoff = run.handoffs.order_by("version").last()
    assert handoff
    for package in (handoff.package, case.read(run)):
        for of_the_order in ("espresso", "389", "EUR", "2026-09-22", "v3", "version 1", "supervisor (", "U-99"):
            assert of_the_order.lower() not in str(package).lower()


def test_when_the_entitlement_is_withdrawn_after_a_write_was_proven_absent_its_plan_is_withheld(engine: Engine) -> None:
    engine.back_office.fault(ORDER, "timeout_before_effect", seconds=0, times=1)
    run = engine.run(ORDER, customer_id="U-88")
    engine.back_office.change_order(ORDER, customer="U-99")

    run = engine.later(run)

    assert run.stop_reason == "not_authorised"
    package = case.read(run)
    assert {step["operation"] for step in package["steps"]} == {"check_authority"}
    for of_the_order in ("headphones", "59.00", "5900", "EUR", "2026-09-22", "v3", "version 1"):
        assert of_the_order.lower() not in str(package).lower()
