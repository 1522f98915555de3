"""What must not leave a run: secrets by the name of their field, by known value, and by shape (spec section 9).

Applied to everything that is stored for people: packages, summaries, payloads.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "[removed]"
LONGEST = 2000  # characters of one string; what is cut is named by its digest

SECRET_FIELD = re.compile(
    r"pass(word|wd|phrase)?$|secret|token|authori[sz]ation|api[_-]?key|credential|cookie|cvv|cvc|iban|card[_-]?number",
    re.IGNORECASE,
)
SECRET_SHAPES = (
    re.compile(r"\b(?:sk|pk|rk|ghp|gho|xox[abp]|AKIA)[-_A-Za-z0-9]{12,}\b"),
    re.compile(r"\bBearer\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
)
CARD = re.compile(r"\b\d(?:[ -]?\d){12,18}\b")


def _is_card(digits: str) -> bool:
    """Luhn's check, so that order numbers and instants are left alone."""
    figures = [int(c) for c in digits if c.isdigit()]
    doubled = [sum(divmod(2 * d, 10)) if i % 2 else d for i, d in enumerate(reversed(figures))]
    return sum(doubled) % 10 == 0


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    for shape in SECRET_SHAPES:
        text = shape.sub(HIDDEN, text)
    text = CARD.sub(lambda found: HIDDEN if _is_card(found[0]) else found[0], text)
    # PostgreSQL stores no NUL, and a lone surrogate cannot be encoded.
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if len(text) > LONGEST:
        digest = hashlib.sha256(text.encode()).hexdigest()
        text = f"{text[:LONGEST]}… [{len(text)} characters, sha256 {digest[:16]}]"
    return text


def redact(value: Any, secrets: Iterable[str] = (), depth: int = 12) -> Any:
    """`value` without secrets, as plain JSON data. Deeper than `depth` levels is cut and said to be cut."""
    if isinstance(value, str):
        return redact_text(value, secrets)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth == 0:
        return "[nested too deeply]"
    if isinstance(value, Mapping):
        return {
            redact_text(str(key)): HIDDEN
            if SECRET_FIELD.search(str(key)) and inner not in (None, "", False)
            else redact(inner, secrets, depth - 1)
            for key, inner in value.items()
        }
    if isinstance(value, Iterable):
        return [redact(inner, secrets, depth - 1) for inner in value]
    return redact_text(str(value), secrets)
