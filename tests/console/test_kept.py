"""What was typed outlives a session that ended, and a page that grew old."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runs.models import InboxEvent, Run
from takeover.console import kept
from tests.console import rows

SignIn = Callable[[User], Client]
HERE = {"Origin": "http://testserver"}
TYPED = {"statement": "The customer <b>forwarded</b> the receipt.", "reference": "mail 17"}


def address(run: Run, form: bool = False) -> str:
    return f"/runs/{run.pk}/events/evidence_supplied/" + ("form/" if form else "")


def stands_in(page: str) -> bool:
    return "The customer &lt;b&gt;forwarded&lt;/b&gt; the receipt.</textarea>" in page and 'value="mail 17"' in page


def sign_in(client: Client, page: str, password: str = "alice", name: str = "alice") -> Any:  # noqa: S107 - of a test
    carried = re.search(r'name="kept" value="([^"]*)"', page)
    given = {"username": name, "password": password, "kept": carried[1] if carried else ""}
    return client.post("/sign-in/", given)


def test_who_signs_in_again_is_back_at_the_form_with_everything_typed(alice: User, client: Client) -> None:
    run = rows.uncertain("B456", alice)
    answer = client.post(address(run), TYPED, headers=HERE)
    assert answer.status_code == 401
    assert "so nothing was sent" in answer.content.decode()
    assert sign_in(client, answer.content.decode()).headers["Location"] == address(run)
    page = client.get(address(run)).content.decode()
    assert stands_in(page)
    assert "Not sent yet." in page
    assert not InboxEvent.objects.exists()
    assert client.post(address(run), TYPED).status_code == 302
    assert not stands_in(client.get(address(run)).content.decode())


def test_a_wrong_password_loses_nothing_either(alice: User, client: Client) -> None:
    run = rows.uncertain("B456", alice)
    first = client.post(address(run), TYPED, headers=HERE).content.decode()
    second = sign_in(client, first, password="guess").content.decode()
    sign_in(client, second)
    assert stands_in(client.get(address(run)).content.decode())


def test_a_page_that_grew_old_is_shown_again_with_everything_typed(alice: User) -> None:
    run, client = rows.uncertain("B456", alice), Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post(address(run), TYPED, headers=HERE)
    assert answer.headers["Location"] == address(run)
    assert stands_in(client.get(address(run)).content.decode())
    assert not InboxEvent.objects.exists()


def test_a_form_sent_by_script_is_shown_again_too(alice: User) -> None:
    run, client = rows.uncertain("B456", alice), Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post(address(run, form=True), TYPED, headers={**HERE, "HX-Request": "true"})
    assert answer.headers["HX-Redirect"] == address(run)
    assert stands_in(client.get(address(run)).content.decode())


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_page_followed_by_script_keeps_what_it_shows_and_says_how_to_go_on(
    method: str, alice: User, client: Client
) -> None:
    run = rows.uncertain("B456", alice)
    answer = getattr(client, method)(address(run, form=True), headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Retarget"]) == (401, "#session")
    assert "Sign in again in another tab" in answer.content.decode()


@pytest.mark.parametrize("origin", ["", "null", "https://elsewhere.example", "http://testserver.elsewhere.example"])
def test_what_another_site_wrote_is_put_before_nobody(origin: str, alice: User) -> None:
    run = rows.uncertain("B456", alice)
    client = Client(enforce_csrf_checks=True)
    for signed_in in (False, True):
        if signed_in:
            client.force_login(alice)
        answer = client.post(address(run), TYPED, headers={"Origin": origin} if origin else {})
        assert answer.status_code in {302, 403}
        assert "kept" not in answer.content.decode()
    assert not stands_in(client.get(address(run)).content.decode())


def test_what_was_not_signed_by_us_is_ignored(alice: User, client: Client) -> None:
    assert sign_in(client, 'name="kept" value="forged:1:2"').headers["Location"] == "/"


def test_a_password_is_never_kept(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    page = client.post("/sign-in/", {"username": "alice", "password": "alice"}, headers=HERE).content.decode()
    assert 'name="kept"' not in page


def test_a_form_without_a_page_of_its_own_is_shown_to_be_sent_again(alice: User, client: Client) -> None:
    run = rows.uncertain("B456", alice)
    page = client.post(f"/runs/{run.pk}/claim/", {"back": "/", "note": "For <i>me</i>."}, headers=HERE).content.decode()
    assert sign_in(client, page).headers["Location"] == "/kept/"
    page = client.get("/kept/").content.decode()
    assert f'action="/runs/{run.pk}/claim/"' in page
    assert "For &lt;i&gt;me&lt;/i&gt;.</textarea>" in page
    assert Run.objects.get().holder is None


def test_where_nothing_is_kept_nothing_is_shown(alice: User, signed_in: SignIn) -> None:
    assert signed_in(alice).get("/kept/").status_code == 404


def test_what_one_person_typed_is_not_in_another_s_form(alice: User, client: Client) -> None:
    run, other = rows.uncertain("B456", alice), rows.uncertain("C881", alice)
    sign_in(client, client.post(address(run), TYPED, headers=HERE).content.decode())
    assert not stands_in(client.get(address(other)).content.decode())


def test_a_language_chosen_on_a_page_that_grew_old_is_nothing_typed() -> None:
    client = Client(enforce_csrf_checks=True)
    page = client.post("/language/", {"language": "zh-hans", "next": "/sign-in/"}, headers=HERE).content.decode()
    assert 'name="kept"' not in page


@pytest.mark.parametrize("form", ["/runs/{}/events/evidence_supplied/", "/runs/{}/"])
def test_a_form_to_write_in_says_for_whom_it_was_shown(form: str, alice: User, signed_in: SignIn) -> None:
    page = signed_in(alice).get(form.format(rows.uncertain("B456", alice).pk)).content.decode()
    assert f'name="{kept.BY}" value="{alice.pk}"' in page


def test_what_one_person_typed_is_not_put_before_the_next_who_signs_in_there(
    alice: User, bob: User, client: Client
) -> None:
    run = rows.uncertain("B456", alice)
    page = client.post(address(run), {**TYPED, kept.BY: alice.pk}, headers=HERE).content.decode()
    assert sign_in(client, page, "bob", "bob").headers["Location"] == "/"
    assert not stands_in(client.get(address(run)).content.decode())
    client.logout()
    assert sign_in(client, page).headers["Location"] == address(run)
    assert stands_in(client.get(address(run)).content.decode())


def test_what_one_person_typed_is_not_kept_for_another_who_has_signed_in_beside_the_open_page(
    alice: User, bob: User
) -> None:
    run, client = rows.uncertain("B456", alice), Client(enforce_csrf_checks=True)
    client.force_login(bob)
    assert client.post(address(run), {**TYPED, kept.BY: alice.pk}, headers=HERE).status_code == 403
    assert not stands_in(client.get(address(run)).content.decode())


def test_for_whom_a_form_was_shown_is_no_part_of_what_is_sent(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    assert signed_in(alice).post(address(run), {**TYPED, kept.BY: alice.pk}).status_code == 302
    assert InboxEvent.objects.get().payload == TYPED
