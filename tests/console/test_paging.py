"""Paging through a part of the queue shows every run once, in order, whatever is missing and however many are equal."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict

from runs.domain.states import StopReason
from runs.models import Run
from takeover.console.queue import paging
from takeover.console.queue.paging import ORDERS, Order
from takeover.console.queue.place import Place
from tests.console import rows

NOON = datetime(2026, 9, 25, 12, tzinfo=UTC)
INSTANTS = [None, *(NOON + timedelta(microseconds=after) for after in (0, 1, 10**6))]
AMOUNTS = [(None, None), (0, "EUR"), (1, "EUR"), (10**13, "EUR"), (0, "CHF"), (5_00, "JPY")]


def in_order(runs: list[Run], order: Order) -> list[Run]:
    """Sorted by the last column first. What is missing is larger than every value."""
    for column in reversed(order.columns):
        name = column.removeprefix("-")

        def key(run: Run, name: str = name) -> tuple[bool, Any]:
            value = getattr(run, name)
            return value is None, 0 if value is None else value

        runs = sorted(runs, key=key, reverse=column.startswith("-"))
    return runs


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("length", [1, 2, 7])
def test_all_pages_together_have_every_run_once_and_in_order(
    name: str, length: int, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE", length)
    chance = random.Random(f"{name} {length}")
    for number in range(40):
        minor, currency = chance.choice(AMOUNTS)
        instants = {"answer_by": chance.choice(INSTANTS), "stopped_at": chance.choice(INSTANTS)}
        rows.run(f"N{number}", alice, StopReason.NO_PROGRESS, stake_minor=minor, stake_currency=currency, **instants)
    seen: list[Run] = []
    after, order = "", ORDERS[name]
    while True:
        page, after = paging.page(Run.objects.all(), order, after, all_stopped=False)
        seen += page
        if not after:
            break
    assert seen == in_order(list(Run.objects.all()), order)


@pytest.mark.parametrize(
    ("sort", "tab"), [("newest", "closed"), ("age", "closed"), *((name, "open") for name in ORDERS)]
)
@pytest.mark.parametrize("looked_through", [1, 4, 100])
@pytest.mark.parametrize("few", [0, 100])
def test_a_search_that_finds_many_is_paged_like_one_that_finds_few(
    sort: str, tab: str, looked_through: int, few: int, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PAGE": 2, "FEW": few, "LOOKED_THROUGH": looked_through}.items():
        monkeypatch.setattr(paging, name, value)
    chance = random.Random(f"{sort} {tab} {looked_through}")
    reason = StopReason.CONTRACT_MET if tab == "closed" else StopReason.NO_PROGRESS
    wanted = []
    for number in range(24):
        stopped = NOON - timedelta(hours=number // 2)
        due = chance.choice(INSTANTS) if tab == "open" else None
        is_found = number in {0, 1, 2, 9, 10, 17, 22}
        made = rows.run(f"{'X' if is_found else 'Y'}{number}z", alice, reason, stopped_at=stopped, answer_by=due)
        wanted += [made] if is_found else []
    seen: list[Run] = []
    place = Place.of(QueryDict(f"tab={tab}&sort={sort}&q=order+X"))
    while True:
        found, after = place.page(alice)
        seen, place = seen + found, replace(place, after=after)
        if not after:
            break
    assert seen == in_order(wanted, place.order)
