"""The case page in a real browser: what it reads again, what it opens, and what it keeps while it follows its run."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from runs.interventions import claims
from runs.models import Glance, Run, StepPayload
from tests.console import rows
from tests.e2e.test_journeys import stopped
from tests.pages import accessible, fits, sign_in
from tests.people import person
from tests.processes import BackOffice, Standing

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
OpenPage = Callable[..., Page]


@pytest.fixture
def _nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a worker nobody is asked either."""
    monkeypatch.setattr("runs.engine.tasks.take_a_glance.delay", lambda run_id: None)


def test_a_supervisor_sees_that_the_target_changed_before_deciding(
    worker: Standing, back_office: BackOffice, new_page: OpenPage
) -> None:
    run = stopped("D586")
    person("bob")
    page = new_page()
    sign_in(page, "bob")
    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_text("As proposed", exact=True)).to_be_visible()

    back_office.change_order("D586", amount_minor=39900)
    # Nothing is read twice within a quarter of a minute: here that has passed.
    Glance.objects.update(asked_at="2000-01-01T00:00Z", taken_at="2000-01-01T00:00Z", read_at="2000-01-01T00:00Z")
    page.reload()

    expect(page.get_by_text("Changed since it was proposed.")).to_be_visible()
    expect(page.get_by_role("cell", name=re.compile("399.00 EUR as proposed: 389.00 EUR"))).to_be_visible()
    accessible(page)
    fits(page)
    submits = [call for call in back_office.ledger("D586")["calls"] if call["kind"] == "submit"]
    assert submits == []


@pytest.mark.usefixtures("_nobody_reads")
def test_what_is_typed_into_a_note_stays_while_the_case_follows_its_run(new_page: OpenPage) -> None:
    run = rows.uncertain("B456", person("alice"))
    page = new_page()
    sign_in(page, "alice")
    page.goto(f"/runs/{run.pk}/")
    note = page.get_by_label("Write a note")
    note.fill("They will call back at")
    expect(page.locator("#live[data-state=live]")).to_be_visible()

    claims.claim(run.pk, person("bob"))

    expect(page.get_by_text("Bob took the case.")).to_be_visible()
    expect(note).to_have_value("They will call back at")
    expect(note).to_be_focused()
    page.keyboard.type(" noon.")
    page.get_by_role("button", name="Add the note").click()
    expect(page.get_by_text("The note is on record.")).to_be_visible()
    expect(page.get_by_text("They will call back at noon.").first).to_be_visible()
    expect(note).to_have_value("")
    accessible(page)


@pytest.mark.usefixtures("_nobody_reads")
@pytest.mark.parametrize("width", [1280, 360])
def test_a_step_opens_in_its_place_and_stays_open(width: int, new_page: OpenPage) -> None:
    run = rows.uncertain("B456", person("alice"))
    answer = {"found": False, "note": "a-word-without-an-end" * 30}
    StepPayload.objects.create(step=run.step_rows.get(seq=5), request={"order": "B456"}, response=answer)
    page = new_page(width=width)
    sign_in(page, "alice")
    page.goto(f"/runs/{run.pk}/?show=reads")
    expect(page.locator("#live[data-state=live]")).to_be_visible()

    page.locator("#step-5 summary").click()
    expect(page.get_by_text("The request, as it was really sent")).to_be_visible()
    accessible(page)
    fits(page)

    claims.claim(run.pk, person("bob"))
    expect(page.get_by_text(re.compile("^Bob has this case"))).to_be_visible()
    expect(page.get_by_text("The request, as it was really sent")).to_be_visible()
    expect(page.get_by_role("link", name="Reads")).to_have_attribute("aria-current", "true")
    assert Run.objects.get(pk=run.pk).steps == 6
