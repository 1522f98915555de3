"""Every address of the product, asked by everybody in every way: who is let in, and what never happens."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.http.response import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from runs.domain.interventions import Permission as Right
from runs.models import Effect, Event, InboxEvent, Refusal, Run
from takeover.console.models import Preferences, SavedView
from tests.console import rows
from tests.people import person

pytestmark = pytest.mark.django_db

AUDITORS = {"ada"}
LOOKERS = {"alice", "bob", *AUDITORS}
SIGNED_IN = {"starter", "decider", "charlie", *LOOKERS}  # `starter` may only start runs, `decider` only decide
RUN = {"run_id": "{run}"}
STEP, EVENT, VIEW = RUN | {"seq": 1}, RUN | {"name": "evidence_supplied"}, {"view_id": 1}
# By name: what it is about, how it may be asked, and who may look at it.
ADDRESSES: dict[str, tuple[dict[str, Any], str, set[str]]] = {
    "queue": ({}, "GET", LOOKERS),
    "queue-list": ({}, "GET", LOOKERS),
    "queue-news": ({}, "GET", LOOKERS),
    "desk-counts": ({}, "GET", LOOKERS),
    "take-next": ({}, "POST", set()),
    "queue-bulk": ({}, "POST", set()),
    "queue-save-view": ({}, "POST", set()),
    "queue-rename-view": (VIEW, "POST", set()),
    "queue-delete-view": (VIEW, "POST", set()),
    "claim-row": (RUN, "POST", set()),
    "case": (RUN, "GET", LOOKERS),
    "case-body": (RUN, "GET", LOOKERS),
    "package": (RUN, "GET", LOOKERS),
    "claim": (RUN, "POST", set()),
    "release": (RUN, "POST", set()),
    "assign": (RUN, "POST", set()),
    "follow-up": (RUN | {"name": "payment"}, "POST", set()),
    "glance": (RUN, "GET", LOOKERS),
    "step": (STEP, "GET", LOOKERS),
    "step-opened": (STEP, "GET", LOOKERS),
    "note": (RUN, "POST", set()),
    "event": (EVENT, "GET POST", LOOKERS),
    "event-form": (EVENT, "GET POST", LOOKERS),
    "approvals": ({}, "GET", LOOKERS),
    "approvals-list": ({}, "GET", LOOKERS),
    "approve-together": ({}, "POST", set()),
    "outcomes": ({}, "GET", AUDITORS),
    "outcomes-runs": ({}, "GET", AUDITORS),
    "outcomes-csv": ({}, "GET", AUDITORS),
    "you": ({}, "GET POST", SIGNED_IN),
    "kept": ({}, "GET", set()),  # nothing is kept for any of them
}
OUTSIDE = {"callback", "live", "language", "sign-in", "sign-out"}  # they have tests of their own
FORM = {
    "do": "claim",
    "run": "{run}",
    "shown": "{run}.x-1",
    "plan": "{run}.00",
    "text": "Seen.",
    "to": "1",
    "name": "Mine",
    "statement": "Said.",
    "reference": "mail 1",
}
NOWHERE = "00000000-0000-4000-8000-000000000000"


def names(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from names(pattern.url_patterns)
        else:
            yield str(pattern.name)


def someone(name: str) -> User:
    rights = {"starter": [Right.START], "decider": [Right.APPROVE, Right.EXTEND]}.get(name)
    if rights is None:
        return person(name)
    made, _ = User.objects.get_or_create(username=name)
    made.user_permissions.set(Permission.objects.filter(content_type__app_label="runs", codename__in=rights))
    return made


def signed_in(name: str) -> Client:
    client = Client()
    if name:
        client.force_login(someone(name))
    return client


def ask(client: Client, method: str, address: str, run: Any) -> HttpResponseBase:
    about, _methods, _who = ADDRESSES[address]
    path = reverse(address, kwargs={key: str(value).format(run=run) for key, value in about.items()})
    if method == "POST":
        return client.post(path, {key: value.format(run=run) for key, value in FORM.items()})
    return client.generic(method, path)


def kept_rows() -> list[Any]:
    tables = (Run, Event, InboxEvent, Effect, SavedView, Preferences)
    return [list(table.objects.order_by("pk").values()) for table in tables]


@pytest.fixture
def run() -> Run:
    return rows.uncertain("B456", person("alice"))


def test_the_table_names_every_address() -> None:
    assert set(names(get_resolver().url_patterns)) == set(ADDRESSES) | OUTSIDE


@pytest.mark.parametrize("name", sorted(SIGNED_IN))
def test_each_page_is_seen_by_those_who_may_and_looking_changes_nothing(name: str, run: Run) -> None:
    client = signed_in(name)
    before = kept_rows()
    for address, (_about, methods, who) in ADDRESSES.items():
        for method in ("GET", "HEAD"):
            expected = 405 if "GET" not in methods else 404 if address == "kept" else 200 if name in who else 403
            assert ask(client, method, address, run.pk).status_code == expected, (address, method)
    assert kept_rows() == before


@pytest.mark.parametrize("name", ["", *sorted(SIGNED_IN)])
def test_no_other_way_of_asking_does_anything(name: str, run: Run) -> None:
    client = signed_in(name)
    before = kept_rows()
    for address, (_about, methods, _who) in ADDRESSES.items():
        for method in {"POST", "PUT", "DELETE", "OPTIONS"} - set(methods.split()):
            expected = 302 if not name else 403 if address.startswith("outcomes") and name != "ada" else 405
            assert ask(client, method, address, run.pk).status_code == expected, (address, method)
    assert kept_rows() == before


def test_a_stranger_is_led_to_the_sign_in_page_and_changes_nothing(run: Run) -> None:
    client, before = Client(), kept_rows()
    for address in ADDRESSES:
        for method in ("GET", "HEAD", "POST"):
            answer = ask(client, method, address, run.pk)
            assert answer.status_code == 302, (address, method)
            assert answer.headers["Location"].startswith("/sign-in/?next=/")
    assert kept_rows() == before


@pytest.mark.parametrize("name", ["starter", "decider", "charlie"])
def test_who_may_see_no_runs_is_told_nothing_about_one_and_not_whether_there_is_one(name: str, run: Run) -> None:
    client = signed_in(name)
    before = kept_rows()
    for address, (_about, methods, _who) in ADDRESSES.items():
        if address == "you":
            continue
        for method in methods.split():
            there, nowhere = (ask(client, method, address, number) for number in (run.pk, NOWHERE))
            pages = [answer.content.decode() for answer in (there, nowhere)]  # type: ignore[attr-defined]
            assert there.status_code == nowhere.status_code == (404 if address == "kept" else 403), (address, method)
            assert "B456" not in pages[0], (address, method)
            assert said(pages[0]) == said(pages[1]), (address, method)
    assert kept_rows() == before
    assert Refusal.objects.filter(person__username=name).count() > 1


def said(page: str) -> str:
    return page.partition('<section class="fault">')[2].partition("</section>")[0]


def test_who_only_audits_moves_nothing(run: Run) -> None:
    client = signed_in("ada")
    before = kept_rows()
    views = {"queue-save-view", "queue-rename-view", "queue-delete-view", "you"}  # of one's own
    for address, (_about, methods, _who) in ADDRESSES.items():
        if "POST" in methods and address not in views:
            assert ask(client, "POST", address, run.pk).status_code in {200, 403, 404, 422}, address
    assert kept_rows() == before


@pytest.mark.parametrize("name", ["", "alice", "charlie"])
def test_every_answer_is_for_this_person_alone_and_runs_no_script_of_anybody_else(name: str, run: Run) -> None:
    client = signed_in(name)
    for address in ADDRESSES:
        for method in ("GET", "POST"):
            answer = ask(client, method, address, run.pk)
            assert answer.status_code < 500, (address, method)
            assert "no-store" in answer.headers["Cache-Control"], (address, method)
            assert "private" in answer.headers["Cache-Control"], (address, method)
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"], (address, method)
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
