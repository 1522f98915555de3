"""What is at stake is kept with each stop, as far as the workflow knows it; what it cannot say holds no stop up."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runs import case
from runs.domain.money import Money
from runs.models import Run
from runs.workflows.refund_request import WORKFLOW as REFUND
from tests.engine.conftest import Engine
from tests.engine.test_hostile_answers import answers, with_field

ORDER, EXPENSIVE = "B456", "D586"


def at_stake(run: Run) -> str:
    """As the run has it, and with it every package of this stop."""
    for package in (case.read(run), *(handoff.package for handoff in run.handoffs.filter(version=run.stretch))):
        assert (Money(**package["stake"]) if package["stake"] else None) == run.stake
    return str(run.stake or "")


def test_what_is_to_be_refunded_is_kept_with_the_stop(engine: Engine) -> None:
    assert at_stake(engine.run(EXPENSIVE)) == "389.00 EUR"


def test_of_a_part_of_an_order_the_part_is_at_stake(engine: Engine) -> None:
    assert at_stake(engine.run(ORDER, amount_minor=20_00)) == "20.00 EUR"


def test_each_stop_says_anew_what_is_at_stake(engine: Engine) -> None:
    run = engine.run(EXPENSIVE)
    engine.back_office.change_order(EXPENSIVE, amount_minor=399_00)
    run = engine.send(run, "approval_granted", "supervisor", run.effects.get().plan_digest)
    assert (run.stop_reason, at_stake(run)) == ("approval_required", "399.00 EUR")


def test_before_anything_was_read_nothing_is_known_to_be_at_stake(engine: Engine) -> None:
    engine.back_office.fault(ORDER, "unavailable", where="authority")
    run = engine.run(ORDER)
    assert (run.stop_reason, run.stake_minor, run.stake_currency) == ("same_error_repeated", None, None)


def test_an_amount_is_known_although_something_else_of_the_order_is_missing(engine: Engine) -> None:
    engine.back_office.fault(ORDER, "order_incomplete")
    run = engine.run(ORDER)
    assert (run.stop_reason, at_stake(run)) == ("facts_missing", "59.00 EUR")


def test_of_an_order_of_somebody_else_nothing_is_kept(engine: Engine) -> None:
    run = engine.run(ORDER, customer_id="U-90")
    assert (run.stop_reason, at_stake(run)) == ("not_authorised", "")


def test_what_was_at_stake_is_withheld_once_the_entitlement_is_withdrawn(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.run(EXPENSIVE, customer_id="U-89")
    assert at_stake(run) == "389.00 EUR"
    answers(monkeypatch, "/authority", with_field(allowed=False))
    run = engine.send(run, "approval_granted", "supervisor", run.effects.get().plan_digest)
    assert (run.stop_reason, at_stake(run)) == ("not_authorised", "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("currency", value) for value in ("EU\x00", "EUR\n", "eur", "<b>", "\u202eEU", "ΕUR", "EURO" * 999, 7, None)),
        *(("amount_minor", value) for value in (-1, True, 59.5, "59", math.inf, math.nan, 10**30, None, [59])),
    ],
)
def test_what_is_no_amount_of_money_is_not_known(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, field: str, value: Any
) -> None:
    answers(monkeypatch, "/orders", with_field(**{field: value}))
    run = engine.run(ORDER)
    assert run.outcome
    assert (run.stake_minor, run.stake_currency) == (None, None)


def broken(*_: Any) -> Any:
    raise RuntimeError("A defect")


def negative(*_: Any) -> Any:
    return Money(-5, "EUR")


@pytest.mark.parametrize("gives", [broken, negative, lambda c: (59_00, "EUR"), lambda c: "59.00 EUR", lambda c: 59])
def test_a_workflow_that_cannot_say_what_is_at_stake_stops_all_the_same(
    engine: Engine, gives: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("runs.workflows.registry.workflows", lambda: {REFUND.name: replace(REFUND, stake=gives)})
    run = engine.run(EXPENSIVE)
    assert (run.stop_reason, run.stake_minor, run.stake_currency) == ("approval_required", None, None)
    assert "What is at stake in" in caplog.text
