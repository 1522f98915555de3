"""The queue in a real browser: what is selected stays selected while the list lives under it."""

import re

import pytest
from playwright.sync_api import Route, expect

from runs.domain.states import StopReason
from runs.interventions import claims
from runs.models import Run
from tests.console import rows
from tests.e2e.test_journeys import OpenPage
from tests.pages import accessible, fits, sign_in
from tests.people import person

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# A nudge; over as soon as what it made the page ask for, if anything, is shown.
NEWS_COMES = """async (asks) => {
    document.dispatchEvent(new Event("runs-changed"));
    while (document.querySelector(asks).matches(".htmx-request")) await new Promise(requestAnimationFrame);
}"""


def test_what_is_done_to_many_is_out_of_sight_until_one_is_picked(new_page: OpenPage) -> None:
    run = rows.uncertain("B456", person("alice"))
    page = new_page(width=1440)
    sign_in(page, "alice")
    together = page.locator("#bulk").get_by_role("button", name="Claim", exact=True)
    expect(page.locator(f"#claim-{run.pk}")).to_be_attached()
    expect(together).to_be_hidden()
    page.locator(f"#pick-{run.pk}").check()
    expect(together).to_be_visible()


def test_a_selected_row_stays_selected_when_it_changes_and_each_case_is_answered_for(new_page: OpenPage) -> None:
    alice, bob = person("alice"), person("bob")
    first, second = (rows.uncertain(order, alice) for order in ("B456", "C881"))
    page = new_page(width=1440)
    sign_in(page, "alice")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    for run in (first, second):
        page.locator(f"#pick-{run.pk}").check()
    claims.claim(first.pk, bob)

    expect(page.locator(f"#run-{first.pk}")).to_contain_text("Bob")
    expect(page.locator(f"#pick-{first.pk}")).to_be_checked()
    accessible(page)
    fits(page)
    page.locator("#bulk").get_by_role("button", name="Claim", exact=True).click()

    expect(page.locator("#results")).to_contain_text("1 of 2 done")
    expect(page.locator("#results")).to_contain_text("Bob holds this case until")
    expect(page.locator(f"#run-{second.pk}")).to_contain_text("you,")
    expect(page.locator(f"#pick-{second.pk}")).to_be_checked()
    accessible(page)
    assert Run.objects.get(pk=second.pk).holder == alice


@pytest.mark.parametrize("width", [1024, 360])
def test_cases_are_filtered_and_the_view_is_saved_with_keyboard_or_thumb(width: int, new_page: OpenPage) -> None:
    alice = person("alice")
    rows.run("LOST", alice, StopReason.FACTS_MISSING)
    rows.uncertain("B456", alice)
    page = new_page(width=width)
    sign_in(page, "alice")
    page.locator("#menu-filter > summary").press("Enter")
    page.get_by_label("Stopped because").select_option("facts_missing")
    accessible(page)
    fits(page)
    page.get_by_label("Stopped because").press("Tab")
    page.get_by_role("button", name="Show these").press("Enter")

    expect(page.locator(".row")).to_have_count(1)
    expect(page.get_by_role("link", name=re.compile("Remove the filter Stopped because"))).to_be_visible()
    page.locator("#menu-views > summary").press("Enter")
    page.get_by_label("Save what is shown as").fill("Lost facts")
    accessible(page)
    fits(page)
    page.get_by_label("Save what is shown as").press("Enter")

    expect(page.get_by_text("The view is saved.")).to_be_visible()
    page.goto("/")
    page.locator("#menu-views > summary").click()
    page.get_by_role("link", name="Lost facts").click()
    expect(page.locator(".row")).to_have_count(1)


def test_a_number_and_enter_open_the_case(new_page: OpenPage) -> None:
    run = rows.uncertain("B456", person("alice"))
    page = new_page()
    sign_in(page, "alice")
    page.keyboard.press("/")
    page.keyboard.insert_text(str(run.pk))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/runs/{run.pk}/$"))


def test_the_focus_stays_on_the_row_when_it_changes_while_the_claim_is_on_its_way(new_page: OpenPage) -> None:
    run = rows.uncertain("B456", person("alice"))
    page = new_page()
    sign_in(page, "alice")

    def answer_after_the_news(route: Route) -> None:
        answer = route.fetch()
        page.evaluate(NEWS_COMES, "#list .pill")
        route.fulfill(response=answer)

    page.route("**/claim/row/", answer_after_the_news)
    with page.expect_response(re.compile("/queue/news/")):
        page.locator(f"#claim-{run.pk}").press("Enter")

    expect(page.locator(f"#run-{run.pk}")).to_contain_text("you,")
    expect(page.locator(f"#open-{run.pk}")).to_be_focused()
