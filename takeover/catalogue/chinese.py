"""The Chinese catalogue as files: the sentences for people who translate, and the same compiled for the product."""

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from takeover.catalogue import code, tables, templates
from takeover.catalogue.said import RECORD, Said

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "takeover" / "locale" / "zh_Hans" / "LC_MESSAGES"
SENTENCES, COMPILED = FOLDER / "django.po", FOLDER / "django.mo"

# Where code marks what it says to whoever looks.
SPEAKING = ("takeover", "runs")

# Where sentences for the record are made. Others of the same folders speak to programmers only.
RECORDING = (
    "runs/timeline.py",
    "runs/case.py",
    "runs/domain/interventions.py",
    "runs/domain/effects.py",
    "runs/domain/budget.py",
    "runs/interventions/*.py",
    "runs/engine/advance.py",
    "runs/engine/calls.py",
    "runs/engine/events.py",
    "runs/engine/outlook.py",
    "runs/engine/stops.py",
    "runs/engine/undoing.py",
    "runs/agents/answers.py",
    "runs/agents/policies.py",
    "runs/tools/*.py",
    "runs/workflows/*.py",
)
FOR_PROGRAMMERS = {"runs/workflows/registry.py", "runs/workflows/definition.py", "runs/tools/tool.py"}

HOLES = re.compile(r"%\(\w+\)[a-z0-9]*|%[ds%]|\{\w*\}")
MARKUP = re.compile(r"</?\w+[^>]*>")


def said() -> Iterator[Said]:
    """Everything, the same sentence as often as it is said."""
    yield from templates.sentences(ROOT / "templates")
    for folder in SPEAKING:
        yield from code.marked(ROOT / folder)
    labels = list(tables.labels())
    yield from labels
    known = {label.text for label in labels}
    files = [file for pattern in RECORDING for file in sorted(ROOT.glob(pattern))]
    files = [file for file in files if file.relative_to(ROOT).as_posix() not in FOR_PROGRAMMERS]
    yield from (one for one in code.recorded(files, ROOT) if one.text not in known)


def kept() -> Catalog:
    with SENTENCES.open("rb") as file:
        return read_po(file, locale="zh_Hans", domain="django")


def up_to_date() -> Catalog:
    """What is said now, with the translations there are."""
    old = kept()
    new = Catalog(locale="zh_Hans", domain="django", header_comment=old.header_comment, fuzzy=False)
    new.revision_date = new.creation_date = old.creation_date  # a file that nobody changed stays the same
    for one in said():
        name = (one.text, one.plural) if one.plural else one.text
        before = old.get(name, one.context or None)
        found = new.get(name, one.context or None)
        places = {*(found.locations if found else ()), (one.where, None)}
        new.add(
            name,
            before.string if before else None,
            sorted(places),
            flags=before.flags if before else (),
            user_comments=before.user_comments if before else (),
            context=one.context or None,
        )
    return new


def text_of(catalogue: Catalog) -> bytes:
    out = BytesIO()
    write_po(out, catalogue, width=120, include_lineno=False)
    return out.getvalue()


def compiled(catalogue: Catalog) -> bytes:
    out = BytesIO()
    write_mo(out, catalogue)
    return out.getvalue()


def write(catalogue: Catalog) -> None:
    SENTENCES.write_bytes(text_of(catalogue))
    COMPILED.write_bytes(compiled(catalogue))


# What is wrong with it


def faults(catalogue: Catalog) -> Iterator[str]:
    for message in catalogue:
        if message.id and (problem := _problem(message)):
            yield f"{problem}: {_first(message.id)}"


def _problem(message: Message) -> str:
    translations = [message.string] if isinstance(message.string, str) else list(message.string or [""])
    if not all(translations):
        return "not translated"
    if message.fuzzy:
        return "marked as fuzzy"
    source = _last(message.id)
    for translation in translations:
        if sorted(MARKUP.findall(source)) != sorted(MARKUP.findall(translation)):
            return "other markup"
        wanted, found = set(HOLES.findall(source)), set(HOLES.findall(translation))
        if found - wanted or (wanted - found and message.context != RECORD):
            return "other placeholders"
    return ""


def _first(text: str | Iterable[str]) -> str:
    return text if isinstance(text, str) else next(iter(text))


def _last(text: str | Iterable[str]) -> str:
    return text if isinstance(text, str) else [*text][-1]
