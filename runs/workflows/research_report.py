"""Research and report: find the sources that an assignment asks for, verify them, and write one draft that quotes them.

The story: may this person write this report, and what does it have to answer? Search once, read what counts until
there is enough of it, and hold each source against its listing and against the others. Then plan the draft, let a
person approve exactly that plan, and write it once under one operation key. Afterwards somebody else looks: the draft
is read back and reviewed by rules that know nothing of who wrote it, and only the sections that fail go back.

A draft is not a publication: to let it out of the house is the editors' own business.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Evidence, Fact, Judgement, Value, is_text, met, unknown, unmet
from runs.domain.decision import FactsState
from runs.domain.effects import Effect, EffectState, WritePlan
from runs.domain.proposals import Act, Ask, Claim, Exhausted, Proposal
from runs.domain.states import StopReason
from runs.domain.telling import Quote, Statement, Wording
from runs.tools.reports import (
    CREATE_DRAFT,
    LOOK_UP_DRAFT,
    LOOK_UP_WITHDRAWAL,
    READ_ASSIGNMENT,
    READ_DRAFT,
    REVISE_SECTION,
    WITHDRAW_DRAFT,
    digest_of,
)
from runs.tools.sources import KINDS, READ_SOURCE, SEARCH_SOURCES, UNDATED
from runs.workflows.definition import Assertion, Check, Context, Read, Reading, Scope, Undo, Workflow, Writing
from runs.workflows.fields import is_day

RECENT = timedelta(days=365)
LONGEST_QUOTE = 600  # characters of a source in a draft
LONGEST_SECTION = 4000  # what the office takes

INPUT = {
    "type": "object",
    "properties": {
        "report_id": {"type": "string", "title": "Report", "pattern": "^[A-Za-z0-9][A-Za-z0-9-]{0,39}$"},
        "editor_id": {
            "type": "string",
            "title": "Editor the report is written for",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9-]{0,39}$",
        },
    },
    "required": ["report_id"],
    "additionalProperties": False,
}


# What has to be known, and where it is read


def assignment_is_complete(assignment: Fact) -> tuple[FactsState, str]:
    if not assignment.data["allowed"]:
        return FactsState.COMPLETE, ""  # nothing more is told to a stranger, and nothing more is needed to decline
    wanted = {
        "question": is_text,
        "topic": is_text,
        "kind": lambda value: value in KINDS,
        "publishers": is_list_of_texts,
        "sources": lambda value: type(value) is int and value > 0,
        "sections": is_list_of_texts,
        "open": lambda value: isinstance(value, bool),
        "version": lambda value: type(value) is int,
        "business_date": is_day,
    }
    missing = [name for name, fits in wanted.items() if not fits(assignment.data.get(name))]
    if missing:
        return FactsState.MISSING, f"The assignment has no usable {', '.join(missing).replace('_', ' ')}."
    return FactsState.COMPLETE, ""


def is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_text, value))


READS = (
    Read(
        fact="assignment",
        tool=READ_ASSIGNMENT.name,
        params=lambda c: {"report_id": c.input["report_id"], "user": c.acts_for},
        check=assignment_is_complete,
        expects="whether this person may write this report, and what it has to answer",
        opens=True,
    ),
)


def assignment_of(c: Context) -> Mapping[str, Any]:
    return c.facts["assignment"].data


def authorised(c: Context) -> Judgement:
    assignment = c.facts.get("assignment")
    if not assignment:
        return unknown("not read yet")
    may = assignment.data["allowed"]
    evidence = assignment.evidence(f"{c.acts_for} {'may' if may else 'may not'} write this report")
    return met(evidence) if may else unmet(evidence)


def eligible(c: Context) -> Judgement:
    assignment = c.facts.get("assignment")
    if not assignment or "open" not in assignment.data:
        return unknown("not read yet")
    is_open = assignment.data["open"]
    evidence = assignment.evidence(f"the assignment is {'open' if is_open else 'closed'}")
    return met(evidence) if is_open else unmet(evidence)


# What was found

Used = list[tuple[Mapping[str, Any], Fact]]  # each source as the search listed it, and as it was read


def has_searched(c: Context) -> bool:
    return any(name.startswith("search ") for name in c.facts)


def is_known(c: Context) -> bool:
    """Whether the assignment was read, and says what it has to."""
    assignment = c.facts.get("assignment")
    return bool(
        assignment and assignment.data["allowed"] and assignment_is_complete(assignment)[0] is FactsState.COMPLETE
    )


def candidates(c: Context) -> list[Mapping[str, Any]]:
    """What searches listed and may count: on the topic, of the wanted kind, of a publisher that counts, and recent."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in sorted(name for name in c.facts if name.startswith("search ")):
        for result in c.facts[name].data["results"]:
            if may_count(assignment_of(c), result):
                found.setdefault(result["source_id"], result)
    return list(found.values())


def may_count(assignment: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    return (
        (result["topic"], result["kind"]) == (assignment["topic"], assignment["kind"])
        and result["publisher"] in assignment["publishers"]
        and is_recent(result["published_on"], assignment["business_date"])
    )


def is_recent(published_on: str, today: str) -> bool:
    if published_on == UNDATED:
        return False
    return timedelta() <= date.fromisoformat(today) - date.fromisoformat(published_on) <= RECENT


def source_fact(source_id: str) -> str:
    return f"source {source_id}"


def what_is_wrong_with(listed: Mapping[str, Any], source: Fact) -> str:
    """Why a source that was read does not bear out what the search listed, as a sentence; empty where it does."""
    for name in ("publisher", "published_on", "title"):
        if source.data[name] != listed[name]:
            return (
                f"{listed['source_id']} names another {name.replace('_on', '').replace('_', ' ')} than the search did"
            )
    if listed["excerpt"] not in source.data["text"]:
        return f"{listed['source_id']} does not say what the search quoted"
    return ""


def used(c: Context) -> Used:
    """The sources that the report rests on: read in full, borne out, and one of each publisher."""
    found: dict[str, tuple[Mapping[str, Any], Fact]] = {}
    for listed in candidates(c):
        source = c.facts.get(source_fact(listed["source_id"]))
        if source and not what_is_wrong_with(listed, source):
            found.setdefault(listed["publisher"], (listed, source))
    return list(found.values())[: assignment_of(c)["sources"]]


def next_source(c: Context) -> str:
    """The next source worth reading, in the order in which the search listed them; empty where none is left."""
    heard = {listed["publisher"] for listed, _ in used(c)}
    for listed in candidates(c):
        given = {"source_id": listed["source_id"]}
        unread = source_fact(listed["source_id"]) not in c.facts and not c.is_closed(READ_SOURCE.name, given)
        if unread and listed["publisher"] not in heard:
            return str(listed["source_id"])
    return ""


def named(sources: Used) -> str:
    return ", ".join(f"{listed['source_id']} ({listed['publisher']})" for listed, _ in sources)


def contradiction(sources: Used) -> str:
    """The first figure for which two sources state different values, as a sentence; empty where they agree."""
    stated: dict[str, tuple[str, str]] = {}
    for listed, source in sources:
        for figure, value in source.data["figures"].items():
            said, by = stated.setdefault(figure, (value, listed["source_id"]))
            if said != value:
                return f"{by} and {listed['source_id']} contradict each other on “{figure}”: {said}, and {value}"
    return ""


# What success means: the contract. The names are the predicates of the source document.


def required_sources_found(c: Context) -> Judgement:
    if not has_searched(c) or not is_known(c):
        return unknown("nothing was searched for yet")
    sources, wanted = used(c), assignment_of(c)["sources"]
    if len(sources) < wanted:
        return unknown(f"{len(sources)} of {wanted} sources found and read")
    _, latest = sources[-1]
    return met(latest.evidence(f"{named(sources)}: read in full, and of publishers that count"))


def facts_verified(c: Context) -> Judgement:
    if required_sources_found(c).value is not Value.MET:
        return unknown("the sources are not complete yet")
    sources = used(c)
    _, latest = sources[-1]
    if says := contradiction(sources):
        return unmet(latest.evidence(says))
    return met(latest.evidence("publisher, date and quotation of each source are as listed, and no figures differ"))


def draft_created(c: Context) -> Judgement:
    draft, sent = c.write(CREATE_DRAFT.name), written_sections(c)
    if not draft or not draft.times_sent:
        return unknown("nothing has been written")
    match draft.state:
        case EffectState.REJECTED:
            return unmet(_from_the_office(draft, f"refused: {draft.reason}"))
        case EffectState.COMPENSATED:
            return unmet(_from_the_office(draft, f"created as {draft_id(c)}, and withdrawn since"))
        case EffectState.ABSENT:
            return unknown("the office does not have it")
        case EffectState.ACKNOWLEDGED:
            return unknown("received by the office, not decided yet")
        case EffectState.CONFIRMED:
            back = read_back(c)
            if not back:
                return unknown(f"created as {draft_id(c)}, and not read back since the last write")
            if back.data["state"] not in {"standing", "released"}:
                return unmet(back.evidence(f"{draft_id(c)} is {back.data['state']}"))
            if back.data["sections"] != sent or back.data["digest"] != digest_of(sent):
                return unmet(back.evidence(f"{draft_id(c)} does not read back as it was written"))
            return met(back.evidence(f"{draft_id(c)} reads back as it was written, version {back.data['version']}"))
    looked = f", nor from {draft.look_ups} look-up{'s' if draft.look_ups > 1 else ''}" if draft.look_ups else ""
    return unknown(f"no answer that counts from the writing{looked}")


def review_passed(c: Context) -> Judgement:
    back = read_back(c)
    if not back:
        return unknown("not reviewed since the last write")
    if found := findings(c, back):
        return unmet(back.evidence("; ".join(f"{one['section']}: {one['message']}" for one in found)))
    return met(back.evidence(f"nothing stands in the way of version {back.data['version']}"))


def _from_the_office(effect: Effect, says: str) -> Evidence:
    receipt = effect.receipt or {}
    reference = str(receipt.get("draft_id") or receipt.get("tracking_id") or "")
    return Evidence(says, CREATE_DRAFT.source, effect.answered_at, reference)


CONTRACT = (
    Assertion("required_sources_found", "Enough sources that count were found and read", required_sources_found),
    Assertion("facts_verified", "The sources are what the search said, and agree", facts_verified),
    Assertion("draft_created", "The draft was written and reads back as it was written", draft_created),
    Assertion("review_passed", "No check stands in the draft's way", review_passed),
)


# The check that did not write it


def draft_id(c: Context) -> str:
    draft = c.write(CREATE_DRAFT.name)
    return str((draft.receipt or {}).get("draft_id", "")) if draft else ""


def read_back(c: Context) -> Fact | None:
    """The draft as it was read since the last answer to a write."""
    back = c.facts.get("draft")
    answered = [effect.answered_at for effect in c.effects if effect.answered_at]
    return back if back and all(at <= back.at for at in answered) else None


def checks(c: Context) -> Sequence[Check]:
    """Read back once after each write. Who changes the draft later makes a new version, and no old one is revised."""
    if not draft_id(c) or read_back(c):
        return ()
    return (Check("draft", READ_DRAFT.name, {"draft_id": draft_id(c)}, "the draft as it was written, and its review"),)


def written_sections(c: Context) -> list[Mapping[str, Any]]:
    """The draft as this run wrote it: as it was created, with the revisions that took effect."""
    sections: dict[str, Mapping[str, Any]] = {}
    took_effect = [effect for effect in c.effects if effect.state is EffectState.CONFIRMED and not effect.undoes]
    for effect in sorted(took_effect, key=lambda effect: effect.planned_at):
        params = effect.plan.params
        revised = [section_of(params)] if effect.plan.operation == REVISE_SECTION.name else params["sections"]
        sections |= {section["name"]: section for section in revised}
    return list(sections.values())


def section_of(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": given["section"], "text": given["text"], "cites": list(given["cites"])}


def findings(c: Context, back: Fact) -> list[Mapping[str, str]]:
    """What stands in the draft's way: what the office's review found, and what our own rules find."""
    return [*back.data["review"]["findings"], *rule_findings(c, back.data["sections"])]


def rule_findings(c: Context, sections: Sequence[Mapping[str, Any]]) -> list[Mapping[str, str]]:
    there = {section["name"]: section for section in sections}
    asked_for = assignment_of(c)["sections"]
    known = {listed["source_id"] for listed, _ in used(c)}
    return [
        {"section": name, "rule": rule, "message": message}
        for name in [*asked_for, *(name for name in there if name not in asked_for)]
        for rule, message in _broken_rules(name, there.get(name), known, asked_for)
    ]


def _broken_rules(
    name: str, section: Mapping[str, Any] | None, known: set[str], asked_for: Sequence[str]
) -> Iterator[tuple[str, str]]:
    if section is None:
        yield "missing", "The assignment asks for this section."
        return
    if name not in asked_for:
        yield "not_asked_for", "The assignment does not ask for this section."
    if not section["text"].strip():
        yield "empty", "The section is empty."
    if not section["cites"]:
        yield "uncited", "The section cites no source."
    if strange := sorted(set(section["cites"]) - known):
        yield "unread_source", f"The section cites {', '.join(strange)}, which this report does not rest on."


# What may be read and written

SECTION: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 64},
        "text": {"type": "string", "maxLength": LONGEST_SECTION},
        "cites": {"type": "array", "items": {"type": "string", "maxLength": 64}, "maxItems": 20},
    },
    "required": ["name", "text", "cites"],
    "additionalProperties": False,
}


def draft_plan(c: Context, given: Mapping[str, Any]) -> WritePlan:
    assignment, report = assignment_of(c), c.input["report_id"]
    sections = [{**section, "text": printable(section["text"])} for section in given["sections"]]
    cited = sorted({source for section in sections for source in section["cites"]})
    wrong = rule_findings(c, sections)
    return WritePlan(
        operation=CREATE_DRAFT.name,
        target=f"report {report}",
        params={"report_id": report, "sections": sections, "digest": digest_of(sections)},
        difference=(
            ("draft", "none", "created"),
            *((section["name"], "–", section["text"]) for section in sections),
            ("sources", "–", ", ".join(cited) or "none"),
        ),
        target_version=f"assignment version {assignment['version']}",
        expected="a draft with a number that reads back as it was written",
        undo="withdraw the draft by its number, while it has not been released",
        risk=(
            "; ".join(f"{one['section']}: {one['message']}" for one in wrong)
            or "the draft can be read by everybody in the office"
        ),
        needs_approval="every draft is read by a person before it is written",
    )


def revision_plan(c: Context, given: Mapping[str, Any]) -> WritePlan:
    """One section, as it shall be instead of how it reads now; nothing else is written again."""
    back, report = c.facts["draft"].data, c.input["report_id"]
    section = {**section_of(given), "text": printable(given["text"])}
    before = next((one["text"] for one in back["sections"] if one["name"] == section["name"]), "–")
    blocked = "; ".join(one["message"] for one in findings(c, c.facts["draft"]) if one["section"] == section["name"])
    return WritePlan(
        operation=REVISE_SECTION.name,
        target=f"section {section['name']} of report {report}",
        params={
            "report_id": report,
            "draft_id": back["draft_id"],
            "section": section["name"],
            "text": section["text"],
            "cites": section["cites"],
            "version": back["version"],
            "digest": digest_of([section]),
        },
        difference=((section["name"], before, section["text"]), ("sources", "–", ", ".join(section["cites"]))),
        target_version=f"draft {back['draft_id']} version {back['version']}",
        expected="the section reads back as it was revised, and the review lets it pass",
        undo="none of its own: the text before it is in this run's record",
        risk=f"the review said: {blocked}" if blocked else "nothing was found fault with in this section",
        needs_approval="every revision is read by a person before it is written",
    )


def printable(text: str) -> str:
    """One line without control and invisible characters: the office takes no others, and nobody could approve them."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def key_of_report(c: Context) -> str:
    return f"report-{c.input['report_id']}-{c.run_id.replace('-', '')[:16]}"


def key_of_revision(c: Context, given: Mapping[str, Any]) -> str:
    """Each accepted revision is a new version of the draft, so a version is revised once."""
    return f"{key_of_report(c)}-v{c.facts['draft'].data['version']}-{given['section'][:20]}"


def draft_is(state: str, fact: Fact) -> Judgement:
    evidence = fact.evidence(f"draft {fact.data['draft_id']} is {fact.data['state']}")
    return met(evidence) if fact.data["state"] == state else unmet(evidence)


def withdrawal(effect: Effect, fact: Fact) -> WritePlan:
    number, report = fact.data["draft_id"], effect.plan.params["report_id"]
    return WritePlan(
        operation=WITHDRAW_DRAFT.name,
        target=f"draft {number}",
        params={"report_id": report, "draft_id": number},
        difference=(("draft", fact.data["state"], "withdrawn"),),
        target_version=f"draft {number} version {fact.data['version']}",
        expected="withdrawn",
        undo="none: another draft is another run",
        risk="whoever reads the draft in the office loses it",
    )


OPERATIONS: Mapping[str, Reading | Writing] = {
    SEARCH_SOURCES.name: Reading(
        says="Searches the library for sources; lists what matches, best first.",
        arguments={
            "type": "object",
            "properties": {
                "q": {"type": "string", "minLength": 1, "maxLength": 200, "description": "words to look for"},
                "kind": {"enum": list(KINDS), "description": "kind of evidence"},
            },
            "required": ["q", "kind"],
            "additionalProperties": False,
        },
        fact=lambda c, given: f"search {given['kind']}: {printable(given['q'])}"[:80],
        params=lambda c, given: {**given, "about": c.input["report_id"]},
    ),
    READ_SOURCE.name: Reading(
        says="Reads one source in full; only what was read in full may be cited.",
        arguments={
            "type": "object",
            "properties": {"source_id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,39}$"}},
            "required": ["source_id"],
            "additionalProperties": False,
        },
        fact=lambda c, given: source_fact(given["source_id"]),
    ),
    CREATE_DRAFT.name: Writing(
        says="Writes the draft, once, with every section that the assignment asks for.",
        arguments={
            "type": "object",
            "properties": {"sections": {"type": "array", "items": SECTION, "minItems": 1, "maxItems": 12}},
            "required": ["sections"],
            "additionalProperties": False,
        },
        plan=draft_plan,
        key=lambda c, given: key_of_report(c),
        undo=Undo(
            read=READ_DRAFT.name,
            params=lambda effect: {"draft_id": (effect.receipt or {})["draft_id"]},
            reversible=lambda effect, fact: draft_is("standing", fact),
            undone=lambda effect, fact: draft_is("withdrawn", fact),
            plan=withdrawal,
        ),
    ),
    REVISE_SECTION.name: Writing(
        says="Writes one section of the draft anew, after a check found fault with it.",
        arguments={
            "type": "object",
            "properties": {
                "section": {**SECTION["properties"]["name"], "title": "Section"},
                "text": {**SECTION["properties"]["text"], "title": "Text"},
                "cites": {**SECTION["properties"]["cites"], "title": "Sources it cites"},
            },
            "required": ["section", "text", "cites"],
            "additionalProperties": False,
        },
        plan=revision_plan,
        key=key_of_revision,
        amendable=("text",),  # an editor may have better words for it than whoever proposed it
    ),
}


DISPUTED = "disputed"
SCOPES = {
    DISPUTED: Scope(
        "Write it although the sources contradict each other; the draft names both", frozenset({"facts_verified"})
    )
}


# What the script proposes


def script(c: Context) -> Proposal:
    assignment = assignment_of(c)
    if not has_searched(c):
        return Act(SEARCH_SOURCES.name, {"q": assignment["topic"], "kind": assignment["kind"]})
    if len(used(c)) < assignment["sources"]:
        if source := next_source(c):
            return Act(READ_SOURCE.name, {"source_id": source})
        found = named(used(c)) or "none"
        return Exhausted(f"{len(used(c))} of {assignment['sources']} sources that count were found: {found}.")
    if (says := contradiction(used(c))) and c.scope != DISPUTED:
        return Ask(f"{says}. Which of them holds, or is the draft to name both?")
    if not draft_id(c):
        # The look-up of a write that is open goes before; where nothing of it is out there, it is the same write again.
        return Act(CREATE_DRAFT.name, {"sections": [compose(c, name) for name in assignment["sections"]]})
    back = read_back(c)
    if not back:
        return Claim("The draft is written.")  # whether it is, the check reads
    if (written := draft_created(c)).value is Value.UNMET:
        return Ask(f"{written.evidence.says}. Which of the two is to stand?")
    failing = findings(c, back)
    if not failing:
        return Claim("The draft is written, reads back, and nothing stands in its way.")
    section, revised = failing[0]["section"], [one for one in c.effects if one.plan.operation == REVISE_SECTION.name]
    if any(one.state is EffectState.CONFIRMED and one.plan.params["section"] == section for one in revised):
        return Ask(
            f"Section {section} was revised and is found fault with again: {failing[0]['message']} What is to stand?"
        )
    rewritten = compose(c, section, at_length=True)
    return Act(REVISE_SECTION.name, {"section": section, "text": rewritten["text"], "cites": rewritten["cites"]})


def compose(c: Context, name: str, *, at_length: bool = False) -> Mapping[str, Any]:
    """One section, from nothing but what the sources say. `at_length` quotes the whole passage, not one sentence."""
    sources, kind = used(c), assignment_of(c)["kind"]
    quotes = [
        (listed, source.data["sections"].get(kind, "") if at_length else listed["excerpt"])
        for listed, source in sources
    ]
    match name:
        case "summary":
            by = " and ".join(f"{listed['publisher']} ({listed['published_on']})" for listed, _ in quotes)
            text = f"{assignment_of(c)['question']} {len(quotes)} sources speak to it: {by}."
        case "gaps":
            left = len(candidates(c)) - len(sources)
            others = (
                f"{left} more sources that may count were not read" if left else "nothing else that counts was found"
            )
            text = f"Looked at was {kind} only; {others}."
            if says := contradiction(sources):
                text = f"Disputed: {says}. {text}"
        case _:
            text = " ".join(f"{listed['publisher']}: “{passage[:LONGEST_QUOTE]}”" for listed, passage in quotes)
    return {
        "name": name,
        "text": printable(text)[:LONGEST_SECTION],
        "cites": [listed["source_id"] for listed, _ in quotes],
    }


# What it may cost

# The source document's figures, under its names. Of the eight calls a clean run makes seven
# (test_what_a_clean_run_costs): the assignment, one search, two sources, the assignment again once a person approved,
# the draft, and a look at it. One is left for a read that has to be made twice. The one write is the draft; a
# revision of what the review sends back is a second one, and that a person has to grant, together with the calls that
# it takes.
FIGURES = {"max_steps": 12, "max_tool_calls": 8, "max_same_error": 2, "max_external_writes": 1}
A_REVISION = (
    4  # calls beyond them: the assignment again, after each of two extensions and an approval, the write, a look
)


def remaining(c: Context) -> Charge:
    """What a run that is not complete still needs, at the least."""
    back = read_back(c)
    unwritten = not draft_id(c) or (back is not None and bool(findings(c, back)))
    unread = assignment_of(c)["sources"] - len(used(c)) if is_known(c) else 0
    # What is written is approved first, so the assignment is read again; and a last look.
    calls = (not is_known(c)) + (not has_searched(c)) + unread + 2 * unwritten + 1
    return {Dimension.STEPS: calls, Dimension.TOOL_ATTEMPTS: calls, Dimension.EXTERNAL_WRITES: int(unwritten)}


# What people are told


def question(c: Context, reason: StopReason, found: str) -> str:
    report = c.input["report_id"]
    draft = c.effect
    asked = draft.look_ups if draft else 0
    match reason:
        case StopReason.APPROVAL_REQUIRED:
            what = draft.plan.target if draft else f"report {report}"
            return f"May exactly this be written for {what}?"
        case StopReason.LIMIT_EXTERNAL_WRITES:
            back = read_back(c)
            failing = ", ".join(dict.fromkeys(one["section"] for one in findings(c, back))) if back else ""
            return (
                f"The write that was planned for report {report} is made, and {failing or 'a section'} has to be "
                f"revised. May it be? That takes one more write, and {A_REVISION} more calls."
            )
        case StopReason.LIMIT_TOOL_ATTEMPTS | StopReason.LIMIT_STEPS:
            needed = len(READS) + remaining(c)[Dimension.TOOL_ATTEMPTS]  # whoever goes on reads everything again
            return f"Report {report} still needs {needed} calls at the least, and the plan is used up. May it go on?"
        case StopReason.SOURCES_EXHAUSTED:
            return f"{found} Is that enough to write report {report} from, or which other sources count?"
        case StopReason.QUESTION_ASKED:
            return found
        case StopReason.SAME_ERROR_REPEATED:
            return f"{found} The same happened again and again. Is it put right, and may report {report} go on?"
        case StopReason.OUTCOME_UNCONFIRMED:
            return f"Did the editorial office receive the draft of report {report}? {asked} look-ups settled nothing."
        case StopReason.LIMIT_STATUS_CHECKS:
            return f"The office still says pending for report {report} after {asked} look-ups. Who follows it up?"
        case StopReason.RECEIPTS_CONTRADICT:
            return f"{found}. What became of the draft of report {report}?"
        case StopReason.FACTS_MISSING:
            return f"{found} Can it be supplied in the assignment?"
        case StopReason.CREDENTIAL_REFUSED:
            return f"{found} Was the product's credential replaced?"
        case StopReason.ACCESS_REFUSED:
            return f"{found} Was the product given access?"
        case StopReason.APPROVAL_REJECTED:
            return f"The draft of report {report} was not approved: {found} What should it say instead?"
        case StopReason.APPROVAL_EXPIRED:
            return f"Nobody decided on the draft of report {report} in time. Should it be put up for approval again?"
        case StopReason.CANCELLED_TOO_LATE:
            return (
                f"The draft of report {report} was written before the cancellation. Withdraw it, or go on and keep it?"
            )
        case StopReason.NOT_REVERSIBLE:
            return f"{found} What should become of the draft of report {report}?"
        case StopReason.NO_PROGRESS:
            found = found or "nothing was gained."
            return f"Report {report} goes round without anything new: {found} How should it go on?"
        case StopReason.PAUSED:
            return f"Report {report} is paused. May it go on?"
        case StopReason.EFFECT_UNKNOWN | StopReason.EFFECT_PENDING | StopReason.CANCELLATION_UNVERIFIED:
            return f"Nothing to decide yet: the editorial office is asked again about report {report} by itself."
    return f"{found or 'The run stopped.'} How should report {report} go on?"


CUSTOMER_SAYS = Wording(
    subject="report_id",
    quoted={Quote.NUMBER: "draft_id", Quote.REFERENCE: "tracking_id"},
    texts={
        Statement.BEING_WORKED_ON: {
            "en": "Report {subject} is being researched and drafted.",
            "zh": "报告 {subject} 正在收集资料并撰写草稿。",
        },
        Statement.ACCEPTED_UNDER_NUMBER: {
            "en": "The draft of report {subject} is written under number {number} and passed its checks. "
            "It is a draft: the report has not been released.",
            "zh": "报告 {subject} 的草稿已写入并通过检查，编号为 {number}。温馨提示：草稿完成不代表报告已发布。",
        },
        Statement.ACCEPTED: {
            "en": "The draft of report {subject} is written and passed its checks. "
            "It is a draft: the report has not been released.",
            "zh": "报告 {subject} 的草稿已写入并通过检查。温馨提示：草稿完成不代表报告已发布。",
        },
        Statement.RECEIVED_UNDER_REFERENCE: {
            "en": "The draft of report {subject} was received and is being verified. The reference is {reference}.",
            "zh": "报告 {subject} 的草稿已收到，目前正在核实，查询编号为 {reference}。",
        },
        Statement.RECEIVED: {
            "en": "The draft of report {subject} was received and is being verified.",
            "zh": "报告 {subject} 的草稿已收到，目前正在核实。",
        },
        Statement.BEING_VERIFIED: {
            "en": "We are verifying whether the draft of report {subject} was received.",
            "zh": "我们正在核实报告 {subject} 的草稿是否已被接收。",
        },
        Statement.CANCELLATION_BEING_VERIFIED: {
            "en": "We are verifying whether the draft of report {subject} could still be stopped.",
            "zh": "我们正在核实报告 {subject} 的草稿是否还能取消。",
        },
        Statement.NOT_ENTITLED: {
            "en": "We could not find a report that you may have written. Please check the number.",
            "zh": "很抱歉，我们没有找到您可以委托撰写的报告，请您核对编号。",
        },
        Statement.NOT_ELIGIBLE: {
            "en": "The assignment of report {subject} is closed, so no draft is written for it.",
            "zh": "报告 {subject} 的任务已关闭，因此不再撰写草稿。",
        },
        Statement.REFUSED_BY_SERVICE: {
            "en": "The editorial office did not take the draft of report {subject}.",
            "zh": "很抱歉，编辑部未接收报告 {subject} 的草稿。",
        },
        Statement.DECLINED: {
            "en": "Report {subject} was declined.",
            "zh": "很抱歉，报告 {subject} 的申请未能通过。",
        },
        Statement.WITH_A_PERSON: {
            "en": "Report {subject} was handed to a person, who takes it from here.",
            "zh": "报告 {subject} 已转交人工跟进。",
        },
        Statement.NOT_YET_CONFIRMED: {
            "en": "Report {subject} is not finished and not yet confirmed. We are following it up.",
            "zh": "报告 {subject} 尚未完成，结果尚未得到确认，我们正在跟进。",
        },
        Statement.NEVER_CONFIRMED: {
            "en": "We could not establish what became of the draft of report {subject}.",
            "zh": "很抱歉，我们最终未能确认报告 {subject} 的草稿的结果。",
        },
        Statement.NOT_SUBMITTED: {
            "en": "No draft was written for report {subject}.",
            "zh": "报告 {subject} 没有写入草稿。",
        },
        Statement.NOT_IN_EFFECT: {
            "en": "The draft of report {subject} did not take effect.",
            "zh": "报告 {subject} 的草稿没有生效。",
        },
        Statement.UNDONE: {
            "en": "The draft of report {subject} was withdrawn.",
            "zh": "报告 {subject} 的草稿已撤回。",
        },
    },
)


WORKFLOW = Workflow(
    name="research_report",
    version=1,
    title="Research and report",
    role="editorial desk",
    input_schema=INPUT,
    subject=lambda given: f"report {given['report_id']}",
    headline=lambda given: f"Report {given['report_id']}",
    goal=lambda given: (
        f"Find and verify the sources that the assignment of report {given['report_id']} asks for, write one draft "
        "that rests on them, and have it read back and reviewed with nothing in its way."
    ),
    acts_for=lambda given, starter: given.get("editor_id") or starter,
    exists=lambda given, acts_for: (
        READ_ASSIGNMENT.name,
        {"user": acts_for, "report_id": given["report_id"]},
        "report_id",
    ),
    tools={
        tool.name: tool
        for tool in (
            READ_ASSIGNMENT,
            SEARCH_SOURCES,
            READ_SOURCE,
            CREATE_DRAFT,
            REVISE_SECTION,
            LOOK_UP_DRAFT,
            READ_DRAFT,
            WITHDRAW_DRAFT,
            LOOK_UP_WITHDRAWAL,
        )
    },
    reads=READS,
    operations=OPERATIONS,
    checks=checks,
    scopes=SCOPES,
    authorised=authorised,
    eligible=eligible,
    contract=CONTRACT,
    script=script,
    budgets={
        Dimension.STEPS: FIGURES["max_steps"],
        Dimension.TOOL_ATTEMPTS: FIGURES["max_tool_calls"],
        Dimension.EXTERNAL_WRITES: FIGURES["max_external_writes"],
        # Beside the document's four: what a write of unknown outcome is looked up by.
        Dimension.STATUS_CHECKS: 3,
        Dimension.FOLLOW_UP_CHECKS: 6,
        Dimension.CALLBACK_CHECKS: 3,
        Dimension.WALL_TIME: int(timedelta(hours=24).total_seconds()),
    },
    max_same_error=FIGURES["max_same_error"],
    remaining=remaining,
    question=question,
    customer_says=CUSTOMER_SAYS,
)
