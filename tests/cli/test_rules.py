"""`manage.py rules`: the page of tables is the code's own, and nothing is missing from it."""

from io import StringIO
from itertools import product

import pytest
from django.core.management import call_command

from runs.domain.decision import RULES
from runs.domain.effects import Answer, EffectState
from runs.domain.interventions import CATALOGUE
from runs.domain.states import TRANSITIONS, Move, State, StopReason
from takeover.management.commands.rules import REFUSED, table
from takeover.supervisor.children import CLONE

CURE = "docs/tables.md is not what the code says. Do: .venv/bin/python manage.py rules > docs/tables.md"


@pytest.fixture(scope="module")
def page() -> str:
    out = StringIO()
    call_command("rules", stdout=out)
    return out.getvalue()


def rows(page: str, title: str) -> list[list[str]]:
    """The first table under a heading, header included, without the marks of code."""
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.partition("\n|")[2].partition("\n\n")[0].splitlines() if "---" not in line]
    return [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_page_of_tables_is_the_codes_own(page: str) -> None:
    assert (CLONE / "docs" / "tables.md").read_text() == page, CURE


def test_every_pair_of_state_and_event_is_printed_once(page: str) -> None:
    (_, *states), *moves = rows(page, "States and events")
    printed = [((state, move), cell) for move, *cells in moves for state, cell in zip(states, cells, strict=True)]
    assert sorted(pair for pair, _ in printed) == sorted(product(State, Move))
    assert {pair: to for pair, to in printed if to != REFUSED} == TRANSITIONS


def test_every_stop_reason_stands_under_exactly_one_outcome(page: str) -> None:
    _, *outcomes = rows(page, "Stop reasons")
    printed = [reason.strip("`") for _, reasons in outcomes for reason in reasons.split(", ")]
    assert sorted(printed) == sorted(StopReason)


def test_every_rule_stands_in_its_place_with_something_to_say(page: str) -> None:
    _, *rules = rows(page, "The fifteen rules")
    assert [(int(number), says) for number, says, _ in rules] == [(rule.number, rule.says) for rule in RULES]
    assert all(verdicts for *_, verdicts in rules)


def test_every_state_of_a_write_stands_against_every_answer(page: str) -> None:
    (_, *answers), *states = rows(page, "The life of a write")
    assert (answers, [state for state, *_ in states]) == (list(Answer), list(EffectState))


def test_every_event_stands_in_the_catalogue_once(page: str) -> None:
    _, *events = rows(page, "Events")
    assert [name for name, *_ in events] == list(CATALOGUE)


def test_a_bar_in_a_text_does_not_break_the_table() -> None:
    assert table(["says"], [["this | that"]]).splitlines()[-1] == r"| this \| that |"
