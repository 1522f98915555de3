"""Answers that no honest service gives: they lead to a definite stop, are stored as what they are, and leak nothing."""

import math
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from runs import case
from runs.domain.contract import Fact
from runs.domain.decision import FactsState
from runs.domain.effects import Answer
from runs.domain.errors import Failure
from runs.domain.redaction import clean
from runs.engine.advance import advance
from runs.models import Run
from runs.timeline import timeline
from runs.tools import http
from runs.tools.back_office import LOOK_UP_REFUND, SUBMIT_REFUND
from runs.tools.http import HttpService
from runs.tools.tool import Call, ToolFailed
from runs.workflows.refund_request import READS
from tests.engine.conftest import Engine

Answered = Callable[[dict[str, Any]], dict[str, Any]]
TOKEN = "demo-key"
CARD = "4111111111111111"  # an order whose number passes a card's checksum


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def answers(monkeypatch: pytest.MonkeyPatch, path: str, change: Answered, method: str = "") -> None:
    """Calls to `path` are made, and answered otherwise."""
    request = HttpService.request

    def changed(self: HttpService, sent: str, to: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
        status, data = request(self, sent, to, **more)
        return status, change(dict(data)) if to.startswith(path) and method in {"", sent} else data

    monkeypatch.setattr(HttpService, "request", changed)


def fails(monkeypatch: pytest.MonkeyPatch, failure: Callable[[], Exception]) -> list[str]:
    """Every call fails; returns the list of paths that are asked for."""
    asked: list[str] = []

    def request(self: HttpService, method: str, path: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
        asked.append(path)
        raise failure()

    monkeypatch.setattr(HttpService, "request", request)
    return asked


def with_field(**fields: object) -> Answered:
    return lambda data: {**data, **fields}


def with_policy(**fields: object) -> Answered:
    return lambda data: {**data, "policies": [{**data["policies"][0], **fields}]}


def found(*records: Mapping[str, object]) -> Answered:
    """A look-up that finds the one record there is, once for each of `records` with those fields changed."""
    return lambda data: {**data, "records": [{**data["records"][0], **record} for record in records]}


NOT_THERE: dict[str, object] = {"found": False, "records": [], "store": "ledger"}


def everything_kept_for_people(run: Run) -> str:
    packages = [handoff.package for handoff in run.handoffs.all()]
    steps = [(step.summary, step.payload.response) for step in run.step_rows.all()]
    texts = [event.text_row.text for event in run.events.all()]
    return str([run.question, packages, case.read(run), timeline(run), steps, texts])


# What is read


GOOD: dict[str, dict[str, Any]] = {
    "order": {"delivered_on": "2026-09-22", "opened": False, "amount_minor": 5900, "currency": "EUR", "version": 1},
    "policies": {
        "business_date": "2026-09-25",
        "policies": [{"version": "v3", "window_days": 7, "requires_unopened": True, "approval_above_minor": 10000}],
    },
}


def checked(fact: str, data: Mapping[str, Any]) -> FactsState:
    [read] = [read for read in READS if read.fact == fact]
    state, _ = read.check(Fact(fact, clean(data), "a service", timezone.now()))
    return state


@pytest.mark.parametrize("fact", GOOD)
def test_a_fact_with_everything_that_is_wanted_is_complete(fact: str) -> None:
    assert checked(fact, GOOD[fact]) is FactsState.COMPLETE


@pytest.mark.parametrize(
    ("fact", "change"),
    [
        ("order", with_field(delivered_on="soon")),
        ("order", with_field(delivered_on="2026-02-30")),
        ("order", with_field(delivered_on=20260922)),
        ("order", with_field(opened="no")),
        ("order", with_field(opened=0)),
        ("order", with_field(amount_minor=True)),
        ("order", with_field(amount_minor=59.5)),
        ("order", with_field(amount_minor="5900")),
        ("order", with_field(amount_minor=-5900)),
        ("order", with_field(amount_minor=0)),
        ("order", with_field(amount_minor=math.inf)),
        ("order", with_field(amount_minor=math.nan)),
        ("order", with_field(currency="EUR\n")),
        ("order", with_field(currency=None)),
        ("order", with_field(version="1")),
        ("policies", with_field(business_date="soon")),
        ("policies", with_field(business_date=None)),
        ("policies", with_policy(version={"v": 3})),
        ("policies", with_policy(window_days=True)),
        ("policies", with_policy(window_days=math.nan)),
        ("policies", with_policy(window_days=-1)),
        ("policies", with_policy(requires_unopened="yes")),
        ("policies", with_policy(approval_above_minor=math.inf)),
    ],
)
def test_a_value_of_the_wrong_kind_is_as_good_as_missing(fact: str, change: Answered) -> None:
    assert checked(fact, change(GOOD[fact])) is FactsState.MISSING


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/orders", with_field(currency="EU\x00")),
        ("/orders", with_field(currency="EU\ud800")),
        ("/orders", with_field(amount_minor=math.inf)),
        ("/orders", with_field(amount_minor=True)),
        ("/policies", with_field(business_date="soon")),
        ("/policies", with_policy(version="v3\x00")),
    ],
)
def test_a_fact_that_is_none_goes_to_a_person_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, path: str, change: Answered
) -> None:
    answers(monkeypatch, path, change)
    run = engine.start("B456")
    advance(run.pk)  # once: nothing of it keeps a worker from saving the answer

    run.refresh_from_db()
    assert stopped_as(run) == ("NEEDS_HUMAN", "facts_missing")
    assert "usable" in run.question
    assert engine.calls("B456", "submit") == []


def test_fields_that_nobody_asked_for_do_not_keep_an_answer_from_being_saved(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [math.inf, -math.inf, math.nan, "\x00", "\ud800", 10**400, [[[[]]]], {"\x00": 1}]
    for path in ("/authority", "/orders", "/policies", "/refunds"):
        answers(monkeypatch, path, with_field(remark=odd))
    run = engine.start("B456")
    advance(run.pk)

    run.refresh_from_db()
    assert stopped_as(run) == ("COMPLETED", "contract_met")


def test_only_a_plain_yes_is_an_entitlement(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = engine.start("B456")
    answers(monkeypatch, "/authority", with_field(allowed=1))

    run = engine.carry_on(run)

    assert stopped_as(run) == ("LIMIT_REACHED", "same_error_repeated")
    assert run.error_class == "invalid_output"
    assert engine.calls("B456", "orders") == []


def test_a_delivery_that_lies_in_the_future_is_not_eligible(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "/orders", with_field(delivered_on="9999-12-31"))
    assert stopped_as(engine.run("B456")) == ("DECLINED", "not_eligible")


@pytest.mark.parametrize("header", ["nan", "1e400"])
def test_an_odd_wish_to_be_left_alone_is_none(engine: Engine, monkeypatch: pytest.MonkeyPatch, header: str) -> None:
    run = engine.start("B456")
    asked = fails(monkeypatch, lambda: ToolFailed(http.failure_of(429, {"retry-after": header}, {})))

    run = engine.carry_on(run)

    assert stopped_as(run) == ("LIMIT_REACHED", "same_error_repeated")
    assert asked == ["/authority"] * 3


def test_a_failure_in_words_that_cannot_be_stored_is_told_all_the_same(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.start("B456")
    fails(monkeypatch, lambda: ToolFailed(Failure("credential_refused", "no \x00 such \ud800 token")))
    advance(run.pk)

    run.refresh_from_db()
    assert stopped_as(run) == ("NEEDS_HUMAN", "credential_refused")
    assert "no \N{REPLACEMENT CHARACTER} such ? token" in run.question


def test_a_tool_that_breaks_is_a_failed_call_and_no_end_of_the_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.start("B456")
    asked = fails(monkeypatch, lambda: KeyError("a secret of the tool"))

    run = engine.carry_on(run)

    assert stopped_as(run) == ("LIMIT_REACHED", "same_error_repeated")
    assert len(asked) == 3
    assert "KeyError" in run.question
    assert "a secret of the tool" not in run.question


# Receipts

SUBMITTED = Call("submit_refund", {"order_id": "B456", "amount_minor": 5900, "currency": "EUR"}, "refund-1")
RECEIPT: dict[str, Any] = {
    "submit_state": "accepted",
    "request_id": "R789",
    "order_id": "B456",
    "operation_key": "refund-1",
    "amount_minor": 5900,
    "currency": "EUR",
}


class Says:
    """A service that always gives the same answer."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def request(self, method: str, path: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
        return 200, self.data


def meant(record: Mapping[str, Any]) -> tuple[Answer | str | None, ...]:
    """What a record means as a submission's answer, and as what a look-up finds: an answer, or a failure's code."""
    both: list[Answer | str | None] = []
    for tool, data in ((SUBMIT_REFUND, record), (LOOK_UP_REFUND, {"records": [record], "store": "ledger"})):
        try:
            both.append(tool.perform(Says(data), SUBMITTED, monotonic() + 5).answer)
        except ToolFailed as failed:
            both.append(failed.failure.code)
    return tuple(both)


def test_a_receipt_that_names_all_that_was_asked_for_is_one() -> None:
    assert meant(RECEIPT) == (Answer.ACCEPTED, Answer.ACCEPTED)


@pytest.mark.parametrize(
    "named",
    [
        {"amount_minor": 999_999},
        {"amount_minor": True},
        {"amount_minor": "5900"},
        {"amount_minor": "inf"},
        {"currency": "USD"},
        {"currency": "eur"},
        {"order_id": "D041"},
        {"order_id": ["B456"]},
        {"operation_key": "refund-2"},
        {"operation_key": 1},
        {"submit_state": "cancelled"},
    ],
)
def test_a_receipt_that_names_something_else_contradicts_what_was_asked_for(named: dict[str, object]) -> None:
    assert meant({**RECEIPT, **named}) == (Answer.CONTRADICTORY, Answer.CONTRADICTORY)
    assert meant({**RECEIPT, "submit_state": "pending", **named}) == (Answer.CONTRADICTORY, Answer.CONTRADICTORY)


@pytest.mark.parametrize(
    "number", ["R 789, call 0900-1", "R" * 65, "R789\n", "", 789, ["R789"], {"R": 789}, True, None]
)
def test_a_receipt_without_a_number_is_none(number: object) -> None:
    assert meant({**RECEIPT, "request_id": number}) == ("invalid_output", "invalid_output")


@pytest.mark.parametrize(
    "record",
    [
        {"submit_state": "rejected", "reason": "whatever"},
        {"submit_state": "cancelled"},
        {"submit_state": "accepted", "request_id": "R1"},
        {"submit_state": "accepted", "request_id": "R1", "order_id": "B456"},
        {"submit_state": "accepted", "request_id": "R1", "operation_key": "refund-1"},
        {**RECEIPT, "submit_state": "as good as accepted"},
        {**RECEIPT, "submit_state": ["accepted"]},
        {**RECEIPT, "submit_state": None},
        {},
    ],
)
def test_a_record_without_a_known_state_or_without_names_settles_nothing(record: dict[str, object]) -> None:
    assert meant(record) == ("invalid_output", "invalid_output")


def test_a_receipt_for_another_amount_goes_to_a_person(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "/refunds", with_field(amount_minor=999_999), "POST")
    answers(monkeypatch, "/refunds", found({"amount_minor": 999_999}), "GET")

    run = engine.run("B456")

    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    assert run.question.startswith("The receipt names amount 999999, not 5900.")
    assert run.effects.get().receipt is None


def test_a_refusal_that_does_not_say_what_it_refuses_does_not_decline(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "answer_lost")
    refusal = {"submit_state": "rejected", "reason": "whatever"}
    answers(monkeypatch, "/refunds", lambda data: {**data, "records": [refusal]}, "GET")

    run = engine.run("B456")

    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert run.effects.get().last_answer == "unreachable"


def test_two_receipt_numbers_under_one_key_contradict_each_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "answer_lost")
    answers(monkeypatch, "/refunds", found({}, {"request_id": "R999"}), "GET")

    run = engine.run("B456")

    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    assert "R789 and R999" in run.question


def test_the_same_receipt_twice_is_one(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.back_office.fault("B456", "answer_lost")
    answers(monkeypatch, "/refunds", found({}, {}), "GET")
    assert stopped_as(engine.run("B456")) == ("COMPLETED", "contract_met")


def test_what_the_service_acknowledged_does_not_become_absent_by_its_saying_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "pending")
    run = engine.run("B456")
    answers(monkeypatch, "/refunds", lambda data: NOT_THERE, "GET")

    run = engine.later(run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    assert "knew of it" in run.question
    assert len(engine.calls("B456", "submit")) == 1


def test_after_records_that_contradict_each_other_absence_proves_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "contradictory")
    run = engine.run("B456")
    run.effects.update(sent_at="2000-01-01T00:00Z")
    answers(monkeypatch, "/refunds", lambda data: NOT_THERE, "GET")

    run = engine.send(run, "reconcile_requested", "alice")

    assert stopped_as(run) == ("NEEDS_HUMAN", "receipts_contradict")
    assert len(engine.calls("B456", "submit")) == 1


# Secrets and numbers that look like some


@pytest.mark.parametrize(
    ("path", "method", "change", "reason"),
    [
        ("/orders", "GET", with_field(remark=TOKEN), "contract_met"),
        ("/policies", "GET", with_policy(version=f"v3 {TOKEN}"), "facts_missing"),
        ("/policies", "GET", lambda data: {**data, "policies": [{"version": TOKEN}] * 2}, "facts_in_conflict"),
        ("/refunds", "POST", with_field(submit_state="rejected", reason=f"no, {TOKEN}"), "refused_by_service"),
        ("/refunds", "POST", with_field(remark=f"Bearer {TOKEN}"), "contract_met"),
        ("/refunds", "POST", with_field(order_id=f"D041 {TOKEN}"), "receipts_contradict"),
    ],
)
def test_a_secret_that_a_service_echoes_is_not_passed_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, path: str, method: str, change: Answered, reason: str
) -> None:
    answers(monkeypatch, path, change, method)
    if reason == "receipts_contradict":
        answers(monkeypatch, path, found({"order_id": f"D041 {TOKEN}"}), "GET")

    run = engine.run("B456")

    assert run.stop_reason == reason
    kept = everything_kept_for_people(run)
    assert TOKEN not in kept
    assert "[removed]" in kept


def test_a_secret_in_a_failures_words_is_not_passed_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = engine.start("B456")
    fails(monkeypatch, lambda: ToolFailed(Failure("credential_refused", f"The token {TOKEN} is not valid.")))

    run = engine.carry_on(run)

    assert "The token [removed] is not valid." in run.question
    assert run.question == run.handoffs.get().package["question"]
    assert TOKEN not in everything_kept_for_people(run)


@pytest.fixture
def card_order(engine: Engine) -> str:
    engine.back_office.change_order(CARD, item="Desk lamp")
    return CARD


@pytest.mark.parametrize("slice_ends", [5, 0])
def test_an_order_number_that_looks_like_a_cards_stays_what_it_is(
    engine: Engine, card_order: str, settings: Settings, slice_ends: int
) -> None:
    settings.ENGINE_SLICE = slice_ends

    run = engine.run(card_order)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert run.effects.get().plan["params"]["order_id"] == card_order
    assert [effect["order_id"] for effect in engine.effects(card_order)] == [card_order]
    assert case.read(run)["title"] == f"Refund of order {card_order}"
    assert f"order {card_order} was accepted" in case.read(run)["customer_says"]["en"]


def test_a_write_for_such_an_order_is_found_again_and_asked_about_by_its_number(
    engine: Engine, card_order: str
) -> None:
    engine.back_office.fault(card_order, "answer_lost")
    engine.back_office.fault(card_order, "lookup_lags", lookups=3)
    run = engine.run(card_order)
    for _ in range(2):
        run = engine.later(run)
    assert stopped_as(run) == ("NEEDS_HUMAN", "outcome_unconfirmed")
    assert f"order {card_order}?" in run.question
    assert run.handoffs.last().package["effects"][0]["plan"]["params"]["order_id"] == card_order  # type: ignore[union-attr]

    assert stopped_as(engine.send(run, "reconcile_requested", "alice")) == ("COMPLETED", "contract_met")


def test_a_cards_number_in_what_a_service_says_is_removed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    says = "paid with 5500 0000 0000 0004"
    answers(monkeypatch, "/refunds", with_field(submit_state="rejected", reason=says), "POST")

    run = engine.run("B456")

    assert run.effects.get().reason == "paid with [removed]"
    assert "5500 0000 0000 0004" not in everything_kept_for_people(run)
