"""Requests that no page of ours makes: each gets an answer of its own, and never a server error."""

import base64
import json
from urllib.parse import urlencode

import pytest
from django.test import Client

from runs.domain.states import StopReason
from runs.models import InboxEvent
from tests.console import rows
from tests.people import person

pytestmark = pytest.mark.django_db


def signed_in(name: str) -> Client:
    client = Client(raise_request_exception=True)
    client.force_login(person(name))
    return client


def cursor(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "after",
    [
        cursor([None, None, "00000000-0000-0000-0000-000000000000"]),
        cursor(["2026-01-01T00:00:00+23:59", "2026-01-01T00:00:00+23:59", "00000000-0000-0000-0000-000000000000"]),
        cursor(["0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00", "00000000-0000-0000-0000-000000000000"]),
        cursor("[" * 20_000),
        cursor({"a": 1}),
        cursor([1, 2]),
        "%00",
        "\x00",
        "né",
    ],
)
@pytest.mark.parametrize("tab", ["human", "closed"])
def test_a_damaged_place_in_the_list_is_a_bad_request(after: str, tab: str) -> None:
    answer = signed_in("alice").get("/?" + urlencode({"tab": tab, "after": after}))
    assert answer.status_code in {200, 400}


@pytest.mark.parametrize("since", ["2026-01-01T00:00:00+23:59", "0001-01-01T00:00:00+14:00", "\x00", "yesterday"])
def test_a_damaged_instant_is_a_bad_request(since: str) -> None:
    answer = signed_in("alice").get("/queue/news/?" + urlencode({"since": since}))
    assert answer.status_code in {200, 400}


@pytest.mark.parametrize(
    "query", ["page=" + "9" * 4400, "page=-1", "page=x", "day=\x00", "outcome=\x00", "days=" + "9" * 4400]
)
@pytest.mark.parametrize("page", ["/outcomes/", "/outcomes/runs/", "/outcomes.csv"])
def test_a_damaged_period_or_page_is_a_bad_request(query: str, page: str) -> None:
    answer = signed_in("ada").get(f"{page}?{query}")
    assert answer.status_code in {200, 400, 404}


@pytest.mark.parametrize("query", ["tab=zz", "workflow=nothing", "workflow=\u202eevil", "q=\x00", "q=" + "x" * 5000])
def test_an_unknown_filter_does_not_break_the_queue(query: str) -> None:
    name, value = query.split("=", 1)
    answer = signed_in("alice").get("/?" + urlencode({name: value}))
    assert answer.status_code in {200, 400}
    assert "\u202e" not in answer.content.decode()


@pytest.mark.parametrize("by", ["--3", "9" * 5000, "1e3", "\x00", "٣"])
def test_a_number_that_is_none_is_a_bad_request(by: str) -> None:
    run = rows.run("B456", person("alice"), StopReason.LIMIT_STEPS)
    form = {"dimension": "steps", "by": by, "reason": "more"}
    answer = signed_in("bob").post(f"/runs/{run.pk}/events/budget_extended/", form)
    assert answer.status_code in {400, 409, 422}


@pytest.mark.parametrize("answers", ["\x00", "zz", "f" * 10_000])
def test_a_digest_that_is_none_is_about_another_plan(answers: str) -> None:
    run = rows.proposed("B456", person("alice"))
    for event in ("approval_granted", "approval_rejected"):
        words = {"approval_granted": {}, "approval_rejected": {"reason": "no"}}[event]
        answer = signed_in("bob").post(f"/runs/{run.pk}/events/{event}/", {"answers": answers, **words})
        assert answer.status_code == 409


def test_signing_in_does_not_lead_back_to_signing_in() -> None:
    person("alice")
    answer = Client().post("/sign-in/?next=/sign-in/", {"username": "alice", "password": "alice", "next": "/sign-in/"})
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/"
    assert signed_in("alice").get("/sign-in/?next=/sign-in/").headers["Location"] == "/"


def test_a_persons_name_cannot_turn_the_text_around() -> None:
    someone = person("ann")
    someone.first_name = "\u202ennA"
    someone.save()
    run = rows.run("B456", person("alice"), StopReason.FACTS_MISSING, holder=someone, held_until="2100-01-01T00:00Z")
    for page in ("/", f"/runs/{run.pk}/"):
        assert "\u202e" not in signed_in("alice").get(page).content.decode()
    assert "\u202e" not in signed_in("ann").get("/").content.decode()


def test_somebody_without_a_role_learns_nothing_about_which_runs_exist() -> None:
    run = rows.run("B456", person("alice"))
    client = signed_in("charlie")
    there = client.post(f"/runs/{run.pk}/claim/").status_code
    not_there = client.post("/runs/00000000-0000-0000-0000-000000000000/claim/").status_code
    assert there == not_there == 403


@pytest.mark.parametrize("digest", ["\x00", "a\x00b", "f" * 10_000])
def test_a_chosen_plan_that_is_none_is_refused_by_itself(digest: str) -> None:
    run = rows.proposed("B456", person("alice"))
    answer = signed_in("bob").post("/approvals/together/", {"plan": [f"{run.pk}.{digest}"]})
    assert "1 was refused" in answer.content.decode()


@pytest.mark.parametrize("stop", ["9" * 5000, "1" * 10, "٣", "-1", ""])
def test_a_stop_that_is_no_number_is_taken_for_none(stop: str) -> None:
    run = rows.uncertain("B456", person("alice"))
    form = {"do": "reconcile", "run": [run.pk], "shown": [f"{run.pk}.x-{stop}"]}
    assert signed_in("alice").post("/queue/bulk/", form).status_code == 200


@pytest.mark.parametrize("back", ["/runs/\nSet-Cookie: a=b", "/approvals/\n", "/\x00", "/\r\n\r\n<b>", "/é"])
def test_where_a_form_came_from_is_an_address_and_nothing_more(back: str) -> None:
    run, client = rows.uncertain("B456", person("alice")), signed_in("alice")
    answer = client.post(f"/runs/{run.pk}/events/reconcile_requested/form/", {"back": back})
    assert answer.status_code == 200
    assert answer.headers["HX-Redirect"].isprintable()
    assert answer.headers["HX-Redirect"].isascii()
    assert InboxEvent.objects.get().run == run


def test_what_is_sent_from_the_approvals_to_a_run_without_a_card_leads_back_there() -> None:
    run = rows.run("B456", person("alice"), StopReason.FACTS_MISSING)
    form = {"back": "/approvals/", "reason": "No longer wanted."}
    answer = signed_in("alice").post(f"/runs/{run.pk}/events/cancel_requested/form/", form)
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (200, "/approvals/")


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00", "\x00"]
)
@pytest.mark.parametrize("page", ["/approvals/", "/approvals/list/"])
def test_a_damaged_place_among_the_approvals_is_a_bad_request(at: str, page: str) -> None:
    rows.proposed("B456", person("alice"))
    after = f"{at}~00000000-0000-0000-0000-000000000000"
    assert signed_in("bob").get(f"{page}?" + urlencode({"after": after})).status_code == 400


def test_what_a_form_says_it_has_seen_cannot_turn_the_page_around() -> None:
    run = rows.uncertain("B456", person("alice"))
    form = {"statement": "Said.", "reference": "mail 1", "seen": "\u202elive/\u202e<b>/\u202e"}
    answer = signed_in("alice").post(f"/runs/{run.pk}/events/evidence_supplied/", form)
    assert answer.status_code == 409
    assert "\u202e" not in answer.content.decode()


def test_a_search_is_text_and_no_pattern() -> None:
    rows.uncertain("B456", person("alice"))
    client = signed_in("alice")
    for text in ("%", "_", "B%6", "B_56", ".*", "(B|C)+", "' OR 1=1 --", "\\"):
        assert "of order B456" not in client.get("/?" + urlencode({"q": text})).content.decode(), text
    assert "of order B456" in client.get("/?" + urlencode({"q": "b45"})).content.decode()
