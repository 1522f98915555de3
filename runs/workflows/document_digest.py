"""Document digest: a digest of two documents, each sentence quoted with its line, entered in the index that all share.

The story: is the name still free? Read both documents; write the digest; enter it in the index; look at what stands
there now; and, if that was asked for, hand it over, which nobody can take back. What can be done next the task graph
says. A task is done once there is evidence of it, and completion is claimed when no task is left; then everything is
read once more, the originals too, because a digest that damaged what it was made of would be no success.

The policy chooses lines. What stands in them is quoted from what was read, so no sentence can be invented.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Fact, Judgement, Value, met, unknown, unmet
from runs.domain.decision import FactsState
from runs.domain.effects import Effect, EffectState, WritePlan
from runs.domain.frontier import Frontier, frontier, startable
from runs.domain.proposals import Act, Ask, Claim, Proposal
from runs.domain.states import StopReason
from runs.domain.telling import Quote, Statement, Wording
from runs.tools.documents import (
    ADD_ENTRY,
    CHECK_DOCUMENT,
    HAND_OVER,
    LOOK_AT_DIGEST,
    READ_DOCUMENT,
    REMOVE_DIGEST,
    REMOVE_ENTRY,
    TOOLS,
    WRITE_DIGEST,
    lines_of,
)
from runs.workflows.definition import Assertion, Check, Context, Read, Reading, Undo, Workflow, Writing

# A name is what can be read aloud: letters and figures of any script, and no way to another folder.
FILE = r"[\p{L}\p{N}][\p{L}\p{M}\p{N} ._()-]{0,79}"
DOCUMENT = {"type": "string", "pattern": rf"^(originals|digests)/{FILE}$", "examples": ["originals/minutes.txt"]}
INPUT = {
    "type": "object",
    "properties": {
        "digest": {"type": "string", "title": "Name of the digest", "pattern": f"^{FILE}$"},
        "first": {**DOCUMENT, "title": "First document"},
        "second": {**DOCUMENT, "title": "Second document"},
        "hand_over": {"type": "boolean", "title": "Hand it over, for good"},
    },
    "required": ["digest", "first", "second"],
    "additionalProperties": False,
}
BOTH = ("first", "second")
MOST_OF_ONE = 8  # sentences quoted of one document: a digest is shorter than what it is made of
LONGEST_QUOTE = 300  # characters
SENTENCE = re.compile(r"[#>*\s-]*(?P<quote>.+?[.!?。！？](?=\s|$|[^\x00-\x7f])|.+)")


# What the digest says, and how it is read again


@dataclass(frozen=True)
class Point:
    of: str  # "first" or "second"
    line: int
    quote: str


@dataclass(frozen=True)
class Parsed:
    """A digest's text as it can be held against its documents."""

    points: Sequence[Point]
    sources: Mapping[str, tuple[str, str]]  # "first" and "second": the document's name, and its checksum


QUOTED = re.compile(r"- (?P<quote>.+) \[(?P<of>[12]):(?P<line>\d{1,6})\]")
NAMED = re.compile(r"\[(?P<of>[12])\] (?P<document>.+), sha256 (?P<sha256>[0-9a-f]{64})")


def parsed(text: str) -> Parsed:
    points, sources = [], {}
    for line in text.split("\n"):
        if found := QUOTED.fullmatch(line):
            points.append(Point(BOTH[int(found["of"]) - 1], int(found["line"]), found["quote"]))
        elif found := NAMED.fullmatch(line):
            sources[BOTH[int(found["of"]) - 1]] = (found["document"], found["sha256"])
    return Parsed(points, sources)


def written(c: Context, lines: Mapping[str, Sequence[int]]) -> str:
    """The digest of these lines of both documents. A line of which nothing can be quoted is left out."""
    read = {which: c.facts[which].data for which in BOTH}
    body = [
        f"- {quote} [{number}:{line}]"
        for number, which in enumerate(BOTH, 1)
        for line in sorted(lines[which])
        if (quote := first_sentence(lines_of(read[which]["text"]), line))
    ]
    named = [f"[{n}] {read[which]['document']}, sha256 {read[which]['sha256']}" for n, which in enumerate(BOTH, 1)]
    title = f"# Digest of {read['first']['document']} and {read['second']['document']}"
    return "\n".join([title, "", *body, "", *named, ""])


def first_sentence(lines: Sequence[str], number: int) -> str:
    """As it stands in that line; empty where there is none, or one with signs that cannot be seen."""
    found = SENTENCE.match(lines[number - 1]) if 0 < number <= len(lines) else None
    quote = found["quote"].strip()[:LONGEST_QUOTE].strip() if found else ""
    return quote if quote.isprintable() else ""


def beginnings(text: str) -> list[int]:
    """The numbers of the lines with which paragraphs begin, without headings: what the script quotes."""
    lines = ["", *lines_of(text)]
    begins = [n for n in range(1, len(lines)) if lines[n].strip() and not lines[n - 1].strip()]
    worth = [n for n in begins if not lines[n].startswith("#") and first_sentence(lines[1:], n)]
    return worth[:MOST_OF_ONE]


# What has to be known before anything is done


READS = (
    Read(
        fact="place",
        tool=LOOK_AT_DIGEST.name,
        params=lambda c: {"digest": c.input["digest"]},
        check=lambda fact: (FactsState.COMPLETE, ""),
        expects="whether a digest of that name is there already",
        opens=True,
    ),
)


def authorised(c: Context) -> Judgement:
    place = c.facts.get("place")
    if not place:
        return unknown("not read yet")
    return met(place.evidence("the folder knows no persons: whoever may start runs may have a digest made"))


def eligible(c: Context) -> Judgement:
    """Whether the name is free, or taken by this run itself. What stands there of others is never written over."""
    place = c.facts.get("place")
    if not place:
        return unknown("not read yet")
    if c.input["first"] == c.input["second"]:
        return unmet(place.evidence("both documents are the same one"))
    made = place.data["made"]
    if made and made["operation_key"] not in {effect.key for effect in c.effects}:
        by = f"under {made['operation_key']}" if made["operation_key"] else "by hand"
        return unmet(place.evidence(f"a digest {c.input['digest']} is there already, made {by}"))
    return met(place.evidence("the digest's name is free" if not made else "the digest that is there is this run's"))


# The tasks


def needs(c: Context) -> dict[str, set[str]]:
    """Each task, and what it needs before it."""
    graph = {
        "read first": set[str](),
        "read second": set[str](),
        "draft": {"read first", "read second"},
        "index": {"draft"},
        "verify": {"index"},
    }
    return graph | ({"hand over": {"verify"}} if c.input.get("hand_over") else {})


# What a task must have to itself. Between two runs the name of the digest is theirs who has the run open (its subject),
# and the folder's own lock keeps two from writing the index at once.
USES: Mapping[str, frozenset[str]] = {
    "read first": frozenset(),
    "read second": frozenset(),
    "draft": frozenset({"the digest"}),
    "index": frozenset({"the index", "the digest"}),
    "verify": frozenset({"the digest"}),  # what is looked at while it is written proves nothing
    "hand over": frozenset({"the outbox", "the digest"}),
}
WRITES = {"draft": WRITE_DIGEST.name, "index": ADD_ENTRY.name, "hand over": HAND_OVER.name}


def key(c: Context, what: str) -> str:
    return f"{what}-{c.run_id.replace('-', '')[:20]}"


def source(c: Context, which: str) -> Fact | None:
    """A document as it was read: lately, and from when the digest is under way on as it was made of it."""
    fact, draft = c.facts.get(which), c.write(WRITE_DIGEST.name)
    if draft and draft.times_sent:
        return fact
    return c.fresh(which) if fact and fact.data["document"] == c.input[which] else None


def done(c: Context) -> set[str]:
    found = {f"read {which}" for which in BOTH if source(c, which)}
    found |= {task for task, name in WRITES.items() if is_confirmed(c.write(name))}
    delivery, seen = c.write(HAND_OVER.name), looked_at(c)
    if (seen and not what_is_wrong(c, seen)) or (delivery and delivery.times_sent):
        found.add("verify")
    return found & needs(c).keys()


def failed(c: Context) -> set[str]:
    unreadable = {f"read {which}" for which in BOTH if c.is_closed(READ_DOCUMENT.name, {which: c.input[which]})}
    wrong = {"verify"} if (seen := looked_at(c)) and what_is_wrong(c, seen) else set()
    refused = {task for task, name in WRITES.items() if (e := c.write(name)) and e.state is EffectState.REJECTED}
    return (unreadable | wrong | refused) - done(c)


def running(c: Context) -> set[str]:
    return {task for task, name in WRITES.items() if (effect := c.write(name)) and effect.unresolved}


def tasks(c: Context) -> Frontier:
    return frontier(needs(c), done(c), failed(c))


def is_confirmed(effect: Effect | None) -> bool:
    return effect is not None and effect.state is EffectState.CONFIRMED


def looked_at(c: Context) -> Fact | None:
    """How the digest stood when it was last looked at, if that was after everything that this run wrote. Whoever takes
    the run up again has looked at its place first, and need not look twice."""
    if not is_confirmed(c.write(ADD_ENTRY.name)):
        return None
    looks = [fact for name in ("place", "seen") if (fact := after_all_writes(c, name))]
    return max(looks, key=lambda fact: fact.at, default=None)


def after_all_writes(c: Context, name: str) -> Fact | None:
    fact, answered = c.facts.get(name), [effect.answered_at for effect in c.effects if effect.answered_at]
    return fact if fact and all(fact.at > at for at in answered) else None


# What success means: the contract. It is judged on what is read again once completion is claimed.


def digest_again(c: Context) -> Fact | None:
    return after_all_writes(c, "digest again")


def document_again(c: Context, which: str) -> Fact | None:
    """A document as it was read for what the digest, read just before, cites of it."""
    fact, digest = c.facts.get(f"{which} again"), digest_again(c)
    return fact if fact and digest and fact.at > digest.at else None


def checks(c: Context) -> list[Check]:
    """What is still to be read again: first the digest, then of each document what it cites. All of it since the last
    stop: what was read before says how things were."""
    digest = c.fresh("digest again") and digest_again(c)
    if not digest:
        digest_params = {"digest": c.input["digest"]}
        return [Check("digest again", LOOK_AT_DIGEST.name, digest_params, "whether all of it is there as it should be")]
    points = parsed(text_of(digest)).points
    return [
        Check(
            f"{which} again",
            CHECK_DOCUMENT.name,
            {"document": c.input[which], "lines": sorted({point.line for point in points if point.of == which})},
            "whether what is cited stands there, and the document is as it was",
        )
        for which in BOTH
        if not (c.fresh(f"{which} again") and document_again(c, which))
    ]


def text_of(digest: Fact) -> str:
    made = digest.data["made"]
    return made["text"] if made else ""


def what_is_wrong(c: Context, seen: Fact) -> str:
    """What does not fit of the digest and its entry as they were seen, as a sentence; empty where all does."""
    return as_written(c, seen) or in_the_index(c, seen)


def as_written(c: Context, digest: Fact) -> str:
    made, draft = digest.data["made"], c.write(WRITE_DIGEST.name)
    if not made:
        return "the digest is not there"
    if not draft or made["operation_key"] != draft.key:
        return "the digest that is there is not this run's"
    return "" if made["intact"] and made["text"] == drafted(c) else "the digest was changed since"


def in_the_index(c: Context, digest: Fact) -> str:
    entries, made = digest.data["entries"], digest.data["made"] or {}
    if len(entries) != 1:
        return f"the index has {len(entries)} entries for the digest"
    entry = entries[0]
    if entry["sha256"] != made.get("sha256"):
        return f"entry {entry['entry']} is of another version of the digest"
    named = [(one["document"], one["sha256"]) for one in entry["sources"]]
    is_named = sorted(named) == sorted(parsed(text_of(digest)).sources.values()) and len(named) == len(BOTH)
    return "" if is_named else f"entry {entry['entry']} does not name both documents"


def made(c: Context) -> Judgement:
    digest = digest_again(c)
    if not digest:
        return unknown("the digest was not looked at yet")
    wrong = as_written(c, digest)
    return unmet(digest.evidence(wrong)) if wrong else met(digest.evidence("the digest is there as it was written"))


def indexed(c: Context) -> Judgement:
    digest = digest_again(c)
    if not digest:
        return unknown("the index was not looked at yet")
    if wrong := in_the_index(c, digest):
        return unmet(digest.evidence(wrong))
    return met(digest.evidence(f"in the index as {digest.data['entries'][0]['entry']}, with both documents"))


def cited(c: Context) -> Judgement:
    """Every quotation stands, word for word, in the line that it names; and there is one of each document."""
    seen = seen_again(c)
    if not seen:
        return unknown("the cited lines were not read again yet")
    points = parsed(text_of(seen["digest"])).points
    for which in BOTH:
        evidence = seen[which].evidence
        if not any(point.of == which for point in points):
            return unmet(evidence(f"nothing is cited of {c.input[which]}"))
        for point in points:
            if point.of == which and point.quote not in seen[which].data["lines"].get(str(point.line), ""):
                return unmet(evidence(f"line {point.line} of {c.input[which]} does not say what is cited of it"))
    return met(seen["second"].evidence(f"{len(points)} quotations stand in the lines that they name"))


def untouched(c: Context) -> Judgement:
    """Neither document is another than the digest was made of: the side effect that nobody could accept."""
    seen = seen_again(c)
    if not seen:
        return unknown("the documents were not read again yet")
    sources = parsed(text_of(seen["digest"])).sources
    for which in BOTH:
        now = (c.input[which], seen[which].data["sha256"])
        if sources.get(which) != now:
            return unmet(seen[which].evidence(f"{c.input[which]} is not as it was when the digest was made"))
    return met(seen["second"].evidence("both documents have the checksums that the digest names"))


def handed_over(c: Context) -> Judgement:
    """In the outbox if that was asked for, as this run's and word for word; and nothing of it there otherwise."""
    digest = digest_again(c)
    if not digest:
        return unknown("the outbox was not looked at yet")
    out, delivery, wanted = digest.data["handed_over"], c.write(HAND_OVER.name), bool(c.input.get("hand_over"))
    if not out:
        says = "not handed over" if wanted else "nothing was handed over, and nothing was to be"
        return (unmet if wanted else met)(digest.evidence(says))
    is_ours = delivery is not None and out["operation_key"] == delivery.key and out["intact"]
    if not wanted or not is_ours or out["sha256"] != (digest.data["made"] or {}).get("sha256"):
        return unmet(digest.evidence("the outbox has something under this name that is not this digest, handed over"))
    return met(digest.evidence("handed over as it stands"))


def seen_again(c: Context) -> dict[str, Fact] | None:
    found = {"digest": digest_again(c), **{which: document_again(c, which) for which in BOTH}}
    seen = {name: fact for name, fact in found.items() if fact}
    return seen if seen.keys() == found.keys() else None


CONTRACT = (
    Assertion("made", "The digest stands under its name as it was written", made),
    Assertion("cited", "Every quotation stands in the line of the document that it names", cited),
    Assertion("indexed", "The index has it once, with both documents", indexed),
    Assertion("untouched", "Both documents are as they were when the digest was made", untouched),
    Assertion("handed_over", "It was handed over if that was asked for, and not otherwise", handed_over),
)


# What may be done, and how it is undone


def out_of_turn(task: str) -> Callable[[Context, Mapping[str, Any]], str]:
    """Whoever drives the run, a model too, does what the task graph has ready and nothing else."""

    def says(c: Context, given: Mapping[str, Any]) -> str:
        if task not in needs(c):
            return f"It was not asked for to {task} digest {c.input['digest']}."
        ready = tasks(c).ready
        return "" if task in ready else f"To {task} is not what comes next; that is: {', '.join(ready) or 'nothing'}."

    return says


def cannot_be_drafted(c: Context, given: Mapping[str, Any]) -> str:
    if says := out_of_turn("draft")(c, given):
        return says
    points = parsed(written(c, {which: given[f"lines_of_{which}"] for which in BOTH})).points
    empty = [c.input[which] for which in BOTH if not any(point.of == which for point in points)]
    return f"Nothing can be quoted of those lines of {' and '.join(empty)}." if empty else ""


def drafted(c: Context) -> str:
    """The digest's text as this run wrote it; empty before that."""
    draft = c.write(WRITE_DIGEST.name)
    return str(draft.plan.params["text"]) if draft else ""


def checksum(c: Context) -> str:
    return sha256(drafted(c).encode()).hexdigest()


def drafting(c: Context, given: Mapping[str, Any]) -> WritePlan:
    digest, text = c.input["digest"], written(c, {which: given[f"lines_of_{which}"] for which in BOTH})
    versions = [c.facts[which].reference for which in BOTH]
    return WritePlan(
        operation=WRITE_DIGEST.name,
        target=f"digest {digest}",
        params={"digest": digest, "text": text},
        difference=(("digest", "not there", f"{len(parsed(text).points)} sentences of two documents"),),
        target_version=" and ".join(versions),
        expected="the digest under its name",
        undo="it can be taken away while nothing refers to it",
        risk="none: a name that is taken is refused",
    )


def indexing(c: Context, given: Mapping[str, Any]) -> WritePlan:
    digest, named = c.input["digest"], parsed(drafted(c)).sources.values()
    return WritePlan(
        operation=ADD_ENTRY.name,
        target=f"entry of digest {digest}",
        params={
            "digest": digest,
            "sha256": checksum(c),
            "sources": [{"document": document, "sha256": sha} for document, sha in named],
        },
        difference=(("index", "no entry", f"{digest}, of {' and '.join(document for document, _ in named)}"),),
        target_version=f"digest {checksum(c)[:12]}",
        expected="one entry more in the index",
        undo="it can be taken out while no other digest cites this one",
        risk="others find it from then on, and may cite it",
    )


def delivering(c: Context, given: Mapping[str, Any]) -> WritePlan:
    digest, says = c.input["digest"], " · ".join(point.quote for point in parsed(drafted(c)).points)
    return WritePlan(
        operation=HAND_OVER.name,
        target=f"outbox copy of digest {digest}",
        params={"digest": digest, "sha256": checksum(c)},
        difference=(("outbox", "not there", f"digest {digest}"), ("what leaves the house", "nothing", says)),
        target_version=f"digest {checksum(c)[:12]}",
        expected="a copy in the outbox",
        undo="none: what was handed over is in other hands",
        risk="it cannot be taken back, nor can the digest be taken away from then on",
        needs_approval="what is handed over cannot be taken back",
    )


def is_removable(effect: Effect, now: Fact) -> Judgement:
    """Whether nobody has come to rely on the digest since: not changed by people, not cited, not handed over."""
    there, cited_by = now.data["made"], now.data["cited_by"]
    if not there or not there["intact"]:
        return unmet(now.evidence("the digest is not there as it was made"))
    if cited_by:
        return unmet(now.evidence(f"it is cited by {', '.join(cited_by)}"))
    if now.data["handed_over"]:
        return unmet(now.evidence("it was handed over"))
    mine = [there, *now.data["entries"]]
    if not any(one["operation_key"] == effect.key for one in mine):
        return unmet(now.evidence("what is there is not this run's"))
    return met(now.evidence("nothing cites it, and it is as it was made"))


def taking_away(effect: Effect, now: Fact) -> WritePlan:
    digest = effect.plan.params["digest"]
    return WritePlan(
        operation=REMOVE_DIGEST.name,
        target=f"digest {digest}",
        params={"digest": digest, "removes": effect.key},
        difference=(("digest", "there", "taken away"),),
        target_version=now.reference,
        expected="no digest under that name",
        undo="none: another run can make it again",
        risk="none while nothing refers to it",
    )


def taking_out(effect: Effect, now: Fact) -> WritePlan:
    digest, entry = effect.plan.params["digest"], (effect.receipt or {})["entry"]
    return WritePlan(
        operation=REMOVE_ENTRY.name,
        target=f"entry {entry} of digest {digest}",
        params={"digest": digest, "entry": entry, "removes": effect.key},
        difference=(("index", f"{entry} stands", f"{entry} is taken out"),),
        target_version=now.reference,
        expected="no entry for the digest",
        undo="none: another run can enter it again",
        risk="none while no other digest cites it",
    )


def undone_by(plan: Callable[[Effect, Fact], WritePlan]) -> Undo:
    return Undo(LOOK_AT_DIGEST.name, lambda effect: {"digest": effect.plan.params["digest"]}, is_removable, plan)


LINES = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1, "maxItems": MOST_OF_ONE}
OPERATIONS: Mapping[str, Reading | Writing] = {
    READ_DOCUMENT.name: Reading(
        says="Reads one of the two documents that were asked for: the first, or the second, by its name.",
        arguments={
            "type": "object",
            "properties": {which: {"type": "string"} for which in BOTH},
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        },
        fact=lambda c, given: next(iter(given)),
        params=lambda c, given: {"document": next(iter(given.values()))},
    ),
    LOOK_AT_DIGEST.name: Reading(
        says="Looks at what stands under the digest's name now: its text, its entry in the index, the outbox.",
        fact=lambda c, given: "seen",
        params=lambda c, given: {"digest": c.input["digest"]},
    ),
    WRITE_DIGEST.name: Writing(
        says="Writes the digest: the first sentences of these lines of both documents, once both were read.",
        arguments={
            "type": "object",
            "properties": {f"lines_of_{which}": {**LINES, "uniqueItems": True} for which in BOTH},
            "required": [f"lines_of_{which}" for which in BOTH],
            "additionalProperties": False,
        },
        plan=drafting,
        key=lambda c, given: key(c, "digest"),
        not_now=cannot_be_drafted,
        undo=undone_by(taking_away),
    ),
    ADD_ENTRY.name: Writing(
        says="Enters the digest in the index, once it is written.",
        plan=indexing,
        key=lambda c, given: key(c, "entry"),
        not_now=out_of_turn("index"),
        undo=undone_by(taking_out),
    ),
    HAND_OVER.name: Writing(
        says="Hands the digest over, once it stands in the index and was looked at. That cannot be taken back.",
        plan=delivering,
        key=lambda c, given: key(c, "outbox"),
        not_now=out_of_turn("hand over"),
    ),
}


# What the script proposes


def script(c: Context) -> Proposal:
    now, under_way = tasks(c), running(c)
    ready = [task for task in now.ready if task not in under_way]
    if task := next(iter(startable(ready, USES, under_way)), ""):
        return PROPOSES[task](c)
    if now.all_done:
        return Claim("The digest is written and in the index.")
    for which in BOTH:
        if f"read {which}" in failed(c):
            return read(c, which)  # nothing is left but what failed: the run stops for what it failed of
    wrong = what_is_wrong(c, seen) if (seen := looked_at(c)) else "nothing can be done next"
    return Ask(f"The digest {c.input['digest']} is not as it should be: {wrong}. What should become of it?")


def read(c: Context, which: str) -> Act:
    return Act(READ_DOCUMENT.name, {which: c.input[which]})


def draft(c: Context) -> Proposal:
    lines = {which: beginnings(c.facts[which].data["text"]) for which in BOTH}
    if empty := [c.input[which] for which in BOTH if not lines[which]]:
        return Ask(f"There is no sentence in {' nor in '.join(empty)} that could be quoted. What should be digested?")
    return Act(WRITE_DIGEST.name, {f"lines_of_{which}": lines[which] for which in BOTH})


PROPOSES: Mapping[str, Callable[[Context], Proposal]] = {
    "read first": lambda c: read(c, "first"),
    "read second": lambda c: read(c, "second"),
    "draft": draft,
    "index": lambda c: Act(ADD_ENTRY.name, {}),
    "verify": lambda c: Act(LOOK_AT_DIGEST.name, {}),
    "hand over": lambda c: Act(HAND_OVER.name, {}),
}


def remaining(c: Context) -> Charge:
    """What a run that is not complete still needs, at the least: its tasks, and what is read again at the end."""
    left = needs(c).keys() - done(c)
    unread = (digest_again(c) is None) + sum(document_again(c, which) is None for which in BOTH)
    unsent = sum(not (effect := c.write(WRITES[task])) or not effect.times_sent for task in left & WRITES.keys())
    steps = len(left) + unread
    return {Dimension.STEPS: steps, Dimension.TOOL_ATTEMPTS: steps, Dimension.EXTERNAL_WRITES: unsent}


# What people are told


def question(c: Context, reason: StopReason, found: str) -> str:
    digest = c.input["digest"]
    match reason:
        case StopReason.APPROVAL_REQUIRED:
            return f"May digest {digest} be handed over? It cannot be taken back."
        case StopReason.APPROVAL_REJECTED:
            return f"Digest {digest} was not to be handed over: {found} Should it stay where it is?"
        case StopReason.APPROVAL_EXPIRED:
            return f"Nobody decided in time whether digest {digest} is handed over. Should it be put up again?"
        case StopReason.NOT_FOUND:
            gone = [c.input[w] for w in BOTH if c.is_closed(READ_DOCUMENT.name, {w: c.input[w]})]
            missing = " and ".join(gone) or f"What was to be read for {c.input['digest']}"
            return f"{missing} cannot be found. Which document should be read instead, or will it be put there?"
        case StopReason.INPUT_INVALID:
            return f"{found} Can the file be put right, or should another one be read?"
        case StopReason.OUTCOME_UNCONFIRMED:
            return f"Look-ups settled nothing about digest {digest}: {found} What stands in the folder?"
        case StopReason.RECEIPTS_CONTRADICT:
            return f"{found}. Who has changed what belongs to digest {digest}?"
        case StopReason.ACCESS_REFUSED:
            return f"{found} Was the product given access to the folder?"
        case StopReason.TOOL_MISSING:
            return f"{found} Was the folder configured?"
        case StopReason.SAME_ERROR_REPEATED:
            return f"{found} Was the folder put right?"
        case StopReason.CANCELLED_TOO_LATE:
            return f"Digest {digest} was made before the cancellation. Undo it, or keep it?"
        case StopReason.NOT_REVERSIBLE:
            return f"{found} What should become of digest {digest}?"
        case StopReason.NO_PROGRESS:
            wrong = [
                judged.evidence.says for assertion in CONTRACT if (judged := assertion.judge(c)).value is not Value.MET
            ]
            return f"Digest {digest} is said to be done, and {'; '.join(wrong) or 'nothing shows it'}. Go on, or stop?"
        case StopReason.PAUSED:
            return f"Digest {digest} is paused. May it go on?"
        case StopReason.EFFECT_UNKNOWN | StopReason.EFFECT_PENDING | StopReason.CANCELLATION_UNVERIFIED:
            return f"Nothing to decide yet: the folder is looked at again by itself for digest {digest}."
    return f"{found or 'The run stopped.'} How should digest {digest} go on?"


CUSTOMER_SAYS = Wording(
    subject="digest",
    quoted={Quote.NUMBER: "entry"},
    texts={
        Statement.BEING_WORKED_ON: {
            "en": "Your digest {subject} is being worked on.",
            "zh": "您要的摘要 {subject} 正在生成中。",
        },
        Statement.ACCEPTED_UNDER_NUMBER: {
            "en": "Your digest {subject} is ready. It stands in the index as {number}.",
            "zh": "您要的摘要 {subject} 已生成，索引编号为 {number}。",
        },
        Statement.ACCEPTED: {
            "en": "Your digest {subject} is ready, and stands in the index.",
            "zh": "您要的摘要 {subject} 已生成，并已编入索引。",
        },
        Statement.RECEIVED_UNDER_REFERENCE: {
            "en": "Your digest {subject} was received and is being verified. Its reference is {reference}.",
            "zh": "您要的摘要 {subject} 已收到，正在核实，查询编号为 {reference}。",
        },
        Statement.RECEIVED: {
            "en": "Your digest {subject} was received and is being verified.",
            "zh": "您要的摘要 {subject} 已收到，正在核实。",
        },
        Statement.BEING_VERIFIED: {
            "en": "We are verifying what has been stored of your digest {subject}.",
            "zh": "我们正在核实您要的摘要 {subject} 的存储情况。",
        },
        Statement.CANCELLATION_BEING_VERIFIED: {
            "en": "We are verifying whether the digest {subject} could still be stopped.",
            "zh": "我们正在核实摘要 {subject} 是否还能撤销。",
        },
        Statement.NOT_ENTITLED: {
            "en": "We could not find documents that you may have a digest made of.",
            "zh": "很抱歉，我们没有找到您可以生成摘要的资料。",
        },
        Statement.NOT_ELIGIBLE: {
            "en": "The digest {subject} cannot be made like this: there is one of that name already, or both documents "
            "are the same. Please choose another name, or another document.",
            "zh": "无法这样生成摘要 {subject}：同名摘要已经存在，或两份资料是同一份。请换一个名称或另选资料。",
        },
        Statement.REFUSED_BY_SERVICE: {
            "en": "The digest {subject} could not be stored as it was asked for.",
            "zh": "很抱歉，摘要 {subject} 无法按要求保存。",
        },
        Statement.DECLINED: {
            "en": "Your request for the digest {subject} was declined.",
            "zh": "很抱歉，您关于摘要 {subject} 的请求未能通过。",
        },
        Statement.WITH_A_PERSON: {
            "en": "Your request for the digest {subject} was handed to a person, who takes it from here.",
            "zh": "您关于摘要 {subject} 的请求已转交人工跟进。",
        },
        Statement.NOT_YET_CONFIRMED: {
            "en": "It is not yet confirmed that the digest {subject} is complete. We are following it up.",
            "zh": "摘要 {subject} 是否完整尚未得到确认，我们正在跟进。",
        },
        Statement.NEVER_CONFIRMED: {
            "en": "We could not establish what was stored of your digest {subject}.",
            "zh": "很抱歉，我们最终未能确认摘要 {subject} 的存储结果。",
        },
        Statement.NOT_SUBMITTED: {
            "en": "The digest {subject} was not made.",
            "zh": "摘要 {subject} 没有生成。",
        },
        Statement.NOT_IN_EFFECT: {
            "en": "Nothing was stored of the digest {subject}.",
            "zh": "摘要 {subject} 没有保存任何内容。",
        },
        Statement.UNDONE: {
            "en": "The digest {subject} was taken away again.",
            "zh": "摘要 {subject} 已撤回。",
        },
    },
)


WORKFLOW = Workflow(
    name="document_digest",
    version=1,
    title="Document digest",
    role="documents desk",
    input_schema=INPUT,
    subject=lambda given: f"digest {given['digest']}",
    headline=lambda given: f"Digest {given['digest']}",
    goal=lambda given: (
        f"Write the digest {given['digest']} of {given['first']} and {given['second']}, each sentence with its line, "
        f"and enter it in the index{', then hand it over' if given.get('hand_over') else ''}; both documents stay as "
        "they are."
    ),
    acts_for=lambda given, starter: starter,
    exists=lambda given, acts_for: (LOOK_AT_DIGEST.name, {"digest": given["digest"]}, "digest"),
    tools={tool.name: tool for tool in TOOLS},
    reads=READS,
    authorised=authorised,
    eligible=eligible,
    contract=CONTRACT,
    operations=OPERATIONS,
    checks=checks,
    script=script,
    budgets={
        # A clean run takes 9 steps, and one that is handed over 11 (test_what_a_clean_run_costs). Twice that leaves
        # room for a worker that dies (everything is read again), for an undoing (4 steps) and for retries.
        Dimension.STEPS: (22, 30),
        Dimension.TOOL_ATTEMPTS: (22, 30),
        Dimension.EXTERNAL_WRITES: 3,  # the digest, its entry, the copy in the outbox
        # At once, when "not there" is proof (15 s), and once more if somebody keeps the folder locked.
        Dimension.STATUS_CHECKS: 3,
        Dimension.FOLLOW_UP_CHECKS: 6,
        Dimension.WALL_TIME: int(timedelta(hours=24).total_seconds()),  # of which a person has 4 to decide
    },
    look_up_after=(timedelta(seconds=15), timedelta(minutes=5)),
    remaining=remaining,
    question=question,
    customer_says=CUSTOMER_SAYS,
)
