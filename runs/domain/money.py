"""An amount of money: a whole number of a currency's smallest unit, such as cents, and the currency's code."""

import re
from dataclasses import dataclass

# The largest amount that is taken for one: ten thousand times the most that anybody may ask to have refunded.
MOST_MINOR = 10**13
# How many of its digits stand behind the point, where it is not two (ISO 4217).
OTHERWISE = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
DIGITS = {currency: digits for digits, currencies in OTHERWISE.items() for currency in currencies.split()}


def is_currency(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[A-Z]{3}", value) is not None


def is_minor(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_MINOR


def money(minor: int, currency: str) -> str:
    """An amount as people write it."""
    digits = DIGITS.get(currency, 2)
    unit = 10**digits
    return f"{minor // unit}.{minor % unit:0{digits}d} {currency}" if digits else f"{minor} {currency}"


@dataclass(frozen=True)
class Money:
    minor: int
    currency: str

    def __post_init__(self) -> None:
        if not is_minor(self.minor) or not is_currency(self.currency):
            raise ValueError(f"{self.minor!r} of {self.currency!r} is no amount of money.")

    @classmethod
    def said(cls, minor: object, currency: object) -> "Money | None":
        """What somebody else says that an amount is; None where that is none."""
        return cls(minor, currency) if is_minor(minor) and is_currency(currency) else None  # type: ignore[arg-type]

    def __str__(self) -> str:
        return money(self.minor, self.currency)
