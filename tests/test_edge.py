"""What strangers may send, what the log says of it, who may keep a page, and pages for requests that lead nowhere."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from runs.models import Refusal
from takeover.console import desk
from takeover.console.refusals import strangers
from takeover.edge import NoTraceOfRefusals
from tests.people import person
from tests.processes import wait_until

pytestmark = pytest.mark.django_db

NUL_IN_SESSION = 'sessionid="abcdefgh\\000abc"'
CSRF = "csrftoken=" + "a" * 32
FORM = "application/x-www-form-urlencoded"


def signed_in(name: str, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(person(name))
    return client


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What goes to the terminal."""
    [terminal] = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler)
        and any(isinstance(it, NoTraceOfRefusals) for it in handler.filters)
    ]
    written = StringIO()
    monkeypatch.setattr(terminal, "stream", written)
    return written


# Requests


@pytest.mark.parametrize("path", ["/", "/sign-in/", "/nowhere/", "/live/"])
def test_a_session_that_cannot_be_one_is_no_session(path: str) -> None:
    answer = Client().get(path, headers={"Cookie": NUL_IN_SESSION})

    assert answer.status_code == Client().get(path).status_code


def test_a_session_that_can_be_one_is_kept() -> None:
    assert signed_in("alice").get("/").status_code == 200


@pytest.mark.parametrize("content_type", [f"{FORM}; charset=utf-16", "multipart/form-data; boundary=b; charset=zip"])
def test_a_form_that_cannot_be_read_is_refused(live_site: str, content_type: str) -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="username"\r\n\r\nalice\r\n--b--\r\n'

    answer = httpx2.post(f"{live_site}/sign-in/", content=form, headers={"Cookie": CSRF, "Content-Type": content_type})

    assert answer.status_code == 400
    assert answer.text == "A form is sent in UTF-8.\n"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/sign-in/", "/nowhere/"])
@pytest.mark.parametrize("form", ["&".join(["a"] * 1001), "a" * 2_700_000, "a=%00%ff"], ids=["many", "large", "odd"])
def test_no_form_breaks_a_page(live_site: str, path: str, form: str) -> None:
    headers = {"Cookie": f"{CSRF}; {NUL_IN_SESSION}", "Content-Type": FORM}

    answer = httpx2.post(live_site + path, content=form, headers=headers)

    assert 400 <= answer.status_code < 500
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_what_may_be_read_may_be_asked_for_without_its_body() -> None:
    client = signed_in("ada")
    for path in ("/", "/approvals/", "/outcomes/", "/outcomes.csv", "/sign-in/"):
        answer = client.head(path)
        assert answer.status_code == client.get(path).status_code, path
        assert not answer.content


# Pages


def test_a_bad_request_says_what_is_wrong_with_it() -> None:
    answer = signed_in("alice").get("/?tab=nowhere")

    assert answer.status_code == 400
    assert "There is no such part of the queue." in answer.content.decode()


def test_what_django_finds_suspicious_is_not_repeated_to_the_visitor() -> None:
    answer = Client().get("/sign-in/", headers={"Host": "evil.example"})

    assert answer.status_code == 400
    assert "It could not be understood." in answer.content.decode()
    assert "evil" not in answer.content.decode()


def test_our_own_fault_is_a_page_of_its_own(monkeypatch: pytest.MonkeyPatch, log: StringIO) -> None:
    monkeypatch.setattr(desk, "visitor", _breaks)

    answer = signed_in("alice", raise_request_exception=False).get("/")

    assert answer.status_code == 500
    assert "Something broke on our side" in answer.content.decode()
    assert "ZeroDivisionError" in log.getvalue()


def _breaks(_request: object) -> User:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda: Client().get("/sign-in/", headers={"Host": "evil.example"}), "ERROR django.security.DisallowedHost: "),
        (lambda: signed_in("alice").get("/?tab=nowhere"), "WARNING django.request: There is no such part"),
        (lambda: signed_in("charlie").get("/"), "WARNING django.request: Forbidden"),
        (lambda: signed_in("alice").get("/nowhere/"), "WARNING django.request: Not Found"),
    ],
)
def test_a_refused_request_is_one_line_in_the_log(ask: Callable[[], object], line: str, log: StringIO) -> None:
    ask()

    assert log.getvalue().startswith(line)
    assert log.getvalue().count("\n") == 1


@pytest.mark.parametrize("name", ["alice", "charlie"])
def test_error_pages_keep_no_connection_of_the_pool(live_site: str, name: str) -> None:
    cookies = {"sessionid": signed_in(name).cookies["sessionid"].value}
    before = _lent_connections()

    with ThreadPoolExecutor(8) as visitors:
        paths = ["/nowhere/", "/?tab=nowhere", "/outcomes/"] * 8
        answers = list(visitors.map(lambda path: httpx2.get(live_site + path, cookies=cookies, timeout=20), paths))

    assert all(400 <= answer.status_code < 500 for answer in answers)
    wait_until(lambda: _lent_connections() <= before)


def _lent_connections() -> int:
    found = connection.pool.get_stats()  # type: ignore[attr-defined]  # of the PostgreSQL backend
    return int(found["pool_size"] - found["pool_available"])


# Refused attempts


def test_a_forged_form_is_a_refused_attempt_on_record() -> None:
    answer = signed_in("alice", enforce_csrf_checks=True).post("/queue/take-next/")

    assert answer.status_code == 403
    assert "This page was too old to send" in answer.content.decode()
    refusal = Refusal.objects.get()
    assert (refusal.person, refusal.attempted, refusal.code) == (person("alice"), "send take-next", "csrf")


def test_strangers_are_counted_at_every_door() -> None:
    before = strangers.counts.copy()

    Client(enforce_csrf_checks=True).post("/sign-in/", {"username": "support", "password": "guess"})
    Client().get("/live/")

    assert strangers.counts - before == {"form": 1, "live": 1}
    assert not Refusal.objects.exists()


# Who may keep a page


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("alice", "/"),
        ("alice", "/nowhere/"),
        ("alice", "/?tab=nowhere"),
        ("charlie", "/"),
        ("alice", "/static/none.css"),
    ],
)
def test_nobody_keeps_a_page_with_names_and_counters(name: str, path: str) -> None:
    kept = signed_in(name).get(path).headers["Cache-Control"]

    assert "no-store" in kept
    assert "private" in kept


def test_a_file_may_be_kept() -> None:
    assert "no-store" not in signed_in("alice").get("/static/css/base.css").headers.get("Cache-Control", "")
