"""Whether a run gets anywhere: what counts as the same attempt, and as the same error."""

from dataclasses import asdict

import pytest

from runs.domain.errors import ErrorClass
from runs.domain.progress import Progress, attempt_fingerprint

ATTEMPT = ("order service", "read_order", {"order_id": "B456", "at": 1}, {"found": False})


def test_the_same_call_with_the_same_result_is_the_same_attempt() -> None:
    reordered = ("order service", "read_order", {"at": 1, "order_id": "B456"}, {"found": False})
    assert attempt_fingerprint(*ATTEMPT) == attempt_fingerprint(*reordered)


@pytest.mark.parametrize(
    ("place", "other"),
    [(0, "archive"), (1, "look_up"), (2, {"order_id": "A123", "at": 1}), (3, {"found": True}), (3, {})],
)
def test_another_source_operation_question_or_result_is_another_attempt(place: int, other: object) -> None:
    changed = [*ATTEMPT[:place], other, *ATTEMPT[place + 1 :]]
    assert attempt_fingerprint(*changed) != attempt_fingerprint(*ATTEMPT)  # type: ignore[arg-type]


def test_only_what_comes_back_in_a_row_is_a_repetition() -> None:
    progress = Progress().observed("a")
    assert progress.repeats == 0
    assert progress.observed("a").repeats == 1
    assert progress.observed("a").observed("a").repeats == 2
    assert progress.observed("a").observed("b").repeats == 0
    assert progress.observed("b").observed("a").repeats == 0


def test_errors_in_a_row_are_of_one_class_and_one_operation() -> None:
    twice = Progress().failed("read_order", ErrorClass.TRANSIENT).failed("read_order", ErrorClass.TRANSIENT)
    assert twice.errors_in_a_row == 2
    assert twice.failed("read_order", ErrorClass.UNKNOWN).errors_in_a_row == 1
    assert twice.failed("read_policies", ErrorClass.TRANSIENT).errors_in_a_row == 1


def test_attempts_of_one_operation_are_counted_whatever_their_errors() -> None:
    progress = Progress().failed("read_order", ErrorClass.TRANSIENT).failed("read_order", ErrorClass.UNKNOWN)
    assert progress.failed("read_policies", ErrorClass.UNKNOWN).failures == {"read_order": 2, "read_policies": 1}


def test_a_success_ends_the_error_and_clears_its_own_operation_only() -> None:
    failed = Progress().failed("read_order", ErrorClass.TRANSIENT).failed("read_policies", ErrorClass.TRANSIENT)
    progress = failed.succeeded("read_policies")
    assert (progress.error_class, progress.error_operation, progress.errors_in_a_row) == (None, "", 0)
    assert progress.failures == {"read_order": 1}


def test_a_success_is_no_new_evidence_about_a_repeated_claim() -> None:
    assert Progress().observed("a").observed("a").succeeded("read_order").repeats == 1


def test_what_is_remembered_does_not_grow_with_the_runs_history() -> None:
    progress = Progress()
    for number in range(500):
        progress = progress.observed(f"{number:064}").failed("read_order", ErrorClass.TRANSIENT)
    assert len(str(asdict(progress))) < 400
