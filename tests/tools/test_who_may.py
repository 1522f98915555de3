"""Who may do something is an answer about one person and one thing: about anybody else it permits nothing."""

from collections.abc import Mapping
from time import monotonic
from typing import Any

import pytest

from runs.tools.back_office import CHECK_AUTHORITY
from runs.tools.bookings import CHECK_BOOKING_AUTHORITY
from runs.tools.briefs import CHECK_COMMISSION
from runs.tools.reports import READ_ASSIGNMENT
from runs.tools.tool import Call, Tool, ToolFailed

SEAT = {"event_id": "W102", "participant_id": "P-301"}
BRIEF, REPORT = {"brief_id": "BR-7"}, {"report_id": "RP-7"}
# The tool, what it is asked with beside the person, and what its answer names.
ASKED: dict[str, tuple[Tool, dict[str, str], dict[str, str]]] = {
    "a refund": (CHECK_AUTHORITY, {"order_id": "B456"}, {"order": "B456"}),
    "a booking": (CHECK_BOOKING_AUTHORITY, SEAT, SEAT),
    "a brief": (CHECK_COMMISSION, BRIEF, BRIEF),
    "a report": (READ_ASSIGNMENT, REPORT, REPORT),
}


class Says:
    """A service that gives one answer."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer

    def request(self, method: str, path: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
        return 200, self.answer


@pytest.mark.parametrize("what", ASKED)
def test_an_answer_about_somebody_or_something_else_permits_nothing(what: str) -> None:
    tool, params, about = ASKED[what]
    call = Call(tool.name, {**params, "user": "U-89"})
    fits = {"user": "U-89", **about, "allowed": True, "reason": "owner"}

    assert tool.perform(Says(fits), call, monotonic() + 1).data["allowed"]
    for other in ("user", *about):
        with pytest.raises(ToolFailed) as failed:
            tool.perform(Says({**fits, other: "another"}), call, monotonic() + 1)
        assert failed.value.failure.code == "invalid_output"
