"""Refunds in parts, and their payments, under random faults and random people: what must hold whatever happens.

Each example has an order of its own in the service's books, which are the oracle.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from httpx2 import HTTPError
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from runs.interventions import sending
from runs.interventions.refusals import Refused
from runs.models import Run
from tests.people import person
from tests.processes import BackOffice
from tests.workflows.anybody import anything
from tests.workflows.refunds import Refunds, at_the_desk

COST = 150_00
NUMBERS = count(1000)
RARELY = anything(8)
AMOUNTS = st.sampled_from([None, 1, 40_00, 60_00, 100_00, 149_99, COST, COST + 1])
FAULTS = st.sampled_from(
    [
        ("answer_lost", {"times": 1}),
        ("lookup_lags", {"lookups": 1}),
        ("lookup_down", {"times": 2}),
        ("timeout_before_effect", {"seconds": 0, "times": 1}),
        ("pending", {"lookups": 1}),
        ("pending", {}),
        ("refused", {"times": 1}),
        ("contradictory", {"times": 1}),
        ("malformed", {"times": 1}),
        ("unavailable", {"where": "refunds", "times": 1}),
        ("rate_limited", {"where": "any", "times": 1, "retry_after": 0}),
    ]
)
EVENTS: Mapping[str, dict[str, Any]] = {
    "approval_granted": {},
    "approval_rejected": {"reason": "Too much."},
    "cancel_requested": {"reason": "The customer keeps it."},
    "reconcile_requested": {},
    "resumed_after_review": {"reason": "Go on."},
    "compensation_approved": {"reason": "Nothing is owed."},
}
ACTS = st.one_of(
    st.tuples(st.sampled_from([*EVENTS]), st.sampled_from(["alice", "bob"])),
    st.just(("time passes", "")),
    st.just(("somebody else refunds", "")),
)
PART = st.tuples(AMOUNTS, st.lists(FAULTS, max_size=2), st.lists(ACTS, max_size=3))


@pytest.fixture
def desk(
    transactional_db: None, back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Refunds:
    return at_the_desk(back_office, settings, monkeypatch)


def an_order(desk: Refunds) -> str:
    order_id = f"T{next(NUMBERS)}"
    desk.back_office.change_order(order_id, amount_minor=COST, delivered_on="2026-09-22", opened=False)
    return order_id


def happens(desk: Refunds, run: Run, what: str, who: str) -> Run:
    run.refresh_from_db()
    if run.is_final:
        return run
    try:
        match what:
            case "time passes":
                return desk.later(run)
            case "somebody else refunds":
                body = {"order_id": run.input["order_id"], "amount_minor": 30_00, "currency": "EUR"}
                headers = {"Idempotency-Key": f"other-{next(NUMBERS)}", "Authorization": "Bearer demo-key"}
                with suppress(HTTPError):  # a fault may strike them as well
                    desk.back_office.client.post("/refunds", json=body, headers=headers)
                return run
        last = run.effects.order_by("planned_at", "pk").last()
        digest = last.plan_digest if last and what.startswith("approval") else ""
        return desk.send(run, what, who, digest, **EVENTS[what])
    except Refused:
        return run


def holds(desk: Refunds, run: Run) -> None:
    run.refresh_from_db()
    by_key = {line["operation_key"]: line for line in desk.effects(run.input["order_id"])}
    standing = [line for line in by_key.values() if line["state"] in {"pending", "accepted"}]
    assert sum(line["amount_minor"] for line in standing) <= COST, "more was given than the order cost"
    ours = [effect for effect in run.effects.all() if not effect.undoes]
    assert sum(effect.operation_key in by_key for effect in ours) <= 1, "one request had two effects"
    for effect in ours:
        if effect.times_sent and effect.plan["params"]["amount_minor"] > 100_00:
            assert effect.approved_by_id, "a supervisor's amount went out without one"
    if run.outcome == "COMPLETED":
        [line] = [by_key[effect.operation_key] for effect in ours]
        assert (line["state"], line["amount_minor"]) == ("accepted", run.input.get("amount_minor", COST))
    assert run.is_final or run.due_at or run.answer_by, f"{run} lies with nobody ({run.outcome}, {run.stop_reason})"


@RARELY
@given(parts=st.lists(PART, min_size=1, max_size=2))
def test_parts_of_an_order_whatever_happens(desk: Refunds, parts: list[Any]) -> None:
    order_id = an_order(desk)
    for amount, faults, acts in parts:
        for name, parameters in faults:
            desk.back_office.fault(order_id, name, **parameters)
        run = desk.run(order_id, **({"amount_minor": amount} if amount else {}))
        holds(desk, run)
        for what, who in acts:
            run = happens(desk, run, what, who)
            holds(desk, run)
        desk.back_office.clear(order_id)
        run.refresh_from_db()
        if not run.is_final:
            return  # one open run for an order at a time


BANK = st.sampled_from(["processing", "paid", "failed", "cancelled", "looks", "resumed", "payment_short", "malformed"])


@RARELY
@given(acts=st.lists(BANK, min_size=1, max_size=6))
def test_a_payment_whatever_the_bank_says(desk: Refunds, acts: list[str]) -> None:
    order_id = an_order(desk)
    accepted = desk.run(order_id, amount_minor=40_00)
    number = str(accepted.effects.get().receipt["request_id"])  # type: ignore[index]
    run = desk.follow(accepted)
    for what in acts:
        match what:
            case "looks" | "resumed" if not run.is_final:
                run = desk.looks_again(run) if what == "looks" and run.outcome == "WAITING" else resumed(desk, run)
            case "payment_short" | "malformed":
                where = {"where": "payment"} if what == "malformed" else {}
                desk.back_office.fault(order_id, what, times=1, **where)
            case "cancelled":
                headers = {"Idempotency-Key": f"c-{number}", "Authorization": "Bearer demo-key"}
                desk.back_office.client.post(f"/refunds/{number}/cancel", headers=headers)
            case "processing" | "paid" | "failed":
                desk.back_office.client.put(f"/control/payments/{number}", json={"state": what})
        if run.outcome == "COMPLETED":
            desk.back_office.clear(order_id)
            assert truly(desk, number) == ("paid", 40_00), "completed, and the bank did not pay"
        assert run.is_final or run.due_at or run.answer_by, f"{run} lies with nobody"
        assert not run.effects.exists()


def resumed(desk: Refunds, run: Run) -> Run:
    try:
        sending.send(run.pk, "resumed_after_review", person("alice"), {"reason": "Look now."})
    except Refused:
        return run
    return desk.carry_on(run, until=lambda run: bool(run.outcome) and not run.inbox.filter(result="").exists())


def truly(desk: Refunds, number: str) -> tuple[str, int]:
    answer = desk.back_office.client.get(f"/payments/{number}", headers={"Authorization": "Bearer demo-key"}).json()
    return answer["payment_state"], answer["amount_minor"]
