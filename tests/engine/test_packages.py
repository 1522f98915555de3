"""The package that a person receives says what the record says, for every way in which a run stops short."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import case
from runs.domain.errors import Failure
from runs.domain.package import LIMIT, size
from runs.interventions import sending
from runs.models import Run
from runs.timeline import timeline
from runs.tools.tool import ToolFailed
from runs.workflows.refund_request import WORKFLOW as REFUND
from tests.engine.conftest import PLANTED, Engine, assert_sound
from tests.engine.test_hostile_answers import Answered, answers, fails, found, with_field
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
    sending.send(run.pk, "paused", person("alice"), {"reason": "a fraud check"})
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
    # While an approval is awaited, that instant is the end of the time for a decision.
    asked_again = None if run.state == "awaiting_approval" else run.due_at
    assert package["next_look_at"] == (asked_again and asked_again.isoformat())
    assert agreed(package) == agreed(recorded)
    assert_sound(recorded)


def test_every_stop_makes_a_package_of_its_own(engine: Engine) -> None:
    run = outcome_unconfirmed(engine)

    versions = [(handoff.version, handoff.package["stop_reason"]) for handoff in run.handoffs.all()]
    assert versions == [(1, "effect_unknown"), (2, "effect_unknown"), (3, "outcome_unconfirmed")]


def test_a_wait_says_when_it_ends_and_a_case_by_when_it_wants_an_answer(engine: Engine) -> None:
    waiting = case.read(STORIES["effect_pending"](engine))
    assert waiting["next_look_at"]
    assert waiting["answer_by"] is None

    followed_up = case.read(STORIES["limit_status_checks"](engine))
    assert followed_up["next_look_at"]
    assert followed_up["answer_by"]

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
        for of_the_order in (
            "espresso",
            "389.00",
            "38900",
            "EUR",
            "2026-09-22",
            "v3",
            "version 1",
            "supervisor (",
            "U-99",
        ):
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


def test_when_the_entitlement_is_withdrawn_the_timeline_tells_nothing_of_the_order_either(engine: Engine) -> None:
    run = engine.run(EXPENSIVE, customer_id="U-89", policy="overconfident")
    assert "100.00 EUR" in str(timeline(run))
    engine.back_office.change_order(EXPENSIVE, customer="U-99")

    run = engine.send(run, "approval_granted", "supervisor", run.effects.get().plan_digest)

    assert run.stop_reason == "not_authorised"
    told = timeline(run)
    assert [line["says"] for line in told if "U-89" in line["says"]]
    for of_the_order in ("espresso", "EUR", "v3", "version 1", "R789", "supervisor ("):
        assert of_the_order not in str(told)


# What a package says of how a run went


def last_package(run: Run) -> dict[str, Any]:
    handoff = run.handoffs.order_by("version").last()
    assert handoff
    return dict(handoff.package)


@pytest.mark.parametrize(
    ("reason", "deviation", "step", "checkpoint"),
    [
        ("refused_by_service", "Refused", "submit_refund", "Refused"),
        ("effect_pending", "Received, not decided yet", "submit_refund", "Refund policies in force"),
        ("effect_unknown", "The connection ended before an answer came.", "submit_refund", "Refund policies in force"),
        ("not_eligible", "The order meets the refund policy in force: delivered", None, "Refund policies in force"),
        ("credential_refused", "", "read_order", "support may act"),
        ("approval_required", "", None, "Refund policies in force"),
    ],
)
def test_it_names_the_first_deviation_and_the_last_result_that_is_definite(
    engine: Engine, reason: str, deviation: str, step: str | None, checkpoint: str
) -> None:
    package = last_package(STORIES[reason](engine))
    operations = {line["seq"]: line["operation"] for line in package["steps"]}

    assert package["first_deviation"].startswith(deviation)
    assert operations.get(package["first_deviation_step"]) == step
    assert package["last_checkpoint"].startswith(checkpoint)
    assert package["last_checkpoint_step"] in operations


def test_a_deviation_before_the_steps_that_are_shown_is_still_the_first(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case, "STEPS_SHOWN", 2)
    engine.back_office.fault(ORDER, "unavailable", where="orders", times=1)
    run = STORIES["effect_pending"](engine)

    package = last_package(run)
    assert [step["operation"] for step in package["steps"]] == ["read_policies", "submit_refund"]
    assert package["steps_left_out"] == run.steps - 2 == 3
    assert package["first_deviation"] == "The service is not available at the moment."
    assert package["first_deviation_step"] == 2


def test_it_says_what_changed_since_the_last_stop(engine: Engine) -> None:
    run = STORIES["effect_pending"](engine)
    assert last_package(run)["progress"] == "First stop: 2 of 4 assertions are met."
    run = engine.later(run)
    assert last_package(run)["progress"] == "No assertion and no write changed since the last stop."

    with pytest.MonkeyPatch.context() as patch:
        answers(patch, "/refunds", found({"submit_state": "rejected", "reason": "closed account"}), "GET")
        run = engine.later(run)

    assert last_package(run)["progress"] == (
        "The refund service accepted the request: UNKNOWN became UNMET; "
        "Submit refund request: acknowledged became rejected"
    )


def test_what_cannot_be_known_is_said_to_be_unknown(engine: Engine) -> None:
    run = engine.start(ORDER)
    Run.objects.update(workflow_version=99)
    package = last_package(engine.carry_on(run))

    why = "Version 99 of refund_request is not installed here."
    assert package["unknown"] == [{"field": field, "why": why} for field in ("goal", "contract", "customer_says")]
    assert (package["goal"], package["contract"], set(package["customer_says"].values())) == ("", [], {""})
    assert package["progress"].startswith("Not known")
    assert package["acceptance"] == "unknown"


def broken(*_: Any) -> Any:
    raise RuntimeError("A defect")


def nothing(*_: Any) -> Any:
    return None


@pytest.mark.parametrize("gives", [broken, nothing])
def test_a_run_stops_and_can_be_read_whatever_its_workflow_s_own_words_and_judgements_are(
    engine: Engine, gives: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = (*REFUND.contract[:-1], replace(REFUND.contract[-1], judge=gives))
    defective = replace(REFUND, goal=gives, headline=gives, question=gives, contract=contract)
    monkeypatch.setattr("runs.workflows.registry.workflows", lambda: {REFUND.name: defective})

    run = engine.run(EXPENSIVE, customer_id="U-89")

    assert run.stop_reason == "approval_required"
    for package in (last_package(run), case.read(run)):
        assert (package["contract"][-1]["value"], package["allowed_events"] != []) == ("UNKNOWN", True)
        assert run.question


def test_a_run_that_was_not_entitled_says_that_something_is_withheld(engine: Engine) -> None:
    package = last_package(STORIES["not_authorised"](engine))
    assert package["withheld"]
    assert package["progress"] == "Withheld."
    assert package["first_deviation"] == "The customer may act on this order: not entitled"


def test_a_run_that_has_not_begun_can_be_read_as_a_package(engine: Engine) -> None:
    assert_sound(case.read(engine.start(ORDER)))


def test_every_event_says_who_sends_it_with_what_and_what_is_checked_again(engine: Engine) -> None:
    package = last_package(STORIES["approval_required"](engine))
    approve = next(event for event in package["allowed_events"] if event["name"] == "approval_granted")
    assert approve["permission"] == "approve_write"
    assert approve["not_by_requester"]
    assert approve["answers_plan"]
    assert approve["payload"]["properties"]["comment"]["maxLength"]
    assert approve["checked_again"]
    assert all(event["why_not"] for event in package["forbidden_events"])


# What must not be in one


@pytest.mark.parametrize(
    ("path", "method", "hide"),
    [
        ("/orders", "GET", lambda text: with_field(item=text, currency=text)),
        ("/policies", "GET", lambda text: lambda data: {**data, "policies": [{"version": text}] * 2}),
        ("/refunds", "POST", lambda text: with_field(submit_state="rejected", reason=text)),
        (
            "/refunds",
            "POST",
            lambda text: with_field(submit_state="pending", remark=[{"says": text}]),
        ),
        ("/refunds", "POST", lambda text: with_field(submit_state="pending", **{text: text})),
        ("/refunds", "POST", lambda text: with_field(order_id=text)),
    ],
)
@pytest.mark.parametrize("secret", PLANTED)
def test_no_secret_that_a_service_tells_is_in_any_package(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    method: str,
    hide: Callable[[str], Answered],
    secret: str,
) -> None:
    text, _ = PLANTED[secret]
    answers(monkeypatch, path, hide(text), method)

    run = engine.run(ORDER)

    assert run.handoffs.exists()
    assert_sound(case.read(run))


@pytest.mark.parametrize("secret", PLANTED)
def test_no_secret_in_the_words_of_a_failure_or_of_a_person_is_in_any_package(engine: Engine, secret: str) -> None:
    text, needle = PLANTED[secret]
    run = engine.start(ORDER)
    with pytest.MonkeyPatch.context() as patch:
        fails(patch, lambda: ToolFailed(Failure("credential_refused", f"No: {text}")))
        run = engine.carry_on(run)
    assert needle not in run.question
    assert "[removed]" in last_package(run)["question"]

    run = STORIES["approval_required"](engine)
    run = engine.send(run, "approval_rejected", "supervisor", run.effects.get().plan_digest, reason=f"No: {text}")
    assert "[removed]" in last_package(run)["question"]


def test_a_receipt_as_large_as_an_answer_may_be_is_cut_and_its_number_stays(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"text": "x" * 1800, "n": n} for n in range(500)]
    answers(monkeypatch, "/refunds", with_field(lines=lines), "POST")
    engine.back_office.fault(ORDER, "pending")

    run = engine.run(ORDER)

    assert run.stop_reason == "effect_pending"
    package = last_package(run)
    [cut] = package["folded"]
    assert cut["field"] == "/effects/0/receipt"
    assert cut["characters"] > 900_000
    receipt = package["effects"][0]["receipt"]
    assert receipt["tracking_id"] in package["customer_says"]["en"]
    assert f"[{cut['characters']} characters, sha256 {cut['sha256'][:16]}]" in receipt["folded"]
    assert size(package) < LIMIT / 4
    assert agreed(package) == agreed(case.read(run))
