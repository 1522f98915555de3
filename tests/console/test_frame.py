"""What holds on every screen: sign-in, headers, error pages, and no script or style in the page itself."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.template.loader import render_to_string
from django.test import Client, override_settings

from takeover import settings as product
from tests.console import rows

SignIn = Callable[[User], Client]
TEMPLATES = sorted(Path(settings.BASE_DIR, "templates").glob("*.html"))


def test_signing_in_leads_to_the_page_that_was_asked_for(client: Client, alice: User) -> None:
    answer = client.post("/sign-in/?next=/approvals/", {"username": "alice", "password": "alice"})
    assert answer.headers["Location"] == "/approvals/"


def test_a_wrong_password_is_said_without_saying_which_was_wrong(client: Client, alice: User) -> None:
    answer = client.post("/sign-in/", {"username": "alice", "password": "wrong"})
    assert "Please enter a correct username and password" in answer.content.decode()
    assert 'value="alice"' in answer.content.decode()


def test_signing_in_leads_nowhere_else(client: Client, alice: User) -> None:
    answer = client.post("/sign-in/", {"username": "alice", "password": "alice", "next": "https://evil.example/"})
    assert answer.headers["Location"] == "/"


def test_signing_out_takes_a_form(alice: User, signed_in: SignIn) -> None:
    client = signed_in(alice)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").headers["Location"] == "/sign-in/"
    assert client.get("/").status_code == 302


def test_the_demo_accounts_are_named_in_the_demo_only(client: Client, db: None) -> None:
    with override_settings(DEMO=False):
        assert "support2" not in client.get("/sign-in/").content.decode()
    with override_settings(DEMO=True):
        assert "support2" in client.get("/sign-in/").content.decode()


@pytest.mark.parametrize("address", ["/", "/approvals/", "/nowhere/", "/?tab=nowhere"])
def test_every_page_forbids_scripts_and_styles_that_are_not_files(address: str, alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).get(address)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    page = answer.content.decode()
    assert not re.search(r"<script(?![^>]* src=)", page)
    assert "<style" not in page


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_trusts_text_or_brings_its_own_script_or_style(template: Path) -> None:
    text = template.read_text()
    for forbidden in ("|safe", "autoescape off", " style=", "<style", "hx-on", "js:", "javascript:", " onclick"):
        assert forbidden not in text, forbidden


def test_all_script_together_stays_small() -> None:
    files = ["js/console.js", "js/live.js", "django_htmx/htmx-2.min.js"]
    assert sum(Path(str(finders.find(file))).stat().st_size for file in files) < 60_000


@pytest.mark.parametrize("address", ["/", "/approvals/", "/outcomes/", "/runs/{}/", "/nowhere/", "/sign-in/"])
def test_a_page_asks_for_one_stylesheet(address: str, ada: User, alice: User, signed_in: SignIn) -> None:
    client = Client() if address == "/sign-in/" else signed_in(ada)
    page = client.get(address.format(rows.uncertain("B456", alice).pk)).content.decode()
    assert page.count('rel="stylesheet"') == 1


def test_a_stylesheet_is_served_with_everything_that_it_imports(tmp_path: Path) -> None:
    with override_settings(STATIC_ROOT=tmp_path, STORAGES=product.STORAGES):
        call_command("collectstatic", interactive=False, verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)  # the same where nothing has changed
    served = [path.read_text() for path in tmp_path.glob("css/*.css")]
    assert len(served) >= 2 * len(list(Path(settings.BASE_DIR, "static/css").glob("*.css")))
    assert not any("@import" in text for text in served)
    (case,) = tmp_path.glob("css/approvals.*.css")
    assert [case.read_text().count(f"@layer {layer} {{") > 0 for layer in ("tokens", "base", "parts")] == [True] * 3
    assert case.read_text().count("@layer tokens {") == 1


def test_nobody_keeps_a_page_that_shows_runs(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    for address in ("/", "/approvals/", f"/runs/{run.pk}/", f"/runs/{run.pk}/package.json"):
        assert "no-store" in signed_in(alice).get(address).headers["Cache-Control"]


def test_an_unknown_address_is_a_page_in_the_frame(alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).get("/nowhere/")
    assert answer.status_code == 404
    assert "The address leads nowhere." in answer.content.decode()
    assert 'id="live"' in answer.content.decode()


def test_the_page_for_our_own_faults_needs_nothing() -> None:
    assert "Something broke on our side" in render_to_string("500.html")


def test_outcomes_are_offered_to_auditors_only(alice: User, ada: User, signed_in: SignIn) -> None:
    assert "Outcomes" not in signed_in(alice).get("/").content.decode()
    assert '<a href="/outcomes/">' in signed_in(ada).get("/").content.decode()
