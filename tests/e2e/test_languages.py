"""Somebody chooses their language, and every screen speaks it, on a telephone too."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from runs.domain.states import StopReason
from tests.console import rows
from tests.pages import accessible, fits, sign_in
from tests.people import person

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NewPage = Callable[..., Page]


def test_somebody_chooses_chinese_on_a_telephone(new_page: NewPage) -> None:
    run = rows.run("B456", person("alice"), StopReason.LIMIT_STEPS)
    page = new_page(360, 740)
    sign_in(page, "alice")
    page.get_by_role("link", name="Alice · support").click()
    page.get_by_label("Language", exact=True).select_option("简体中文")
    page.get_by_label("Time zone").select_option("Asia/Shanghai")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("已保存。")).to_be_visible()
    for address in ("/you/", "/?tab=limit", f"/runs/{run.pk}/", "/approvals/", f"/runs/{run.pk}/events/paused/"):
        page.goto(address)
        expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
        accessible(page)
        fits(page)


def test_the_language_is_switched_at_the_door(new_page: NewPage) -> None:
    page = new_page()
    page.goto("/sign-in/")
    page.get_by_role("button", name="简体中文").click()
    expect(page.get_by_role("heading", name="登录")).to_be_visible()
    accessible(page)
