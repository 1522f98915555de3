"""A digest in a folder that fails and that people change, with anybody doing anything that is offered: no wrong
completion, no second effect, nothing handed over unapproved, and always somebody's.

Hypothesis draws the disk's faults, the writes whose answer comes too late, and what happens next: a person sends an
event, somebody changes the folder, the disk is mended, or only time passes. After each step the ten invariants of
`tests.faults.invariants` are held against the run's rows and the folder itself. FUZZ_EXAMPLES=500 goes on for longer.
"""

import errno
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from runs.domain.budget import Dimension
from runs.domain.errors import Failure
from runs.domain.states import FINAL, Move, Outcome, State, StepKind
from runs.interventions.possible import possible_events
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.tools import folder as module
from runs.tools.tool import Call, Result, Tool, ToolFailed
from runs.workflows.document_digest import WORKFLOW
from tests.documents import Documents, System
from tests.engine.conftest import _every_package_is_sound, _no_broker  # noqa: F401
from tests.engine.dying import Died
from tests.faults.invariants import violations
from tests.people import person
from tests.workflows.anybody import PEOPLE, anything, somebody_acts
from tests.workflows.test_document_digest import Desk

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
ROUNDS = 10  # what happens to one digest at the most
NUMBERS = count(1)
DECIDE = {"supervisor", "bob"}
DECISIONS = [Move.APPROVAL_GRANTED, Move.APPROVAL_REJECTED, Move.APPROVAL_REVOKED]
WRITES = [name for name, tool in WORKFLOW.tools.items() if tool.kind is StepKind.WRITE]


# The disk


@dataclass(frozen=True)
class Fault:
    """What strikes so many calls of a function of the system, once so many have passed."""

    function: str
    passes: int
    times: int
    strike: str  # an error's name, or "dies"
    after: bool  # once it was carried out


# How many calls of each a run that is handed over makes, more or less.
FAULTS = st.one_of(
    *[
        st.builds(
            Fault,
            st.just(function),
            st.integers(0, most),
            st.sampled_from([1, 1, 3, 99]),
            st.sampled_from(strikes),
            st.booleans() if function in {"rename", "fsync"} else st.just(False),
        )
        for function, most, strikes in [
            ("rename", 4, ["EIO", "EIO", "dies"]),
            ("fsync", 9, ["EIO", "dies"]),
            ("write", 4, ["ENOSPC", "EIO", "dies"]),
            ("open", 80, ["EIO", "EACCES", "dies"]),
            ("read", 30, ["EIO", "dies"]),
            ("mkdir", 3, ["EACCES", "ENOSPC"]),
        ]
    ]
)


class Disk(System):
    """`os` as the folder's tools see it. `meanwhile`: what people do as soon as so many files got to their places."""

    def __init__(self, faults: list[Fault], meanwhile: Mapping[int, Callable[[], object]]) -> None:
        self.faults, self.meanwhile, self.calls = faults, meanwhile, Counter[str]()
        functions = {fault.function for fault in faults} | {"rename"}
        super().__init__(**{function: partial(self.called, function) for function in functions})

    def called(self, function: str, *given: Any, **named: Any) -> Any:
        self.calls[function] += 1
        fits = (f for f in self.faults if f.function == function and 0 < self.calls[function] - f.passes <= f.times)
        fault = next(fits, None)
        answer = None
        if not fault or fault.after:
            answer = getattr(os, function)(*given, **named)
            if function == "rename":
                self.meanwhile.get(self.calls[function], lambda: None)()
        if not fault:
            return answer
        if fault.strike == "dies":
            self.faults.remove(fault)
            raise Died
        error = getattr(errno, fault.strike)
        raise OSError(error, os.strerror(error))


class Late:
    """Writes whose worker is given up while it is still about to write: what was sent arrives later, or never does."""

    def __init__(self, documents: Documents, patch: pytest.MonkeyPatch, sent: set[int]) -> None:
        self.documents, self.sent, self.writes = documents, sent, count(1)
        self.on_its_way: list[Callable[[], Result]] = []
        self.wrong: list[str] = []  # what was sent while something was on its way
        for name in WRITES:
            tool = WORKFLOW.tools[name]
            slow = Tool(**{**vars(tool), "perform": partial(self.perform, tool)})
            patch.setitem(WORKFLOW.tools, name, slow)

    def perform(self, tool: Tool, folder: Any, call: Call, until: float) -> Result:
        if self.on_its_way:
            self.wrong.append(f"{call.operation_key} was sent while something could still arrive")
        if next(self.writes) in self.sent:
            self.on_its_way.append(lambda: tool.perform(folder, call, monotonic() + 5))
            raise ToolFailed(Failure("no_answer", "Nothing was heard of it."))
        return tool.perform(folder, call, until)

    def arrives(self) -> None:
        """Twice: whoever sent it does not know the first time of it."""
        for write in self.on_its_way * 2:
            with suppress(ToolFailed, Died):
                write()
        self.on_its_way.clear()

    def can_arrive_no_more(self) -> None:
        self.on_its_way.clear()


# The people who have the folder open


class Theirs:
    """What people did to the folder: every file as they left it, and the lines that they put into the index."""

    def __init__(self, documents: Documents, digest: str) -> None:
        self.documents, self.digest = documents, digest
        self.made, self.out = f"digests/{digest}", f"outbox/{digest}"
        self.files: dict[str, str | None] = dict(documents.content())
        self.lines: list[str] = []
        self.took_the_digest = False  # so that the folder does not say any more what happened

    def puts(self, name: str, text: str) -> None:
        self.documents.put(name, text)
        self.files[name] = text

    def original_changes(self) -> None:
        """Elsewhere than where it is cited: what is quoted still stands there."""
        self.puts("originals/wells.md", f"{self.files['originals/wells.md']}More.\n")

    def original_goes(self) -> None:
        (self.documents.path / "originals/rain.md").unlink(missing_ok=True)
        self.files["originals/rain.md"] = None

    def digest_changes(self) -> None:
        """A remark is made in it; where there is none yet, somebody takes its name."""
        self.puts(self.made, self.documents.content().get(self.made, "") + "A remark.\n")

    def digest_goes(self) -> None:
        (self.documents.path / self.made).unlink(missing_ok=True)
        self.files.pop(self.made, None)
        self.took_the_digest = True

    def outbox_is_taken(self) -> None:
        if self.out not in self.documents.content():
            self.puts(self.out, "It got out.\n")

    def cites(self) -> None:
        """Another digest is made of this one, which must stay from then on."""
        if text := self.documents.content().get(self.made):
            self.enters("other.md", f"cites-{len(self.lines)}", self.made)
            self.files[self.made] = text

    def is_entered(self) -> None:
        """Somebody else's entry of the name that this run has, as long as it has none of its own."""
        if self.digest not in self.documents.content().get("index.jsonl", ""):
            self.enters(self.digest, "entry-of-others", "originals/rain.md")

    def enters(self, digest: str, key: str, document: str) -> None:
        sources = [{"document": document, "sha256": "0" * 64}]
        entry = {"entry": key, "operation_key": key, "digest": digest, "sha256": "0" * 64, "sources": sources}
        self.lines.append(json.dumps(entry))
        index = self.documents.content().get("index.jsonl", "")
        self.documents.put("index.jsonl", f"{index}{self.lines[-1]}\n")

    def are_as_they_were_left(self) -> None:
        content = self.documents.content()
        assert {name: content.get(name) for name in self.files} == self.files
        assert set(self.lines) <= set(content.get("index.jsonl", "").splitlines())


CHANGES = [
    Theirs.original_changes,
    Theirs.original_goes,
    Theirs.digest_changes,
    Theirs.digest_goes,
    Theirs.outbox_is_taken,
    Theirs.cites,
    Theirs.is_entered,
]


OFTEN = {Move.APPROVAL_GRANTED: 12, Move.COMPENSATION_APPROVED: 9, Move.CANCEL_REQUESTED: 1, Move.PAUSED: 1}
KNOWN = {
    "dimension": st.sampled_from([Dimension.TOOL_ATTEMPTS, Dimension.EXTERNAL_WRITES, Dimension.STEPS]),
    "by": st.sampled_from([1, 4, 8]),
    "field": st.sampled_from(["first", "second"]),
    "value": st.sampled_from(["originals/rain.md", "originals/wells.md", "originals/none.md"]),
}


def in_turns(carry_on: Callable[[Run], Run], run: Run) -> Run:
    """Another worker takes over from each that dies: a fault lets one die at the most."""
    while True:
        try:
            return carry_on(run)
        except Died:
            Run.objects.filter(pk=run.pk).update(owner="", due_at="2000-01-01T00:00Z")


@anything(EXAMPLES)
@given(data=st.data())
def test_whatever_happens_a_digest_is_never_wrongly_complete_never_made_twice_and_always_somebodys(
    transactional_db: None, tmp_path: Path, settings: Settings, data: st.DataObject
) -> None:
    draw, number = data.draw, f"K{next(NUMBERS):05}"
    documents = Documents(tmp_path / number)
    settings.SERVICES = {"documents": {"folder": str(documents.path)}}
    settings.ENGINE_PACE = 1.0
    desk, theirs = Desk(documents), Theirs(documents, f"{number}.md")
    changes = draw(st.dictionaries(st.integers(1, 3), st.sampled_from(CHANGES), max_size=2), "meanwhile")
    disk = Disk(
        draw(st.lists(FAULTS, max_size=3), "faults"),
        {after: partial(change, theirs) for after, change in changes.items()},
    )
    policy = draw(st.sampled_from(["scripted", "scripted", "scripted", "overconfident", "stubborn"]), "policy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "os", disk)
        late = Late(documents, patch, draw(st.sets(st.integers(1, 4), max_size=2), "too late"))
        try:
            handed = draw(st.sampled_from([True, True, False]), "hand over")
            run = desk.start(theirs.digest, policy=policy, hand_over=handed)
        except (Refused, Died):
            return  # nobody could be asked at the door whether the name is free
        goes_on(run, desk, theirs, disk, late, draw)


def goes_on(run: Run, desk: Desk, theirs: Theirs, disk: Disk, late: Late, draw: Any) -> None:
    """Until it has ended, or as long as anybody wants to see."""
    run = in_turns(desk.carry_on, run)
    for _ in range(ROUNDS):
        the_laws_hold(run, theirs, late)
        if run.state in FINAL:
            break
        match draw(
            st.sampled_from(["somebody acts"] * 6 + ["time passes", "the folder changes", "the disk is mended"]), "then"
        ):
            case "somebody acts":
                somebody_acts(run, draw, OFTEN, KNOWN)
            case "the folder changes":
                draw(st.sampled_from(CHANGES), "how")(theirs)
            case "the disk is mended":
                disk.faults.clear()
        if late.on_its_way and draw(st.booleans(), "at once"):
            run = in_turns(desk.carry_on, run)
            continue
        if draw(st.booleans(), "what is late arrives"):
            late.arrives()
        late.can_arrive_no_more()  # its time is over
        run = in_turns(desk.later, run)
    late.arrives()
    the_laws_hold(run, theirs, late)


# The laws


def the_laws_hold(run: Run, theirs: Theirs, late: Late) -> None:
    documents = theirs.documents
    happened = documents.effects(theirs.digest, run.effects.values_list("operation_key", flat=True))
    assert violations([run.pk], None if theirs.took_the_digest else {"calls": [], "effects": happened}) == []
    assert not late.wrong
    theirs.are_as_they_were_left()
    assert somebody_can_answer(run)
    each_was_written_once(run, documents)
    nothing_left_unapproved(run, documents.key_of(theirs.out))
    if run.state == State.COMPLETED:
        it_is_complete(run, documents.content())


def somebody_can_answer(run: Run) -> bool:
    if run.state in FINAL or run.outcome == Outcome.WAITING:
        return run.state in FINAL or run.due_at is not None
    return bool(run.question) and any(
        not event.why_not for who in set(PEOPLE) for event in possible_events(run, person(who))
    )


def each_was_written_once(run: Run, documents: Documents) -> None:
    keys = [json.loads(line)["operation_key"] for line in documents.content().get("index.jsonl", "").splitlines()]
    assert len(keys) == len(set(keys))
    assert set(documents.names("outbox")) <= {run.input["digest"]}
    files = [name for name in documents.content() if name.startswith(("digests/", "removed/"))]
    made = Counter(filter(None, map(documents.key_of, files)))
    assert all(times == 1 for times in made.values())


def nothing_left_unapproved(run: Run, key: str) -> None:
    """Whenever it was sent, the last word on it was the approval, as it is, of another person who may decide; and what
    is in the outbox under one of our keys was sent by this run."""
    sent = run.step_rows.filter(operation="hand_over")
    assert run.input["hand_over"] or not sent
    assert not key or sent.filter(operation_key=key).exists()
    for step in sent:
        last = run.inbox.filter(name__in=DECISIONS, result="applied", settled_at__lte=step.started_at).latest("pk")
        assert last.actor
        assert last.actor.username in DECIDE - {run.requester.username}
        plan = run.effects.get(operation="hand_over").plan_digest
        assert (last.name, last.answers) == (Move.APPROVAL_GRANTED, plan)


def it_is_complete(run: Run, content: Mapping[str, str]) -> None:
    """By what stands in the folder alone, read without any of the workflow's own words."""
    digest, out = f"digests/{run.input['digest']}", f"outbox/{run.input['digest']}"
    key = {effect.operation: effect.operation_key for effect in run.effects.filter(state="confirmed")}
    mark, text = content[digest].split("\n", 1)
    assert mark == f"<!-- made under {key['write_digest']}, sha256 {checksum(text)} -->"
    sources = [run.input["first"], run.input["second"]]
    named = [{"document": name, "sha256": checksum(content[name])} for name in sources]
    assert text == run.effects.get(operation="write_digest").plan["params"]["text"]
    assert re.findall(r"^\[[12]\] (.+), sha256 (.+)$", text, re.M) == [tuple(one.values()) for one in named]
    quoted = re.findall(r"^- (.+) \[([12]):(\d+)\]$", text, re.M)
    assert {which for _, which, _ in quoted} == {"1", "2"}
    for quote, which, line in quoted:
        assert quote in content[sources[int(which) - 1]].split("\n")[int(line) - 1]
    lines = [json.loads(line) for line in content["index.jsonl"].splitlines()]
    taken_out = {line["removes"] for line in lines if "removes" in line}
    of_it = [line for line in lines if "entry" in line and line["digest"] == run.input["digest"]]
    [entry] = [line for line in of_it if line["operation_key"] not in taken_out]
    assert (entry["operation_key"], entry["sha256"]) == (key["add_entry"], checksum(text))
    assert entry["sources"] == named
    assert (out in content) == run.input["hand_over"]
    if out in content:
        assert content[out] == f"<!-- made under {key['hand_over']}, sha256 {checksum(text)} -->\n{text}"


def checksum(text: str) -> str:
    return sha256(text.encode()).hexdigest()
