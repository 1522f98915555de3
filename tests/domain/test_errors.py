"""What a failure is called, and how long a service may ask to be left alone."""

from datetime import timedelta

import pytest

from runs.domain.errors import (
    CLASS_OF_CODE,
    DEFINITELY_NOT_EXECUTED,
    MOST_RETRY_AFTER,
    DomainError,
    ErrorClass,
    Failure,
    classify,
    quoted,
)


@pytest.mark.parametrize("code", ["", "teapot", "http_418", "unforeseen", "REFUSED", "refused ", "accepted", "x" * 999])
def test_a_code_that_nobody_listed_is_an_unknown_error(code: str) -> None:
    assert classify(code) is ErrorClass.UNKNOWN
    assert Failure(code, "").error_class is ErrorClass.UNKNOWN


@pytest.mark.parametrize("code", CLASS_OF_CODE)
def test_a_listed_code_has_the_class_of_the_table(code: str) -> None:
    assert Failure(code, "").error_class is CLASS_OF_CODE[code]


def test_there_is_a_code_for_every_class() -> None:
    assert set(CLASS_OF_CODE.values()) == set(ErrorClass)


def test_what_may_have_been_carried_out_is_not_taken_for_undone() -> None:
    may_have_been = {ErrorClass.TRANSIENT, ErrorClass.INVALID_OUTPUT, ErrorClass.UNKNOWN}
    assert may_have_been.isdisjoint(DEFINITELY_NOT_EXECUTED)
    assert classify("key_reused") not in DEFINITELY_NOT_EXECUTED


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        (None, 0),
        (0.0, 0),
        (-5.0, 0),
        (0.5, 0.5),
        (MOST_RETRY_AFTER, MOST_RETRY_AFTER),
        (MOST_RETRY_AFTER + 1, MOST_RETRY_AFTER),
        (1e300, MOST_RETRY_AFTER),
        (float("nan"), 0),
        (float("inf"), 0),
        (float("-inf"), 0),
    ],
)
def test_a_service_is_left_alone_as_long_as_it_asks_within_bounds(asked: float | None, granted: float) -> None:
    assert Failure("rate_limited", "", retry_after=asked).asked_wait() == timedelta(seconds=granted)


def test_a_failure_is_told_in_the_services_words_unless_the_product_alone_can_know_it() -> None:
    codes = {*CLASS_OF_CODE, "unforeseen", "teapot", ""}
    theirs = {code for code in codes if not Failure(code, "").in_our_words}
    assert theirs == {
        *("unavailable", "rate_limited", "credential_refused", "access_denied", "invalid_input", "key_reused"),
        *("not_found", "refused", "teapot", ""),
    }


def test_a_refusal_need_not_point_at_a_field() -> None:
    assert DomainError("No.").field == ""
    assert DomainError("No.", field="event").field == "event"


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_what_was_refused_is_quoted_shortly_whatever_it_is() -> None:
    nested: list[object] = []
    for _ in range(10_000):
        nested = [nested]
    assert quoted("B456") == "'B456'"
    assert quoted("x" * 78) == "'" + "x" * 78 + "'"
    assert quoted("x" * 10_000) == "'" + "x" * 79 + "…"
    assert quoted(nested) == "a list that cannot be shown"
    assert quoted(10**5000) == "a int that cannot be shown"
    assert quoted(Hostile()) == "a Hostile that cannot be shown"
