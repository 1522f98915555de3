"""What holds of every answer of the product, whoever asks: read off the list of addresses, so none is forgotten."""

from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.db import connection
from django.http.response import HttpResponseBase
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, get_resolver, reverse
from django.utils import timezone

from runs.domain.states import StopReason
from runs.models import Run
from takeover.console import kept
from takeover.console.models import SavedView
from tests.console import rows
from tests.people import person

pytestmark = pytest.mark.django_db

PEOPLE = ("alice", "bob", "ada", "charlie", "")
# The most queries of each address that is looked at. Who is signed in, and what they may, are four of them.
LOOKED_AT = {
    "queue": 13,
    "queue-list": 13,
    "queue-news": 6,
    "desk-counts": 5,
    "case": 26,
    "case-body": 24,
    "package": 11,
    "glance": 11,
    "step": 9,
    "step-opened": 7,
    "event": 15,
    "event-form": 13,
    "approvals": 10,
    "approvals-list": 10,
    "outcomes": 13,
    "outcomes-runs": 8,
    "outcomes-csv": 7,
    "kept": 6,
    "you": 8,
    "sign-in": 1,
}
SENT_TO = {  # they answer to forms only
    *("take-next", "queue-bulk", "queue-save-view", "queue-rename-view", "queue-delete-view", "claim-row"),
    *("claim", "release", "assign", "follow-up", "note", "approve-together", "language", "sign-out"),
    "callback",
}
STREAM = {"live"}  # whose page has no end
NAMES = {"follow-up": "payment"}


def addresses() -> Iterator[tuple[str, set[str]]]:
    def walk(patterns: Any, given: set[str]) -> Iterator[tuple[str, set[str]]]:
        for pattern in patterns:
            takes = given | set(pattern.pattern.regex.groupindex)
            if isinstance(pattern, URLPattern):
                yield str(pattern.name), takes
            else:
                yield from walk(pattern.url_patterns, takes)

    return walk(get_resolver().url_patterns, set())


ADDRESSES = dict(addresses())


def address(name: str, run: Run, view: SavedView) -> str:
    values = {"run_id": run.pk, "seq": 1, "view_id": view.pk, "service": "refunds"}
    return reverse(
        name, kwargs={taken: values.get(taken, NAMES.get(name, "cancel_requested")) for taken in ADDRESSES[name]}
    )


def signed_in(name: str) -> Client:
    client = Client(raise_request_exception=True)
    if name:
        client.force_login(person(name))
    return client


@pytest.fixture
def cases() -> list[Run]:
    """One of each kind, so that every address has something to say and something to spoil."""
    alice, soon = person("alice"), timezone.now() + timedelta(minutes=5)
    made = [
        rows.uncertain("B456", alice, holder=person("bob"), held_until=soon),
        rows.proposed("B457", alice),
        rows.run("B458", alice, StopReason.CONTRACT_MET),
    ]
    for run in made[1:]:
        rows.step(run, 1, "read", "read_order", "The order service answered.")
    return made


@pytest.fixture
def view() -> SavedView:
    return SavedView.objects.create(owner=person("bob"), name="Lost facts", query="q=B456", shared=True)


def with_something_kept(client: Client) -> Client:
    session = client.session
    session[kept.NAME] = {"path": "/you/", "fields": {"zone": ["Mars"]}}
    session.save()
    return client


class Page(HTMLParser):
    """Whatever of a page is a script, a style or a handler of its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.own: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in given):
            self.own.append(tag)
        self.own += [name for name in given if name == "style" or name.startswith(("on", "hx-on"))]
        self.own += [
            text for text in given.values() if text and text.strip().lower().startswith(("javascript:", "js:"))
        ]


def keeps_the_policy(answer: HttpResponseBase) -> None:
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert "unsafe" not in str(policy)
    if "text/html" in answer.headers.get("Content-Type", ""):
        assert Page(getattr(answer, "content", b"").decode()).own == []


def test_every_address_is_on_one_of_the_lists() -> None:
    assert set(ADDRESSES) == {*LOOKED_AT, *SENT_TO, *STREAM}


@pytest.mark.parametrize("name", sorted({*LOOKED_AT, *SENT_TO}))
def test_every_answer_carries_the_policy_and_no_script_of_its_own(name: str, cases: list[Run], view: SavedView) -> None:
    for who in PEOPLE:
        for run in cases:
            at = address(name, run, view)
            client = with_something_kept(signed_in(who)) if who else signed_in(who)
            for answer in (client.get(at), client.post(at, {"back": "/"}), client.delete(at)):
                assert answer.status_code < 500
                keeps_the_policy(answer)


@pytest.mark.parametrize("who", ["charlie", ""])
def test_the_stream_is_refused_under_the_policy(who: str) -> None:
    answer = signed_in(who).get("/live/")
    assert answer.status_code in {401, 403}
    keeps_the_policy(answer)


@pytest.mark.parametrize("name", LOOKED_AT)
def test_every_page_takes_few_queries(name: str, cases: list[Run], view: SavedView) -> None:
    for who in ("ada", "bob") if name != "sign-in" else ("",):
        client = signed_in(who)
        if name == "kept":
            with_something_kept(client)
        for run in cases:
            at = address(name, run, view)
            client.get(at)  # what is looked up once and then remembered
            with CaptureQueriesContext(connection) as sent:
                answer = client.get(at)
            assert answer.status_code in ({200} if who != "bob" else {200, 403}), at
            assert len(sent) <= LOOKED_AT[name], [one["sql"] for one in sent]
