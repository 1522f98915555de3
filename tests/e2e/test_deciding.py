"""Decisions in a real browser: on the cards of the approvals, by keys, without script, and across a sign-in."""

import re

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, Route, expect

from runs.models import Run
from tests.console import rows
from tests.e2e.test_journeys import OpenPage, stopped
from tests.e2e.test_queue import NEWS_COMES
from tests.pages import accessible, fits, sign_in
from tests.people import person
from tests.processes import BackOffice, Standing, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def stands(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def test_a_supervisor_decides_on_the_cards_with_the_keyboard_alone(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    first, second = stopped("D586"), stopped("E912")
    person("bob")
    page = new_page()
    sign_in(page, "bob")
    page.goto("/approvals/")
    accessible(page)

    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page.locator(f"#approve-{first.pk}")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(f"#open-{first.pk}")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(f"#open-{second.pk}")).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator(f"#p-{second.pk} textarea")).to_be_focused()
    accessible(page)
    page.keyboard.type("No receipt.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    wait_until(lambda: stands(first).outcome == "COMPLETED" and stands(second).stop_reason == "approval_rejected")
    expect(page.get_by_text("It waits no more.")).to_have_count(2)
    accessible(page)


def test_the_focus_stays_on_the_card_when_the_list_changes_while_the_decision_is_on_its_way(new_page: OpenPage) -> None:
    run = rows.proposed("D586", person("alice"))
    person("bob")
    page = new_page()
    sign_in(page, "bob")
    page.goto("/approvals/")

    def answer_after_the_list(route: Route) -> None:
        answer = route.fetch()
        page.evaluate(NEWS_COMES, "#list")
        route.fulfill(response=answer)

    page.route("**/approval_granted/form/", answer_after_the_list)
    page.keyboard.press("j")
    page.keyboard.press("a")
    with page.expect_response(re.compile("/approvals/list/")):
        page.keyboard.press("Enter")

    expect(page.get_by_text("Recorded. Being carried out.")).to_be_visible()
    expect(page.locator(f"#open-{run.pk}")).to_be_focused()


def test_a_list_that_was_asked_for_before_a_decision_does_not_come_after_it(new_page: OpenPage) -> None:
    run = rows.proposed("D586", person("alice"))
    person("bob")
    page = new_page()
    sign_in(page, "bob")
    page.goto("/approvals/")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.route("**/approvals/list/**", lambda _route: None)  # on its way until it is given up
    with page.expect_request(re.compile("/approvals/list/")) as asked:
        page.evaluate("document.dispatchEvent(new Event('runs-changed'))")
    with page.expect_event("requestfailed", lambda request: request == asked.value):
        page.locator(f"#approve-{run.pk}").click()
    page.unroute("**/approvals/list/**")

    expect(page.get_by_text("Recorded. Being carried out.")).to_be_visible()


def test_what_is_typed_into_a_card_stays_while_others_decide_and_the_loser_is_told(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    run = stopped("D586")
    pages = [new_page(), new_page(width=360)]
    for page, name in zip(pages, ("bob", "supervisor"), strict=True):
        person(name)
        sign_in(page, name)
        page.goto("/approvals/")
    mine, theirs = pages
    mine.get_by_role("link", name=re.compile("^Reject")).click()
    mine.get_by_label("Reason").fill("Not yet.")
    theirs.get_by_role("button", name=re.compile("^Approve")).click()
    expect(mine.get_by_text("It waits no more.")).to_be_visible()

    expect(mine.get_by_label("Reason")).to_have_value("Not yet.")
    mine.locator(f"#p-{run.pk} form button").get_by_text("Reject").click()

    expect(mine.get_by_text(re.compile("Supervisor approved this plan at"))).to_be_visible()
    expect(mine.get_by_label("Reason")).to_have_value("Not yet.")
    fits(theirs)
    accessible(theirs)


def test_several_are_approved_in_one_go_and_each_has_a_result(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    runs = [stopped("G470"), stopped("E912")]
    person("bob")
    page = new_page()
    sign_in(page, "bob")
    page.goto("/approvals/")
    choices = page.get_by_role("checkbox", name="Choose it, to approve it with others")
    for choice in choices.all():
        choice.check()
    chosen = choices.count()
    assert chosen
    with page.expect_response(re.compile("/approvals/list/")):
        page.evaluate("document.dispatchEvent(new Event('runs-changed'))")
    page.get_by_role("button", name="Approve the chosen ones").click()

    expect(page.get_by_text("recorded", exact=True)).to_have_count(chosen)
    accessible(page)
    fits(page)
    wait_until(lambda: sum(stands(run).outcome == "COMPLETED" for run in runs) == chosen)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=re.compile(f"^{name}")).first.click()


def test_without_script_every_decision_is_a_form(worker: Standing, back_office: BackOffice, new_page: OpenPage) -> None:
    back_office.fault("B456", "other_order")
    uncertain, approved, rejected = stopped("B456"), stopped("D586"), stopped("E912")
    person("bob")
    page = new_page(script=False)
    sign_in(page, "bob")

    page.goto(f"/runs/{uncertain.pk}/")
    press(page, "Claim")
    expect(page.get_by_text(re.compile("yours for"))).to_be_visible()
    asked = stands(uncertain).inbox_seq
    press(page, "Ask the service again")
    wait_until(lambda: stands(uncertain).inbox_seq > asked and stands(uncertain).outcome)
    page.goto(f"/runs/{uncertain.pk}/")
    page.get_by_role("link", name="Supply evidence").click()
    page.get_by_label("What you know").fill("The customer forwarded the receipt.")
    page.get_by_label(re.compile("^Reference")).fill("mail 17")
    press(page, "Supply evidence")
    wait_until(lambda: stands(uncertain).inbox.filter(name="evidence_supplied", result="applied").exists())
    wait_until(lambda: stands(uncertain).outcome)
    page.goto(f"/runs/{uncertain.pk}/")
    page.get_by_role("link", name="Extend the budget").click()
    page.get_by_label("Budget", exact=True).select_option("steps")
    page.get_by_label("By how many").fill("3")
    page.get_by_label("Reason").fill("It is nearly there.")
    press(page, "Extend the budget")
    wait_until(lambda: stands(uncertain).inbox.filter(name="budget_extended", result="applied").exists())
    wait_until(lambda: stands(uncertain).outcome)
    page.goto(f"/runs/{uncertain.pk}/")
    press(page, "Release")
    expect(page.get_by_role("button", name=re.compile("^Claim"))).to_be_visible()
    back_office.clear("B456")
    page.get_by_role("link", name="Cancel the request").click()
    page.get_by_label("Reason").fill("The customer keeps it.")
    press(page, "Cancel the request")
    wait_until(lambda: stands(uncertain).inbox.filter(name="cancel_requested", result="applied").exists())

    page.goto("/approvals/")
    page.locator(f"#approve-{approved.pk}").click()
    expect(page).to_have_url(re.compile("/approvals/$"))
    page.locator(f"#reject-{rejected.pk}").click()
    page.get_by_label("Reason").fill("No receipt.")
    press(page, "Reject")
    expect(page).to_have_url(re.compile("/approvals/$"))
    wait_until(lambda: stands(approved).outcome == "COMPLETED")
    wait_until(lambda: stands(rejected).stop_reason == "approval_rejected")


@pytest.mark.parametrize("script", [True, False])
def test_a_session_that_ends_in_the_middle_of_typing_loses_nothing(
    script: bool, worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    run = stopped("D586")
    person("alice")
    page = new_page(script=script)
    sign_in(page, "alice")
    page.goto(f"/runs/{run.pk}/")
    page.get_by_role("link", name=re.compile("Cancel the request")).click()
    page.get_by_label("Reason").fill("Half a <b>sentence</b>, and the rest of it.")
    Session.objects.all().delete()
    page.locator("form").get_by_role("button", name="Cancel the request").click()

    door = page
    if script:
        expect(page.get_by_text("You are signed out.")).to_be_visible()
        expect(page.get_by_label("Reason")).to_have_value("Half a <b>sentence</b>, and the rest of it.")
        accessible(page)
        with page.context.expect_page() as opened:
            page.locator("#session").get_by_role("link", name="Sign in").click()
        door = opened.value
    else:
        expect(page.get_by_text("so nothing was sent")).to_be_visible()
    door.get_by_label("Name").fill("alice")
    door.get_by_label("Password").fill("alice")
    door.get_by_role("button", name="Sign in").click()
    if script:
        expect(door).not_to_have_url(re.compile("sign-in"))
        page.locator("#form").get_by_role("button", name="Cancel the request").click()

    expect(page.get_by_text("Not sent yet.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("Half a <b>sentence</b>, and the rest of it.")
    assert not stands(run).cancel_requested
    page.get_by_role("button", name="Cancel the request").click()
    wait_until(lambda: stands(run).outcome == "CANCELLED")
