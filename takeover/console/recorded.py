"""Sentences of the record in the viewer's language.

The rules write the record in English, once and for good. What they write is known: the catalogue of translations holds
each sentence with a number in braces for every value that was filled in (takeover/catalogue). Here a sentence is told
from what it looks like and put into the viewer's language, its values as they are. What is not recognised stays as it
was recorded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
VALUE = re.compile(rf"\S+|“[^”]*”|'[^']*'|\"[^\"]*\"|{WORD}(?: (?:of |and |or )?{WORD})*")
LOOSE = 10  # characters
MOST_SENTENCES = 12
DEEPEST = 3  # sentences within sentences
CODES: tuple[Mapping[Any, Any], ...] = (
    words.STATE,
    words.OUTCOME,
    words.REASON,
    words.EFFECT,
    words.ANSWER,
    words.DIMENSION,
    words.PERMISSION,
    words.ERROR,
)


@dataclass(frozen=True)
class Part:
    text: str
    is_ours: bool  # in the viewer's language; otherwise as it was recorded


def parts(text: str) -> list[Part]:
    """`text` in the viewer's language as far as it is recognised."""
    language = get_language() or settings.LANGUAGE_CODE
    if language == settings.LANGUAGE_CODE or not text.strip() or len(text) > LONGEST:
        return [Part(text, language == settings.LANGUAGE_CODE)]
    return _told(language, text) or [Part(text, False)]


@lru_cache(maxsize=2048)  # a page that is asked for again shows mostly the same
def _told(language: str, text: str) -> list[Part] | None:
    return _phrases(language).tell(text)


def exact(text: str) -> Part:
    """`text` as it is, unless it is nothing but a word of ours."""
    language = get_language() or settings.LANGUAGE_CODE
    known = text if language == settings.LANGUAGE_CODE else _phrases(language).whole(text)
    return Part(known or text, bool(known))


def plain(text: str) -> str:
    return "".join(part.text for part in parts(text)).strip()


class Phrase:
    """One sentence with holes, and its translation."""

    def __init__(self, source: str, translation: str) -> None:
        self.translation = translation
        self.first, *self.middle, self.last = HOLE.split(source)[::2]
        literals = [self.first, *self.middle, self.last]
        self.longest = max(literals, key=len)
        self.length = sum(map(len, literals))
        around = pairwise([self.first, *self.middle, self.last])
        self.quoted = [before.endswith("“") and after.startswith("”") for before, after in around]
        self.says_nothing = not any(sign.isalpha() for literal in literals for sign in literal)

    def is_loose(self, values: list[str]) -> bool:
        """Whether it is a word or two beside what may be anything."""
        most = 1 if self.first else 0 if len(values) == 1 else -1  # spaces in a value
        return self.length < LOOSE and any(value.count(" ") > most for value in values)

    def takes(self, values: list[str], told: list[list[Part] | None]) -> bool:
        """Whether each value is one of ours, or can be nothing but a value."""
        return all(
            ours or (VALUE.fullmatch(value) if not quoted else "”" not in value)
            for value, ours, quoted in zip(values, told, self.quoted, strict=True)
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
        ways = (self._filled_in, self._listed, self._with_more, self._one_by_one)
        return next((told for way in ways if (told := way(text, depth))), None)

    def whole(self, text: str) -> str:
        return self._whole.get(text) or self._whole.get(text[:1].lower() + text[1:]) or ""

    def _filled_in(self, text: str, depth: int) -> list[Part] | None:
        """The sentence of which most values are ours too, and among such the longest."""
        best, most = None, -1
        for phrase in self._by_first_word.get(_first_word(text)) or self._by_first_word[""]:
            values = phrase.values(text)
            if values is None:
                continue
            told = [self.tell(value, depth + 1) for value in values]
            if not phrase.takes(values, told):
                continue
            ours = sum(map(bool, told))
            if ours > most and (ours or not (phrase.says_nothing or phrase.is_loose(values))):
                best, most = list(_filled(phrase.translation, values, told)), ours
            if ours == len(values):
                break
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
            yield from told[int(piece)] or [Part(values[int(piece)], False)]


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
