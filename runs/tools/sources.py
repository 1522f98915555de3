"""The library's tools: search it, read a source, and read a cited source again.

A title, a publisher's name or a text is whatever somebody wrote. It is kept as data, its size is bounded, and nothing
in it is followed. What the product relies on is checked here: numbers, dates, and that a text has its digest.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import quote

from runs.domain.errors import ErrorClass, Failure
from runs.domain.states import StepKind
from runs.tools.back_office import SERVICE
from runs.tools.tool import Call, Result, Service, Tool, ToolFailed

SOURCE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
KINDS = ("market", "competitors", "sales")
UNDATED = "unknown"
MOST_RESULTS = 20  # what a service lists beyond these is left out, and said to be
LONGEST_NAME, LONGEST_EXCERPT, LONGEST_TEXT = 300, 600, 20_000  # characters


def _given(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind):
        raise ToolFailed(Failure("invalid_output", f"The answer's {name} is missing or of the wrong type."))
    return value


def _text(data: Mapping[str, Any], name: str, longest: int = LONGEST_NAME) -> str:
    """Raises ToolFailed for what is no text, or more of it than anybody here has use for."""
    value: str = _given(data, name, str)
    if len(value) > longest:
        raise ToolFailed(
            Failure("too_large", f"The answer's {name} has {len(value)} characters, and may have {longest}.")
        )
    return value


def _source_id(data: Mapping[str, Any]) -> str:
    value: str = _given(data, "source_id", str)
    if not SOURCE_ID.fullmatch(value):
        raise ToolFailed(Failure("invalid_output", "The answer's source_id is no number of a source."))
    return value


def _published_on(data: Mapping[str, Any]) -> str:
    """A date such as 2026-06-02, or "unknown": a day that nobody names is not guessed."""
    value: str = _given(data, "published_on", str)
    if value == UNDATED:
        return value
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise ToolFailed(Failure("invalid_output", "The answer's published_on is not a date.")) from None


def _kind(value: object) -> str:
    if value not in KINDS:
        raise ToolFailed(Failure("invalid_output", f"The answer names a kind other than {', '.join(KINDS)}."))
    return str(value)


def _listed(row: object) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ToolFailed(Failure("invalid_output", "The answer's results are not objects."))
    return {
        "source_id": _source_id(row),
        "title": _text(row, "title"),
        "publisher": _text(row, "publisher"),
        "published_on": _published_on(row),
        "topic": _text(row, "topic"),
        "kind": _kind(row.get("kind")),
        "excerpt": _text(row, "excerpt", LONGEST_EXCERPT),
    }


def _search_sources(service: Service, call: Call, until: float) -> Result:
    asked = {name: str(call.params[name]) for name in ("q", "kind", "about") if call.params.get(name)}
    _, data = service.request("GET", "/search", params=asked, until=until)
    rows = _given(data, "results", list)
    results = [_listed(row) for row in rows[:MOST_RESULTS]]
    found = ", ".join(dict.fromkeys(row["source_id"] for row in results)) or "nothing"
    more = f", and {len(rows) - MOST_RESULTS} more that were left out" if len(rows) > MOST_RESULTS else ""
    says = f"Searched {asked.get('kind', 'everything')} for “{asked['q']}”: {found}{more}"
    content = {"q": asked["q"], "kind": asked.get("kind", ""), "results": results}
    return Result(content, says, reference=f"search/{found}"[:200])


def _read_source(service: Service, call: Call, until: float) -> Result:
    source_id = str(call.params["source_id"])
    _, data = service.request("GET", f"/sources/{quote(source_id, safe='')}", until=until)
    if data.get("source_id") != source_id:
        raise ToolFailed(Failure("invalid_output", "The answer is about another source."))
    text = _text(data, "text", LONGEST_TEXT)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    if data.get("digest") != digest:
        raise ToolFailed(
            Failure("invalid_output", f"The text of {source_id} does not have the digest that it is given.")
        )
    content = {
        "source_id": source_id,
        "title": _text(data, "title"),
        "publisher": _text(data, "publisher"),
        "published_on": _published_on(data),
        "topic": _text(data, "topic"),
        "figures": _short_texts(data, "figures", LONGEST_NAME),
        "sections": {_kind(kind): part for kind, part in _short_texts(data, "sections", LONGEST_TEXT).items()},
        "text": text,
        "digest": digest,
    }
    says = f"{source_id} of {content['publisher']}, {content['published_on']}, read: {len(text)} characters"
    return Result(content, says, reference=f"sources/{source_id}/{digest[:16]}")


def _short_texts(data: Mapping[str, Any], name: str, longest: int) -> dict[str, str]:
    given = _given(data, name, dict)
    if len(given) > MOST_RESULTS or any(len(key) > LONGEST_NAME for key in given):
        raise ToolFailed(
            Failure("too_large", f"The answer's {name} are more, or have longer names, than is read here.")
        )
    return {key: _text(given, key, longest) for key in given}


def _recheck_source(service: Service, call: Call, until: float) -> Result:
    """As reading; but that there is no such source is an answer, and what a citation is refuted by."""
    source_id = str(call.params["source_id"])
    try:
        read = _read_source(service, call, until)
    except ToolFailed as failed:
        if failed.failure.error_class is not ErrorClass.NOT_FOUND:
            raise
        content = {"source_id": source_id, "exists": False}
        return Result(content, f"The library has no source {source_id}", reference=f"sources/{source_id}")
    return Result({**read.data, "exists": True}, read.says, read.reference)


SEARCH_SOURCES = Tool("search_sources", "Search for sources", "library", SERVICE, StepKind.READ, _search_sources)
READ_SOURCE = Tool("read_source", "Read a source", "library", SERVICE, StepKind.READ, _read_source)
RECHECK_SOURCE = Tool("recheck_source", "Read a cited source again", "library", SERVICE, StepKind.READ, _recheck_source)
