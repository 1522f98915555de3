"""The calls about reports: what one has to answer, creating a draft, revising a section of it, reading, withdrawing."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace

from starlette.requests import Request
from starlette.routing import Route

from takeover.demo.backoffice import inputs, seed
from takeover.demo.backoffice.answers import Answer, Refusal, error, invalid, now
from takeover.demo.backoffice.calls import STATUS, Reader, Work, endpoint, key_reused, ruling
from takeover.demo.backoffice.drafts import (
    ChangedMeanwhile,
    Draft,
    Drafts,
    Finding,
    Section,
    Wanted,
    Written,
    digest_of,
    review,
)
from takeover.demo.backoffice.faults import Kind
from takeover.demo.backoffice.store import KeyReused, Refused, State, Store, Strike, Unknown

MOST_SECTIONS, MOST_CITED = 12, 20
LONGEST_TEXT = 4000  # characters of one section


def about(request: Request, kind: Kind, body: bytes, store: Store) -> tuple[str | None, str | None]:
    """Whom a call is about: its report goes where an order's call has its order."""
    report_id: object = request.path_params.get("report_id") or request.query_params.get("report")
    operation_key: object = None
    if kind in (Kind.SUBMIT, Kind.CANCEL):
        operation_key = request.headers.get("idempotency-key")
        with suppress(Refusal):
            report_id = inputs.json_object(body).get("report_id")
    if kind is Kind.LOOKUP:
        operation_key = request.query_params.get("operation_key")
        behind = store.behind(str(operation_key))
        report_id = behind.about if behind else report_id
    elif draft_id := request.path_params.get("draft_id"):
        report_id = books(request).report_of(draft_id) or report_id
    return (
        str(report_id) if inputs.is_word(report_id) else None,
        str(operation_key) if inputs.is_key(operation_key) else None,
    )


def books(request: Request) -> Drafts:
    drafts: Drafts = request.app.state.drafts
    return drafts


def assignment(request: Request, _body: bytes, _store: Store) -> Work:
    report_id = inputs.word("report_id", request.path_params["report_id"])
    user = inputs.word("user", request.query_params.get("user"))

    def work(_: Strike | None) -> Answer:
        try:
            known = books(request).assignment(report_id)
        except Unknown:
            return report_unknown(report_id)
        reason = "desk" if user in seed.DESK else "editor" if user == known.editor else "stranger"
        if reason == "stranger":
            return Answer(
                200, {"report_id": report_id, "user": user, "allowed": False, "reason": reason, "as_of": now()}
            )
        return Answer(
            200,
            {
                **asdict(known),
                "business_date": seed.BUSINESS_DATE,
                "user": user,
                "allowed": True,
                "reason": reason,
                "as_of": now(),
            },
        )

    return work


def create(request: Request, body: bytes, _store: Store) -> Work:
    fields = inputs.json_object(body)
    inputs.only(fields, ["report_id", "sections", "digest"])
    sections = read_sections("sections", fields.get("sections"))
    arrived_whole(fields, sections)
    wanted = Wanted(
        inputs.key("Idempotency-Key", request.headers.get("idempotency-key")),
        inputs.word("report_id", fields.get("report_id")),
        sections,
    )
    return write(request, wanted)


def revise(request: Request, body: bytes, _store: Store) -> Work:
    fields = inputs.json_object(body)
    inputs.only(fields, ["report_id", "section", "text", "cites", "version", "digest"])
    inputs.only({inputs.word("section", fields.get("section")): ""}, [request.path_params["section"]])
    section = read_section("", {"name": fields["section"], "text": fields.get("text"), "cites": fields.get("cites")})
    arrived_whole(fields, (section,))
    wanted = Wanted(
        inputs.key("Idempotency-Key", request.headers.get("idempotency-key")),
        inputs.word("report_id", fields.get("report_id")),
        (section,),
        inputs.word("draft_id", request.path_params["draft_id"]),
        inputs.whole("version", fields.get("version"), 1, 1_000_000),
    )
    return write(request, wanted)


def write(request: Request, wanted: Wanted) -> Work:
    def work(strike: Strike | None) -> Answer:
        try:
            written = books(request).write(wanted, ruling(strike))
        except KeyReused:
            return key_reused()
        except Unknown:
            return report_unknown(wanted.report_id)
        except ChangedMeanwhile as changed:
            message = f"The draft was changed meanwhile and is in version {changed.version} now; read it again."
            return error(422, "invalid_input", message, field="version")
        facts = misnamed(receipt(written), strike)
        if written.state is State.REJECTED:
            return Answer(409, {"code": "refused", "message": "The office does not take this.", **facts})
        if written.state is State.PENDING and written.queued:
            return Answer(200, {"status": "queued", "tracking_id": written.tracking_id})
        return Answer(STATUS[written.state], facts)

    return work


def look_up(request: Request, _body: bytes, _store: Store) -> Work:
    operation_key = inputs.key("operation_key", request.query_params.get("operation_key"))
    if (report_id := request.query_params.get("report")) is not None:
        inputs.word("report", report_id)

    def work(strike: Strike | None) -> Answer:
        if strike and strike.fault == "lookup_lags":
            return Answer(200, {"found": False, "records": [], "store": "index", "as_of": now()})
        written = books(request).look_up(operation_key)
        records = [misnamed(receipt(written), strike)] if written else []
        if written and strike and strike.fault == "contradictory":
            records.append(receipt(contradiction(written)))
        return Answer(200, {"found": bool(records), "records": records, "store": "ledger", "as_of": now()})

    return work


def draft(request: Request, _body: bytes, _store: Store) -> Work:
    """The draft as it stands, with the review of it as it stands."""
    draft_id = inputs.word("draft_id", request.path_params["draft_id"])

    def work(strike: Strike | None) -> Answer:
        try:
            known, revised = books(request).draft(draft_id)
            findings = review(known, books(request).assignment(known.report_id))
        except Unknown:
            return draft_unknown(draft_id)
        match strike and strike.fault:
            case "draft_altered":
                known = altered(known)
            case "review_blocks":
                findings = [*findings, *blocked(known, revised, strike)]
        return Answer(
            200,
            {
                **asdict(known),
                "digest": digest_of(known.sections),
                "review": {
                    "version": known.version,
                    "passed": not findings,
                    "findings": [asdict(finding) for finding in findings],
                },
                "as_of": now(),
            },
        )

    return work


def altered(known: Draft) -> Draft:
    *others, last = known.sections
    return replace(known, sections=(*others, replace(last, text=last.text[: len(last.text) // 2])))


def blocked(known: Draft, revised: Mapping[str, int], strike: Strike | None) -> list[Finding]:
    values = strike.values if strike else {}
    section, enough = str(values.get("section")), values.get("revisions")
    satisfied = isinstance(enough, int) and revised.get(section, 0) >= enough
    there = any(section == one.name for one in known.sections)
    return [Finding(section, "reader", "The reader asks for this section again.")] if there and not satisfied else []


def withdraw(request: Request, body: bytes, _store: Store) -> Work:
    draft_id = inputs.word("draft_id", request.path_params["draft_id"])
    inputs.only(inputs.json_object(body), ["report_id"])
    operation_key = inputs.key("Idempotency-Key", request.headers.get("idempotency-key"))

    def work(strike: Strike | None) -> Answer:
        try:
            return Answer(200, misnamed(receipt(books(request).withdraw(draft_id, operation_key)), strike))
        except KeyReused:
            return key_reused()
        except Unknown:
            return draft_unknown(draft_id)
        except Refused as refused:
            return error(
                409,
                "refused",
                "Only a draft that stands, and was not released, can be withdrawn.",
                submit_state="rejected",
                reason=refused.reason,
                draft_id=draft_id,
                operation_key=operation_key,
            )

    return work


# What arrives


def read_sections(field: str, value: object) -> tuple[Section, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_SECTIONS:
        raise invalid(field, f"Must be a list of 1 to {MOST_SECTIONS} sections.")
    sections = tuple(read_section(f"{field}.{number}.", one) for number, one in enumerate(value))
    if len({section.name for section in sections}) < len(sections):
        raise invalid(field, "Two sections have the same name.")
    return sections


def read_section(prefix: str, value: object) -> Section:
    if not isinstance(value, dict):
        raise invalid(prefix.rstrip("."), "Must be an object with name, text and cites.")
    inputs.only(value, ["name", "text", "cites"])
    text, cites = value.get("text"), value.get("cites")
    if not isinstance(text, str) or len(text) > LONGEST_TEXT or (text and not text.isprintable()):
        raise invalid(f"{prefix}text", f"Must be at most {LONGEST_TEXT} printable characters, without line breaks.")
    if not isinstance(cites, list) or len(cites) > MOST_CITED:
        raise invalid(f"{prefix}cites", f"Must be a list of at most {MOST_CITED} numbers of sources.")
    return Section(
        inputs.word(f"{prefix}name", value.get("name")),
        text,
        tuple(inputs.word(f"{prefix}cites", one) for one in cites),
    )


def arrived_whole(fields: Mapping[str, object], sections: tuple[Section, ...]) -> None:
    if fields.get("digest") != digest_of(sections):
        raise invalid("digest", "Must be the SHA-256 of the sections as canonical JSON; something else arrived.")


# What leaves


def receipt(written: Written) -> dict[str, object]:
    facts: dict[str, object] = {
        "submit_state": written.state,
        "draft_id": written.draft_id,
        "tracking_id": written.tracking_id,
        "report_id": written.report_id,
        "section": written.revises or None,
        "operation_key": written.operation_key,
        "digest": written.digest,
        "reason": written.reason,
        "as_of": now(),
    }
    return {name: value for name, value in facts.items() if value is not None}


def contradiction(written: Written) -> Written:
    if written.state is State.REJECTED:
        return replace(written, state=State.ACCEPTED, draft_id="DR-1", reason=None)
    return replace(written, state=State.REJECTED, draft_id=None, tracking_id=None, reason="duplicate_request")


def misnamed(facts: Mapping[str, object], strike: Strike | None) -> dict[str, object]:
    if strike is None or strike.fault != "other_order":
        return dict(facts)
    return {**facts, "report_id": strike.values["other"]}


def report_unknown(report_id: str) -> Answer:
    return error(404, "report_unknown", f"There is no report {report_id}.")


def draft_unknown(draft_id: str) -> Answer:
    return error(404, "draft_unknown", f"There is no draft {draft_id}.")


def route(path: str, kind: Kind, read: Reader, method: str = "GET") -> Route:
    return Route(path, endpoint(kind, read, about), methods=[method])


routes = [
    route("/assignments/{report_id}", Kind.ASSIGNMENTS, assignment),
    route("/drafts", Kind.SUBMIT, create, "POST"),
    route("/drafts", Kind.LOOKUP, look_up),
    route("/drafts/{draft_id}", Kind.DRAFTS, draft),
    route("/drafts/{draft_id}/sections/{section}", Kind.SUBMIT, revise, "PUT"),
    route("/drafts/{draft_id}/withdraw", Kind.CANCEL, withdraw, "POST"),
]
