"""Saved views: a part of the queue under a name, one's own or shared."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runs.domain.states import StopReason
from takeover.console.models import SavedView
from takeover.console.queue import saved
from tests.console import rows
from tests.console.test_queue import titles

SignIn = Callable[[User], Client]
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def listed(page: str) -> dict[str, str]:
    menu = page.partition('id="menu-views"')[2].partition('id="menu-order"')[0]
    return {name: address for address, name in re.findall(r'<a href="([^"]*)"[^>]*><bdi>([^<]*)<', menu)}


def test_what_is_shown_is_saved_under_a_name_and_opened_by_a_link(alice: User, signed_in: SignIn) -> None:
    rows.run("LOST", alice, StopReason.FACTS_MISSING)
    rows.run("OTHER", alice, StopReason.NO_PROGRESS)
    client = signed_in(alice)
    form = {"name": "Lost facts", "query": "tab=open&reason=facts_missing&sort=age&after=xyz&nonsense=1"}
    answer = client.post("/queue/views/", form, follow=True)
    assert answer.redirect_chain == [("/?tab=open&reason=facts_missing&sort=age", 302)]
    page = answer.content.decode()
    assert "The view is saved." in page
    address = listed(page)["Lost facts"].replace("&amp;", "&")
    assert titles(client.get(address).content.decode()) == ["Refund of order LOST"]


def test_a_view_is_seen_by_others_only_when_it_is_shared_and_then_says_whose_it_is(
    alice: User, bob: User, signed_in: SignIn
) -> None:
    client = signed_in(alice)
    client.post("/queue/views/", {"name": "Mine alone", "query": "who=me"})
    client.post("/queue/views/", {"name": "For all", "query": "who=nobody", "shared": "yes"})
    page = signed_in(bob).get("/").content.decode()
    assert listed(page) == {"For all": "/?who=nobody"}
    assert "shared by Alice Lin" in page
    assert "rename/" not in page
    assert list(listed(client.get("/").content.decode())) == ["For all", "Mine alone"]


def test_an_auditor_saves_views_and_cannot_share_them(ada: User, signed_in: SignIn) -> None:
    client = signed_in(ada)
    assert 'name="shared"' not in client.get("/").content.decode()
    answer = client.post("/queue/views/", {"name": "All", "query": "tab=open", "shared": "yes"})
    assert answer.status_code == 422
    assert "people who work on the queue" in answer.content.decode()
    assert client.post("/queue/views/", {"name": "All", "query": "tab=open"}).status_code == 302


def test_who_may_not_look_saves_nothing(charlie: User, signed_in: SignIn) -> None:
    assert signed_in(charlie).post("/queue/views/", {"name": "All"}).status_code == 403
    assert not SavedView.objects.exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [("  ", "Name: give the view a name"), ("x" * 61, "Name: use at most 60"), ("Taken", "called “Taken” already")],
)
def test_a_name_that_does_not_fit_is_said_beside_it_and_kept(
    name: str, says: str, alice: User, signed_in: SignIn
) -> None:
    SavedView.objects.create(owner=alice, name="Taken")
    form = {"name": name, "query": "reason=facts_missing", "shared": "yes"}
    answer = signed_in(alice).post("/queue/views/", form)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert says in page
    assert f'value="{name.strip()}"' in page
    assert 'name="shared" value="yes" checked' in page
    assert "facts missing" in page


def test_one_person_has_so_many_views_and_no_more(
    alice: User, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("takeover.console.queue.views.MOST", 1)
    client = signed_in(alice)
    assert client.post("/queue/views/", {"name": "One"}).status_code == 302
    answer = client.post("/queue/views/", {"name": "Two"})
    assert answer.status_code == 422
    assert "Delete one first." in answer.content.decode()


def test_ones_own_views_are_renamed_and_deleted(alice: User, signed_in: SignIn) -> None:
    view = SavedView.objects.create(owner=alice, name="Old", query="who=me")
    SavedView.objects.create(owner=alice, name="Other", query="who=nobody")
    client = signed_in(alice)
    clash = client.post(f"/queue/views/{view.pk}/rename/", {"name": "Other", "query": "tab=open"})
    assert clash.status_code == 422
    assert "called “Other” already" in clash.content.decode()
    client.post(f"/queue/views/{view.pk}/rename/", {"name": "New"})
    assert "New" in listed(client.get("/").content.decode())
    answer = client.post(f"/queue/views/{view.pk}/delete/", {"query": "tab=open"}, follow=True)
    assert answer.redirect_chain == [("/?tab=open", 302)]
    assert list(listed(answer.content.decode())) == ["Other"]


def test_nobody_changes_somebody_elses_view_shared_or_not(alice: User, bob: User, signed_in: SignIn) -> None:
    view = SavedView.objects.create(owner=alice, name="For all", shared=True)
    client = signed_in(bob)
    for action in ("rename", "delete"):
        assert client.post(f"/queue/views/{view.pk}/{action}/", {"name": "His"}).status_code == 404
    view.refresh_from_db()
    assert view.name == "For all"


@pytest.mark.parametrize(
    "query",
    ["tab=gone&reason=gone&who=0&age=9y", "after=garbage&sort=luck", "who=4711", "%%%=&&tab=", "q=" + "x" * 500],
)
def test_what_a_view_no_longer_names_never_breaks_a_page(query: str, alice: User, signed_in: SignIn) -> None:
    SavedView.objects.create(owner=alice, name="Outdated", query=query)
    client = signed_in(alice)
    page = client.get("/")
    assert page.status_code == 200
    assert client.get(listed(page.content.decode())["Outdated"].replace("&amp;", "&")).status_code == 200


def test_hostile_names_stay_text(alice: User, bob: User, signed_in: SignIn) -> None:
    signed_in(alice).post("/queue/views/", {"name": HOSTILE, "query": f"q={HOSTILE}&who={HOSTILE}", "shared": "yes"})
    for who in (alice, bob):
        page = signed_in(who).get("/").content.decode()
        assert "&lt;img src=x onerror=alert(1)&gt;[U+202E]" in page
        assert "<img src=x" not in page
    assert signed_in(alice).post("/queue/views/", {"name": "a\x00b"}).status_code == 422


def test_the_list_of_views_has_an_end(alice: User, bob: User, signed_in: SignIn) -> None:
    SavedView.objects.bulk_create(SavedView(owner=bob, name=f"N{n}", shared=True) for n in range(2 * saved.MOST + 5))
    assert len(listed(signed_in(alice).get("/").content.decode())) == 2 * saved.MOST
