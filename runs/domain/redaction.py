"""What must not leave a run, and what cannot be kept at all (docs/rules.md, 9).

`clean` makes text from outside storable: applied to every answer where it enters, because rules judge and plan on it.
`redact` also takes out secrets, by the name of their field, by known value and by shape: applied to everything that is
kept for people to read (packages, timelines, payloads). Judging goes by cleaned values, never by redacted ones: an
order number that happens to look like a card's must stay what it is.

Every search here takes time that grows with the text and no faster: what comes in is as long and as odd as its sender
likes. A pattern that runs over many characters may therefore begin only where such a run begins.
"""

import hashlib
import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from string import ascii_letters
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "[removed]"
TOO_DEEP = "[nested too deeply]"
TOO_MANY = "[the rest is left out]"
IN_ITSELF = "[contains itself]"
TOO_LONG = "[a number too long to be written]"
LONGEST = 2000  # characters of one string kept for people; what is cut is named by its digest
DEEPEST = 12  # levels
MOST_VALUES = 20_000  # in one value kept for people
MOST_CLEANED = 1_000_000  # more than an answer of a megabyte can hold: nothing that is judged is cut
SHORT_AND_COMMON = 40  # characters; names of fields, kinds and states come again at every step
SHORTEST_SECRET = 4  # a known value shorter than this would be found everywhere
SHORTEST_FRAGMENT = 6  # of a known value within base64
IN_ADDRESSES = str.maketrans("+/", "-_")  # base64 as it is written there

SECRET_FIELD = re.compile(
    r"pass(word|wd|phrase|code)|secret|token|authori[sz]ation|bearer|credential|cookie|iban|session[ _-]?id"
    r"|(api|private|access|signing|encryption)[ _-]?key|card[ _-]?(number|no(?![a-z]))"
    r"|(?<![a-z])(pass|pwd|pin|auth|otp|jwt|pan|cvv|cvc)(?![a-z])",
    re.IGNORECASE,
)
NAMES_A_SECRET = re.compile(rf"(?:{SECRET_FIELD.pattern})(?:[ _-]?(?:key|value|hash|\d{{1,3}}))?\Z", re.IGNORECASE)
LONGEST_NAME = 100  # characters of a field's name that stands as a value
COUNTED = re.compile(r"tokens$", re.IGNORECASE)  # how many were used is no secret
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # where a name in camel case has its next word

SECRET_SHAPES = (
    re.compile(
        r"(?<![A-Za-z0-9])(?:(?:(?:[spr]k|whsec)[-_]|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|ya29\.)"
        r"[-_A-Za-z0-9]{12,}|ASIA[A-Z0-9]{16})"
    ),
    # A word may follow as well ("the bearer certificate", "basic questions"): a credential has figures or is long.
    re.compile(r"\bBearer\s+(?=[^\s\d]{0,30}\d|\S{24})[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(
        r"\b(?i:Basic)\s+(?=[a-z0-9+/]{0,30}[A-Z])(?=[A-Z0-9+/]{0,30}[a-z0-9])[A-Za-z0-9+/]{8,}={0,2}(?![\w.-])"
    ),
    # What follows the claims may be missing: a token that is not signed, or was cut, is one, too.
    re.compile(r"(?<![\w-])(?=[\w-]*?eyJ[\w-]{8})[\w-]++\.[\w-]{8,}+(?:\.[\w-]*+)*+", re.ASCII),
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)", re.DOTALL
    ),
    re.compile(r"(?<=://)[^/\s:@?#]*:[^/\s?#]+(?=@)"),
    re.compile(r"(?<=:\\/\\/)[^/\s:@?#]*:[^/\s?#]+(?=@)"),  # an address within JSON
    re.compile(r"<(?:password|secret|token|api-?key)>[^<]+", re.IGNORECASE),
)
NAME = (
    r"(?:pass(?:word|wd|phrase|code)|secret|token|credentials?|iban|session[ _-]?id"
    r"|(?:api|private|access|signing|encryption)[ _-]?key|card[ _-]?number"
    r"|(?<![a-z])(?:pass|pwd|pin|otp|jwt|cvv|cvc))(?:[_-]?(?:key|value|hash|\d{1,3}))?"
)
# A header's value goes on to the end of its line; one in quotes is left to the pattern below.
HEADER = re.compile(
    r"""(authorization\s{0,8}[:=]\s{0,8}+)(?!\[removed\])(?=(?:basic|bearer|digest|token|negotiate|ntlm|aws4\S*)\s)[^\r\n]+"""
    r"""|(cookie\s{0,8}[:=]\s{0,8}+)(?!\[removed\])(?=[^\s=;"']{1,80}=)[^\r\n]+""",
    re.IGNORECASE,
)
# 1: the name and what stands before its value, 2: a quote after the name, 3: the quote that opens the value. An
# unfinished value was cut: all of it goes.
NAMED = re.compile(
    rf"""({NAME}(\\{{0,8}}["']|&quot;)?\s{{0,40}}(?:=>|:=|==?|[:\uff1a])\s{{0,40}}+)(?!\\{{0,8}}["']?\[removed\])"""
    # A value in quotes, a list or an object, or a word; one that is not finished was cut.
    r"""(?:(\\{0,8}["']|&quot;).*?(?:(?<!\\)\3|\Z)|\[[^\]]*(?:\]|\Z)|\{[^}]*(?:\}|\Z)|(?(2)[^\s,}\]]+|\S+))""",
    re.IGNORECASE | re.DOTALL,
)
# Not within a longer word, number or key. No colons: those are instants.
CARD = re.compile(r"(?<![\w-])\d(?:[ ._\u00a0\u2013-]?\d){14,18}(?![\w-])")
# A card's number among other numbers, grouped as it is printed.
PRINTED_CARD = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrt]))"
    r"(?:\d{4}(?:[\s._+\u2011\u2013-]\d{4}){3}|\d{4}[\s._+\u2011\u2013-]\d{6}[\s._+\u2011\u2013-]\d{4,5}|\d{15,19})(?![\w-])"
)
ISSUERS = re.compile("3[47]|4|5[1-5]|6|2[2-7]")
DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)  # the sum of the digits of twice a digit
ACCOUNT = re.compile(
    r"(?:(?<![\w-])|(?<=iban-))[A-Z]{2}\d{2}(?:[ \u00a0]?[A-Z0-9]{4}){2,7}(?:[ \u00a0]?[A-Z0-9]{1,3})?\b",
    re.IGNORECASE | re.ASCII,
)
SHORTEST_ACCOUNT = 15
NAMES_A_FIELD = ("name", "field", "key", "header", "parameter")
FIGURES = {ord(sign): str(int(sign, 36)) for sign in ascii_letters}  # A is 10, Z is 35
FOLDED = re.compile(r"… \[(\d{1,12}) characters, sha256 [0-9a-f]{16}\]\Z")
LONGEST_NOTE = 60


def clean_text(text: str) -> str:
    """Without what cannot be stored: PostgreSQL keeps no NUL, and a lone surrogate cannot be encoded."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def fold_text(text: str, longest: int) -> str:
    """`text`, or its first `longest` characters with the length and the digest of all of it.

    Folding again changes nothing, and folding to less keeps the first figures.
    """
    kept, note = _parted(text)
    if len(kept) <= longest:
        return text
    return kept[:longest] + (note or f"… [{len(text)} characters, sha256 {digest(text)[:16]}]")


def _parted(text: str) -> tuple[str, str]:
    """What was kept of a folded text, and the note on the rest. A note that cannot be ours is part of the text."""
    note = FOLDED.search(text, max(0, len(text) - LONGEST_NOTE))
    if note and note.start() <= LONGEST and note.start() < int(note[1]):
        return text[: note.start()], note[0]
    return text, ""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def identifiers(given: Mapping[str, Any], keys: Iterable[str] = ()) -> set[str]:
    """What names a run's things and is no secret whatever it looks like: single words of its input, operation keys."""
    words = {str(value) for name, value in given.items() if not is_secret_field(name)}
    return {word for word in words if not re.search(r"\s", word)} | set(keys)


def is_secret_field(name: str) -> bool:
    return SECRET_FIELD.search(HUMP.sub("_", name)) is not None


def redact_text(text: str, secrets: Iterable[str] = (), keep: Collection[str] = ()) -> str:
    """`text` without secrets. `keep` names identifiers: no cards or accounts, whatever their digits add up to."""
    if len(text) > SHORT_AND_COMMON:
        return _redacted(text, tuple(secrets), keep)
    return _redacted_once(text, tuple(secrets), frozenset(keep))


@lru_cache(maxsize=4096)
def _redacted_once(text: str, secrets: tuple[str, ...], keep: frozenset[str]) -> str:
    return _redacted(text, secrets, keep)


def _redacted(text: str, secrets: tuple[str, ...], keep: Collection[str]) -> str:
    text = clean_text(text)
    for spelling in _spellings(secrets):
        text = text.replace(spelling, HIDDEN)
    text, note = _parted(text)
    for shape in SECRET_SHAPES:
        text = shape.sub(lambda found: found[0] if found[0] in keep else HIDDEN, text)
    if any(sign in text for sign in ":=\uff1a"):
        text = HEADER.sub(lambda found: f"{found[1] or found[2]}{HIDDEN}", text)
        text = NAMED.sub(lambda found: f"{found[1]}{found[3] or ''}{HIDDEN}{found[3] or ''}", text)
    text = CARD.sub(lambda found: found[0] if _is_named(found[0], keep) or not _is_card(found[0]) else HIDDEN, text)
    text = _without(text, PRINTED_CARD, lambda found: len(found) if _is_card(found) else 0, keep)
    text = _without(text, ACCOUNT, _account, keep)
    return fold_text(text + note, LONGEST)


@lru_cache(maxsize=8)
def _spellings(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Every way in which a known secret may be written. The longest first, so that nothing of it is left standing."""
    found: set[str] = set()
    for secret in map(clean_text, secrets):
        if len(secret) < SHORTEST_SECRET:
            continue
        escaped = json.dumps(secret)[1:-1]
        found |= {secret, escaped, escaped.replace("/", r"\/"), json.dumps(secret, ensure_ascii=False)[1:-1]}
        in_address = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
        found |= in_address | {re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), text) for text in in_address}
        in_base64 = set(_in_base64(secret.encode()))
        found |= in_base64 | {text.translate(IN_ADDRESSES) for text in in_base64}
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def _in_base64(raw: bytes) -> Iterator[str]:
    """`raw` in base64: alone, and what is always the same of it with other bytes before and after it."""
    alone = b64encode(raw).decode()
    yield from (alone, alone.rstrip("="))
    for before, shared in enumerate((0, 2, 3)):  # so many characters at the beginning are not of `raw` alone
        text = b64encode(b"\0" * before + raw).decode().rstrip("=")
        own = text[shared : len(text) - bool((before + len(raw)) % 3)]
        if len(own) >= SHORTEST_FRAGMENT:
            yield own


def _without(text: str, candidate: re.Pattern[str], length: Callable[[str], int], keep: Collection[str]) -> str:
    """`text` without what `length` recognises: so many characters at a candidate's beginning. Candidates overlap."""
    parts: list[str] = []
    done = at = 0
    while found := candidate.search(text, at):
        at = found.start() + 1
        size = length(found[0])
        if size and not _is_named(found[0][:size], keep):
            parts += text[done : found.start()], HIDDEN
            done = at = found.start() + size
    return "".join((*parts, text[done:]))


def _is_named(found: str, keep: Collection[str]) -> bool:
    """Whether `found` is an identifier, or part of one. Several words are no identifier that could have parts."""
    return any(found == name or (found in name and " " not in name) for name in keep)


def _is_card(digits: str) -> bool:
    """By issuer and Luhn's check, so that order numbers and instants are left alone."""
    figures = [int(c) for c in digits if c.isdigit()]
    if not ISSUERS.match("".join(map(str, figures[:2]))):
        return False
    figures.reverse()
    return (sum(figures[::2]) + sum(DOUBLED[figure] for figure in figures[1::2])) % 10 == 0


def _account(found: str) -> int:
    """How many characters of `found` are an IBAN by its checksum (ISO 7064, 97-10): a word after it may look like more
    of it."""
    words, end = found.split(), len(found)
    while len(compact := "".join(words)) >= SHORTEST_ACCOUNT:
        if int((compact[4:] + compact[:4]).translate(FIGURES)) % 97 == 1:
            return end
        end -= len(words.pop()) + 1
    return 0


def clean(value: Any) -> Any:
    """`value` as plain JSON data that can be stored: depth and number of values bounded, numbers finite."""
    return _Walk(clean_text, lambda name: False, MOST_CLEANED).plain(value, DEEPEST)


def redact(value: Any, secrets: Iterable[str] = (), keep: Collection[str] = ()) -> Any:
    """`value` as plain JSON data without secrets. What stands under the name of one is a secret, whatever it is."""
    known = tuple(secrets)
    return _Walk(lambda text: redact_text(text, known, keep), is_secret_field, MOST_VALUES).plain(value, DEEPEST)


class _Walk:
    """One way through a value. It ends: what contains itself, and what has no end, is cut and says so."""

    def __init__(self, text: Callable[[str], str], is_secret: Callable[[str], bool], most: int) -> None:
        self.text = text
        self.is_secret = is_secret
        self.left = most
        self.above: set[int] = set()  # what the value under way stands in

    def plain(self, value: Any, depth: int, secret: bool = False) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if secret and not isinstance(value, Mapping):
            return value if value == "" else HIDDEN
        if isinstance(value, bytes | bytearray | memoryview):
            value = bytes(value).decode("utf-8", "replace")
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, datetime):
            return value.isoformat()
        if not isinstance(value, Iterable):
            return self.text(str(value))
        if depth == 0:
            return TOO_DEEP
        if id(value) in self.above:
            return IN_ITSELF
        self.above.add(id(value))
        try:
            if isinstance(value, Mapping):
                return self._object(value, depth - 1, secret)
            return self._list(value, depth - 1)
        finally:
            self.above.discard(id(value))

    def names(self, value: Any) -> bool:
        """Whether `value` is itself the name of a secret's field. What goes on after it names something else."""
        short = isinstance(value, str) and len(value) <= LONGEST_NAME
        return short and self.is_secret(value) and NAMES_A_SECRET.search(HUMP.sub("_", value)) is not None

    def _number(self, value: int | float) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        try:
            digits = {str(value), str(int(value))}
        except ValueError:  # more digits than Python writes out
            return TOO_LONG
        # A card's number is one without quotes, too.
        return HIDDEN if any(self.text(text) != text for text in digits) else value

    def _object(self, value: Mapping[Any, Any], depth: int, secret: bool) -> dict[str, Any]:
        made: dict[str, Any] = {}
        # {"name": "Authorization", "value": …}: a value that stands beside its name.
        beside = any(self.names(value.get(name)) for name in NAMES_A_FIELD)
        for key, inner in value.items():
            if self.left <= 0:
                made[TOO_MANY] = True
                break
            self.left -= 1
            name = key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
            shown = self.text(name)
            is_count = isinstance(inner, int) and COUNTED.search(name)
            while shown in made:
                shown = f"{shown} ({len(made)})"
            hidden = (beside and "value" in name.lower()) or (self.is_secret(name) and not is_count)
            made[shown] = self.plain(inner, depth, secret or hidden)
        return made

    def _list(self, value: Iterable[Any], depth: int) -> list[Any]:
        made: list[Any] = []
        named = isinstance(value, list | tuple) and len(value) == 2 and self.names(value[0])  # ["Authorization", …]
        for inner in value:
            if self.left <= 0:
                made.append(TOO_MANY)
                break
            self.left -= 1
            made.append(self.plain(inner, depth, bool(made) and named))
        return made
