"""What a person chooses for themselves: language and time zone."""

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation

from takeover.console.models import Preferences
from tests.console import rows

SignIn = Callable[[User], Client]


@pytest.fixture(autouse=True)
def _languages_stay_here() -> Iterator[None]:
    with translation.override("en"):
        yield


def test_a_person_sees_who_they_are_to_the_console(bob: User, signed_in: SignIn) -> None:
    page = signed_in(bob).get("/you/").content.decode()
    assert "Bob Okafor" in page
    assert "supervisor: clears the queue and decides proposed writes" in page


def test_whoever_has_no_role_is_told_where_to_get_one(charlie: User, signed_in: SignIn) -> None:
    assert "ask an administrator for a role" in signed_in(charlie).get("/you/").content.decode()


def test_a_chosen_language_and_zone_hold_on_every_page(alice: User, signed_in: SignIn) -> None:
    client = signed_in(alice)
    client.post("/you/", {"language": "zh-hans", "zone": "Asia/Tokyo"})
    page = client.get("/you/").content.decode()
    assert '<html lang="zh-hans">' in page
    assert "已保存。" in page
    run = rows.uncertain("B456", alice)
    assert "Asia/Tokyo (UTC+09:00)" in client.get(f"/runs/{run.pk}/body/").content.decode()
    assert "没有此编号的运行" in client.get("/runs/00000000-0000-0000-0000-000000000000/").content.decode()


def test_what_was_chosen_comes_along_to_another_browser(alice: User, client: Client) -> None:
    Preferences.objects.create(person=alice, language="zh-hans", zone="Asia/Tokyo")
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    assert '<html lang="zh-hans">' in client.get("/").content.decode()
    assert client.cookies["zone"].value == "Asia/Tokyo"


def test_after_signing_out_the_browser_speaks_to_the_next_person(alice: User, client: Client) -> None:
    Preferences.objects.create(person=alice, language="zh-hans")
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    client.post("/sign-out/")
    assert '<html lang="en">' in client.get("/sign-in/").content.decode()


def test_the_browsers_own_language_can_be_chosen_again(alice: User, signed_in: SignIn) -> None:
    client = signed_in(alice)
    client.post("/you/", {"language": "zh-hans", "zone": ""})
    client.post("/you/", {"language": "", "zone": ""})
    assert '<html lang="en">' in client.get("/you/").content.decode()
    assert '<html lang="zh-hans">' in client.get("/you/", headers={"Accept-Language": "zh"}).content.decode()


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"language": "tlh"}, "There is no such language here. Choose one of the list."),
        ({"zone": "Mars/Base"}, "There is no such time zone. Choose one of the list."),
        ({"zone": "../etc/passwd"}, "There is no such time zone."),
    ],
)
def test_what_is_not_on_the_list_is_refused(sent: dict[str, str], says: str, alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).post("/you/", sent)
    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert not Preferences.objects.exists()


def test_a_refused_choice_keeps_the_other_one(alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).post("/you/", {"language": "tlh", "zone": "Asia/Tokyo"})
    assert '<option lang="en" selected>Asia/Tokyo</option>' in answer.content.decode()


def test_the_language_can_be_switched_before_signing_in(client: Client, alice: User) -> None:
    answer = client.post("/language/", {"language": "zh-hans", "next": "/sign-in/?next=/approvals/"})
    assert answer.headers["Location"] == "/sign-in/?next=/approvals/"
    assert '<html lang="zh-hans">' in client.get("/sign-in/").content.decode()
    client.post("/sign-in/", {"username": "alice", "password": "alice"})
    assert '<html lang="zh-hans">' in client.get("/").content.decode()


def test_looking_at_an_address_switches_no_language(client: Client, db: None) -> None:
    client.get("/language/", {"language": "zh-hans"})
    assert '<html lang="en">' in client.get("/sign-in/").content.decode()


@pytest.mark.parametrize("cookie", ["Nowhere/Land", "../../etc/passwd", "\x00", "a" * 5000])
def test_a_spoiled_cookie_spoils_no_page(cookie: str, alice: User, signed_in: SignIn) -> None:
    client = signed_in(alice)
    client.cookies["zone"] = client.cookies["language"] = cookie
    assert client.get("/you/").status_code == 200


def test_the_screen_asks_a_small_number_of_questions(
    alice: User, signed_in: SignIn, django_assert_num_queries: Callable[[int], object]
) -> None:
    client = signed_in(alice)
    client.get("/you/")
    with django_assert_num_queries(5):  # type: ignore[attr-defined]
        client.get("/you/")
