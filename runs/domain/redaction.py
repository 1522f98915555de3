"""What must not leave a run, and what cannot be kept at all.

`clean` makes text from outside storable: applied to every answer where it enters, because rules judge and plan on it.
`redact` also takes out secrets, by the name of their field, by known value and by shape: applied to everything that is
kept for people to read (packages, timelines, payloads). Judging goes by cleaned values, never by redacted ones: an
order number that happens to look like a card's must stay what it is.
"""

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

HIDDEN = "[removed]"
LONGEST = 2000  # characters of one string kept for people; what is cut is named by its digest
DEEPEST = 12  # levels

SECRET_FIELD = re.compile(
    r"pass(word|wd|phrase|code)|\bpwd\b|\bpin\b|secret|token|authori[sz]ation|\bauth\b|bearer"
    r"|(api|private|access)[ _-]?key|credential|cookie|\bcvv|\bcvc|iban|card[ _-]?(number|no\b)",
    re.IGNORECASE,
)
SECRET_SHAPES = (
    re.compile(r"\b(?:sk|pk|rk|ghp|gho|glpat|xox[abp]|AKIA|AIza|github_pat)[-_A-Za-z0-9]{12,}"),
    re.compile(r"\b(?:Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"(?<=password=)\S+|(?<=secret=)\S+|(?<=token=)\S+", re.IGNORECASE),
    re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b"),
)
CARD = re.compile(r"(?<![\w-])\d(?:[ ._\u00a0\u2013-]?\d){12,18}(?![\w-])")  # no colons: those are instants


def clean_text(text: str) -> str:
    """Without what cannot be stored: PostgreSQL keeps no NUL, and a lone surrogate cannot be encoded."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def redact_text(text: str, secrets: Iterable[str] = (), keep: Collection[str] = ()) -> str:
    """`text` without secrets. `keep` names identifiers that are not cards, whatever their digits add up to."""
    text = clean_text(text)
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    for shape in SECRET_SHAPES:
        text = shape.sub(HIDDEN, text)
    text = CARD.sub(lambda found: HIDDEN if _is_card(found[0]) and found[0] not in keep else found[0], text)
    if len(text) > LONGEST:
        digest = hashlib.sha256(text.encode()).hexdigest()
        text = f"{text[:LONGEST]}… [{len(text)} characters, sha256 {digest[:16]}]"
    return text


def clean(value: Any) -> Any:
    """`value` as plain JSON data that can be stored: depth bounded, numbers finite."""
    return _plain(value, clean_text, lambda key: False, DEEPEST)


def redact(value: Any, secrets: Iterable[str] = (), keep: Collection[str] = ()) -> Any:
    """`value` as plain JSON data without secrets."""
    known = tuple(secrets)
    return _plain(
        value, lambda text: redact_text(text, known, keep), lambda key: SECRET_FIELD.search(key) is not None, DEEPEST
    )


def _plain(value: Any, text: Callable[[str], str], is_secret: Callable[[str], bool], depth: int) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and text(str(value)) != str(value):
        return HIDDEN  # a card's number is one without quotes, too
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if depth == 0:
        return "[nested too deeply]"
    if isinstance(value, Mapping):
        return {
            text(str(key)): HIDDEN
            if is_secret(str(key)) and inner not in (None, "", False) and not isinstance(inner, Mapping)
            else _plain(inner, text, is_secret, depth - 1)
            for key, inner in value.items()
        }
    if isinstance(value, Iterable):
        return [_plain(inner, text, is_secret, depth - 1) for inner in value]
    return text(str(value))


def _is_card(digits: str) -> bool:
    """Luhn's check, so that order numbers and instants are left alone."""
    figures = [int(c) for c in digits if c.isdigit()]
    doubled = [sum(divmod(2 * d, 10)) if i % 2 else d for i, d in enumerate(reversed(figures))]
    return sum(doubled) % 10 == 0
