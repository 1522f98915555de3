import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.domain.states import State, StopReason
from runs.models import Run
from takeover.console.models import SavedView
from takeover.console.queue import paging
from takeover.console.queue.rows import NO_NEWS
from takeover.console.queue.rows import rows as row_of
from tests.console import rows
from tests.states import bring

SignIn = Callable[[User], Client]


def titles(page: str) -> list[str]:
    return re.findall(r'class="open"[^>]*><bdi>([^<]*)<', page)


def test_strangers_are_sent_to_sign_in(client: Client, db: None) -> None:
    assert client.get("/").headers["Location"] == "/sign-in/?next=/"


def test_someone_without_a_role_is_told_why_they_see_nothing(charlie: User, signed_in: SignIn) -> None:
    answer = signed_in(charlie).get("/")
    assert answer.status_code == 403
    assert "Your account has neither role" in answer.content.decode()


def test_an_administrator_sees_the_queue_and_cannot_act_on_it(ada: User, alice: User, signed_in: SignIn) -> None:
    rows.run("B456", alice, StopReason.NO_PROGRESS)
    page = signed_in(ada).get("/").content.decode()
    assert titles(page) == ["Refund of order B456"]
    assert "Take next" not in page
    assert "Claim" not in page


def test_a_row_that_was_drawn_for_one_reader_is_another_for_another(
    alice: User, bob: User, ada: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS, answer_by=timezone.now() + timedelta(hours=3, minutes=30))

    def row(person: User, **cookies: str) -> str:
        client = signed_in(person)
        client.cookies.load(cookies)
        return client.get("/").content.decode().partition('<li class="row"')[2].partition("</li>")[0]

    free, read_only = row(alice), row(ada)
    assert free == row(alice) == row(bob)
    assert ">Claim<" in free
    assert "Claim" not in read_only
    assert "checkbox" not in read_only
    in_tokyo, in_chinese = row(alice, timezone="Asia/Tokyo"), row(alice, language="zh-hans")
    assert "Asia/Tokyo" in in_tokyo
    assert "Asia/Tokyo" not in free
    assert "认领" in in_chinese
    signed_in(bob).post(f"/runs/{run.pk}/claim/")
    assert "you, <time" in row(bob)
    assert "Bob Okafor, <time" in row(alice)
    assert ">Claim<" not in row(alice)


def test_a_row_is_stamped_anew_by_whatever_it_shows_and_not_by_the_time_that_goes_by(alice: User, bob: User) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS, answer_by=timezone.now() + timedelta(hours=3))
    shown: Any = row_of([run], alice)[0]
    gone_by = {"since": None, "ended": shown.since, "is_new": True, "held_until": shown.since}
    gone_by |= {"due": replace(shown.due, used_up=99)}
    assert set(gone_by) == NO_NEWS
    assert {replace(shown, **{name: value}).stamp for name, value in gone_by.items()} == {shown.stamp}
    other = {"due": replace(shown.due, words="late")} | {
        field.name: not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}x"
        for field in fields(shown)
        if field.name not in NO_NEWS
        for value in [getattr(shown, field.name)]
    }
    stamps = {name: replace(shown, **{name: value}).stamp for name, value in other.items()}
    assert len({shown.stamp, *stamps.values()}) == len(stamps) + 1


def test_the_most_urgent_case_stands_first_and_one_without_due_time_last(alice: User, signed_in: SignIn) -> None:
    now = timezone.now()
    rows.run("CALM", alice, StopReason.NO_PROGRESS, answer_by=now + timedelta(hours=3))
    rows.run("NONE", alice, StopReason.NO_PROGRESS, answer_by=None)
    rows.run("LATE", alice, StopReason.NO_PROGRESS, answer_by=now - timedelta(minutes=12))
    page = signed_in(alice).get("/").content.decode()
    assert titles(page) == [f"Refund of order {order}" for order in ("LATE", "CALM", "NONE")]
    assert ">12 min late<" in page
    assert 'data-urgency="late"' in page


@pytest.mark.parametrize(
    ("tab", "order"),
    [
        ("human", "HUMAN"),
        ("waiting", "WAITS"),
        ("limit", "LIMIT"),
        ("approval", "WRITE"),
        ("mine", "MINE"),
        ("closed", "DONE"),
    ],
)
def test_each_part_of_the_queue_shows_its_own_runs(tab: str, order: str, alice: User, signed_in: SignIn) -> None:
    rows.run("HUMAN", alice, StopReason.NO_PROGRESS)
    rows.run("WAITS", alice, StopReason.EFFECT_UNKNOWN)
    rows.run("LIMIT", alice, StopReason.LIMIT_STEPS)
    rows.proposed("WRITE", alice)
    soon = timezone.now() + timedelta(minutes=20)
    rows.run("MINE", alice, StopReason.LIMIT_STEPS, holder=alice, held_until=soon, answer_by=None)
    rows.run("DONE", alice, StopReason.CONTRACT_MET)
    rows.run("RUNS", alice)
    assert f"Refund of order {order}" in titles(signed_in(alice).get("/", {"tab": tab}).content.decode())


def test_the_counters_say_how_many_lie_in_each_part(alice: User, signed_in: SignIn) -> None:
    rows.run("A", alice, StopReason.NO_PROGRESS)
    rows.run("B", alice, StopReason.EFFECT_UNKNOWN)
    rows.run("C", alice, StopReason.CONTRACT_MET)
    rows.proposed("D", alice)
    counted = dict(re.findall(r'id="n-tab-(\w+)">(\d+)<', signed_in(alice).get("/").content.decode()))
    assert counted == {"human": "1", "waiting": "1", "limit": "0", "approval": "1", "mine": "0", "open": "3"}


def test_a_row_says_what_is_at_risk_why_it_stopped_and_who_has_it(alice: User, bob: User, signed_in: SignIn) -> None:
    until = timezone.now() + timedelta(minutes=11, seconds=30)
    rows.uncertain("B456", alice, holder=bob, held_until=until, error_class="transient", error_count=2)
    page = signed_in(alice).get("/").content.decode()
    assert "outcome unconfirmed" in page
    assert "transient ×2" in page
    assert "1 write unknown" in page
    assert "Bob Okafor" in page
    assert ">11 min<" in page


def test_a_claim_that_ran_out_is_nobodys(alice: User, bob: User, signed_in: SignIn) -> None:
    rows.run("B456", alice, StopReason.NO_PROGRESS, holder=bob, held_until=timezone.now() - timedelta(seconds=1))
    row = signed_in(alice).get("/").content.decode().partition('<ul class="rows"')[2].partition("</ul>")[0]
    assert "Bob Okafor" not in row
    assert "nobody" in row


def test_the_queue_is_searched_by_subject_and_by_run(alice: User, signed_in: SignIn) -> None:
    found = rows.run("B456", alice, StopReason.NO_PROGRESS)
    rows.run("C881", alice, StopReason.NO_PROGRESS)
    for text in ("b456", str(found.pk)[:8], str(found.pk).upper()):
        page = signed_in(alice).get("/", {"q": text}).content.decode()
        assert titles(page) == ["Refund of order B456"], text


def test_a_search_says_in_which_other_parts_it_finds_something(alice: User, signed_in: SignIn) -> None:
    rows.run("B456", alice, StopReason.CONTRACT_MET)
    rows.run("B4567", alice, StopReason.CONTRACT_MET)
    rows.run("B4568", alice, StopReason.EFFECT_UNKNOWN)
    rows.run("C881", alice, StopReason.LIMIT_STEPS)
    client = signed_in(alice)

    def elsewhere(**query: str) -> list[tuple[str, str]]:
        page = client.get("/", query).content.decode()
        return re.findall(r'<a class="link" href="([^"]+)">(\d+ in [^<]+)</a>', page.partition("In other parts:")[2])

    in_closed = ("/?tab=closed&amp;q=B456", "2 in Closed")
    in_waiting = ("/?tab=waiting&amp;q=B456", "1 in Waiting")
    assert elsewhere(q="B456") == [in_waiting, in_closed]
    assert elsewhere(q="B456", tab="closed") == [in_waiting]
    assert elsewhere(q="B456", tab="open") == [in_closed]
    assert elsewhere() == elsewhere(q="nothing like it") == []
    rows.run("B4569", alice)  # runs by itself
    assert elsewhere(q="B4569") == [("/?tab=open&amp;q=B4569", "1 in All open")]


def test_the_queue_is_filtered_by_workflow(alice: User, signed_in: SignIn) -> None:
    rows.run("B456", alice, StopReason.NO_PROGRESS)
    rows.run("OTHER", alice, StopReason.NO_PROGRESS, workflow="no_longer_installed")
    page = signed_in(alice).get("/", {"workflow": "no_longer_installed"}).content.decode()
    assert titles(page) == ["no_longer_installed: order OTHER"]


def test_paging_goes_through_every_run_once(alice: User, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE", 3)
    now, same = timezone.now(), timezone.now() + timedelta(hours=1)
    for number in range(8):
        due = None if number > 5 else same if number > 2 else now + timedelta(minutes=number)
        rows.run(f"N{number}", alice, StopReason.NO_PROGRESS, answer_by=due, stopped_at=now)
    seen, address, client = [], "/", signed_in(alice)
    for _page in range(4):
        page = client.get(address).content.decode()
        seen += titles(page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        if not following:
            break
        address = following[1].replace("&amp;", "&")
    assert len(seen) == 8
    assert len(set(seen)) == 8


def test_the_closed_ones_are_paged_latest_first(
    alice: User, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE", 2)
    for number in range(3):
        at = timezone.now() - timedelta(hours=number)
        rows.run(f"N{number}", alice, StopReason.CONTRACT_MET, stopped_at=at)
    client = signed_in(alice)
    first = client.get("/", {"tab": "closed"}).content.decode()
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following
    second = client.get(following[1].replace("&amp;", "&")).content.decode()
    assert titles(first) + titles(second) == [f"Refund of order N{number}" for number in range(3)]


@pytest.mark.parametrize("query", ["tab=nowhere", "after=garbage", "after=WzEsMl0", "q=%00", "after=bnVsbA"])
def test_an_address_that_makes_no_sense_is_refused_in_words(query: str, alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).get(f"/?{query}")
    assert answer.status_code == 400
    assert "This request makes no sense here" in answer.content.decode()


@pytest.mark.parametrize(
    ("address", "queries"),
    [
        ("/", 12),
        ("/?tab=open&sort=age&reason=outcome_unconfirmed&who=nobody&effect=unknown&age=1h&risk=unknown", 12),
        ("/?tab=closed", 10),
        ("/?q=order", 14),
        ("/queue/list/?q=order", 13),
        ("/queue/news/?since=2026-01-01T00:00:00Z", 8),
        ("/queue/counts/?tabs=yes", 5),
    ],
)
def test_the_number_of_queries_does_not_grow_with_the_queue(
    address: str,
    queries: int,
    alice: User,
    bob: User,
    signed_in: SignIn,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    until = timezone.now() + timedelta(minutes=5)
    for number in range(20):
        rows.uncertain(f"N{number}", alice, holder=bob, held_until=until)
        SavedView.objects.create(owner=bob, name=f"N{number}", query="who=me", shared=True)
    client = signed_in(alice)
    with django_assert_max_num_queries(queries):
        client.get(address)


# Live


def test_new_cases_are_announced_and_not_pushed_in(alice: User, signed_in: SignIn) -> None:
    rows.run("OLD", alice, StopReason.NO_PROGRESS)
    client, since = signed_in(alice), timezone.now() - timedelta(minutes=1)
    rows.run("NEW", alice, StopReason.NO_PROGRESS, stopped_at=timezone.now())
    news = client.get("/queue/news/", {"since": since.isoformat()}).content.decode()
    assert "1 new case since" in news
    assert titles(news) == []
    inserted = client.get("/queue/list/", {"since": since.isoformat()}).content.decode()
    assert inserted.count("data-new") == 1


def test_only_rows_that_changed_are_sent_again(alice: User, bob: User, signed_in: SignIn) -> None:
    kept = rows.run("KEPT", alice, StopReason.NO_PROGRESS)
    taken = rows.run("TAKEN", alice, StopReason.NO_PROGRESS)
    gone = rows.run("GONE", alice, StopReason.NO_PROGRESS)
    client = signed_in(alice)
    shown = re.findall(r'name="shown" value="([^"]+)"', client.get("/").content.decode())
    assert len(shown) == 3
    Run.objects.filter(pk=taken.pk).update(holder=bob, held_until=timezone.now() + timedelta(minutes=30))
    bring(gone, State.EXECUTING, outcome="", stop_reason="", stopped_at=None)
    news = client.get("/queue/news/", {"shown": shown}).content.decode()
    assert f"run-{kept.pk}" not in news
    assert f"run-{taken.pk}" in news
    assert "Bob Okafor" in news
    assert "No longer in this part of the queue." in news


def test_news_about_something_that_is_no_run_is_refused(alice: User, signed_in: SignIn) -> None:
    assert signed_in(alice).get("/queue/news/", {"shown": "x.y"}).status_code == 400


def test_the_counters_are_a_fragment_of_their_own(alice: User, signed_in: SignIn) -> None:
    rows.run("B456", alice, StopReason.NO_PROGRESS)
    answer = signed_in(alice).get("/queue/counts/", {"tabs": "yes"}).content.decode()
    assert '<b id="n-tab-human" hx-swap-oob="true">1</b>' in answer
    assert "<html" not in answer


# Taking cases


def test_taking_the_next_case_opens_the_most_urgent_one(alice: User, signed_in: SignIn) -> None:
    now = timezone.now()
    rows.run("CALM", alice, StopReason.NO_PROGRESS, answer_by=now + timedelta(hours=3))
    late = rows.run("LATE", alice, StopReason.NO_PROGRESS, answer_by=now - timedelta(minutes=3))
    answer = signed_in(alice).post("/queue/take-next/")
    assert answer.headers["Location"] == f"/runs/{late.pk}/"
    late.refresh_from_db()
    assert late.holder == alice


def test_there_being_nothing_to_take_is_said_in_the_queue(alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).post("/queue/take-next/", {"tab": "limit"}, follow=True)
    assert answer.redirect_chain == [("/?tab=limit", 302)]
    assert "every case is in somebody" in answer.content.decode()


@pytest.mark.parametrize(
    ("who", "why"), [("ada", "needs the permission"), ("charlie", "Your account has neither role")]
)
def test_who_does_not_work_on_the_queue_takes_nothing(
    who: str, why: str, alice: User, ada: User, charlie: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    answer = signed_in({"ada": ada, "charlie": charlie}[who]).post("/queue/take-next/")
    assert answer.status_code == 403
    assert why in answer.content.decode()
    run.refresh_from_db()
    assert run.holder is None


def test_a_row_is_claimed_in_its_place(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    answer = signed_in(alice).post(f"/runs/{run.pk}/claim/row/")
    assert answer.status_code == 200
    assert answer.content.decode().strip().startswith(f'<li class="row" id="run-{run.pk}"')
    assert "you, " in answer.content.decode()


def test_a_lost_race_for_a_row_names_the_winner(alice: User, bob: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    signed_in(bob).post(f"/runs/{run.pk}/claim/row/")
    answer = signed_in(alice).post(f"/runs/{run.pk}/claim/row/")
    assert answer.status_code == 409
    assert "Bob Okafor holds this case until" in answer.content.decode()
    assert "Bob Okafor" in answer.content.decode()


def test_nothing_is_taken_by_a_get(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    for address in ("/queue/take-next/", f"/runs/{run.pk}/claim/row/", f"/runs/{run.pk}/claim/"):
        assert signed_in(alice).get(address).status_code == 405
    run.refresh_from_db()
    assert run.holder is None


def test_hostile_text_stays_text(alice: User, signed_in: SignIn) -> None:
    hostile = "<img src=x onerror=alert(1)> \u202etxet"
    rows.run("B456", alice, StopReason.NO_PROGRESS, question=hostile, subject=hostile, workflow="gone")
    page = signed_in(alice).get("/", {"q": "<script>"}).content.decode()
    page += signed_in(alice).get("/").content.decode()
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt; [U+202E]txet" in page
    assert "“&lt;script&gt;”" in page


def test_a_headline_that_cannot_be_put_into_words_takes_no_other_case_off_the_list(
    alice: User, signed_in: SignIn, caplog: pytest.LogCaptureFixture
) -> None:
    odd = rows.run("B456", alice, StopReason.FACTS_MISSING)
    rows.run("A123", alice, StopReason.FACTS_MISSING)
    Run.objects.filter(pk=odd.pk).update(input={})

    page = signed_in(alice).get("/?tab=human").content.decode()

    assert "refund_request: order B456" in page
    assert "Refund of order A123" in page
    assert str(odd.pk) in caplog.text
