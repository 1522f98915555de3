"""Every screen, as a rule of accessibility sees it: in both themes, on a desk and on a telephone."""

from collections.abc import Callable

import pytest
from django.db.models.functions import Now
from playwright.sync_api import Page, expect

from runs.domain.states import State, StepStatus, StopReason
from runs.interventions import claims
from runs.models import Run
from tests.console import rows
from tests.pages import accessible, fits, sign_in
from tests.people import person

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NewPage = Callable[..., Page]


@pytest.fixture
def _nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.engine.tasks.take_a_glance.delay", lambda run_id: None)


def runs_of_each_kind() -> dict[str, Run]:
    alice = person("alice")
    return {
        "human": rows.run("B456", alice, StopReason.FACTS_MISSING),
        "unknown": rows.uncertain("C881", alice),
        "approval": rows.proposed("D586", alice),
        "limit": rows.run("E912", alice, StopReason.LIMIT_STEPS),
        "running": rows.run("F562", alice),
        "done": rows.run("G118", alice, StopReason.CONTRACT_MET),
        "declined": rows.run("H230", alice, StopReason.NOT_ELIGIBLE),
        "unresolved": rows.uncertain("J075", alice, state=State.FAILED, answer_by=None, question=""),
    }


@pytest.mark.usefixtures("_nobody_reads")
@pytest.mark.parametrize(("theme", "width"), [("light", 360), ("dark", 1280)])
def test_every_screen_keeps_the_rules_of_accessibility(theme: str, width: int, new_page: NewPage) -> None:
    runs = runs_of_each_kind()
    addresses = {
        "bob": [
            *("/", "/?tab=open", "/?tab=closed", "/?q=nothing-like-it", "/?tab=nonsense", "/approvals/", "/you/"),
            *(f"/runs/{run.pk}/" for run in runs.values()),
            f"/runs/{runs['unknown'].pk}/steps/5/",
            f"/runs/{runs['unknown'].pk}/events/effect_confirmed/",
            f"/runs/{runs['approval'].pk}/events/approval_rejected/",
            f"/runs/{runs['limit'].pk}/events/budget_extended/",
        ],
        "ada": ["/outcomes/", "/outcomes/runs/"],
    }
    for who, places in addresses.items():
        page = new_page(width)
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]  # one of the two
        person(who)
        sign_in(page, who)
        for address in places:
            page.goto(address)
            accessible(page)
            fits(page)
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    accessible(page)


FOCUS_AFTER = """async ([root, at, name]) => {
  const all = [...document.querySelectorAll(`${root} :is(a, button, summary, textarea, select, [tabindex='0'])`)];
  const one = all.filter((it) => it.checkVisibility())[at];
  if (!one) return null;
  one.focus();
  const settled = new Promise((done) => document.addEventListener("htmx:afterSettle", done, { once: true }));
  name === "refresh" ? htmx.trigger(root, name) : document.dispatchEvent(new Event(name));
  await settled;
  return document.activeElement === document.body ? one.outerHTML : "";
}"""


@pytest.mark.usefixtures("_nobody_reads")
@pytest.mark.parametrize("kind", ["unknown", "approval", "done", "approvals"])
def test_the_focus_stays_where_it_is_while_the_page_follows_its_runs(kind: str, new_page: NewPage) -> None:
    runs = runs_of_each_kind()
    page = new_page()
    person("bob")
    sign_in(page, "bob")
    page.goto("/approvals/" if kind == "approvals" else f"/runs/{runs[kind].pk}/")
    expect(page.locator("#live[data-state=live]")).to_be_visible()
    asked = ["#list", 0, "runs-changed"] if kind == "approvals" else ["#case", 0, "refresh"]
    lost = []
    while (found := page.evaluate(FOCUS_AFTER, asked)) is not None:
        lost.append(found)
        asked[1] = len(lost)
    assert len(lost) > 3
    assert "".join(lost) == ""


@pytest.mark.usefixtures("_nobody_reads")
def test_who_lets_a_changed_case_be_shown_goes_on_at_its_heading(new_page: NewPage) -> None:
    run = runs_of_each_kind()["human"]
    page = new_page()
    sign_in(page, "alice")
    page.goto(f"/runs/{run.pk}/")
    page.locator("#act-evidence_supplied").click()
    expect(page.locator("#form textarea").first).to_be_focused()
    expect(page.locator("#live[data-state=live]")).to_be_visible()
    claims.claim(run.pk, person("bob"))
    shows = page.get_by_role("button", name="This case has changed. Show it")
    shows.press("Enter")

    expect(page.get_by_text("Bob has this case").first).to_be_visible()
    expect(shows).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_be_focused()


@pytest.mark.usefixtures("_nobody_reads")
def test_on_a_telephone_long_texts_of_a_proposed_write_stand_one_below_the_other(new_page: NewPage) -> None:
    run = rows.proposed("D586", person("alice"))
    plan = run.effects.get().plan
    before, after = "What the draft says now, " * 12, "What it would say then, " * 12
    run.effects.update(plan={**plan, "difference": [["findings", before, after], ["paid to", "–", "the customer"]]})
    page = new_page(360)
    person("bob")
    sign_in(page, "bob")
    page.goto(f"/runs/{run.pk}/")

    table = page.get_by_role("table", name="What would change").first
    now, then = (table.get_by_role("row").nth(1).get_by_role("cell").nth(place).bounding_box() for place in (0, 1))
    assert now
    assert then
    assert (now["x"], now["width"]) == (then["x"], then["width"])
    assert then["y"] > now["y"]
    now, then = (table.get_by_role("row").nth(2).get_by_role("cell").nth(place).bounding_box() for place in (0, 1))
    assert now
    assert then
    assert now["y"] == then["y"]
    field = table.get_by_role("rowheader").first.bounding_box()
    assert field
    assert field["width"] > 200
    accessible(page)
    fits(page)


@pytest.mark.usefixtures("_nobody_reads")
def test_the_assign_menu_stays_on_the_screen(new_page: NewPage) -> None:
    run = runs_of_each_kind()["human"]
    person("bob")
    for width in (360, 720, 1024):
        page = new_page(width)
        sign_in(page, "bob")
        page.goto(f"/runs/{run.pk}/")
        page.locator("#assign-of").click()
        box = page.locator("#assign .panel").bounding_box()
        assert box
        assert 0 <= box["x"] <= width - box["width"]
        fits(page)


@pytest.mark.usefixtures("_nobody_reads")
def test_a_form_that_is_closed_gives_the_focus_back_and_escape_does_not_leave_the_case(new_page: NewPage) -> None:
    run = runs_of_each_kind()["human"]
    page = new_page()
    sign_in(page, "alice")
    page.goto(f"/runs/{run.pk}/")
    opener = page.locator("#act-evidence_supplied")
    opener.press("Enter")
    expect(page.locator("#form textarea").first).to_be_focused()
    page.keyboard.press("Escape")  # out of the field
    page.keyboard.press("Escape")  # out of the form

    expect(page.locator("#form")).to_be_empty()
    expect(opener).to_be_focused()
    assert page.url.endswith(f"/runs/{run.pk}/")


def test_after_a_claim_the_focus_is_on_the_case_that_was_claimed(new_page: NewPage) -> None:
    run = rows.run("B456", person("alice"), StopReason.FACTS_MISSING)
    page = new_page()
    sign_in(page, "alice")
    page.locator(f"#claim-{run.pk}").press("Enter")

    expect(page.locator(f"#run-{run.pk}")).to_contain_text("you,")
    expect(page.locator(f"#open-{run.pk}")).to_be_focused()


@pytest.mark.usefixtures("_nobody_reads")
def test_a_step_that_was_under_way_is_told_as_settled_once_it_is(new_page: NewPage) -> None:
    run = rows.uncertain("B456", person("alice"))
    step = rows.step(run, 7, "look_up", "look_up_refund", "", settled_at=None, status=StepStatus.INTENT, code="")
    page = new_page()
    sign_in(page, "alice")
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator(".timeline")).to_contain_text("under way")
    run.step_rows.filter(pk=step.pk).update(
        settled_at=Now(), status=StepStatus.DONE, code="not_found", summary="Nothing there"
    )

    page.evaluate("htmx.trigger('#case', 'refresh')")

    expect(page.locator(".timeline")).not_to_contain_text("under way")
    expect(page.locator(".timeline")).to_contain_text("Nothing there")
