import math

import pytest

from runs.domain.money import MOST_MINOR, Money, MoneyError, money


@pytest.mark.parametrize(
    ("minor", "currency", "written"),
    [
        (59_00, "EUR", "59.00 EUR"),
        (5, "USD", "0.05 USD"),
        (0, "EUR", "0.00 EUR"),
        (5900, "JPY", "5900 JPY"),
        (1234, "KWD", "1.234 KWD"),
        (1234, "XXX", "12.34 XXX"),
    ],
)
def test_an_amount_is_written_with_the_digits_of_its_currency(minor: int, currency: str, written: str) -> None:
    assert money(minor, currency) == str(Money(minor, currency)) == written


@pytest.mark.parametrize(
    ("minor", "currency"),
    [
        (-1, "EUR"),
        (MOST_MINOR + 1, "EUR"),
        (True, "EUR"),
        (59.0, "EUR"),
        ("5900", "EUR"),
        (math.inf, "EUR"),
        (None, "EUR"),
        (5900, "eur"),
        (5900, "EURO"),
        (5900, "EUR\n"),
        (5900, "ΕUR"),  # begins with a Greek letter
        (5900, "E\x00R"),
        (5900, "<b>"),
        (5900, ""),
        (5900, None),
        (5900, ["EUR"]),
    ],
)
def test_what_is_no_amount_is_none(minor: object, currency: object) -> None:
    assert Money.said(minor, currency) is None
    with pytest.raises(MoneyError) as refused:
        Money(minor, currency)  # type: ignore[arg-type]
    assert refused.value.field == ("currency" if minor == 5900 else "minor")
    assert repr(currency if minor == 5900 else minor) in str(refused.value)


@pytest.mark.parametrize("minor", [0, 5900, MOST_MINOR])
def test_what_is_an_amount_is_taken_as_it_is_said(minor: int) -> None:
    assert Money.said(minor, "EUR") == Money(minor, "EUR")
