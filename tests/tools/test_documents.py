"""The document folder's tools: each write leaves its key behind, and a look-up by key tells what became of it."""

import errno
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from runs.domain.effects import Answer, what_a_failure_means
from runs.domain.errors import Failure
from runs.tools.documents import (
    ADD_ENTRY,
    CHECK_DOCUMENT,
    HAND_OVER,
    LOOK_AT_DIGEST,
    LOOK_UP_DIGEST,
    LOOK_UP_ENTRY,
    LOOK_UP_HANDING_OVER,
    LOOK_UP_REMOVED_DIGEST,
    LOOK_UP_REMOVED_ENTRY,
    READ_DOCUMENT,
    REMOVE_DIGEST,
    REMOVE_ENTRY,
    TOOLS,
    WRITE_DIGEST,
)
from runs.tools.folder import PART
from runs.tools.http import HttpService
from runs.tools.tool import Call, Tool, ToolFailed
from tests.documents import RAIN, Documents, lose_the_answer, strike

ROOT = Path(__file__).resolve().parents[2]
TEXT = "# Digest\n\n- It rained on 91 days in 2025. [1:3]\n"
SHA = "8dd5a2b9ce9a5fe8adc4a5f6cc3d2d1f1b7d1b6b8d3e39a3b8b5ff6ee7a5ba3b"


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    return Documents(tmp_path / "documents")


def failure(do: Callable[[], Any]) -> Failure:
    with pytest.raises(ToolFailed) as failed:
        do()
    return failed.value.failure


def checksum(documents: Documents) -> str:
    made = documents.do(LOOK_AT_DIGEST, digest="d.md").data["made"]
    return str(made["sha256"]) if made else SHA


def sources(*names: str) -> list[dict[str, str]]:
    return [{"document": name, "sha256": SHA} for name in names]


def written(documents: Documents, key: str = "w1", digest: str = "d.md") -> None:
    assert documents.do(WRITE_DIGEST, key, digest=digest, text=TEXT).answer is Answer.ACCEPTED


def entry_of(documents: Documents, *of: str, digest: str = "d.md") -> dict[str, Any]:
    return {"digest": digest, "sha256": checksum(documents), "sources": sources(*of or ("originals/rain.md",))}


def indexed(documents: Documents, key: str = "i1") -> None:
    written(documents)
    assert documents.do(ADD_ENTRY, key, **entry_of(documents)).answer is Answer.ACCEPTED


def params_of(documents: Documents, tool: Tool) -> dict[str, Any]:
    """What each write is called with, once everything that comes before it has happened."""
    if tool is WRITE_DIGEST:
        return {"digest": "d.md", "text": TEXT}
    if tool is REMOVE_ENTRY:
        indexed(documents)
        return {"digest": "d.md", "entry": "E1", "removes": "i1"}
    written(documents)
    if tool is REMOVE_DIGEST:
        return {"digest": "d.md", "removes": "w1"}
    return entry_of(documents) if tool is ADD_ENTRY else {"digest": "d.md", "sha256": checksum(documents)}


WRITES = {
    WRITE_DIGEST: LOOK_UP_DIGEST,
    ADD_ENTRY: LOOK_UP_ENTRY,
    HAND_OVER: LOOK_UP_HANDING_OVER,
    REMOVE_ENTRY: LOOK_UP_REMOVED_ENTRY,
    REMOVE_DIGEST: LOOK_UP_REMOVED_DIGEST,
}
each_write = pytest.mark.parametrize("write", WRITES, ids=lambda tool: tool.name)


# Reading


def test_a_document_is_read_with_its_checksum_and_size(documents: Documents) -> None:
    read = documents.do(READ_DOCUMENT, document="originals/rain.md")

    assert read.data["text"] == RAIN
    assert read.data["bytes"] == len(RAIN)
    assert read.reference == f"originals/rain.md@{read.data['sha256'][:12]}"


def test_the_entries_of_a_digest_are_counted_in_words(documents: Documents) -> None:
    def said() -> str:
        return documents.do(LOOK_AT_DIGEST, digest="d.md").says

    assert said() == "Digest d.md is not there, with no entries in the index"
    indexed(documents)
    assert said() == "Digest d.md is made under w1, with 1 entry in the index"


@pytest.mark.parametrize("name", ["index.jsonl", "outbox/d.md", "rain.md", "removed/w1", "originals/../index.jsonl"])
def test_only_what_stands_among_originals_and_digests_is_a_document(documents: Documents, name: str) -> None:
    documents.put("rain.md", RAIN)

    assert failure(lambda: documents.do(READ_DOCUMENT, document=name)).code == "invalid_input"


def test_lines_are_numbered_as_an_editor_does_and_those_past_the_end_are_not_there(documents: Documents) -> None:
    documents.put("originals/odd.md", "one\r\ntwo\u2028still two\n\nfour")

    checked = documents.do(CHECK_DOCUMENT, document="originals/odd.md", lines=[1, 2, 4, 5])

    assert checked.data["lines"] == {"1": "one", "2": "two\u2028still two", "4": "four"}


# Every write


@each_write
def test_a_write_and_its_look_up_name_the_digest_and_the_key(documents: Documents, write: Tool) -> None:
    params = params_of(documents, write)

    for found in (documents.do(write, "k", **params), documents.do(WRITES[write], "k", **params)):
        assert found.answer is Answer.ACCEPTED
        assert found.receipt
        assert (found.receipt["digest"], found.receipt["operation_key"]) == ("d.md", "k")


@each_write
def test_the_same_write_again_is_the_same_write(documents: Documents, write: Tool) -> None:
    params = params_of(documents, write)
    first = documents.do(write, "k", **params)
    content = documents.content()

    again = documents.do(write, "k", **params)

    assert (again.answer, again.receipt) == (Answer.ACCEPTED, first.receipt)
    assert documents.content() == content


@each_write
def test_a_write_that_never_came_is_absent_once_it_can_no_longer_come(documents: Documents, write: Tool) -> None:
    params = params_of(documents, write)

    assert documents.do(WRITES[write], "k", may_still_arrive=True, **params).answer is Answer.NOT_FOUND_YET
    assert documents.do(WRITES[write], "k", **params).answer is Answer.ABSENT


@each_write
def test_a_lost_answer_is_found_by_its_key(documents: Documents, monkeypatch: pytest.MonkeyPatch, write: Tool) -> None:
    params = params_of(documents, write)
    lose_the_answer(monkeypatch)

    failed = failure(lambda: documents.do(write, "k", **params))

    assert what_a_failure_means(failed, looking=False) is Answer.UNREACHABLE
    assert documents.do(WRITES[write], "k", **params).answer is Answer.ACCEPTED


@pytest.mark.parametrize("write", [WRITE_DIGEST, ADD_ENTRY, HAND_OVER, REMOVE_ENTRY], ids=lambda tool: tool.name)
def test_a_full_disk_leaves_everything_as_it_was_and_says_that_nothing_was_done(
    documents: Documents, monkeypatch: pytest.MonkeyPatch, write: Tool
) -> None:
    params = params_of(documents, write)
    content = documents.content()
    strike(monkeypatch, "write", errno.ENOSPC)

    failed = failure(lambda: documents.do(write, "k", **params))

    assert what_a_failure_means(failed, looking=False) is Answer.NOT_EXECUTED
    assert documents.content() == content
    assert documents.do(write, "k", **params).answer is Answer.ACCEPTED


def in_a_process_of_its_own(documents: Documents, tool: Tool, key: str, params: Mapping[str, Any], dies: str) -> int:
    """The call in a process that kills itself at a call of the system; returns how the process ended."""
    code = (
        "import json, sys; from pathlib import Path; from runs.tools.documents import TOOLS; "
        "from runs.tools.folder import Folder; from runs.tools.tool import Call; from time import monotonic; "
        "from tests.documents import die_at; path, name, key, params, dies = sys.argv[1:]; "
        "die_at(*dies.split()) if dies else None; "
        "tool = next(tool for tool in TOOLS if tool.name == name); "
        "tool.perform(Folder(path), Call(name, json.loads(params), key), monotonic() + 5)"
    )
    command = [sys.executable, "-c", code, str(documents.path), tool.name, key, json.dumps(params), dies]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=30).returncode


@pytest.mark.parametrize(
    ("dies", "became"),
    [
        ("write before", Answer.ABSENT),
        ("fsync before", Answer.ABSENT),
        ("rename before", Answer.ABSENT),
        ("rename after", Answer.ACCEPTED),
    ],
)
@pytest.mark.parametrize("write", [WRITE_DIGEST, ADD_ENTRY], ids=lambda tool: tool.name)
def test_a_worker_that_is_killed_leaves_all_of_it_or_nothing_and_no_lock(
    documents: Documents, write: Tool, dies: str, became: Answer
) -> None:
    params = params_of(documents, write)

    assert in_a_process_of_its_own(documents, write, "k", params, dies) == -9

    assert documents.do(WRITES[write], "k", **params).answer is became
    assert documents.do(write, "k", **params).answer is Answer.ACCEPTED
    assert not [name for name in documents.content() if name.endswith(PART)]


def test_while_somebody_stands_still_over_a_write_nobody_says_that_it_is_absent(documents: Documents) -> None:
    """It has the lock, and may go on at any time: "not there" would prove nothing."""
    params = params_of(documents, WRITE_DIGEST)

    with documents.folder.locked(float("inf")):
        failed = failure(lambda: documents.do(LOOK_UP_DIGEST, "k", within=0.05, **params))

    assert what_a_failure_means(failed, looking=True) is Answer.UNREACHABLE


# Digests


def test_a_name_that_is_taken_is_refused_and_what_stands_there_stays(documents: Documents) -> None:
    written(documents, "w1")
    content = documents.content()

    for tool in (WRITE_DIGEST, LOOK_UP_DIGEST):
        refusal = documents.do(tool, "w2", digest="d.md", text="other")
        assert refusal.answer is Answer.REJECTED
        assert "w1" in refusal.reason
    assert documents.content() == content


def test_a_digest_that_people_put_there_is_not_written_over(documents: Documents) -> None:
    documents.put("digests/d.md", "mine")

    assert documents.do(WRITE_DIGEST, "w1", digest="d.md", text=TEXT).answer is Answer.REJECTED
    assert documents.text("digests/d.md") == "mine"


def test_a_digest_under_its_key_that_says_something_else_contradicts(documents: Documents) -> None:
    written(documents)
    documents.put("digests/d.md", documents.text("digests/d.md").replace("91", "19"))

    assert failure(lambda: documents.do(WRITE_DIGEST, "w1", digest="d.md", text=TEXT)).code == "key_reused"
    assert documents.do(LOOK_UP_DIGEST, "w1", digest="d.md", text=TEXT).answer is Answer.CONTRADICTORY
    assert documents.do(LOOK_AT_DIGEST, digest="d.md").data["made"]["intact"] is False


# The index


def test_entries_of_many_processes_at_once_are_all_there_and_numbered(documents: Documents) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from tests.tools.test_documents import several_entries; several_entries(Path(sys.argv[1]), sys.argv[2])"
    )
    command = [sys.executable, "-c", code, str(documents.path)]
    several = [
        subprocess.Popen([*command, name], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in "abc"
    ]
    assert [one.stdout.readline() for one in several if one.stdout] == [b"ready\n"] * 3
    for one in several:
        assert one.stdin
        one.stdin.write(b"go\n")
        one.stdin.flush()
    assert [(one.communicate(timeout=60)[0], one.returncode) for one in several] == [(b"", 0)] * 3

    lines = [json.loads(line) for line in documents.text("index.jsonl").splitlines()]
    assert [line["entry"] for line in lines] == [f"E{number}" for number in range(1, 16)]
    assert {line["operation_key"] for line in lines} == {f"{name}{n}" for name in "abc" for n in range(5)}


def several_entries(path: Path, name: str) -> None:
    documents = Documents(path)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    for number in range(5):
        digest = f"{name}{number}.md"
        documents.do(WRITE_DIGEST, f"w-{digest}", digest=digest, text=TEXT)
        made = documents.do(LOOK_AT_DIGEST, digest=digest).data["made"]
        params = {"digest": digest, "sha256": made["sha256"], "sources": sources("originals/rain.md")}
        assert documents.do(ADD_ENTRY, f"{name}{number}", **params).answer is Answer.ACCEPTED


def test_only_a_digest_that_is_there_as_it_was_read_gets_into_the_index_and_once(documents: Documents) -> None:
    written(documents)
    entry = entry_of(documents)

    for other in ({"sha256": SHA}, {"digest": "other.md"}):
        failed = failure(lambda other=other: documents.do(ADD_ENTRY, "i1", **{**entry, **other}))  # type: ignore[misc]
        assert (failed.code, failed.executed) == ("invalid_input", False)
    assert documents.do(ADD_ENTRY, "i1", **entry).answer is Answer.ACCEPTED
    assert documents.do(ADD_ENTRY, "i2", **entry).answer is Answer.REJECTED
    assert documents.do(ADD_ENTRY, "i1", **{**entry, "sources": []}).answer is Answer.CONTRADICTORY


@pytest.mark.parametrize(
    "line",
    [
        '{"entry": "E2", "operation_key": "k", "digest": "d", "sha256": "", "sources": [{"document": 7}]}',
        "",
        "{",
        "[]",
        "7",
        '{"entry": "E1"}',
        '{"removes": 1, "operation_key": "", "digest": ""}',
        "[" * 100_000,
    ],
)
def test_an_index_that_somebody_broke_is_neither_read_nor_written_over(documents: Documents, line: str) -> None:
    indexed(documents)
    broken = documents.text("index.jsonl") + line + "\n"
    documents.put("index.jsonl", broken)

    for tool, params in ((ADD_ENTRY, entry_of), (LOOK_UP_ENTRY, entry_of)):
        failed = failure(lambda tool=tool, params=params: documents.do(tool, "i2", **params(documents)))  # type: ignore[misc]
        assert (failed.code, "line 2" in failed.message) == ("invalid_output", True)
    assert documents.text("index.jsonl") == broken


# Handing over


def test_what_is_handed_over_is_what_was_read_and_happens_once(documents: Documents) -> None:
    written(documents)
    params: dict[str, Any] = {"digest": "d.md", "sha256": checksum(documents)}

    assert failure(lambda: documents.do(HAND_OVER, "o1", digest="d.md", sha256=SHA)).executed is False
    assert documents.do(HAND_OVER, "o1", **params).answer is Answer.ACCEPTED
    assert documents.do(HAND_OVER, "o2", **params).answer is Answer.REJECTED
    assert documents.names("outbox") == ["d.md"]
    assert documents.do(LOOK_AT_DIGEST, digest="d.md").data["handed_over"]["operation_key"] == "o1"


# Taking away


def test_what_is_taken_away_is_gone_from_its_place_and_kept_under_the_key_of_that(documents: Documents) -> None:
    indexed(documents)

    documents.do(REMOVE_ENTRY, "undo:i1", digest="d.md", entry="E1", removes="i1")
    documents.do(REMOVE_DIGEST, "undo:w1", digest="d.md", removes="w1")

    assert documents.names("digests") == []
    assert documents.text("removed/undo:w1").endswith(TEXT)
    assert len(documents.text("index.jsonl").splitlines()) == 2
    now = documents.do(LOOK_AT_DIGEST, digest="d.md").data
    assert (now["made"], now["entries"]) == (None, [])


def test_a_digest_is_not_taken_away_while_the_index_names_it(documents: Documents) -> None:
    indexed(documents)

    refusal = documents.do(REMOVE_DIGEST, "undo:w1", digest="d.md", removes="w1")

    assert (refusal.answer, "E1" in refusal.reason) == (Answer.REJECTED, True)
    assert documents.names("digests") == ["d.md"]


def test_what_another_digest_cites_is_not_taken_out_of_the_index_nor_away(documents: Documents) -> None:
    indexed(documents)
    written(documents, "w2", "of-d.md")
    documents.do(ADD_ENTRY, "i2", **entry_of(documents, "digests/d.md", digest="of-d.md"))
    content = documents.content()

    entry, digest = {"entry": "E1", "removes": "i1"}, {"removes": "w1"}
    for tool, params in ((REMOVE_ENTRY, entry), (REMOVE_DIGEST, digest)):
        refusal = documents.do(tool, "undo", digest="d.md", **dict[str, Any](params))
        assert (refusal.answer, "of-d.md" in refusal.reason) == (Answer.REJECTED, True)
    assert documents.content() == content


def test_what_was_handed_over_or_changed_by_people_or_made_by_others_is_not_taken_away(documents: Documents) -> None:
    written(documents)
    refusal = documents.do(REMOVE_DIGEST, "undo:w2", digest="d.md", removes="w2")
    assert refusal.answer is Answer.REJECTED

    documents.do(HAND_OVER, "o1", digest="d.md", sha256=checksum(documents))
    assert documents.do(REMOVE_DIGEST, "undo:w1", digest="d.md", removes="w1").reason.endswith("was handed over")

    (documents.path / "outbox/d.md").unlink()
    documents.put("digests/d.md", documents.text("digests/d.md") + "A remark.\n")
    assert documents.do(REMOVE_DIGEST, "undo:w1", digest="d.md", removes="w1").answer is Answer.REJECTED
    assert "A remark." in documents.text("digests/d.md")


def test_a_digest_that_somebody_else_took_away_was_not_taken_away_by_us(documents: Documents) -> None:
    written(documents)
    (documents.path / "digests/d.md").unlink()

    assert documents.do(LOOK_UP_REMOVED_DIGEST, "u", digest="d.md", removes="w1").answer is Answer.CONTRADICTORY


# The connection


def test_tools_that_are_handed_something_else_than_a_folder_say_what_to_configure() -> None:
    for tool in TOOLS:
        failed = failure(lambda tool=tool: tool.perform(HttpService("http://x", ""), Call(tool.name, {}), 0))  # type: ignore[misc]
        assert (failed.code, failed.executed) == ("tool_missing", False)
