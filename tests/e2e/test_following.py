"""From an accepted refund to its money, in a real browser: one run ends, another follows it."""

import re

import pytest
from playwright.sync_api import expect

from runs.interventions import starting
from runs.models import Run
from tests.e2e.test_journeys import OpenPage
from tests.pages import accessible, fits, sign_in
from tests.people import person
from tests.processes import BackOffice, Standing, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_support_follows_the_money_of_a_part_until_the_bank_has_paid(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    run, _ = starting.start("refund_request", {"order_id": "B456", "amount_minor": 20_00}, person("support"))
    wait_until(lambda: Run.objects.get(pk=run.pk).outcome == "COMPLETED")
    page = new_page()
    sign_in(page, "support")
    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_role("heading", name="Partial refund of order B456")).to_be_visible()
    accessible(page)
    fits(page)

    page.get_by_role("button", name="Follow the payment").click()

    expect(page.get_by_role("heading", name="Payment of refund R789 for order B456")).to_be_visible()
    expect(page.get_by_text("Request R789 is not paid yet").first).to_be_visible()
    expect(page.get_by_role("link", name="Partial refund of order B456")).to_be_visible()
    accessible(page)
    fits(page)
    back_office.pay("R789")
    page.get_by_role("link", name="Go on").click()
    page.get_by_label(re.compile("Reason")).fill("The bank says that it went out.")
    page.locator("#form").get_by_role("button", name="Go on").click()

    expect(page.get_by_text("20.00 EUR paid, 20.00 EUR accepted")).to_be_visible()
    expect(page.get_by_text("Your refund R789 was paid out.")).to_be_visible()
    page.get_by_role("link", name="Partial refund of order B456").click()
    expect(page.get_by_text("Followed by")).to_be_visible()
    accessible(page)
