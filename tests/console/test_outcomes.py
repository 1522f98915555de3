"""How runs end, for those who audit: every figure adds up, leads to its runs, and counts no unknown as a success."""

import csv
import re
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page

from runs.domain.states import State, StopReason
from runs.models import Run
from tests import people
from tests.console import rows
from tests.pages import accessible, fits, sign_in

SignIn = Callable[[User], Client]


def stopped(order: str, by: User, reason: StopReason, days_ago: int = 0, **values: Any) -> Run:
    noon = timezone.localtime().replace(hour=0, minute=1) - timedelta(days=days_ago)
    return rows.run(order, by, reason, stopped_at=noon, **values)


@pytest.fixture
def a_week(alice: User) -> None:
    """Four completed, two today; one declined; one waiting with an open write; one with a person; one running."""
    stopped("C1", alice, StopReason.CONTRACT_MET)
    stopped("C2", alice, StopReason.CONTRACT_MET)
    stopped("C3", alice, StopReason.CONTRACT_MET, 3)
    stopped("C4", alice, StopReason.CONTRACT_MET, 3)
    stopped("D1", alice, StopReason.NOT_ELIGIBLE, 3)
    stopped("W1", alice, StopReason.EFFECT_UNKNOWN, effects_at_risk=1)
    stopped("H1", alice, StopReason.FACTS_MISSING, 5, error_class="not_found")
    rows.run("R1", alice)


def figures(answer: Any) -> dict[str, int]:
    return {figure.outcome: figure.count for figure in answer.context["figures"]}


def test_a_run_counts_on_the_day_of_its_last_stop_with_how_it_stands(
    a_week: None, ada: User, signed_in: SignIn
) -> None:
    answer = signed_in(ada).get("/outcomes/")
    assert figures(answer) == {
        "COMPLETED": 4,
        "DECLINED": 1,
        "CANCELLED": 0,
        "WAITING": 1,
        "NEEDS_HUMAN": 1,
        "LIMIT_REACHED": 0,
    }
    assert answer.context["running"] == 1
    (chart,) = answer.context["charts"]
    assert [bar.total for bar in chart.bars[-6:]] == [1, 0, 3, 0, 0, 3]
    assert {segment.outcome: segment.count for segment in chart.bars[-1].segments} == {"COMPLETED": 2, "WAITING": 1}


def test_unknown_writes_are_told_apart_and_never_counted_as_success(a_week: None, ada: User, signed_in: SignIn) -> None:
    page = signed_in(ada).get("/outcomes/").content.decode()
    assert "1 of them has a write whose outcome is open." in page


def test_bar_and_table_cell_and_reason_lead_to_the_runs_behind_them(a_week: None, ada: User, signed_in: SignIn) -> None:
    client = signed_in(ada)
    answer = client.get("/outcomes/")
    (chart,) = answer.context["charts"]
    for bar in chart.bars:
        for segment in bar.segments:
            behind = client.get(segment.url)
            assert {row.outcome for row in behind.context["rows"]} == {segment.outcome}
            assert behind.context["total"] == segment.count
        assert [cell.url for cell in bar.cells if cell.count] == [segment.url for segment in bar.segments]
    for reason in answer.context["reasons"]:
        assert client.get(reason.url).context["total"] == reason.count
    for figure in answer.context["figures"]:
        assert client.get(figure.url).context["total"] == figure.count


def test_ninety_days_are_shown_by_week_and_still_add_up(a_week: None, ada: User, signed_in: SignIn) -> None:
    client = signed_in(ada)
    (chart,) = client.get("/outcomes/?days=90").context["charts"]
    assert len(chart.bars) <= 14
    assert chart.total == 7
    segments = [segment for bar in chart.bars for segment in bar.segments]
    assert all(client.get(segment.url).context["total"] == segment.count for segment in segments)


def test_the_period_and_the_workflow_narrow_everything(a_week: None, alice: User, ada: User, signed_in: SignIn) -> None:
    rows.run("X1", alice, StopReason.CONTRACT_MET, workflow="workshop_booking")
    client = signed_in(ada)
    assert len(client.get("/outcomes/").context["charts"]) == 2
    narrowed = client.get("/outcomes/?days=7&workflow=workshop_booking")
    assert figures(narrowed)["COMPLETED"] == 1
    assert [chart.name for chart in narrowed.context["charts"]] == ["workshop_booking"]


def test_how_long_open_runs_wait_is_told_as_percentiles(alice: User, ada: User, signed_in: SignIn) -> None:
    now = timezone.now()
    for hours in range(1, 12):
        rows.run(f"H{hours}", alice, StopReason.FACTS_MISSING, stopped_at=now - timedelta(hours=hours))
    (wait,) = signed_in(ada).get("/outcomes/").context["waits"]
    assert (wait.count, wait.half, wait.most, wait.longest) == (11, "6 h 00", "10 h 00", "11 h 00")


def test_the_file_holds_the_same_and_a_spreadsheet_runs_nothing_of_it(
    a_week: None, alice: User, ada: User, signed_in: SignIn
) -> None:
    stopped("E1", alice, StopReason.CONTRACT_MET, workflow="=HYPERLINK(1)", policy="@evil", error_class="-1+1")
    answer = signed_in(ada).get("/outcomes.csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert "attachment" in answer["Content-Disposition"]
    lines = list(csv.DictReader(StringIO(answer.content.decode())))
    assert sum(int(line["runs"]) for line in lines) == 8
    assert sum(int(line["runs_with_open_effect"]) for line in lines) == 1
    (strange,) = [line for line in lines if "HYPERLINK" in line["workflow"]]
    assert (strange["workflow"], strange["policy"], strange["error_class"]) == ("'=HYPERLINK(1)", "'@evil", "'-1+1")


def test_many_runs_come_page_by_page_and_each_once(alice: User, ada: User, signed_in: SignIn) -> None:
    for number in range(120):
        stopped(f"C{number}", alice, StopReason.CONTRACT_MET)
    client, address, seen = signed_in(ada), "/outcomes/runs/", []
    while address:
        answer = client.get(address)
        seen += [row.id for row in answer.context["rows"]]
        address = answer.context["later"]
    assert len(seen) == len(set(seen)) == 120


@pytest.mark.parametrize("address", ["/outcomes/", "/outcomes/runs/", "/outcomes.csv"])
def test_only_auditors_see_how_runs_end(address: str, alice: User, bob: User, signed_in: SignIn) -> None:
    assert signed_in(alice).get(address).status_code == 403
    assert signed_in(bob).get(address).status_code == 403
    assert Client().get(address).status_code == 302


@pytest.mark.parametrize(
    "query",
    ["days=1", "days=x", "span=3", "outcome=GREAT", "reason=none", "day=2026-02-30", "day=0001-01-01", "workflow=%00"],
)
@pytest.mark.parametrize("address", ["/outcomes/", "/outcomes/runs/", "/outcomes.csv"])
def test_an_address_that_makes_no_sense_is_refused(address: str, query: str, ada: User, signed_in: SignIn) -> None:
    assert signed_in(ada).get(f"{address}?{query}").status_code == 400


@pytest.mark.parametrize("page", ["0", "-1", "x", "999999999", "²"])
def test_a_page_that_does_not_exist_is_refused(page: str, ada: User, signed_in: SignIn) -> None:
    assert signed_in(ada).get("/outcomes/runs/", {"page": page}).status_code == 400


def test_an_empty_period_says_so(ada: User, signed_in: SignIn) -> None:
    page = signed_in(ada).get("/outcomes/").content.decode()
    assert "No run stopped in this period." in page


def test_what_a_workflow_is_called_stays_text(alice: User, ada: User, signed_in: SignIn) -> None:
    stopped("E1", alice, StopReason.CONTRACT_MET, workflow="<script>alert(1)</script>")
    page = signed_in(ada).get("/outcomes/").content.decode()
    assert "<script>alert" not in page.lower()
    assert not re.search(r"\sstyle=", page)


def test_a_finished_run_stands_beside_an_open_one_of_the_same_day(alice: User, ada: User, signed_in: SignIn) -> None:
    run = stopped("P1", alice, StopReason.APPROVAL_REQUIRED)
    assert run.state == State.AWAITING_APPROVAL
    stopped("C1", alice, StopReason.CONTRACT_MET)
    (chart,) = signed_in(ada).get("/outcomes/").context["charts"]
    assert chart.bars[-1].total == 2


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
def test_a_bar_is_reached_by_keyboard_and_opens_its_runs(new_page: Callable[..., Page], width: int) -> None:
    alice = people.person("alice")
    for order in ("C1", "C2"):
        stopped(order, alice, StopReason.CONTRACT_MET)
    stopped("W1", alice, StopReason.EFFECT_UNKNOWN, effects_at_risk=1)
    page = new_page(width=width)
    sign_in(page, "ada")
    page.get_by_role("link", name="Outcomes").click()
    page.get_by_role("heading", name="Outcomes").wait_for()
    fits(page)
    accessible(page)
    bar = page.get_by_role("link", name=re.compile("Completed: 2 runs"))
    for _ in range(40):
        page.keyboard.press("Tab")
        if bar.evaluate("(bar) => bar === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile("2 runs")).wait_for()
    assert page.get_by_role("link", name=re.compile("order C")).count() == 2
    fits(page)
    accessible(page)


@pytest.mark.browser
def test_on_a_telephone_each_row_of_a_table_is_a_list_with_labels_and_nothing_scrolls_sideways(
    new_page: Callable[..., Page],
) -> None:
    alice = people.person("alice")
    for order in ("C1", "C2"):
        stopped(order, alice, StopReason.CONTRACT_MET)
    stopped("W1", alice, StopReason.EFFECT_UNKNOWN, effects_at_risk=1)
    page = new_page(width=360)
    sign_in(page, "ada")
    page.goto("/outcomes/")
    page.get_by_text("The same as a table").click()

    tables = page.get_by_role("table")
    for table in (tables.nth(place) for place in range(tables.count())):
        assert table.evaluate("(it) => it.scrollWidth <= it.parentElement.clientWidth")
    reasons = page.get_by_role("table", name="Why they stopped")
    known = reasons.get_by_role("row").filter(has_text="write unknown")
    assert known.get_by_role("rowheader").inner_text() == "write unknown"
    share = known.get_by_role("cell").nth(3)
    assert share.evaluate("(it) => getComputedStyle(it, '::before').content") == '"Share" / ""'
    # Nobody needs to read that nothing happened; the column is still there for who moves through the table.
    assert known.get_by_role("cell").nth(1).evaluate("(it) => it.getBoundingClientRect().width") == 1
    assert known.get_by_role("cell").count() == 5
    accessible(page)
    fits(page)
