"""The main job in a real browser, on the whole stack: web server, worker, broker, database, back office."""

import re
from collections.abc import Callable
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, expect

from runs.domain.states import StopReason
from runs.interventions import sending, starting
from runs.models import Effect, Run
from tests.console import rows
from tests.pages import accessible, fits, sign_in, sign_in_by_hand
from tests.people import person
from tests.processes import BackOffice, Standing, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
OpenPage = Callable[..., Page]


def stopped(order_id: str, by: str = "support") -> Run:
    """A refund run that workers carried to its stop."""
    run, _ = starting.start("refund_request", {"order_id": order_id}, person(by))
    wait_until(lambda: Run.objects.get(pk=run.pk).outcome)
    return Run.objects.get(pk=run.pk)


def test_support_takes_the_next_case_asks_again_and_watches_it_complete(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    back_office.fault("B456", "other_order")
    run = stopped("B456")
    assert run.stop_reason == "receipts_contradict"
    person("alice")
    page = new_page()
    sign_in_by_hand(page, "alice")
    expect(page.get_by_text("Refund of order B456")).to_be_visible()
    accessible(page)

    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Refund of order B456")).to_be_visible()
    expect(page.get_by_text("The receipt names order D041").first).to_be_visible()
    expect(page.get_by_text(re.compile("UNKNOWN")).first).to_be_visible()
    accessible(page)
    back_office.clear("B456")
    page.keyboard.press("r")

    expect(page.get_by_text("accepted under number R789")).to_be_visible()
    expect(page.get_by_text("Completed: every assertion is met.")).to_be_visible()
    accessible(page)
    submits = [call for call in back_office.ledger("B456")["calls"] if call["kind"] == "submit"]
    assert len(submits) == 1


def test_a_routine_case_that_waits_takes_three_keys(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    for order in ("B456", "N508"):
        back_office.fault(order, "answer_lost")
        back_office.fault(order, "lookup_down")
        assert stopped(order).outcome == "WAITING"
    person("alice")
    page = new_page()
    sign_in(page, "alice")
    page.goto("/?tab=waiting")
    expect(page.get_by_text("Refund of order N508")).to_be_visible()
    for order in ("B456", "N508"):
        back_office.clear(order)

    page.wait_for_load_state()
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Refund of order B456")).to_be_visible()
    page.wait_for_load_state()  # a key is heard once the scripts are there
    page.keyboard.press("r")
    expect(page.get_by_text("Completed: every assertion is met.")).to_be_visible()
    page.keyboard.press("n")

    expect(page.get_by_role("heading", name="Refund of order N508")).to_be_visible()
    submits = [call for call in back_office.ledger("B456")["calls"] if call["kind"] == "submit"]
    assert len(submits) == 1


def test_a_supervisor_approves_a_write_and_it_is_carried_out(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    run = stopped("D586")
    person("bob")
    page = new_page()
    sign_in(page, "bob")
    page.get_by_role("link", name=re.compile("^Approvals")).click()
    expect(page.get_by_text("389.00 EUR").first).to_be_visible()
    accessible(page)

    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_text("cancel the request at the refund service").first).to_be_visible()
    accessible(page)
    page.get_by_role("button", name=re.compile("^Approve")).first.click()

    expect(page.get_by_text(re.compile("accepted under number R"))).to_be_visible()
    assert Run.objects.get(pk=run.pk).effects.get().approved_by == person("bob")


def test_a_rejection_needs_a_reason_and_nothing_is_sent(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    run = stopped("D586")
    person("bob")
    page = new_page()
    sign_in(page, "bob")
    page.goto(f"/runs/{run.pk}/events/approval_rejected/")
    accessible(page)
    page.get_by_label("Reason").fill("<b>Too much</b>")
    page.get_by_role("button", name=re.compile("Reject")).click()

    wait_until(lambda: Run.objects.get(pk=run.pk).stop_reason == "approval_rejected")
    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_text("<b>Too much</b>").first).to_be_visible()
    assert not [c for c in back_office.ledger("D586")["calls"] if c["kind"] == "submit"]


def test_an_administrator_follows_a_bar_to_the_runs_behind_it(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    stopped("B456")
    stopped("A123")
    person("ada")
    page = new_page()
    sign_in(page, "ada")
    page.goto("/outcomes/")
    accessible(page)

    bar = page.locator("svg a").first
    bar.focus()
    page.keyboard.press("Enter")

    expect(page.get_by_text(re.compile("Refund of order (B456|A123)")).first).to_be_visible()
    accessible(page)


def test_a_page_that_has_become_stale_cannot_approve_and_is_told_what_happened(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    run = stopped("D586")
    people = [person("bob"), person("supervisor")]
    pages = [new_page(), new_page()]
    for page, who in zip(pages, people, strict=True):
        sign_in(page, who.username)
        page.goto(f"/runs/{run.pk}/events/approval_rejected/")
    pages[0].get_by_label("Reason").fill("no receipt")
    pages[1].get_by_label("Reason").fill("too late for that")
    pages[0].get_by_role("button", name=re.compile("Reject")).click()
    wait_until(lambda: Run.objects.get(pk=run.pk).stop_reason == "approval_rejected")

    pages[1].get_by_role("button", name=re.compile("Reject")).click()

    expect(pages[1].get_by_text(re.compile("Bob rejected this plan at"))).to_be_visible()
    expect(pages[1].get_by_text("too late for that")).to_be_visible()  # what was typed is kept
    assert Run.objects.get(pk=run.pk).inbox.count() == 1


def test_two_people_claim_and_the_second_is_told_who_has_it(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    back_office.fault("X177", "policy_conflict")
    run = stopped("X177")
    pages = {name: new_page() for name in ("alice", "ann")}
    for name, page in pages.items():
        person(name)
        sign_in(page, name)
        page.goto(f"/runs/{run.pk}/")
        page.route("**/body/**", lambda route: route.fulfill(status=204))  # a page that has not heard yet
    pages["alice"].get_by_role("button", name=re.compile("^Claim")).click()
    expect(pages["alice"].get_by_role("button", name=re.compile("^(Release|Give back)"))).to_be_visible()

    pages["ann"].get_by_role("button", name=re.compile("^Claim")).click()

    expect(pages["ann"].get_by_text(re.compile("alice (holds|has) this case", re.IGNORECASE)).first).to_be_visible()


def test_an_open_page_follows_what_others_do(worker: Standing, back_office: BackOffice, new_page: OpenPage) -> None:
    back_office.fault("B456", "other_order")
    run = stopped("B456")
    person("ann")
    page = new_page()
    sign_in(page, "ann")
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    back_office.clear("B456")

    sending.send(run.pk, "reconcile_requested", person("alice"), {})

    expect(page.get_by_text("accepted under number R789")).to_be_visible()


def test_it_works_on_a_phone_and_without_a_sideways_scroll(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    run = stopped("D586")
    person("bob")
    page = new_page(width=360, height=740)
    sign_in(page, "bob")
    for path in ("/", f"/runs/{run.pk}/", "/approvals/", f"/runs/{run.pk}/events/cancel_requested/"):
        page.goto(path)
        fits(page)
        accessible(page)


def test_the_words_of_a_difference_stay_whole(new_page: OpenPage) -> None:
    run = rows.run("B456", person("support"), StopReason.APPROVAL_REQUIRED)
    effect = rows.write(run)
    effect.plan["difference"] = [["what leaves the house", "nothing", "It rained on 91 days in 2025. " * 20]]
    Effect.objects.filter(pk=effect.pk).update(plan=effect.plan)
    page = new_page(width=360, height=740)
    sign_in(page, "bob")
    for path in (f"/runs/{run.pk}/", "/approvals/"):
        page.goto(path)
        page.wait_for_load_state()
        # Asked in one go: a comparison with what is there now may take the table's place at any moment.
        lines = page.evaluate("document.querySelector('.difference .now bdi').getClientRects().length")
        assert lines == 1, path
        fits(page)


def test_errors_are_pages_of_the_product(worker: Standing, live_site: str, new_page: OpenPage) -> None:
    page = new_page()
    sign_in(page, "charlie")
    accessible(page)
    person("alice")
    page = new_page()
    sign_in(page, "alice")
    page.goto("/runs/00000000-0000-0000-0000-000000000000/")
    accessible(page)
    page.goto("/outcomes/")
    accessible(page)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    with urlopen(f"{live_site}/sign-in/") as answer:  # noqa: S310 - loopback
        policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
