"""The calls about research: who may commission a scan, its brief, the register of publishers, searching and reading."""

from dataclasses import asdict, replace

from starlette.requests import Request
from starlette.routing import Route

from takeover.demo.backoffice import inputs, seed
from takeover.demo.backoffice.answers import Answer, error, now
from takeover.demo.backoffice.briefs import BRIEFS, PUBLISHERS
from takeover.demo.backoffice.calls import Work, endpoint
from takeover.demo.backoffice.faults import Kind
from takeover.demo.backoffice.library import KINDS, Library, Section, Source
from takeover.demo.backoffice.store import Store, Strike

LIBRARY = Library()
LONGEST_QUERY = 200  # characters
REPLACED = "This text was replaced by its publisher and is being revised."


def authority(request: Request, _body: bytes, _store: Store) -> Work:
    user = inputs.word("user", request.query_params.get("user"))
    brief_id = inputs.word("about", request.query_params.get("about"))

    def work(_: Strike | None) -> Answer:
        if brief_id not in BRIEFS:
            return brief_unknown(brief_id)
        commissioned = user == BRIEFS[brief_id].commissioned_by
        reason = "desk" if user in seed.DESK else "commissioned_it" if commissioned else "not_commissioned"
        allowed = reason != "not_commissioned"
        return Answer(200, {"user": user, "brief_id": brief_id, "allowed": allowed, "reason": reason, "as_of": now()})

    return work


def brief(request: Request, _body: bytes, _store: Store) -> Work:
    brief_id = inputs.word("brief_id", request.path_params["brief_id"])

    def work(_: Strike | None) -> Answer:
        known = BRIEFS.get(brief_id)
        return Answer(200, {**asdict(known), "as_of": now()}) if known else brief_unknown(brief_id)

    return work


def publishers(request: Request, _body: bytes, _store: Store) -> Work:
    about(request)

    def work(_: Strike | None) -> Answer:
        register = [asdict(publisher) for publisher in PUBLISHERS]
        return Answer(200, {"business_date": seed.BUSINESS_DATE, "publishers": register, "as_of": now()})

    return work


def search(request: Request, _body: bytes, _store: Store) -> Work:
    inputs.only(request.query_params, ["q", "kind", "about"])
    about(request)
    text = inputs.text("q", request.query_params.get("q"), LONGEST_QUERY)
    kind = request.query_params.get("kind")
    if kind is not None:
        inputs.one_of("kind", kind, KINDS)

    def work(_: Strike | None) -> Answer:
        found = LIBRARY.search(text, kind)
        return Answer(200, {"results": [result(*hit) for hit in found], "as_of": now()})

    return work


def source(request: Request, _body: bytes, _store: Store) -> Work:
    source_id = inputs.word("source_id", request.path_params["source_id"])

    def work(strike: Strike | None) -> Answer:
        known = LIBRARY.sources.get(source_id)
        if known is None or (strike and strike.fault == "source_withdrawn"):
            return error(404, "source_unknown", f"There is no source {source_id}.")
        if strike:  # source_replaced
            known = replaced(known)
        return Answer(200, in_full(known))

    return work


def about(request: Request) -> None:
    if (subject := request.query_params.get("about")) is not None:
        inputs.word("about", subject)


def result(section: Section, excerpt: str) -> dict[str, object]:
    found = section.source
    return {
        "source_id": found.source_id,
        "title": found.title,
        "publisher": found.publisher,
        "published_on": found.published_on,
        "topic": found.topic,
        "kind": section.kind,
        "excerpt": excerpt,
    }


def in_full(found: Source) -> dict[str, object]:
    return {**asdict(found), "text": found.text, "digest": found.digest, "as_of": now()}


def replaced(before: Source) -> Source:
    return replace(before, figures={}, sections=dict.fromkeys(before.sections, REPLACED))


def brief_unknown(brief_id: str) -> Answer:
    return error(404, "brief_unknown", f"There is no brief {brief_id}.")


routes = [
    Route("/research/authority", endpoint(Kind.AUTHORITY, authority)),
    Route("/briefs/{brief_id}", endpoint(Kind.BRIEFS, brief)),
    Route("/publishers", endpoint(Kind.PUBLISHERS, publishers)),
    Route("/search", endpoint(Kind.SEARCH, search)),
    Route("/sources/{source_id}", endpoint(Kind.SOURCES, source)),
]
