"""An amount of money: a whole number of a currency's smallest unit, such as cents, and the currency's code."""

import re
from dataclasses import dataclass
from typing import Any

from runs.domain.errors import DomainError

MOST_MINOR = 10**13  # more is a mistake: it would be a hundred billion of most currencies
# How many of its digits stand behind the point, where it is not two (ISO 4217).
OTHERWISE = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
DIGITS = {currency: digits for digits, currencies in OTHERWISE.items() for currency in currencies.split()}


class MoneyError(DomainError):
    """What is no amount of money, or no currency."""


def is_currency(value: object) -> bool:
    """Whether it looks like a code of ISO 4217: three capital letters."""
    return isinstance(value, str) and re.fullmatch("[A-Z]{3}", value) is not None


def is_minor(value: object) -> bool:
    """Whether it is a number of smallest units that an amount can have: whole, not negative, not beyond all reason."""
    return type(value) is int and 0 <= value <= MOST_MINOR


def money(minor: int, currency: str) -> str:
    """So many smallest units of a currency, as people write it: "59.00 EUR", "5900 JPY"."""
    digits = DIGITS.get(currency, 2)
    unit = 10**digits
    return f"{minor // unit}.{minor % unit:0{digits}d} {currency}" if digits else f"{minor} {currency}"


@dataclass(frozen=True)
class Money:
    """`minor` smallest units of a currency. Raises MoneyError for what is none."""

    minor: int
    currency: str

    def __post_init__(self) -> None:
        if not is_minor(self.minor):
            raise MoneyError(f"{self.minor!r} is no whole number from 0 to {MOST_MINOR}.", field="minor")
        if not is_currency(self.currency):
            raise MoneyError(f"{self.currency!r} is no currency's code of three capital letters.", field="currency")

    @classmethod
    def said(cls, minor: Any, currency: Any) -> "Money | None":
        """What somebody else says that an amount is; None where that is none."""
        try:
            return cls(minor, currency)
        except MoneyError:
            return None

    def __str__(self) -> str:
        return money(self.minor, self.currency)
