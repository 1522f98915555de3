"""`manage.py people`: who may sign in, and in which roles."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from runs.domain.interventions import Permission
from runs.models import Event
from takeover.management.commands.up import _welcome
from tests.people import person

pytestmark = pytest.mark.django_db
GOOD = "a long enough one"


def people(monkeypatch: pytest.MonkeyPatch, *words: str, typed: str = "") -> tuple[int, str, str]:
    out, wrong = StringIO(), StringIO()
    monkeypatch.setattr("sys.stdin", StringIO(typed))
    try:
        call_command("people", *words, stdout=out, stderr=wrong)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), wrong.getvalue()
    return 0, out.getvalue(), wrong.getvalue()


def on_record() -> list[tuple[str, Any]]:
    events = Event.objects.filter(run=None).order_by("id")
    return [(event.kind, event.text_row.content()) for event in events]


def test_somebody_is_added_with_a_role_and_signs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["add", "kim", "--role", "support", "--full-name", "Kim Lee"]
    assert people(monkeypatch, *words, typed=f"{GOOD}\n") == (0, "kim may sign in as support.\n", "")

    kim = User.objects.get(username="kim")
    assert kim.get_full_name() == "Kim Lee"
    assert kim.has_perm(f"runs.{Permission.OPERATE.value}")
    assert not kim.has_perm(f"runs.{Permission.APPROVE.value}")
    client = Client()
    assert client.login(username="kim", password=GOOD)
    assert client.get("/").status_code == 200
    assert on_record() == [("person_added", {"name": "kim", "roles": ["support"]})]


@pytest.mark.parametrize(
    ("words", "typed", "says"),
    [
        (["add", "kim"], "short\n", "password: This password is too short."),
        (["add", "kim"], "", "password: This password is too short."),
        (["add", "kimberley-lee"], "kimberley-lee\n", "password: The password is too similar to the username."),
        (["add", "k i m"], f"{GOOD}\n", "username: Enter a valid username."),
        (["add", "k" * 200], f"{GOOD}\n", "username: Ensure this value has at most 150 characters"),
        (["add", "alice"], f"{GOOD}\n", "There is somebody called alice already."),
        (["roles", "nobody", "--role", "support"], "", "There is nobody called nobody"),
        (["password", "alice"], "short\n", "password: This password is too short."),
        (["close", "nobody"], "", "There is nobody called nobody"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, words: list[str], typed: str, says: str
) -> None:
    person("alice")
    code, _out, wrong = people(monkeypatch, *words, typed=typed)
    assert code == 2
    assert says in wrong
    assert User.objects.count() == 1
    assert User.objects.get().check_password("alice")
    assert on_record() == []


def test_who_is_closed_is_out_at_once_and_comes_in_again_when_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.force_login(person("alice"))
    assert people(monkeypatch, "close", "alice")[0] == 0
    assert client.get("/").status_code == 302
    assert people(monkeypatch, "open", "alice")[0] == 0
    assert Client().login(username="alice", password="alice")
    assert [kind for kind, _content in on_record()] == ["person_closed", "person_opened"]


def test_roles_are_exactly_those_given(monkeypatch: pytest.MonkeyPatch) -> None:
    person("alice")
    assert people(monkeypatch, "roles", "alice", "--role", "administrator")[1] == "alice has the role administrator.\n"
    assert [group.name for group in User.objects.get().groups.all()] == ["administrator"]
    assert people(monkeypatch, "roles", "alice")[1] == "alice has no role, and may do nothing.\n"
    assert not User.objects.get().get_all_permissions()


def test_another_password_ends_open_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.force_login(person("alice"))
    assert people(monkeypatch, "password", "alice", typed=f"{GOOD}\n")[0] == 0
    assert client.get("/").status_code == 302
    assert Client().login(username="alice", password=GOOD)


def test_the_list_says_who_may_do_what(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Nobody yet" in people(monkeypatch, "list")[1]
    person("alice")
    charlie = person("charlie")
    charlie.is_active = False
    charlie.save()
    told = people(monkeypatch, "list")[1]
    assert "alice" in told
    assert "support" in told
    assert "(closed)" in told
    listed = json.loads(people(monkeypatch, "list", "--json")[1])["people"]
    assert listed[0] == {"name": "alice", "full_name": "Alice", "roles": ["support"], "may_sign_in": True}


def test_an_installation_without_the_demo_says_how_to_add_people(tmp_path: Path) -> None:
    told = _welcome({"SITE_URL": "http://localhost:8000"}, tmp_path, demo=False)
    assert f"people add NAME --role support --data-dir {tmp_path}" in told
