"""What is at stake stands in the row and on the case's page, and the open parts of the queue are sorted by it."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from runs.domain.states import StopReason
from runs.models import Run
from takeover.console.models import SavedView
from takeover.console.queue import paging
from tests.console import rows
from tests.console.test_queue_filters import orders

SignIn = Callable[[User], Client]


def case(order: str, by: User, minor: int | None = None, currency: str = "EUR", **values: object) -> Run:
    at_stake = {"stake_minor": minor, "stake_currency": None if minor is None else currency}
    return rows.run(order, by, StopReason.NO_PROGRESS, **at_stake, **values)


def following(page: str) -> str:
    found = re.search(r'rel="next" href="([^"]+)"', page)
    return found[1].replace("&amp;", "&") if found else ""


def test_the_largest_amount_stands_first_each_currency_by_itself_and_what_is_not_known_last(
    alice: User, signed_in: SignIn
) -> None:
    soon, later = (timezone.now() + timedelta(hours=hours) for hours in (1, 2))
    case("UNKNOWN", alice, answer_by=later)
    case("PRESSING", alice, answer_by=soon)  # not known either
    case("SMALL", alice, 5_00)
    case("YEN", alice, 90_000, "JPY")
    case("LARGE", alice, 1_000_00)
    case("FREE", alice, 0)
    page = signed_in(alice).get("/?sort=value").content.decode()
    assert orders(page) == ["LARGE", "SMALL", "FREE", "YEN", "PRESSING", "UNKNOWN"]
    assert "Each currency by itself: amounts are not converted." in page


def test_of_equal_amounts_the_more_urgent_case_stands_first(alice: User, signed_in: SignIn) -> None:
    now = timezone.now()
    for order, due in (("NEVER", None), ("LATER", now + timedelta(hours=2)), ("SOON", now + timedelta(hours=1))):
        case(order, alice, 59_00, answer_by=due)
    assert orders(signed_in(alice).get("/?sort=value").content.decode()) == ["SOON", "LATER", "NEVER"]


@pytest.mark.parametrize("tab", ["human", "open"])
def test_paging_shows_each_run_once_while_others_come_and_go(
    tab: str, alice: User, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE", 3)
    due = timezone.now() + timedelta(hours=1)
    amounts: list[tuple[int | None, str]] = [(50_00, "USD"), (7_00, "USD"), (0, "USD")]
    amounts += [(50_00, "EUR")] * 4 + [(None, "")] * 5
    kept = {f"N{n}" for n in range(len(amounts))}
    for number, (minor, currency) in enumerate(amounts):
        case(f"N{number}", alice, minor, currency, answer_by=None if number % 2 else due, stopped_at=due)
    gone = [case(f"GONE{n}", alice, *amount, answer_by=due) for n, amount in enumerate(amounts[::2])]
    seen: list[str] = []
    address, client = f"/?tab={tab}&sort=value", signed_in(alice)
    while address:
        page = client.get(address).content.decode()
        seen += orders(page)
        address = following(page)
        # One moves to the end, and another comes before or behind the place that was reached.
        if gone:
            Run.objects.filter(pk=gone.pop().pk).update(holder=alice, stake_minor=None, stake_currency=None)
        case(f"CAME{len(seen)}", alice, 60_00 if len(seen) % 2 else None, answer_by=due)
    # What moved behind the place that was reached is seen there once more; all else once.
    stayed = [order for order in seen if not order.startswith("GONE")]
    assert len(stayed) == len(set(stayed))
    assert kept <= set(stayed)


@pytest.mark.parametrize(
    "after",
    [
        '["value", "EUR", 5900, null, null, null]',
        '["value", "EUR\\n", 5900, null, null, "{pk}"]',
        '["value", "<b>", 5900, null, null, "{pk}"]',
        '["value", "EUR", 1e400, null, null, "{pk}"]',
        '["value", "EUR", true, null, null, "{pk}"]',
        '["value", "EUR", 99999999999999999999, null, null, "{pk}"]',
        '["value", "EUR", -1, null, null, "{pk}"]',
        '["value", ["EUR"], 5900, null, null, "{pk}"]',
        '["value", "EUR", 5900, "now", null, "{pk}"]',
        '["value", "EUR", 5900, null, "{pk}"]',
        '["urgency", null, null, "{pk}"]',
    ],
)
def test_a_damaged_address_of_a_page_is_refused_in_words(after: str, alice: User, signed_in: SignIn) -> None:
    cursor = urlsafe_b64encode(after.replace("{pk}", str(case("B456", alice).pk)).encode()).decode()
    answer = signed_in(alice).get("/", {"sort": "value", "after": cursor})
    assert answer.status_code == 400
    assert "The address of this page is damaged." in answer.content.decode()


def test_what_is_at_stake_stands_in_the_row_and_on_the_case_s_page(alice: User, signed_in: SignIn) -> None:
    run, other = case("B456", alice, 1_234_56), case("C881", alice)
    client = signed_in(alice)
    page = client.get("/").content.decode()
    assert page.count("At stake:") == 1
    assert "</span> 1234.56 EUR</div>" in page
    assert "<b>At stake</b> 1234.56 EUR" in client.get(f"/runs/{run.pk}/").content.decode()
    assert "At stake" not in client.get(f"/runs/{other.pk}/").content.decode()


def test_a_row_whose_amount_changed_is_sent_again(alice: User, signed_in: SignIn) -> None:
    run = case("B456", alice, 59_00)
    client = signed_in(alice)
    shown = re.findall(r'name="shown" value="([^"]+)"', client.get("/").content.decode())
    assert "59.00" not in client.get("/queue/news/", {"shown": shown}).content.decode()
    Run.objects.filter(pk=run.pk).update(stake_minor=61_00)
    assert "61.00 EUR" in client.get("/queue/news/", {"shown": shown}).content.decode()


def test_a_saved_view_keeps_the_order_by_amount(alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).post("/queue/views/", {"name": "Dear", "query": "tab=open&sort=value"})
    assert SavedView.objects.get().query == "tab=open&sort=value"
    assert answer["Location"] == "/?tab=open&sort=value"


def test_the_closed_ones_are_not_offered_by_amount(alice: User, signed_in: SignIn) -> None:
    client = signed_in(alice)
    assert "sort=value" in client.get("/?tab=open").content.decode()
    assert "sort=value" not in client.get("/?tab=closed").content.decode()


def test_take_next_takes_the_most_urgent_whatever_the_list_is_sorted_by(alice: User, signed_in: SignIn) -> None:
    now = timezone.now()
    case("DEAR", alice, 900_00, answer_by=now + timedelta(hours=2))
    urgent = case("URGENT", alice, 1_00, answer_by=now + timedelta(hours=1))
    answer = signed_in(alice).post("/queue/take-next/", {"tab": "human", "sort": "value"})
    assert answer["Location"] == f"/runs/{urgent.pk}/"
