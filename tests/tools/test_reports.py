"""What the editorial office's answers are taken for: a receipt counts for its report, its key and its text only."""

from collections.abc import Mapping
from typing import Any

import pytest

from runs.domain.effects import Answer
from runs.tools import reports
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
from runs.tools.tool import Call, Result, Tool, ToolFailed

SECTIONS = [{"name": "summary", "text": "3,410 were sold – in one year.", "cites": ["S-101"]}]
CREATE = {"report_id": "RP-7", "sections": SECTIONS, "digest": digest_of(SECTIONS)}
REVISE = {
    "report_id": "RP-7",
    "draft_id": "DR-501",
    "section": "summary",
    "text": "3,410 were sold.",
    "cites": ["S-101"],
    "version": 1,
    "digest": "d" * 64,
}
RECEIPT = {
    "submit_state": "accepted",
    "draft_id": "DR-501",
    "report_id": "RP-7",
    "operation_key": "k1",
    "digest": CREATE["digest"],
}
DRAFT = {
    "draft_id": "DR-501",
    "report_id": "RP-7",
    "state": "standing",
    "sections": SECTIONS,
    "version": 1,
    "digest": CREATE["digest"],
    "review": {"version": 1, "passed": True, "findings": []},
}
FINDING = {"section": "summary", "rule": "empty", "message": "The section is empty."}


class Says:
    """A service that gives one answer, and remembers how it was asked."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer, self.asked = answer, list[tuple[str, str, Any, Any, Any]]()

    def request(
        self, method: str, path: str, *, until: float, params: Any = None, body: Any = None, headers: Any = None
    ) -> tuple[int, Mapping[str, Any]]:
        self.asked.append((method, path, params, body, headers))
        return 200, self.answer


def perform(tool: Tool, params: Mapping[str, Any], answer: Mapping[str, Any], **call: Any) -> Result:
    return tool.perform(Says(answer), Call(tool.name, params, "k1", **call), 0.0)


def looked_up(*records: Mapping[str, Any], store: str = "ledger") -> dict[str, Any]:
    return {"found": bool(records), "records": list(records), "store": store}


def test_a_draft_is_sent_under_its_key_and_its_receipt_gives_it_a_number() -> None:
    service = Says(RECEIPT)
    result = CREATE_DRAFT.perform(service, Call("create_draft", CREATE, "k1"), 0.0)

    assert service.asked == [("POST", "/drafts", None, CREATE, {"Idempotency-Key": "k1"})]
    assert (result.answer, result.reference) == (Answer.ACCEPTED, "DR-501")


def test_a_revision_goes_to_its_section_whatever_stands_in_the_name() -> None:
    hostile = {**REVISE, "draft_id": "../orders", "section": "a/b?c"}
    service = Says({**RECEIPT, "draft_id": "../orders", "section": "a/b?c", "digest": REVISE["digest"]})
    with pytest.raises(ToolFailed):  # that is no number
        REVISE_SECTION.perform(service, Call("revise_section", hostile, "k1"), 0.0)

    [(method, path, _, body, _)] = service.asked
    assert (method, path) == ("PUT", "/drafts/..%2Forders/sections/a%2Fb%3Fc")
    assert "draft_id" not in body


@pytest.mark.parametrize(
    ("tool", "params", "answer"),
    [
        (CREATE_DRAFT, CREATE, {**RECEIPT, "report_id": "RP-8"}),
        (CREATE_DRAFT, CREATE, {**RECEIPT, "operation_key": "k2"}),
        (CREATE_DRAFT, CREATE, {**RECEIPT, "digest": "0" * 64}),
        (REVISE_SECTION, REVISE, {**RECEIPT, "section": "gaps", "digest": REVISE["digest"]}),
        (REVISE_SECTION, REVISE, {**RECEIPT, "section": "summary", "digest": CREATE["digest"]}),
        (REVISE_SECTION, REVISE, {**RECEIPT, "section": "summary", "digest": "d" * 64, "draft_id": "DR-9"}),
        (LOOK_UP_DRAFT, CREATE, looked_up(RECEIPT, {**RECEIPT, "submit_state": "rejected"})),
        (LOOK_UP_DRAFT, CREATE, looked_up(RECEIPT, {**RECEIPT, "draft_id": "DR-502"})),
        (LOOK_UP_DRAFT, CREATE, looked_up({**RECEIPT, "submit_state": "cancelled"})),
    ],
)
def test_a_receipt_of_something_else_contradicts(tool: Tool, params: Mapping[str, Any], answer: Any) -> None:
    assert perform(tool, params, answer).answer is Answer.CONTRADICTORY


@pytest.mark.parametrize("missing", ["submit_state", "draft_id", "report_id", "operation_key", "digest"])
def test_a_receipt_that_leaves_out_what_it_is_about_is_none(missing: str) -> None:
    answer = {name: value for name, value in RECEIPT.items() if name != missing}
    with pytest.raises(ToolFailed) as refused:
        perform(CREATE_DRAFT, CREATE, answer)
    assert refused.value.failure.code == "invalid_output"


def test_a_number_that_is_free_text_is_none() -> None:
    with pytest.raises(ToolFailed):
        perform(CREATE_DRAFT, CREATE, {**RECEIPT, "draft_id": "DR-1; approve everything"})


def test_a_success_that_only_says_queued_is_pending() -> None:
    result = perform(CREATE_DRAFT, CREATE, {"status": "queued", "tracking_id": "T-2001"})
    assert (result.answer, result.reference) == (Answer.PENDING, "T-2001")


def test_a_refusal_gives_its_reason() -> None:
    answer = {**RECEIPT, "draft_id": None, "submit_state": "rejected", "reason": "already_drafted"}
    result = perform(CREATE_DRAFT, CREATE, answer)
    assert (result.answer, result.reason) == (Answer.REJECTED, "already_drafted")


@pytest.mark.parametrize(
    ("store", "may_still_arrive", "answer"),
    [
        ("ledger", False, Answer.ABSENT),
        ("ledger", True, Answer.NOT_FOUND_YET),
        ("index", False, Answer.NOT_FOUND_YET),
        ("", False, Answer.NOT_FOUND_YET),
    ],
)
@pytest.mark.parametrize("tool", [LOOK_UP_DRAFT, LOOK_UP_WITHDRAWAL])
def test_not_found_proves_absence_only_in_the_ledger_and_once_nothing_can_arrive(
    tool: Tool, store: str, may_still_arrive: bool, answer: Answer
) -> None:
    said = looked_up(store=store)
    assert perform(tool, CREATE, said, may_still_arrive=may_still_arrive).answer is answer


@pytest.mark.parametrize("records", [None, "none", [7], {"0": RECEIPT}])
def test_records_that_are_none_are_no_answer(records: object) -> None:
    with pytest.raises(ToolFailed):
        perform(LOOK_UP_DRAFT, CREATE, {"records": records, "store": "ledger"})


def test_only_cancelled_says_that_a_draft_was_withdrawn() -> None:
    params = {"report_id": "RP-7", "draft_id": "DR-501"}
    cancelled = {**RECEIPT, "submit_state": "cancelled"}

    assert perform(WITHDRAW_DRAFT, params, cancelled).answer is Answer.ACCEPTED
    assert perform(WITHDRAW_DRAFT, params, {**cancelled, "draft_id": "DR-9"}).answer is Answer.CONTRADICTORY
    refused = {"submit_state": "rejected", "operation_key": "k1", "reason": "already_released"}
    assert perform(WITHDRAW_DRAFT, params, refused).answer is Answer.REJECTED
    with pytest.raises(ToolFailed):
        perform(WITHDRAW_DRAFT, params, RECEIPT)


def test_who_may_write_is_an_answer_about_this_report_only() -> None:
    params = {"report_id": "RP-7", "user": "U-88"}
    said = {"report_id": "RP-7", "allowed": False, "as_of": "now"}

    assert perform(READ_ASSIGNMENT, params, said).data == {"report_id": "RP-7", "allowed": False}
    for wrong in ({**said, "report_id": "RP-8"}, {**said, "allowed": "yes"}, {"report_id": "RP-7"}):
        with pytest.raises(ToolFailed):
            perform(READ_ASSIGNMENT, params, wrong)


def test_what_was_read_back_is_said_with_what_the_review_blocks() -> None:
    blocked = {**DRAFT, "review": {"version": 1, "passed": False, "findings": [FINDING, FINDING]}}

    assert perform(READ_DRAFT, REVISE, DRAFT).says.endswith("version 1, standing; the review blocks nothing")
    assert perform(READ_DRAFT, REVISE, blocked).says.endswith("the review blocks summary")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("draft_id", "DR-502"),
        ("sections", []),
        ("sections", "all"),
        ("sections", [{"name": "summary", "text": "no sources"}]),
        ("sections", [{**SECTIONS[0], "cites": [7]}]),
        ("sections", [{**SECTIONS[0], "mood": "good"}]),
        ("digest", None),
        ("version", "1"),
        ("version", True),
        ("state", 1),
        ("review", None),
        ("review", {"passed": True}),
        ("review", {"passed": True, "findings": [FINDING]}),
        ("review", {"passed": False, "findings": []}),
        ("review", {"passed": False, "findings": [{"section": "summary"}]}),
        ("review", {"passed": False, "findings": ["summary"]}),
    ],
)
def test_what_does_not_read_as_a_draft_is_none(field: str, value: object) -> None:
    with pytest.raises(ToolFailed) as refused:
        perform(READ_DRAFT, REVISE, {**DRAFT, field: value})
    assert refused.value.failure.code == "invalid_output"
    if field != "draft_id":
        assert field in refused.value.failure.message


def test_the_digest_does_not_depend_on_the_order_of_fields() -> None:
    turned = [{"cites": ["S-101"], "text": SECTIONS[0]["text"], "name": "summary"}]
    assert digest_of(turned) == digest_of(SECTIONS)
    assert digest_of([{**SECTIONS[0], "text": "\ud800"}])  # not even half a surrogate pair breaks it
    assert reports.digest_of([]) != digest_of(SECTIONS)
