"""What every browser test does with a page."""

import json
import re

from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.test import Client
from playwright.sync_api import Page, expect

from tests.people import person


def sign_in(page: Page, name: str) -> None:
    """Sign in behind the page's back: the form takes longer, and has a test of its own."""
    client = Client()
    client.force_login(person(name))
    session = client.cookies[settings.SESSION_COOKIE_NAME]
    page.context.add_cookies([{"name": session.key, "value": session.value, "domain": "localhost", "path": "/"}])
    page.goto("/")


def sign_in_by_hand(page: Page, name: str) -> None:
    person(name)
    page.goto("/sign-in/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(name)
    page.get_by_role("button", name="Sign in").click()
    expect(page).not_to_have_url(re.compile("/sign-in/"))


def accessible(page: Page) -> None:
    """Nothing on the page as it stands is against a rule that axe can check."""
    # Not preloaded: axe would put what a stylesheet imports into the page as an inline style, which the policy forbids.
    found = Axe().run(page, options={"preload": False}).response["violations"]
    assert not found, json.dumps([(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found], indent=1)


def fits(page: Page) -> None:
    """Nothing makes the page scroll sideways."""
    page.wait_for_load_state()  # before its style is there, it is another page
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} is {wide} px too wide"
