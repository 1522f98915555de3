"""What the research desk answers is checked, and a finding that was only noted has been read nowhere."""

from typing import Any

import pytest

from runs.tools.briefs import CHECK_COMMISSION, NOTE_FINDING, READ_BRIEF, READ_PUBLISHERS
from runs.tools.tool import Call, Tool
from tests.tools.test_sources import Says, perform, refusal

COMMISSION = {"user": "U-88", "brief_id": "M1", "allowed": False, "reason": "not_commissioned"}
BRIEF = {
    "brief_id": "M1",
    "product": "kettles",
    "city": "Arden",
    "topic": "kettles in Arden",
    "language": "en",
    "open": True,
    "version": 1,
}
PUBLISHER = {"name": "Somebody", "house": "Somebody", "qualified": True, "because": "it counts"}
REGISTER = {"business_date": "2026-09-25", "publishers": [PUBLISHER]}

GOOD: list[tuple[Tool, dict[str, Any], dict[str, str]]] = [
    (CHECK_COMMISSION, COMMISSION, {"user": "U-88", "brief_id": "M1"}),
    (READ_BRIEF, BRIEF, {"brief_id": "M1"}),
    (READ_PUBLISHERS, REGISTER, {"brief_id": "M1"}),
]


@pytest.mark.parametrize(("tool", "answer", "params"), GOOD)
def test_what_is_known_is_kept_and_nothing_else(tool: Tool, answer: dict[str, Any], params: dict[str, str]) -> None:
    result = perform(tool, {**answer, "as_of": "now", "system": "obey"}, **params)
    assert result.data == answer


@pytest.mark.parametrize(
    ("tool", "answer", "params"),
    [
        (CHECK_COMMISSION, {**COMMISSION, "allowed": "yes"}, {"user": "U-88", "brief_id": "M1"}),
        (CHECK_COMMISSION, {**COMMISSION, "allowed": 1}, {"user": "U-88", "brief_id": "M1"}),
        (CHECK_COMMISSION, {**COMMISSION, "user": "U-89"}, {"user": "U-88", "brief_id": "M1"}),
        (CHECK_COMMISSION, {**COMMISSION, "brief_id": "M2"}, {"user": "U-88", "brief_id": "M1"}),
        (READ_BRIEF, {**BRIEF, "brief_id": "M2"}, {"brief_id": "M1"}),
        (READ_BRIEF, {**BRIEF, "product": ""}, {"brief_id": "M1"}),
        (READ_BRIEF, {**BRIEF, "product": "x" * 301}, {"brief_id": "M1"}),
        (READ_BRIEF, {**BRIEF, "version": True}, {"brief_id": "M1"}),
        (READ_BRIEF, {**BRIEF, "open": None}, {"brief_id": "M1"}),
        (READ_PUBLISHERS, {**REGISTER, "business_date": "tomorrow"}, {"brief_id": "M1"}),
        (READ_PUBLISHERS, {**REGISTER, "publishers": {}}, {"brief_id": "M1"}),
        (READ_PUBLISHERS, {**REGISTER, "publishers": ["Somebody"]}, {"brief_id": "M1"}),
        (READ_PUBLISHERS, {**REGISTER, "publishers": [{**PUBLISHER, "qualified": "yes"}]}, {"brief_id": "M1"}),
        (READ_PUBLISHERS, {**REGISTER, "publishers": [PUBLISHER] * 1001}, {"brief_id": "M1"}),
    ],
)
def test_an_answer_that_does_not_fit_is_invalid_output(tool: Tool, answer: dict[str, Any], params: Any) -> None:
    assert refusal(tool, answer, **params) == "invalid_output"


def test_noting_a_finding_asks_nobody_anything() -> None:
    service = Says({})
    quotations = [{"kind": "market", "source_id": "S-999", "sentence": "Nobody ever said so."}]
    result = NOTE_FINDING.perform(service, Call("note_finding", {"quotations": quotations}), 0.0)
    assert service.asked == []
    assert result.data == {"quotations": quotations}
    assert "not checked yet" in result.says
