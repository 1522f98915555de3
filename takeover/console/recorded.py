"""Sentences of the record in the viewer's language.

The rules write the record in English, once and for good. What they write is known: the catalogue of translations holds
each sentence with a number in braces for every value that was filled in (takeover/catalogue). Here a sentence is told
from what it looks like and put into the viewer's language, its values as they are. What is not recognised stays as it
was recorded.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.utils.translation import get_language, trans_real

from takeover.console import words

CONTEXT = "record"
HOLE = re.compile(r"\{(\d+)\}")
SENTENCE_END = re.compile(r"(?<=[.?!]) (?=\S)")
WITH_MORE = re.compile(r"(.+) (?:\(([^()]+)\)|([A-Z]+-?[0-9]+))")
SEPARATORS = {"; ": "；", " or ": "或", " and ": "和", ", ": "、"}
LONGEST = 2000  # characters; what is longer was not made from a few values
# What is filled in: one word without spaces, something in quotation marks, or names and numbers with their units. What
# else stands where a value may stand belongs to another sentence, and a guess would put words into the record's mouth.
WORD = r"(?:[A-Z0-9(]\S*|\S*[0-9]\S*)"
VALUE = re.compile(rf"\S*|“[^”]*”|'[^']*'|\"[^\"]*\"|{WORD}(?: (?:of |and |or )?{WORD})*")
NUMBER = r"[A-Za-z]{0,3}-?[0-9]+"
IS_NUMBER, NUMBERS = re.compile(NUMBER), re.compile(rf"{NUMBER}(?:(?:, | and | or ){NUMBER})+")
BETWEEN = re.compile("(, | and | or )")
ENDS = {"“": "”", "(": ")"}
LOOSE = 10  # characters
MOST_SENTENCES = 12
DEEPEST = 3  # sentences within sentences
CODES: tuple[Mapping[Any, Any], ...] = (
    words.STATE,
    words.OUTCOME,
    words.REASON,
    words.EFFECT,
    words.ANSWER,
    words.FAILURE,
    words.DIMENSION,
    words.PERMISSION,
    words.ERROR,
    words.NOUN,
)
# Where a sentence and what was filled in meet: a space between Chinese and Latin, none within Chinese.
CHINESE, CLOSED_UP, LATIN = re.compile("[\u4e00-\u9fff]"), re.compile("[，。：；！？、（）]"), re.compile("[0-9A-Za-z]")


@dataclass(frozen=True)
class Part:
    text: str
    is_ours: bool  # in the viewer's language; otherwise as it was recorded


def is_as_recorded() -> bool:
    """Whether the viewer reads the language of the record."""
    return (get_language() or settings.LANGUAGE_CODE) == settings.LANGUAGE_CODE


def parts(text: str) -> list[Part]:
    """`text` in the viewer's language as far as it is recognised."""
    language = get_language() or settings.LANGUAGE_CODE
    if language == settings.LANGUAGE_CODE or not text.strip() or len(text) > LONGEST:
        return [Part(text, language == settings.LANGUAGE_CODE)]
    return _told(language, text) or [Part(text, False)]


@lru_cache(maxsize=2048)  # a page that is asked for again shows mostly the same
def _told(language: str, text: str) -> list[Part] | None:
    told = _phrases(language).tell(text)
    return list(_spaced(told)) if told else None


def exact(text: str) -> Part:
    """`text` as it is, unless it is nothing but a word of ours."""
    language = get_language() or settings.LANGUAGE_CODE
    known = text if language == settings.LANGUAGE_CODE else _phrases(language).whole(text)
    return Part(known or text, bool(known))


def plain(text: str) -> str:
    return "".join(part.text for part in parts(text)).strip()


def in_words(text: str) -> str:
    """As `plain`, and a code of ours as its word."""
    return plain(text) if is_as_recorded() else _code(text) or plain(text)


class Phrase:
    """One sentence with holes, and its translation."""

    def __init__(self, source: str, translation: str) -> None:
        self.translation = translation
        self.first, *self.middle, self.last = HOLE.split(source)[::2]
        literals = [self.first, *self.middle, self.last]
        self.longest = max(literals, key=len)
        self.length = sum(map(len, literals))
        around = pairwise([self.first, *self.middle, self.last])
        ends = ((ENDS.get(before[-1:], ""), after) for before, after in around)
        self.ends = [end if end and after.startswith(end) else "" for end, after in ends]  # of what is quoted
        self.says_nothing = not any(sign.isalpha() for literal in literals for sign in literal)

    def is_loose(self, values: list[str]) -> bool:
        """Whether it is a word or two beside what may be anything."""
        if all(IS_NUMBER.fullmatch(value) for value in values):
            return False
        most = 1 if self.first else 0 if len(values) == 1 else -1  # spaces in a value
        return self.length < LOOSE and any(value.count(" ") > most for value in values)

    def takes(self, values: list[str], told: list[list[Part] | None]) -> bool:
        """Whether each value is one of ours, or can be nothing but a value, and it is clear where it begins."""
        if any(
            bare in value and not ours
            for bare, value, ours in zip(self.middle, values[1:], told[1:], strict=True)
            if bare and not any(sign.isalpha() for sign in bare)
        ):
            return False
        return all(
            ours or (end not in value if end else VALUE.fullmatch(value))
            for value, ours, end in zip(values, told, self.ends, strict=True)
        )

    def values(self, text: str) -> list[str] | None:
        """What fills the holes, each as short as it can be; None where `text` is another sentence."""
        if self.longest not in text or not text.startswith(self.first) or not text.endswith(self.last):
            return None
        at, end, found = len(self.first), len(text) - len(self.last), []
        for literal in self.middle:
            ends = text.find(literal, at, end)
            if ends < 0:
                return None
            found.append(text[at:ends])
            at = ends + len(literal)
        return [*found, text[at:end]] if at <= end else None


class Phrases:
    """The sentences of one language."""

    def __init__(self, catalogue: Mapping[str, str]) -> None:
        self._whole: dict[str, str] = {}
        self._by_first_word: dict[str, list[Phrase]] = {}
        for key, translation in catalogue.items():
            context, _separator, source = key.rpartition("\x04")
            if context == CONTEXT and HOLE.search(source):
                phrase = Phrase(source, translation)
                self._by_first_word.setdefault(_first_word(phrase.first), []).append(phrase)
            elif context == CONTEXT or (not context and _is_label(source)):
                self._whole[source] = translation
        floating = self._by_first_word.pop("", [])
        for phrases in self._by_first_word.values():
            phrases += floating
        self._by_first_word[""] = floating
        for phrases in self._by_first_word.values():
            phrases.sort(key=lambda phrase: -phrase.length)

    def tell(self, text: str, depth: int = 0) -> list[Part] | None:
        """None where nothing of it is recognised."""
        if known := self.whole(text) or (_code(text) if depth else ""):
            return [Part(known, True)]
        if depth == DEEPEST or not text.strip():
            return None
        ways = (self._labelled, self._filled_in, self._listed, self._with_more, self._one_by_one)
        return next((told for way in ways if (told := way(text, depth))), None)

    def whole(self, text: str) -> str:
        return self._whole.get(text) or self._whole.get(text[:1].lower() + text[1:]) or ""

    def _labelled(self, text: str, depth: int) -> list[Part] | None:
        """One of ours, and after a colon what is said about it."""
        label, colon, rest = text.partition(": ")
        if not colon or not (known := self.whole(label)):
            return None
        told = self.tell(rest, depth + 1)
        if not told and " " in label:  # one word and a colon may be how anybody writes
            told = [Part(rest, False)]
        return [Part(f"{known}：", True), *told] if told else None

    def _filled_in(self, text: str, depth: int) -> list[Part] | None:
        """The sentence that leaves the fewest signs untold, the longest among such; none where two say otherwise."""
        best: list[Part] | None = None
        least: tuple[int, int] | None = None  # signs untold, and how long the sentence is
        for phrase in self._by_first_word.get(_first_word(text)) or self._by_first_word[""]:
            values = phrase.values(text)
            if values is None:
                continue
            told = [self.tell(value, depth + 1) for value in values]
            is_told = any(told) or not (phrase.says_nothing or phrase.is_loose(values))
            if not is_told or not phrase.takes(values, told):
                continue
            found = list(_filled(phrase.translation, values, told))
            fit = (_untold(values, told), -phrase.length)
            if least is None or fit < least:
                best, least = found, fit
            elif fit == least and _text(found) != _text(best or []):
                best = None
        return best

    def _listed(self, text: str, depth: int) -> list[Part] | None:
        """Several of ours in a row, each of them whole."""
        for separator, ours in SEPARATORS.items():
            told: list[Part] = []
            for item in text.split(separator) if separator in text else ():
                if not (known := self.tell(item, depth + 1)):
                    break
                told += [Part(ours, True), *known]
            else:
                if told:
                    return told[1:]
        return None

    def _with_more(self, text: str, depth: int) -> list[Part] | None:
        """One of ours with a number behind it, or with something in brackets."""
        if more := WITH_MORE.fullmatch(text):
            ours, bracketed, number = more.groups()
            if told := self.tell(ours, depth + 1):
                inside = (bracketed and self.tell(bracketed, depth + 1)) or [Part(bracketed or number, False)]
                around = ("（", "）") if bracketed else (" ", "")
                return [*told, Part(around[0], True), *inside, Part(around[1], True)]
        return None

    def _one_by_one(self, text: str, depth: int) -> list[Part] | None:
        """Sentences one after the other, of which some may be somebody else's."""
        sentences = SENTENCE_END.split(text, MOST_SENTENCES)
        told = [self.tell(sentence, depth + 1) for sentence in sentences] if len(sentences) > 1 else []
        if not any(told):
            return None
        pairs = zip(sentences, told, strict=True)
        return [part for sentence, found in pairs for part in found or [Part(f" {sentence} ", False)]]


def _filled(translation: str, values: list[str], told: list[list[Part] | None]) -> Iterator[Part]:
    for number, piece in enumerate(HOLE.split(translation)):
        if number % 2 == 0:
            if piece:
                yield Part(piece, True)
        elif int(piece) < len(values):
            yield from told[int(piece)] or _value(values[int(piece)])


def _value(value: str) -> Iterator[Part]:
    """What was filled in, as it is; several numbers in a row have words of ours between them."""
    for number, piece in enumerate(BETWEEN.split(value) if NUMBERS.fullmatch(value) else [value]):
        yield Part(SEPARATORS[piece], True) if number % 2 else Part(piece, False)


def _untold(values: list[str], told: list[list[Part] | None]) -> int:
    pairs = zip(values, told, strict=True)
    return sum(
        len(value) if not parts else sum(len(part.text) for part in parts if not part.is_ours) for value, parts in pairs
    )


def _text(parts: list[Part]) -> str:
    return "".join(part.text for part in parts)


def _spaced(told: list[Part]) -> Iterator[Part]:
    """The same, with a space between Chinese and Latin where they meet, and none within Chinese."""
    before, between = Part("", True), ""
    for part in told:
        if part.is_ours and not part.text.strip():
            between += part.text
            continue
        gap = _gap(before.text.rstrip()[-1:], part.text.lstrip()[:1])
        if gap is not None:
            before, part = _stripped(before, str.rstrip), _stripped(part, str.lstrip)
        yield from (one for one in (before, Part(between if gap is None else gap, True)) if one.text)
        before, between = part, ""
    yield from (one for one in (before, Part(between, True)) if one.text)


def _gap(left: str, right: str) -> str | None:
    """What stands between two signs; None where it may be as it is."""
    if (CHINESE.match(left) and CHINESE.match(right)) or CLOSED_UP.match(left) or CLOSED_UP.match(right):
        return ""
    meet = (CHINESE.match(left) and LATIN.match(right)) or (LATIN.match(left) and CHINESE.match(right))
    return " " if meet else None


def _stripped(part: Part, strip: Callable[[str], str]) -> Part:
    return replace(part, text=strip(part.text)) if part.is_ours else part


def _first_word(text: str) -> str:
    """The first word of a sentence; none where it may begin with a value."""
    word, separator, _rest = text.partition(" ")
    return word if separator else ""


def _is_label(text: str) -> bool:
    """A name that somebody gave themselves is hardly one of ours if ours have a space or a capital."""
    return "%" not in text and (" " in text or text[:1].isupper())


def _code(text: str) -> str:
    code = text.replace(" ", "_")
    return next((str(among[word]) for among in CODES for word in (code, code.upper()) if word in among), "")


@cache
def _phrases(language: str) -> Phrases:
    catalogue = trans_real.translation(language)._catalog  # type: ignore[attr-defined]
    return Phrases({key: text for key, text in catalogue.items() if isinstance(key, str) and text})
