"""The queue's filters, orders and search: all of it stands in the address."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.translation import override

from runs.domain.effects import EffectState
from runs.domain.states import StopReason
from runs.models import Run
from takeover.console import desk
from takeover.console.queue import paging, search
from takeover.console.queue.filters import FILTERS
from tests.console import rows
from tests.console.test_queue import titles

SignIn = Callable[[User], Client]
HOSTILE = '"><img src=x onerror=alert(1)>\u202e'


def orders(page: str) -> list[str]:
    return [title.removeprefix("Refund of order ") for title in titles(page)]


@pytest.fixture
def desk_of_alice(alice: User, bob: User) -> None:
    """One case for each filter, and one that only `workflow` finds."""
    now, soon = timezone.now(), timezone.now() + timedelta(minutes=20)
    rows.run("OTHER", alice, StopReason.NO_PROGRESS, workflow="no_longer_installed")
    rows.run("LOST", alice, StopReason.FACTS_MISSING)
    rows.run("BROKEN", alice, StopReason.NO_PROGRESS, error_class="transient", error_count=3)
    rows.uncertain("RISKY", alice)
    rows.run("OLD", alice, StopReason.NO_PROGRESS, stopped_at=now - timedelta(hours=5))
    rows.run("HERS", alice, StopReason.NO_PROGRESS, holder=alice, held_until=soon)
    rows.run("HIS", alice, StopReason.NO_PROGRESS, holder=bob, held_until=soon)
    refused = rows.run("REFUSED", alice, StopReason.NO_PROGRESS)
    rows.write(refused, EffectState.REJECTED)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"workflow": "no_longer_installed"}, {"no_longer_installed: order OTHER"}),
        ({"reason": "facts_missing"}, {"LOST"}),
        ({"error": "transient"}, {"BROKEN"}),
        ({"effect": "unknown"}, {"RISKY"}),
        ({"effect": "refused"}, {"REFUSED"}),
        ({"age": "4h"}, {"OLD"}),
        ({"risk": "unknown"}, {"RISKY"}),
        ({"who": "me"}, {"HERS"}),
        ({"reason": "no_progress", "effect": "none", "who": "nobody", "age": "1h", "risk": "none"}, {"OLD"}),
        ({"reason": "facts_missing", "error": "transient"}, set()),
    ],
)
def test_each_filter_leaves_what_it_says_and_all_combine(
    query: dict[str, str], found: set[str], desk_of_alice: None, alice: User, signed_in: SignIn
) -> None:
    assert set(orders(signed_in(alice).get("/", query).content.decode())) == found


def test_cases_are_filtered_by_who_has_them(desk_of_alice: None, bob: User, alice: User, signed_in: SignIn) -> None:
    client = signed_in(alice)
    page = client.get("/", {"who": bob.pk}).content.decode()
    assert orders(page) == ["HIS"]
    assert "Held by: <b><bdi>Bob Okafor</bdi></b>" in page
    assert len(orders(client.get("/", {"who": "nobody"}).content.decode())) == 6


def test_what_is_set_stands_as_a_chip_that_takes_it_away(desk_of_alice: None, alice: User, signed_in: SignIn) -> None:
    page = signed_in(alice).get("/", {"reason": "facts_missing", "risk": "none", "tab": "open"}).content.decode()
    chips = re.findall(r'class="chip" href="([^"]+)"', page)
    assert chips == ["/?tab=open&amp;risk=none", "/?tab=open&amp;reason=facts_missing"]


def test_only_what_occurs_or_is_set_can_be_chosen(desk_of_alice: None, alice: User, signed_in: SignIn) -> None:
    client = signed_in(alice)

    def offered(name: str, **query: str) -> list[str]:
        select = client.get("/", query).content.decode().partition(f'<select name="{name}">')[2].partition("</select>")
        return re.findall(r'value="([^"]+)"', select[0])

    assert offered("reason") == ["facts_missing", "no_progress", "outcome_unconfirmed"]
    assert offered("error") == ["transient"]
    assert "paused" in offered("reason", reason="paused")
    assert "contract_met" in offered("reason", tab="closed")


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_an_unknown_filter_is_left_out_with_a_sentence_that_names_it(
    name: str, desk_of_alice: None, alice: User, signed_in: SignIn
) -> None:
    answer = signed_in(alice).get("/", {name: HOSTILE, "q": "RISKY"})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert f"{FILTERS[name].label}: there is no “&quot;&gt;&lt;img" in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert orders(page) == ["RISKY"]


def test_an_unknown_order_is_left_out_with_a_sentence(alice: User, signed_in: SignIn) -> None:
    for place in ({"sort": HOSTILE}, {"sort": "value", "tab": "closed"}):
        page = signed_in(alice).get("/", place).content.decode()
        assert "Order: this part of the queue is not sorted like that." in page
        assert "\u202e" not in page


@pytest.mark.parametrize(
    ("sort", "tab", "first"),
    [("", "open", "URGENT"), ("age", "open", "OLDEST"), ("newest", "human", "LATEST"), ("", "closed", "E2")],
)
def test_the_queue_is_sorted_by_urgency_age_or_newest_first(
    sort: str, tab: str, first: str, alice: User, signed_in: SignIn
) -> None:
    now, hour = timezone.now(), timedelta(hours=1)
    rows.run("URGENT", alice, StopReason.NO_PROGRESS, answer_by=now, stopped_at=now - hour)
    rows.run("OLDEST", alice, StopReason.NO_PROGRESS, answer_by=now + hour, stopped_at=now - 3 * hour)
    rows.run("LATEST", alice, StopReason.NO_PROGRESS, answer_by=now + 2 * hour, stopped_at=now)
    rows.run("E1", alice, StopReason.CONTRACT_MET, stopped_at=now - 2 * hour)
    rows.run("E2", alice, StopReason.CONTRACT_MET, stopped_at=now - hour)
    page = signed_in(alice).get("/", {"sort": sort, "tab": tab}).content.decode()
    assert orders(page)[0] == first
    assert "sort=age" in page


@pytest.mark.parametrize("sort", sorted(paging.ORDERS))
@pytest.mark.parametrize("tab", ["open", "closed"])
def test_paging_goes_through_every_run_once_in_each_order(
    sort: str, tab: str, alice: User, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE", 2)
    now = timezone.now()
    for number in range(7):
        ended = tab == "closed"
        stopped = now - timedelta(hours=number // 3)
        if number > 4 and not ended:
            rows.run(f"N{number}", alice)  # still running: has not stopped and is not due
        else:
            due = None if number % 2 or ended else now + timedelta(hours=1)
            reason = StopReason.CONTRACT_MET if ended else StopReason.NO_PROGRESS
            rows.run(f"N{number}", alice, reason, stopped_at=stopped, answer_by=due)
    seen, address, client = [], f"/?tab={tab}&sort={sort}", signed_in(alice)
    for _page in range(4):
        page = client.get(address).content.decode()
        seen += orders(page)
        if following := re.search(r'rel="next" href="([^"]+)"', page):
            address = following[1].replace("&amp;", "&")
    assert sorted(seen) == [f"N{number}" for number in range(7)]


def test_a_place_in_one_order_is_no_place_in_another(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    cursor = paging._cursor(run, paging.ORDERS["age"])
    assert signed_in(alice).get("/", {"after": cursor, "sort": "age"}).status_code == 200
    assert signed_in(alice).get("/", {"after": cursor, "sort": "newest"}).status_code == 400
    assert signed_in(alice).get("/", {"after": cursor}).status_code == 400


# Search


def test_the_queue_is_searched_by_subject_question_input_reason_error_and_number(
    alice: User, signed_in: SignIn
) -> None:
    question = "客户要求退款。收据 R-77 与记录不一致？"
    found = rows.run(
        "B456", alice, StopReason.RECEIPTS_CONTRADICT, question=question, error_class="authentication", error_count=1
    )
    Run.objects.filter(pk=found.pk).update(input={"order_id": "B456", "reference": "Zürich-9"})
    rows.run("C881", alice, StopReason.NO_PROGRESS, question="Which of the two applies?")
    client = signed_in(alice)
    number = str(found.pk)
    for text in ("b456", "退款", "与记录", "r-77", "ZÜRICH-9", "contradict", "authenti", number[:8], number.upper()):
        assert orders(client.get("/", {"q": text}).content.decode()) == ["B456"], text
    for text in ("款退", "order_id", "b4x6", "%", "_456", "'", "\\", "456b"):
        assert orders(client.get("/", {"q": text}).content.decode()) == [], text


def test_one_character_finds_what_begins_with_it_and_that_is_said(alice: User, signed_in: SignIn) -> None:
    rows.run("X", alice, StopReason.NO_PROGRESS, question="问题？")
    rows.run("Y", alice, StopReason.NO_PROGRESS, question="什么问题？", subject="booking Y")
    client = signed_in(alice)
    page = client.get("/", {"q": "问"}).content.decode()
    assert orders(page) == ["X"]
    assert "One character finds what begins with it" in page
    assert "One character" not in client.get("/", {"q": "问题"}).content.decode()


def test_reasons_are_found_by_their_words_in_both_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    class Word:
        """As a catalogue has it, whether there is one yet or not."""

        def __str__(self) -> str:
            from django.utils.translation import get_language

            return "预算用尽" if get_language() == "zh-hans" else "Budget used up"

    monkeypatch.setattr("takeover.console.words.REASON", {"limit_cost": Word()})
    for language in ("en", "zh-hans"):
        with override(language):
            for text in ("用尽", "USED up"):
                assert search._codes(text, {"limit_cost": Word()}) == ["limit_cost"]


def test_a_run_is_found_and_opened_by_the_key_of_its_write(alice: User, signed_in: SignIn) -> None:
    run, client = rows.proposed("B456", alice), signed_in(alice)
    rows.proposed("C881", alice)
    key = run.effects.get().operation_key
    assert orders(client.get("/", {"tab": "approval", "q": key}).content.decode()) == ["B456"]
    assert client.get("/", {"q": key, "go": "yes"}).headers["Location"] == f"/runs/{run.pk}/"
    for text in (key[:-1], f"{key}0", key.replace("-", " ")):
        assert orders(client.get("/", {"tab": "approval", "q": text, "go": "yes"}).content.decode()) == [], text


@pytest.mark.parametrize(
    "key", ["5a1b2c3d-0000-4000-8000-00000000b456", "renewal:7:2026", "Loan 4711 / 2026", "undo:renewal.4711"]
)
def test_a_run_is_found_by_the_key_of_its_write_however_its_workflow_spells_it(
    key: str, alice: User, signed_in: SignIn
) -> None:
    run, client = rows.run("B456", alice, StopReason.EFFECT_UNKNOWN), signed_in(alice)
    rows.write(run, EffectState.UNKNOWN, operation_key=key)
    assert client.get("/", {"q": key, "go": "yes"}).headers["Location"] == f"/runs/{run.pk}/"
    assert orders(client.get("/", {"tab": "open", "q": key}).content.decode()) == ["B456"]


def test_a_number_of_a_run_and_enter_open_the_case(alice: User, signed_in: SignIn) -> None:
    run, client = rows.run("B456", alice, StopReason.NO_PROGRESS), signed_in(alice)
    number = str(run.pk)
    for text in (number, number.upper(), number.replace("-", ""), f" {number[:4]}…{number[-2:]} "):
        answer = client.get("/", {"q": text, "go": "yes"})
        assert answer.headers.get("Location") == f"/runs/{run.pk}/", text
    for text in (number[:8], "B456", "00000000-0000-4000-8000-000000000000"):
        assert client.get("/", {"q": text, "go": "yes"}).status_code == 200, text


def test_a_short_number_that_two_runs_have_opens_neither(alice: User, signed_in: SignIn) -> None:
    for middle in ("1", "2"):
        rows.run(f"N{middle}", alice, StopReason.NO_PROGRESS, id=f"abcd{middle * 4}-0000-4000-8000-0000000000ff")
    page = signed_in(alice).get("/", {"q": "abcd…ff", "go": "yes"}).content.decode()
    assert sorted(orders(page)) == ["N1", "N2"]


# Counts


def test_counts_above_a_thousand_are_said_to_be_more(
    alice: User, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "counts", lambda person: dict.fromkeys(desk.TABS, 1001) | {"limit": 1000})
    page = signed_in(alice).get("/").content.decode()
    assert '<b id="n-tab-human">1,000+</b>' in page
    assert '<b id="n-tab-limit">1,000</b>' in page


def test_counting_stops_at_the_limit(alice: User) -> None:
    for number in range(4):
        rows.run(f"N{number}", alice, StopReason.NO_PROGRESS)
    assert desk.counted({"all": Run.objects.all(), "none": Run.objects.none()}, alice, 2) == {"all": 3, "none": 0}
