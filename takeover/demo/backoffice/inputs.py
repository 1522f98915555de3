"""Reads what strangers send: every value is checked here, and a refusal names the field."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date

from starlette.requests import Request

from takeover.demo.backoffice.answers import Refusal, error, invalid

BODY_LIMIT = 64 * 1024
AMOUNT_LIMIT = 1_000_000_000

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_KEY = re.compile(r"[!-~]{1,200}")
_CURRENCY = re.compile(r"[A-Z]{3}")


async def body_of(request: Request) -> bytes | None:
    """The body, or None when it is larger than anything this service has use for."""
    if int(request.headers.get("content-length") or 0) > BODY_LIMIT:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_LIMIT:
            return None
    return bytes(body)


def within_limit(body: bytes | None) -> bytes:
    if body is None:
        raise Refusal(error(413, "body_too_large", f"A body may hold at most {BODY_LIMIT} bytes."))
    return body


def json_object(body: bytes) -> dict[str, object]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, a number without end, or nested past all reason
        raise invalid("body", "The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise invalid("body", "The body must be a JSON object.")
    return value


def only(values: Mapping[str, object], allowed: Iterable[str]) -> None:
    known = sorted(allowed)
    for name in values:
        if name not in known:
            raise invalid(printable(name), f"This field is not known here; known are {', '.join(known)}.")


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:100]


def is_word(value: object) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def is_key(value: object) -> bool:
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def word(field: str, value: object) -> str:
    if not isinstance(value, str) or not is_word(value):
        raise invalid(field, "Must be 1 to 64 letters, digits, dots, colons, hyphens or underscores.")
    return value


def key(field: str, value: object) -> str:
    if not isinstance(value, str) or not is_key(value):
        raise invalid(field, "Must be 1 to 200 printable characters without spaces.")
    return value


def text(field: str, value: object, limit: int = 200) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= limit:
        raise invalid(field, f"Must be 1 to {limit} printable characters.")
    return value


def whole(field: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise invalid(field, f"Must be a whole number from {low} to {high}.")
    return value


def number(field: str, value: object, low: float, high: float) -> float:
    # `not low <= value` also refuses NaN, which json.loads lets in.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise invalid(field, f"Must be a number from {low:g} to {high:g}.")
    return float(value)


def yes_no(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise invalid(field, "Must be true or false.")
    return value


def one_of(field: str, value: object, choices: Iterable[str]) -> str:
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        raise invalid(field, f"Must be one of {', '.join(allowed)}.")
    return value


def amount(field: str, value: object) -> int:
    return whole(field, value, 1, AMOUNT_LIMIT)


def currency(field: str, value: object) -> str:
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise invalid(field, "Must be a currency's three capital letters, such as EUR.")
    return value


def day(field: str, value: object) -> str:
    try:
        return date.fromisoformat(text(field, value, 10)).isoformat()
    except ValueError:
        raise invalid(field, "Must be a date such as 2026-09-22.") from None
