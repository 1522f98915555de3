"""What the queue is searched and sorted by is in indexes, and none of them is touched from step to step."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F, QuerySet

from runs.domain.states import StopReason
from runs.models import Run
from runs.models.run import FINAL_STATES
from takeover.console.desk import OPEN
from takeover.console.queue import search
from takeover.console.queue.paging import ORDERS
from tests.console import rows
from tests.people import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return person("alice")


@pytest.fixture
def by_index_only() -> Iterator[None]:
    """A table of a test is too small for an index to pay: here the planner takes one wherever it can."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        yield
        cursor.execute("RESET enable_seqscan; RESET enable_sort")


@pytest.fixture
def by_what_a_search_uses(by_index_only: None) -> None:
    """What else there is would do as well for a table of a test. Gone until the test's transaction is."""
    used = ["run_open_words", "run_closed_words", "run_reason", "run_error", "runs_run_pkey"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'runs_run' AND indexname <> ALL(%s)", [used])
        for (name,) in cursor.fetchall():
            cursor.execute(f'DROP INDEX "{name}"')


def plan(runs: QuerySet[Run]) -> str:
    return str(runs.explain())


@pytest.mark.parametrize("text", ["退款", "B456", "两个字以上的话", "\nx"])
def test_a_text_is_found_by_the_index(text: str, alice: User, by_what_a_search_uses: None) -> None:
    rows.run("B456", alice, StopReason.NO_PROGRESS, question="客户要求退款？")
    for part, index in ((OPEN, "run_open_words"), (~OPEN, "run_closed_words")):
        found = plan(Run.objects.filter(search._says(text), part).order_by())
        assert index in found
        assert found.count("_words ") == 1


def test_a_text_a_number_and_a_reason_are_found_by_their_indexes_together(
    alice: User, by_what_a_search_uses: None
) -> None:
    found = plan(Run.objects.filter(search.found_by("facts"), OPEN).order_by())
    assert "run_open_words" in found
    assert "run_reason" in found
    assert "runs_run_pkey" in plan(Run.objects.filter(search.found_by("abcd"), OPEN).order_by())


@pytest.mark.parametrize(
    ("order", "index"),
    [("urgency", "run_open_by_urgency"), ("age", "run_open_by_age"), ("newest", "run_open_by_age")],
)
def test_the_open_runs_are_read_in_order_from_an_index(order: str, index: str, by_index_only: None) -> None:
    runs = Run.objects.exclude(state__in=FINAL_STATES).order_by(*ORDERS[order].columns)
    assert index in plan(runs[:30])
    assert "Sort" not in plan(runs[:30])


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ({"steps": F("steps") + 1, "progress": {"x": 1}, "budget": {"steps": [24, 20, 7, 0]}, "error_count": 2}, True),
        ({"input": {"order_id": "B456"}, "question": "How should order B456 go on?", "subject": "order B456"}, True),
        ({"steps": F("steps") + 1, "stake_minor": 59_00, "stake_currency": "EUR"}, True),
        ({"question": "Another one?"}, False),
    ],
)
def test_an_update_from_step_to_step_touches_no_index(change: dict[str, Any], stays: bool, alice: User) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)

    def within_the_page() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_get_xact_tuples_hot_updated('runs_run'::regclass)")
            return int(cursor.fetchone()[0])

    # A page may be full, and the row moves to one with room; from there on it stays.
    counted = [within_the_page()]
    for _ in range(3 if stays else 1):
        Run.objects.filter(pk=run.pk).update(**change)
        counted.append(within_the_page())
    assert (counted[-1] > counted[0]) is stays


@pytest.mark.parametrize("given", [{}, [], "text", {"a": None, "b": {"c": [1]}}, {"x": "字" * 5000}])
def test_any_input_can_be_searched(given: Any, alice: User) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    Run.objects.filter(pk=run.pk).update(input=given)
    assert Run.objects.filter(search.found_by("b456")).exists()
