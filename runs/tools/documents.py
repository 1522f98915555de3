"""Documents in a folder: reading them, and writing, indexing, handing over and removing the digests made of them.

    originals/   what people put there; no tool writes here
    digests/     made by runs, each under its own name; the first line says under which operation key
    index.jsonl  a journal that all runs share: an entry for each digest, and a line for each entry that was taken out
    outbox/      what was handed over; whoever collects it copies it, and nothing is ever taken back
    removed/     digests that were taken away, under the operation key of that

Every write leaves its key behind in the same rename that makes it true, so a look-up by key finds both or neither. Who
wants a name that is taken, or the removal of what others rest on, is refused.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

from runs.domain.effects import Answer
from runs.domain.errors import Failure, quoted
from runs.domain.states import StepKind
from runs.tools.folder import Folder, refused
from runs.tools.tool import Call, Result, Tool, ToolFailed

SERVICE = "documents"
SOURCE = "document folder"
ORIGINALS, DIGESTS, OUTBOX, REMOVED = "originals", "digests", "outbox", "removed"
INDEX = "index.jsonl"
MOST_OF_A_DOCUMENT = 200_000  # bytes; what was read is kept with the run
MARK = re.compile(r"<!-- made under (?P<key>[\w.:-]{1,120}), sha256 (?P<sha256>[0-9a-f]{64}) -->\n", re.ASCII)


@dataclass(frozen=True)
class Made:
    """A file that a run made: under which key, and whether it still says what was written."""

    key: str
    text: str
    sha256: str
    intact: bool


@dataclass(frozen=True)
class Index:
    """The journal as it stands: every line, and the entries that were not taken out again."""

    lines: list[dict[str, Any]]

    @property
    def entries(self) -> list[dict[str, Any]]:
        out = {line["removes"] for line in self.lines if "removes" in line}
        return [line for line in self.lines if "entry" in line and line["operation_key"] not in out]

    def of(self, digest: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["digest"] == digest]

    def citing(self, digest: str) -> list[str]:
        """The digests that were made of this one."""
        name = f"{DIGESTS}/{digest}"
        return [e["digest"] for e in self.entries if any(source["document"] == name for source in e["sources"])]

    def under(self, key: str) -> dict[str, Any] | None:
        return next((line for line in self.lines if line["operation_key"] == key), None)


# Reading


def _read_document(folder: Folder, call: Call, until: float) -> Result:
    name = _document(call.params["document"])
    read = folder.read(name, until, MOST_OF_A_DOCUMENT)
    data = {"document": name, "text": read.text, "sha256": read.sha256, "bytes": read.size}
    return Result(data, f"{name} read, {read.size} bytes", reference=f"{name}@{read.sha256[:12]}")


def _check_document(folder: Folder, call: Call, until: float) -> Result:
    """What stands in these lines of a document now, and the checksum of all of it."""
    name = _document(call.params["document"])
    read = folder.read(name, until, MOST_OF_A_DOCUMENT)
    there = dict(enumerate(lines_of(read.text), 1))
    lines = {str(number): there[number] for number in call.params["lines"] if number in there}
    data = {"document": name, "sha256": read.sha256, "lines": lines}
    return Result(data, f"{name} read again, {len(lines)} lines of it", reference=f"{name}@{read.sha256[:12]}")


def _look_at_digest(folder: Folder, call: Call, until: float) -> Result:
    """Everything that is there under a digest's name, at one moment."""
    digest = call.params["digest"]
    with folder.locked(until):
        made, index, out = (
            _made(folder, DIGESTS, digest, until),
            _index(folder, until),
            _made(folder, OUTBOX, digest, until),
        )
    data = {
        "digest": digest,
        "made": _as_data(made),
        "entries": index.of(digest),
        "cited_by": index.citing(digest),
        "handed_over": _as_data(out),
    }
    is_there, version = "not there", "none"
    if made:
        is_there, version = f"made under {made.key}" if made.key else "made by hand", made.sha256[:12]
    entries = len(data["entries"])
    says = (
        f"Digest {digest} is {is_there}, with {entries or 'no'} {'entry' if entries == 1 else 'entries'} in the index"
    )
    return Result(data, says, reference=f"{DIGESTS}/{digest}@{version}")


def _as_data(made: Made | None) -> dict[str, Any] | None:
    if made is None:
        return None
    return {"operation_key": made.key, "text": made.text, "sha256": made.sha256, "intact": made.intact}


# Writing. Each looks under the lock at what is there, and leaves its key behind.


def _write_digest(folder: Folder, call: Call, until: float) -> Result:
    digest, text = call.params["digest"], call.params["text"]
    with folder.locked(until):
        there = _made(folder, DIGESTS, digest, until)
        if there is None:
            folder.write(f"{DIGESTS}/{digest}", _marked(call.operation_key, text), until)
        elif there.key != call.operation_key:
            return _rejected(f"a digest {digest} is there already, made under {there.key}")
        elif not there.intact or there.text != text:
            raise _key_reused(call)
    return _accepted(call, {"sha256": _checksum(text)}, f"Digest {digest} written")


def _look_up_digest(folder: Folder, call: Call, until: float) -> Result:
    digest, text = call.params["digest"], call.params["text"]
    with folder.locked(until):
        there = _made(folder, DIGESTS, digest, until)
    if there is None:
        return _not_there(call, f"There is no digest {digest}")
    if there.key != call.operation_key:
        return _rejected(f"the digest {digest} that is there was made under {there.key}")
    if not there.intact or there.text != text:
        return _contradictory(f"Digest {digest} was made under this key, and does not say what was written")
    return _accepted(call, {"sha256": there.sha256}, f"Digest {digest} is there")


def _add_entry(folder: Folder, call: Call, until: float) -> Result:
    digest = call.params["digest"]
    with folder.locked(until):
        index = _index(folder, until)
        if known := index.under(call.operation_key):
            return _entered(call, known)
        there = _made(folder, DIGESTS, digest, until)
        if there is None or not there.intact or there.sha256 != call.params["sha256"]:
            raise refused(f"Digest {digest} is not there as it is to be indexed.")
        if others := index.of(digest):
            return _rejected(f"digest {digest} is in the index already, as {others[0]['entry']}")
        entry = {"entry": f"E{len(index.lines) + 1}", "operation_key": call.operation_key, **call.params}
        _write_index(folder, [*index.lines, entry], until)
    return _entered(call, entry)


def _look_up_entry(folder: Folder, call: Call, until: float) -> Result:
    with folder.locked(until):
        known = _index(folder, until).under(call.operation_key)
    if known is None:
        return _not_there(call, "The index has no entry under this key")
    return _entered(call, known)


def _entered(call: Call, entry: Mapping[str, Any]) -> Result:
    if {name: entry.get(name) for name in call.params} != dict(call.params):
        return _contradictory("The index has something else under this key")
    return _accepted(call, {"entry": entry["entry"], "sha256": entry["sha256"]}, f"In the index as {entry['entry']}")


def _hand_over(folder: Folder, call: Call, until: float) -> Result:
    digest = call.params["digest"]
    with folder.locked(until):
        out, there = _made(folder, OUTBOX, digest, until), _made(folder, DIGESTS, digest, until)
        if out is None:
            if there is None or not there.intact or there.sha256 != call.params["sha256"]:
                raise refused(f"Digest {digest} is not there as it is to be handed over.")
            folder.write(f"{OUTBOX}/{digest}", _marked(call.operation_key, there.text), until)
        elif out.key != call.operation_key:
            return _rejected(f"a digest {digest} was handed over already, under {out.key}")
        elif out.sha256 != call.params["sha256"] or not out.intact:
            raise _key_reused(call)
    return _accepted(call, {"sha256": call.params["sha256"]}, f"Digest {digest} handed over")


def _look_up_handing_over(folder: Folder, call: Call, until: float) -> Result:
    digest = call.params["digest"]
    with folder.locked(until):
        out = _made(folder, OUTBOX, digest, until)
    if out is None:
        return _not_there(call, f"The outbox has no digest {digest}")
    if out.key != call.operation_key:
        return _rejected(f"the digest {digest} in the outbox was handed over under {out.key}")
    if out.sha256 != call.params["sha256"] or not out.intact:
        return _contradictory(f"Digest {digest} was handed over under this key, and does not say what it should")
    return _accepted(call, {"sha256": out.sha256}, f"Digest {digest} is in the outbox")


# Taking away what was made. Not where others rest on it, and never what left the folder.


def _remove_entry(folder: Folder, call: Call, until: float) -> Result:
    digest, entry = call.params["digest"], call.params["entry"]
    with folder.locked(until):
        index = _index(folder, until)
        if known := index.under(call.operation_key):
            return _taken_out(call, known)
        if not any(one["operation_key"] == call.params["removes"] for one in index.of(digest)):
            return _rejected(f"entry {entry} of digest {digest} is not in the index")
        if citing := index.citing(digest):
            return _rejected(f"digest {digest} is cited by {', '.join(citing)}")
        line = {"operation_key": call.operation_key, **call.params}
        del line["entry"]
        _write_index(folder, [*index.lines, line], until)
    return _taken_out(call, line)


def _look_up_removed_entry(folder: Folder, call: Call, until: float) -> Result:
    with folder.locked(until):
        known = _index(folder, until).under(call.operation_key)
    if known is None:
        return _not_there(call, f"Entry {call.params['entry']} was not taken out")
    return _taken_out(call, known)


def _taken_out(call: Call, line: Mapping[str, Any]) -> Result:
    if (line.get("removes"), line["digest"]) != (call.params["removes"], call.params["digest"]):
        return _contradictory("The index has something else under this key")
    return _accepted(call, {}, f"Entry {call.params['entry']} taken out of the index")


def _remove_digest(folder: Folder, call: Call, until: float) -> Result:
    digest = call.params["digest"]
    with folder.locked(until):
        if _made(folder, REMOVED, call.operation_key, until):
            return _accepted(call, {}, f"Digest {digest} was taken away")
        there, index = _made(folder, DIGESTS, digest, until), _index(folder, until)
        if there is None or not there.intact or there.key != call.params["removes"]:
            return _rejected(f"digest {digest} is not there as it was made")
        if others := [*(entry["entry"] for entry in index.of(digest)), *index.citing(digest)]:
            return _rejected(f"digest {digest} is referred to by {', '.join(others)}")
        if _made(folder, OUTBOX, digest, until):
            return _rejected(f"digest {digest} was handed over")
        folder.move(f"{DIGESTS}/{digest}", f"{REMOVED}/{call.operation_key}", until)
    return _accepted(call, {}, f"Digest {digest} taken away")


def _look_up_removed_digest(folder: Folder, call: Call, until: float) -> Result:
    digest = call.params["digest"]
    with folder.locked(until):
        there, away = _made(folder, DIGESTS, digest, until), _made(folder, REMOVED, call.operation_key, until)
    if away:
        return _accepted(call, {}, f"Digest {digest} was taken away")
    if there and there.key == call.params["removes"]:
        return _not_there(call, f"Digest {digest} is still there")
    return _contradictory(f"Digest {digest} is gone, and not by this run")


# What stands in the folder


def lines_of(text: str) -> list[str]:
    """The lines of a document as an editor numbers them, the first being 1."""
    return text.replace("\r\n", "\n").split("\n")


def _document(name: str) -> str:
    if not name.startswith((f"{ORIGINALS}/", f"{DIGESTS}/")):
        raise refused(f"{quoted(name)} is no document: it has to stand below {ORIGINALS}/ or {DIGESTS}/.")
    return name


def _made(folder: Folder, where: str, name: str, until: float) -> Made | None:
    """A file that some run made; None where there is none. One without a mark was made by nobody that we know."""
    read = folder.find(f"{where}/{name}", until)
    if read is None:
        return None
    mark = MARK.match(read.text)
    if mark is None:
        return Made("", read.text, read.sha256, intact=False)
    text = read.text[mark.end() :]
    return Made(mark["key"], text, _checksum(text), intact=_checksum(text) == mark["sha256"])


def _marked(key: str, text: str) -> str:
    return f"<!-- made under {key}, sha256 {_checksum(text)} -->\n{text}"


def _checksum(text: str) -> str:
    return sha256(text.encode()).hexdigest()


ENTRY = {"entry": str, "operation_key": str, "digest": str, "sha256": str, "sources": list}
REMOVAL = {"removes": str, "operation_key": str, "digest": str}


def _index(folder: Folder, until: float) -> Index:
    read = folder.find(INDEX, until)
    lines = []
    for number, text in enumerate(read.text.splitlines() if read else [], 1):
        line = _line(text)
        if line is None:
            # Nothing rests on the rest of it either: somebody has changed it by hand.
            message = f"{INDEX}, line {number}, is neither an entry nor a removal: put it right by hand."
            raise ToolFailed(Failure("invalid_output", message, executed=False))
        lines.append(line)
    return Index(lines)


def _line(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    for shape in (ENTRY, REMOVAL):
        if line.keys() >= shape.keys() and all(isinstance(line[name], kind) for name, kind in shape.items()):
            return line if all(map(_is_source, line.get("sources", []))) else None
    return None


def _is_source(given: object) -> bool:
    return isinstance(given, dict) and all(isinstance(given.get(name), str) for name in ("document", "sha256"))


def _write_index(folder: Folder, lines: list[dict[str, Any]], until: float) -> None:
    # Every sign that ends a line somewhere is written as an escape.
    folder.write(INDEX, "".join(f"{json.dumps(line)}\n" for line in lines), until)


# What it means for the write


def _accepted(call: Call, more: Mapping[str, Any], says: str) -> Result:
    receipt = {"digest": call.params["digest"], "operation_key": call.operation_key, **more}
    return Result(receipt, says, call.operation_key, Answer.ACCEPTED, receipt=receipt)


def _rejected(reason: str) -> Result:
    return Result({"reason": reason}, f"Refused: {reason}", answer=Answer.REJECTED, reason=reason)


def _contradictory(says: str) -> Result:
    return Result({"found": says}, says, answer=Answer.CONTRADICTORY, reason=says)


def _not_there(call: Call, says: str) -> Result:
    if call.may_still_arrive:
        return Result({"found": says}, f"{says}; that is no proof yet", answer=Answer.NOT_FOUND_YET)
    return Result({"found": says}, f"{says}, and it can no longer arrive", answer=Answer.ABSENT)


def _key_reused(call: Call) -> ToolFailed:
    message = f"Something else was made under {call.operation_key}."
    return ToolFailed(Failure("key_reused", message))


Perform = Callable[[Folder, Call, float], Result]


def _in_a_folder(perform: Perform) -> Callable[[Any, Call, float], Result]:
    def performed(given: Any, call: Call, until: float) -> Result:
        if not isinstance(given, Folder):
            message = f"The service {SERVICE!r} is configured without a folder."
            raise ToolFailed(Failure("tool_missing", message, executed=False))
        return perform(given, call, until)

    return performed


def _tool(name: str, label: str, kind: StepKind, perform: Perform, look_up: str = "") -> Tool:
    # Nothing is on its way that is not under the folder's lock, so nothing is added to the time of the call itself.
    return Tool(
        name, label, SOURCE, SERVICE, kind, _in_a_folder(perform), look_up=look_up, in_flight_grace=timedelta(0)
    )


READ_DOCUMENT = _tool("read_document", "Read a document", StepKind.READ, _read_document)
CHECK_DOCUMENT = _tool("check_document", "Read the cited lines again", StepKind.READ, _check_document)
LOOK_AT_DIGEST = _tool("look_at_digest", "Look at the digest", StepKind.READ, _look_at_digest)
WRITE_DIGEST = _tool("write_digest", "Write the digest", StepKind.WRITE, _write_digest, "look_up_digest")
LOOK_UP_DIGEST = _tool("look_up_digest", "Look the digest up", StepKind.LOOK_UP, _look_up_digest)
ADD_ENTRY = _tool("add_entry", "Add to the index", StepKind.WRITE, _add_entry, "look_up_entry")
LOOK_UP_ENTRY = _tool("look_up_entry", "Look the entry up", StepKind.LOOK_UP, _look_up_entry)
HAND_OVER = _tool("hand_over", "Hand the digest over", StepKind.WRITE, _hand_over, "look_up_handing_over")
LOOK_UP_HANDING_OVER = _tool(
    "look_up_handing_over", "Look the handing over up", StepKind.LOOK_UP, _look_up_handing_over
)
REMOVE_ENTRY = _tool("remove_entry", "Take out of the index", StepKind.WRITE, _remove_entry, "look_up_removed_entry")
LOOK_UP_REMOVED_ENTRY = _tool(
    "look_up_removed_entry", "Look the removal from the index up", StepKind.LOOK_UP, _look_up_removed_entry
)
REMOVE_DIGEST = _tool("remove_digest", "Take the digest away", StepKind.WRITE, _remove_digest, "look_up_removed_digest")
LOOK_UP_REMOVED_DIGEST = _tool(
    "look_up_removed_digest", "Look the removal of the digest up", StepKind.LOOK_UP, _look_up_removed_digest
)
TOOLS = (
    READ_DOCUMENT,
    CHECK_DOCUMENT,
    LOOK_AT_DIGEST,
    WRITE_DIGEST,
    LOOK_UP_DIGEST,
    ADD_ENTRY,
    LOOK_UP_ENTRY,
    HAND_OVER,
    LOOK_UP_HANDING_OVER,
    REMOVE_ENTRY,
    LOOK_UP_REMOVED_ENTRY,
    REMOVE_DIGEST,
    LOOK_UP_REMOVED_DIGEST,
)
