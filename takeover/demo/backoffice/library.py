"""The library: a small collection of dated texts from named publishers, as files, and a search over their sections.

A file begins with a header, `name: value` a line, and goes on with sections, each under its kind in brackets. Nothing
in it is believed: some sources are old, repeat others, contradict others, or give orders to their readers.

The search is plain term matching. A section is found if it has at least half of the words asked for, and the rarer its
words are in the library and the shorter it is, the higher it stands (Okapi's BM25). Nothing is looked up by meaning.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
KINDS = ("market", "competitors", "sales")
MOST_RESULTS = 10
# Of BM25: how soon a repeated word stops counting, and how much a long section loses.
SATURATION, LENGTH = 1.2, 0.75

WORD = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")
SAY_NOTHING = frozenset(
    {"a", "an", "and", "are", "at", "by", "for", "from", "in", "is", "of", "on", "or", "the", "to", "with"}
)


def terms(text: str) -> Iterator[str]:
    """English words without a plural's s; Chinese, which puts no spaces between words, as pairs of characters."""
    for word in WORD.findall(text.lower()):
        if word[0] >= "\u4e00":
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word not in SAY_NOTHING:
            yield word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@dataclass(frozen=True)
class Source:
    source_id: str
    title: str
    publisher: str
    published_on: str  # a date, or "unknown"
    topic: str
    figures: Mapping[str, str]
    sections: Mapping[str, str]  # by kind

    @property
    def text(self) -> str:
        return "\n\n".join(self.sections.values())

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Section:
    source: Source
    kind: str

    @cached_property
    def counted(self) -> Counter[str]:
        """How often each word stands in it, or above it."""
        return Counter(terms(f"{self.source.title} {self.source.topic} {self.source.sections[self.kind]}"))

    def excerpt(self, wanted: frozenset[str]) -> str:
        """The sentence with most of the words that were asked for, as it stands there."""
        sentences = [part for part in SENTENCE_END.split(self.source.sections[self.kind]) if part]
        return max(sentences, key=lambda sentence: len(wanted & set(terms(sentence))))


class Library:
    def __init__(self, folder: Path = CORPUS) -> None:
        self.sources = {source.source_id: source for source in map(read, sorted(folder.glob("*.txt")))}
        self._sections = [Section(source, kind) for source in self.sources.values() for kind in source.sections]
        self._held_by = Counter(word for section in self._sections for word in section.counted)
        self._usual_length = sum(section.counted.total() for section in self._sections) / len(self._sections)

    def search(self, text: str, kind: str | None = None) -> list[tuple[Section, str]]:
        """The best sections of a kind, or of all, each with an excerpt; the best first, then by number."""
        wanted = frozenset(terms(text))
        found = [
            (self._score(section, wanted), section)
            for section in self._sections
            if kind in (None, section.kind) and 2 * len(wanted & section.counted.keys()) >= max(1, len(wanted))
        ]
        found.sort(key=lambda hit: (-hit[0], hit[1].source.source_id, hit[1].kind))
        return [(section, section.excerpt(wanted)) for _, section in found[:MOST_RESULTS]]

    def _score(self, section: Section, wanted: frozenset[str]) -> float:
        length = SATURATION * (1 - LENGTH + LENGTH * section.counted.total() / self._usual_length)
        return sum(self._rarity(word) * times / (times + length) for word in wanted if (times := section.counted[word]))

    def _rarity(self, word: str) -> float:
        held = self._held_by[word]
        return math.log(1 + (len(self._sections) - held + 0.5) / (held + 0.5))


def read(file: Path) -> Source:
    """Raises ValueError, with the file's name, for one that is not as this module says."""
    head, _, body = file.read_text(encoding="utf-8").partition("\n\n")
    said: dict[str, str] = {}
    figures: dict[str, str] = {}
    for line in head.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "figure":
            of_what, _, figure = value.rpartition(" = ")
            figures[of_what] = figure
        else:
            said[name] = value
    _, *parts = re.split(r"^\[(\w+)\]\n", body, flags=re.MULTILINE)
    sections = {kind: text.strip() for kind, text in zip(parts[::2], parts[1::2], strict=True)}
    wanted = ["id", "title", "publisher", "published", "topic"]
    if sorted(said) != sorted(wanted) or not sections or not all(sections.values()) or sections.keys() - set(KINDS):
        raise ValueError(f"{file.name}: needs {', '.join(wanted)}, and text under {' or '.join(KINDS)}.")
    return Source(said["id"], said["title"], said["publisher"], said["published"], said["topic"], figures, sections)
