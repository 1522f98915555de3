"""Market scan: find two independent, qualified sources of the past year on a market, and evidence on competitors and
on sales, and put them down as quotations that anybody can look up.

The story: may this person have the brief researched? What does it ask about? Which publishers count, and whose voice is
each? Search by kind until every kind has what it needs or brings nothing new any more; note what was found, word for
word; then let each quotation be read again in its source, by a check that did not write it.

The finding is a fact of the run, kept by an operation that writes nothing outside: the notes are the policy's own
words, and count for nothing until the library bears them out. It consists of quotations, because a quotation can be
held against its source and a summary cannot.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Evidence, Fact, Judgement, Value, met, unknown, unmet
from runs.domain.decision import FactsState
from runs.domain.proposals import Act, Ask, Claim, Exhausted, Proposal
from runs.domain.states import Outcome, StopReason
from runs.domain.telling import Statement, Wording
from runs.tools.briefs import CHECK_COMMISSION, NOTE_FINDING, READ_BRIEF, READ_PUBLISHERS
from runs.tools.sources import KINDS, READ_SOURCE, RECHECK_SOURCE, SEARCH_SOURCES, SOURCE_ID, UNDATED
from runs.workflows.definition import TURNS, Assertion, Check, Context, Read, Reading, Scope, Workflow

RECENT = timedelta(days=365)
VOICES = 2  # of each kind that are quoted, where there are as many: who disagrees has to be heard
MOST_CHECKED = 8  # sources
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")
LONGEST_QUERY, LONGEST_SENTENCE = 100, 400  # characters

NAME = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9-]{0,39}$"}
INPUT = {
    "type": "object",
    "properties": {
        "brief_id": {**NAME, "title": "Brief"},
        "client_id": {**NAME, "title": "Client the scan is made for"},
    },
    "required": ["brief_id"],
    "additionalProperties": False,
}


# What has to be known, and where it is read


def register_is_clear(register: Fact) -> tuple[FactsState, str]:
    listed: dict[str, Any] = {}
    for publisher in register.data["publishers"]:
        if listed.setdefault(publisher["name"], publisher) != publisher:
            return FactsState.CONFLICT, f"The register lists {publisher['name']} twice, and not alike."
    if not listed:
        return FactsState.MISSING, "The register of publishers is empty: nobody could tell which sources count."
    return FactsState.COMPLETE, ""


READS = (
    Read(
        fact="authority",
        tool=CHECK_COMMISSION.name,
        params=lambda c: {"user": c.acts_for, "brief_id": c.input["brief_id"]},
        check=lambda fact: (FactsState.COMPLETE, ""),
        expects="whether this person may have the brief researched",
        opens=True,
    ),
    Read(
        fact="brief",
        tool=READ_BRIEF.name,
        params=lambda c: {"brief_id": c.input["brief_id"]},
        check=lambda fact: (FactsState.COMPLETE, ""),
        expects="which product and which city, and whether the brief is still open",
    ),
    Read(
        fact="publishers",
        tool=READ_PUBLISHERS.name,
        params=lambda c: {"brief_id": c.input["brief_id"]},
        check=register_is_clear,
        expects="which publishers are qualified, who owns them, and the day it is",
    ),
)


# What must hold before anything is searched for


def authorised(c: Context) -> Judgement:
    authority = c.facts.get("authority")
    if not authority:
        return unknown("not read yet")
    may = authority.data["allowed"]
    evidence = authority.evidence(f"{c.acts_for} {'may' if may else 'may not'} have this brief researched")
    return met(evidence) if may else unmet(evidence)


def eligible(c: Context) -> Judgement:
    brief = c.facts.get("brief")
    if not brief:
        return unknown("not read yet")
    is_open = brief.data["open"]
    evidence = brief.evidence(f"{_about(c)}; the brief is {'open' if is_open else 'closed'}")
    return met(evidence) if is_open else unmet(evidence)


def _about(c: Context) -> str:
    brief = c.facts.get("brief")
    return f"{brief.data['product']} in {brief.data['city']}" if brief else f"brief {c.input['brief_id']}"


# Which sources count


def _publisher(c: Context, source: Mapping[str, Any]) -> Mapping[str, Any] | None:
    register = c.facts["publishers"].data["publishers"] if "publishers" in c.facts else ()
    return next((publisher for publisher in register if publisher["name"] == source["publisher"]), None)


def objection(c: Context, source: Mapping[str, Any]) -> str:
    """Why a source does not count, as the end of a sentence about it; empty where it does."""
    publisher = _publisher(c, source)
    if publisher is None:
        return f"is by {source['publisher']}, which nobody has qualified"
    if not publisher["qualified"]:
        return f"is by {publisher['name']}, which {publisher['because']}"
    if source["topic"] != c.facts["brief"].data["topic"]:
        return f"is about {source['topic']}"
    if source["published_on"] == UNDATED:
        return "bears no date"
    today = date.fromisoformat(c.facts["publishers"].data["business_date"])
    then = date.fromisoformat(source["published_on"])
    if then > today:
        return f"is not published before {then}"
    return f"is of {then}, more than a year ago" if today - then > RECENT else ""


def _found(c: Context, kind: str) -> list[Mapping[str, Any]]:
    """What the searches for one kind listed and what counts, each source once: the plain question's results first."""
    searches = [c.facts[name] for name in sorted(c.facts) if name.startswith("search ")]
    rows: dict[str, Mapping[str, Any]] = {}
    for row in (row for search in searches for row in search.data["results"] if row["kind"] == kind):
        rows.setdefault(row["source_id"], row)
    return [row for row in rows.values() if not objection(c, row)]


def _independent(c: Context, sources: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One source for each voice: neither of one house with another, nor a reprint of its text."""
    chosen: list[Mapping[str, Any]] = []
    said: set[str] = set()
    for source in sources:
        publisher = _publisher(c, source)
        read = c.facts.get(_re_read(source["source_id"]))
        text = read.data.get("digest", "") if read else ""
        marks = {f"house {publisher['house'] if publisher else ''}", f"text {text or source['source_id']}"}
        if not marks & said:
            chosen.append(source)
            said |= marks
    return chosen


def evidence(c: Context) -> Collection[str]:
    """Every voice that was found, by kind: a search that finds another text of the same house brings nothing new."""
    return {f"{kind}: {row['publisher']}" for kind in KINDS for row in _independent(c, _found(c, kind))}


# What success means: the contract


def _re_read(source_id: str) -> str:
    return f"re-read {source_id}"


def _noted(c: Context) -> Sequence[Mapping[str, Any]]:
    finding = c.facts.get("finding")
    return finding.data["quotations"] if finding else ()


def _checked(c: Context, source_id: str) -> Fact | None:
    """The source as a check read it: after it was quoted, and no longer ago than what permits this run to go on."""
    read, finding, register = c.facts.get(_re_read(source_id)), c.facts.get("finding"), c.facts.get("publishers")
    if read and finding and register and read.at >= finding.at and read.stretch >= register.stretch:
        return read
    return None


def bears_out(c: Context, quotation: Mapping[str, Any]) -> Judgement:
    """Whether a quotation stands in its source, and the source counts."""
    number, kind, sentence = quotation["source_id"], quotation["kind"], quotation["sentence"]
    source = _checked(c, number)
    if source is None:
        return unknown(f"{number} was not read again yet")
    if not source.data["exists"]:
        return unmet(source.evidence(f"the library has no source {number}"))
    if not _says(source.data, kind, sentence):
        return unmet(source.evidence(f"{number} does not say on {kind}: “{sentence}”"))
    if says := objection(c, source.data):
        return unmet(source.evidence(f"{number} {says}"))
    return met(source.evidence(f"“{sentence}” ({number}, {source.data['publisher']}, {source.data['published_on']})"))


def _says(source: Mapping[str, Any], kind: str, sentence: str) -> bool:
    """Whether a source has this sentence, and all of it: half of one may say the opposite."""
    return sentence in SENTENCE_END.split(source.get("sections", {}).get(kind, ""))


def _borne_out(c: Context, kind: str) -> list[Evidence]:
    """What the independent voices on one kind say, word for word."""
    judged = {quotation["source_id"]: bears_out(c, quotation) for quotation in _noted(c) if quotation["kind"] == kind}
    stand = [c.facts[_re_read(number)].data for number, judgement in judged.items() if judgement.value is Value.MET]
    return [judged[source["source_id"]].evidence for source in _independent(c, stand)]


def first_voice(c: Context) -> Judgement:
    voices = _borne_out(c, "market")
    return met(voices[0]) if voices else unknown("no qualified source of the past year is quoted and checked")


def second_voice(c: Context) -> Judgement:
    voices = _borne_out(c, "market")
    return met(voices[1]) if len(voices) > 1 else unknown("no second source that is independent of the first")


def competitors(c: Context) -> Judgement:
    voices = _borne_out(c, "competitors")
    return met(voices[0]) if voices else unknown("nothing on competitors is quoted and checked")


def sales(c: Context) -> Judgement:
    voices = _borne_out(c, "sales")
    return met(voices[0]) if voices else unknown("nothing on sales is quoted and checked")


def nothing_invented(c: Context) -> Judgement:
    judged = [bears_out(c, quotation) for quotation in _noted(c)]
    for value in (Value.UNMET, Value.UNKNOWN):
        if wrong := next((judgement for judgement in judged if judgement.value is value), None):
            return wrong
    if not judged:
        return unknown("nothing was noted")
    last = judged[-1].evidence
    return met(Evidence(f"{len(judged)} quotations stand in their sources", last.source, last.at, last.reference))


def agree(c: Context) -> Judgement:
    """Whether what counts states one value of each figure: also what was found and not quoted."""
    if unasked := _to_ask(c):
        return unknown(f"the library was not asked what else it has on {unasked[0]['kind']}")
    stated: dict[str, tuple[str, str]] = {}
    read: Fact | None = None
    for number in _to_check(c):
        read = _checked(c, number)
        if read is None:
            return unknown(f"{number} was not read again yet")
        if not read.data["exists"] or objection(c, read.data):
            continue
        for of_what, value in read.data["figures"].items():
            other, said = stated.setdefault(of_what, (number, value))
            if said != value:
                return unmet(read.evidence(f"{of_what}: {other} says {said}, {number} says {value}"))
    return met(read.evidence("no figure is contradicted")) if read else unknown("nothing was noted")


CONTRACT = (
    Assertion("authorised", "The client may have this brief researched", authorised),
    Assertion("source", "A qualified source of the past year describes the market", first_voice),
    Assertion("second_source", "A second one does, independent of the first", second_voice),
    Assertion("competitors", "There is evidence on competitors", competitors),
    Assertion("sales", "There is evidence on sales", sales),
    Assertion("nothing_invented", "Each quotation stands in its source, as a check read it", nothing_invented),
    Assertion("agree", "The sources do not contradict one another", agree),
)

SCOPES = {
    "one_source": Scope("One source on the market is enough", frozenset({"second_source"})),
    "without_sales": Scope("Without evidence on sales", frozenset({"sales"})),
    "without_competitors": Scope("Without evidence on competitors", frozenset({"competitors"})),
    "sources_only": Scope("Two sources on the market and nothing else", frozenset({"competitors", "sales"})),
    "despite_contradictions": Scope("With figures that contradict each other", frozenset({"agree"})),
}


def _dropped(c: Context) -> frozenset[str]:
    return SCOPES[c.scope].drops if c.scope else frozenset()


def _query(c: Context, kind: str, words: str = "") -> dict[str, str]:
    brief = c.facts["brief"].data
    return {"kind": kind, "q": f"{brief['product']} {brief['city']} {words}".strip()[:LONGEST_QUERY]}


def _results(given: Mapping[str, Any]) -> str:
    return f"search {given['kind']}: {given['q']}"


def _asked(c: Context, given: Mapping[str, Any]) -> bool:
    """Whether this was searched for since the preconditions were read."""
    made, register = c.facts.get(_results(given)), c.facts.get("publishers")
    return bool(made and register and made.stretch >= register.stretch)


def _to_ask(c: Context) -> list[dict[str, str]]:
    """The plain question of each kind that is quoted: what contradicts must not stay unseen for want of a search."""
    kinds = dict.fromkeys(quotation["kind"] for quotation in _noted(c))
    return [given for kind in kinds if not _asked(c, given := _query(c, kind))]


def _to_check(c: Context) -> list[str]:
    """The sources that are quoted, and then those that could have been, up to a number that a run can afford."""
    quoted = [quotation["source_id"] for quotation in _noted(c)]
    others = [row["source_id"] for kind in KINDS for row in _found(c, kind)]
    return list(dict.fromkeys(quoted + others))[:MOST_CHECKED] if quoted else []


def checks(c: Context) -> list[Check]:
    asked = [
        Check(
            fact=_results(given),
            tool=SEARCH_SOURCES.name,
            params={**given, "about": c.input["brief_id"]},
            expects=f"what else there is on {given['kind']}, and may contradict what was quoted",
        )
        for given in _to_ask(c)
    ]
    return asked + [
        Check(
            fact=_re_read(number),
            tool=RECHECK_SOURCE.name,
            params={"source_id": number},
            expects=f"whether {number} exists, who published it when, and what it says",
        )
        for number in _to_check(c)
        if _checked(c, number) is None
    ]


# What a policy may do

KIND = {"type": "string", "enum": list(KINDS)}
NUMBER = {"type": "string", "pattern": f"^{SOURCE_ID.pattern}$"}
OPERATIONS = {
    SEARCH_SOURCES.name: Reading(
        says="Search the library for sections of one kind; each result quotes one sentence of its source.",
        arguments={
            "type": "object",
            "properties": {
                "kind": KIND,
                "q": {"type": "string", "minLength": 1, "maxLength": LONGEST_QUERY},
            },
            "required": ["kind", "q"],
            "additionalProperties": False,
        },
        fact=lambda c, given: _results(given),
        params=lambda c, given: {**given, "about": c.input["brief_id"]},
        kind=lambda given: str(given["kind"]),
    ),
    READ_SOURCE.name: Reading(
        says="Read one source in full.",
        arguments={
            "type": "object",
            "properties": {"source_id": NUMBER},
            "required": ["source_id"],
            "additionalProperties": False,
        },
        fact=lambda c, given: f"source {given['source_id']}",
    ),
    NOTE_FINDING.name: Reading(
        says="Note the whole finding: sentences, word for word, each with its source and what it is evidence of.",
        arguments={
            "type": "object",
            "properties": {
                "quotations": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 6,
                    "items": {
                        "type": "object",
                        "properties": {
                            "kind": KIND,
                            "source_id": NUMBER,
                            "sentence": {"type": "string", "minLength": 1, "maxLength": LONGEST_SENTENCE},
                        },
                        "required": ["kind", "source_id", "sentence"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["quotations"],
            "additionalProperties": False,
        },
        fact=lambda c, given: "finding",
    ),
}


# What the script proposes

# What is added to the plain question, one after another, for as long as a kind lacks something.
WORDS = {
    "en": {
        "market": ("", "market", "demand"),
        "competitors": ("", "competitors", "makers and shops"),
        "sales": ("", "sales figures", "sold last year"),
    },
    "zh": {
        "market": ("", "市场", "需求"),
        "competitors": ("", "竞争", "品牌"),
        "sales": ("", "销量", "租借次数"),
    },
}


def _needed(c: Context) -> dict[str, int]:
    """How many independent voices the contract, as it is now, asks for of each kind."""
    dropped = _dropped(c)
    return {
        "market": 1 if "second_source" in dropped else 2,
        "competitors": int("competitors" not in dropped),
        "sales": int("sales" not in dropped),
    }


def _quotable(c: Context, kind: str) -> list[Mapping[str, Any]]:
    """Of what was found, the first voices whose sentence was not refuted since the last stop."""

    def holds(row: Mapping[str, Any]) -> bool:
        if not 0 < len(row["excerpt"]) <= LONGEST_SENTENCE:
            return False
        read = c.facts.get(_re_read(row["source_id"]))
        if not read or read.stretch < c.stretch:
            return True
        return _says(read.data, kind, row["excerpt"]) and not objection(c, read.data)

    return _independent(c, [row for row in _found(c, kind) if holds(row)])[:VOICES]


def _searches(c: Context, kind: str) -> Iterator[Act]:
    """The searches for one kind that were not made since the last stop, and may still be."""
    language = c.facts["brief"].data["language"]
    for words in WORDS.get(language, WORDS["en"])[kind]:
        given = _query(c, kind, words)
        if not (_asked(c, given) or kind in c.closed or c.is_closed(SEARCH_SOURCES.name, given)):
            yield Act(SEARCH_SOURCES.name, given)


def script(c: Context) -> Proposal:
    for kind, voices in _needed(c).items():
        search = next(_searches(c, kind), None)
        if search and len(_quotable(c, kind)) < voices:
            return search
    finding = [
        {"kind": kind, "source_id": row["source_id"], "sentence": row["excerpt"]}
        for kind, voices in _needed(c).items()
        if voices
        for row in _quotable(c, kind)
    ]
    if finding and finding != list(_noted(c)):
        return Act(NOTE_FINDING.name, {"quotations": finding})
    if checks(c):
        return Claim("What was found is noted; let it be read again in its sources.")
    if _contradiction(c):
        return Ask(what_is_open(c))
    return Exhausted(what_is_open(c))


def remaining(c: Context) -> Charge:
    """What a run that is not complete still needs, at the least."""
    unread = sum(c.fresh(read.fact) is None for read in READS)
    to_do = len(checks(c)) if _noted(c) else 2  # a note, and at least one source to read again
    steps = unread + to_do
    return {Dimension.STEPS: steps, Dimension.TOOL_ATTEMPTS: steps}


# What people are told

LABELS = {"market": "the market", "competitors": "competitors", "sales": "sales"}
MISSING = {
    "source": "a qualified source of the past year on the market",
    "second_source": "a second source that is independent of the first",
    "competitors": "evidence on competitors",
    "sales": "evidence on sales",
}


def _contradiction(c: Context) -> str:
    """In which figure sources contradict each other; empty where they do not, or where that was agreed to."""
    judged = agree(c)
    return judged.evidence.says if judged.value is Value.UNMET and "agree" not in _dropped(c) else ""


def what_is_open(c: Context) -> str:
    """What the scan has, what it lacks, and a question that can be answered."""
    if contradiction := _contradiction(c):
        scope = SCOPES["despite_contradictions"].label
        return (
            f"Sources on {_about(c)} contradict each other: {contradiction}. "
            f"Should the scan be narrowed (“{scope}”), or wait until one of them is put right?"
        )
    has = [f"{numbers} on {label}" for kind, label in LABELS.items() if (numbers := _numbers(c, kind))]
    lacks = [label for name, label in MISSING.items() if name in _unmet(c)]
    found = f"The scan of {_about(c)} has {'; '.join(has) or 'nothing that stands'}"
    if not lacks:
        return f"{found}. How should it go on?"
    failed = " Not every search could be made." if SEARCH_SOURCES.name in c.closed else ""
    scope = next((scope.label for scope in SCOPES.values() if _dropped(c) | _unmet(c) <= scope.drops), "")
    ask = f"Should it be narrowed (“{scope}”), or where" if scope else "Where"
    return f"{found}, and lacks {', '.join(lacks)}.{failed} {ask} else is there to look?"


def _unmet(c: Context) -> set[str]:
    return {
        assertion.name
        for assertion in CONTRACT
        if assertion.name not in _dropped(c) and assertion.judge(c).value is not Value.MET
    }


def _numbers(c: Context, kind: str) -> str:
    """The sources whose quotations on one kind stand."""
    of_kind = [quotation for quotation in _noted(c) if quotation["kind"] == kind]
    stand = [quotation["source_id"] for quotation in of_kind if bears_out(c, quotation).value is Value.MET]
    return ", ".join(dict.fromkeys(stand))


def question(c: Context, reason: StopReason, found: str) -> str:
    match reason:
        case StopReason.NO_PROGRESS | StopReason.SOURCES_EXHAUSTED:
            return what_is_open(c)
        case StopReason.QUESTION_ASKED:
            own = what_is_open(c)
            return own if found in {"", own} else f"The agent: “{found}” {own}"
        case StopReason.FACTS_IN_CONFLICT:
            return f"{found} Which entry applies?"
        case StopReason.FACTS_MISSING:
            return f"{found} Can it be supplied at its source?"
        case StopReason.CREDENTIAL_REFUSED:
            return f"{found} Was the product's credential replaced?"
        case StopReason.ACCESS_REFUSED:
            return f"{found} Was the product given access?"
        case StopReason.PAUSED:
            return f"The scan of {_about(c)} is paused. May it go on?"
    if reason.outcome is Outcome.LIMIT_REACHED:
        return f"{found or 'A limit is reached.'} {what_is_open(c)}"
    return f"{found or 'The run stopped.'} {what_is_open(c)}"


CUSTOMER_SAYS = Wording(
    subject="brief_id",
    quoted={},
    texts={
        Statement.BEING_WORKED_ON: {
            "en": "The market scan for brief {subject} is being worked on.",
            "zh": "您委托的市场扫描（简报编号 {subject}）正在进行中。",
        },
        Statement.ACCEPTED_UNDER_NUMBER: {
            "en": "The market scan for brief {subject} is complete under number {number}.",
            "zh": "您委托的市场扫描（简报编号 {subject}）已完成，编号为 {number}。",
        },
        Statement.ACCEPTED: {
            "en": "The market scan for brief {subject} is complete. Each quotation in it was read again in its source.",
            "zh": "您委托的市场扫描（简报编号 {subject}）已完成，其中每一处引文都已回到原文核对。",
        },
        Statement.RECEIVED_UNDER_REFERENCE: {
            "en": "The market scan for brief {subject} is being verified. Your reference is {reference}.",
            "zh": "您委托的市场扫描（简报编号 {subject}）正在核实，查询编号为 {reference}。",
        },
        Statement.RECEIVED: {
            "en": "The market scan for brief {subject} is being verified.",
            "zh": "您委托的市场扫描（简报编号 {subject}）正在核实。",
        },
        Statement.BEING_VERIFIED: {
            "en": "What was found for brief {subject} is being verified.",
            "zh": "我们正在核实简报 {subject} 的调研结果。",
        },
        Statement.CANCELLATION_BEING_VERIFIED: {
            "en": "We are verifying whether the market scan for brief {subject} could still be cancelled.",
            "zh": "我们正在为您核实简报 {subject} 的市场扫描是否还能取消。",
        },
        Statement.NOT_ENTITLED: {
            "en": "We could not find a brief that you may have researched. Please check the number.",
            "zh": "很抱歉，我们没有找到您可以委托调研的简报，请您核对编号。",
        },
        Statement.NOT_ELIGIBLE: {
            "en": "Brief {subject} is closed and is not researched any more. You can send us a new one.",
            "zh": "很抱歉，简报 {subject} 已结束，不再进行调研。您可以提交新的简报。",
        },
        Statement.REFUSED_BY_SERVICE: {
            "en": "The market scan for brief {subject} was declined. We can advise you on other options.",
            "zh": "很抱歉，简报 {subject} 的市场扫描未获受理。我们可以为您介绍其他处理方式。",
        },
        Statement.DECLINED: {
            "en": "The market scan for brief {subject} was declined. We can advise you on other options.",
            "zh": "很抱歉，简报 {subject} 的市场扫描未获受理。我们可以为您介绍其他处理方式。",
        },
        Statement.WITH_A_PERSON: {
            "en": "The market scan for brief {subject} was handed to a person, who takes it from here.",
            "zh": "简报 {subject} 的市场扫描已转交专人跟进。",
        },
        Statement.NOT_YET_CONFIRMED: {
            "en": "The market scan for brief {subject} is not finished yet. We are following it up.",
            "zh": "简报 {subject} 的市场扫描尚未完成，我们正在跟进。",
        },
        Statement.NEVER_CONFIRMED: {
            "en": "We could not establish what became of the market scan for brief {subject}.",
            "zh": "很抱歉，我们最终未能确认简报 {subject} 的市场扫描的结果。",
        },
        Statement.NOT_SUBMITTED: {
            "en": "The market scan for brief {subject} was ended without a result.",
            "zh": "简报 {subject} 的市场扫描已终止，没有形成结果。",
        },
        Statement.NOT_IN_EFFECT: {
            "en": "The market scan for brief {subject} was ended without a result.",
            "zh": "简报 {subject} 的市场扫描已终止，没有形成结果。",
        },
        Statement.UNDONE: {
            "en": "The market scan for brief {subject} was withdrawn.",
            "zh": "简报 {subject} 的市场扫描已撤回。",
        },
    },
)


WORKFLOW = Workflow(
    name="market_scan",
    version=1,
    title="Market scan",
    role="research desk",
    input_schema=INPUT,
    subject=lambda given: f"brief {given['brief_id']}",
    headline=lambda given: f"Market scan for brief {given['brief_id']}",
    goal=lambda given: (
        f"Find two independent, qualified sources of the past year for brief {given['brief_id']}, and evidence on "
        "competitors and on sales, and quote them so that everybody can look them up."
    ),
    acts_for=lambda given, starter: given.get("client_id") or starter,
    exists=lambda given, acts_for: (
        CHECK_COMMISSION.name,
        {"user": acts_for, "brief_id": given["brief_id"]},
        "brief_id",
    ),
    tools={
        tool.name: tool
        for tool in (
            CHECK_COMMISSION,
            READ_BRIEF,
            READ_PUBLISHERS,
            SEARCH_SOURCES,
            READ_SOURCE,
            NOTE_FINDING,
            RECHECK_SOURCE,
        )
    },
    reads=READS,
    authorised=authorised,
    eligible=eligible,
    contract=CONTRACT,
    script=script,
    operations=OPERATIONS,
    checks=checks,
    evidence=evidence,
    # Two searches of a kind that bring nothing, and six turns of a model, are the source case's own figures. A model
    # that makes no mistake needs five: test_a_model_completes_a_scan_in_five_turns.
    fruitless=dict.fromkeys(KINDS, 2),
    turns={**TURNS, Dimension.MODEL_TURNS: 6},
    scopes=SCOPES,
    budgets={
        # Twice what a clean run needs, and one narrowing (which reads everything again): test_what_a_clean_scan_costs.
        Dimension.STEPS: (24, 32),
        Dimension.TOOL_ATTEMPTS: (24, 32),
        Dimension.WALL_TIME: int(timedelta(hours=24).total_seconds()),
    },
    remaining=remaining,
    question=question,
    customer_says=CUSTOMER_SAYS,
)
