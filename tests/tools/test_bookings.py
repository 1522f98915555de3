"""The workshops' tools: against the back office as it is, and against answers that no service should give."""

from collections.abc import Mapping
from time import monotonic
from typing import Any

import httpx2
import pytest

from runs.domain.effects import Answer
from runs.tools.bookings import (
    CANCEL_BOOKING,
    CHECK_BOOKING_AUTHORITY,
    LOOK_UP_BOOKING,
    LOOK_UP_BOOKING_CANCELLATION,
    READ_BOOKING,
    READ_EVENT,
    READ_SEAT,
    SUBMIT_BOOKING,
)
from runs.tools.http import HttpService
from runs.tools.tool import Call, Result, Tool, ToolFailed
from tests.processes import BackOffice

SEAT = {"event_id": "W102", "participant_id": "P-301"}
BOOKING = {**SEAT, "price_minor": 25_00, "currency": "EUR"}
CANCELLATION = {**SEAT, "booking_id": "B-5001"}
RECEIPT = {**BOOKING, "state": "accepted", "booking_id": "B-5001", "operation_key": "k1"}


def ask(
    office: BackOffice, tool: Tool, params: Mapping[str, Any], key: str = "", may_still_arrive: bool = False
) -> Result:
    service = HttpService(office.url, "demo-key")
    return tool.perform(service, Call(tool.name, params, key, may_still_arrive), monotonic() + tool.deadline)


class Says:
    """A service that gives one answer to every call, and remembers what it was asked."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def request(self, method: str, path: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
        self.asked.append(f"{method} {path}")
        return 200, self.answer


def told(tool: Tool, params: Mapping[str, Any], key: str = "", /, **answer: Any) -> Result:
    return tool.perform(Says(**answer), Call(tool.name, params, key), monotonic() + 1)


# As the back office is


def test_authority_and_event_are_read_for_one_participant(back_office: BackOffice) -> None:
    said = ask(back_office, CHECK_BOOKING_AUTHORITY, {**SEAT, "user": "U-88"})
    assert (said.data["allowed"], said.reference) == (True, "authority/U-88/W102/P-301")
    assert ask(back_office, CHECK_BOOKING_AUTHORITY, {**SEAT, "user": "U-89"}).data["allowed"] is False
    event = ask(back_office, READ_EVENT, SEAT)
    assert (event.data["seats_left"], event.data["registration"], event.data["version"]) == (8, "approved", 1)
    assert "as_of" not in event.data, "the same facts read twice are no news"


def test_a_booking_is_accepted_looked_up_read_and_cancelled(back_office: BackOffice) -> None:
    booked = ask(back_office, SUBMIT_BOOKING, BOOKING, "k1")
    assert (booked.answer, booked.reference) == (Answer.ACCEPTED, "B-5001")
    assert ask(back_office, LOOK_UP_BOOKING, BOOKING, "k1").answer is Answer.ACCEPTED
    assert [one["booking_id"] for one in ask(back_office, READ_SEAT, SEAT).data["records"]] == ["B-5001"]
    standing = ask(back_office, READ_BOOKING, {"booking_id": "B-5001"}).data
    assert (standing["state"], standing["confirmation_held_by"]) == ("accepted", None)

    assert ask(back_office, CANCEL_BOOKING, CANCELLATION, "c1").answer is Answer.ACCEPTED
    assert ask(back_office, LOOK_UP_BOOKING_CANCELLATION, CANCELLATION, "c1").answer is Answer.ACCEPTED
    assert ask(back_office, READ_SEAT, SEAT).data["records"] == []


def test_a_refusal_has_its_reason_whether_it_is_answered_or_looked_up(back_office: BackOffice) -> None:
    full = {"event_id": "W301", "participant_id": "P-301", "price_minor": 20_00, "currency": "EUR"}
    for tool in (SUBMIT_BOOKING, LOOK_UP_BOOKING):
        said = ask(back_office, tool, full, "k1")
        assert (said.answer, said.reason) == (Answer.REJECTED, "full")


def test_a_refused_cancellation_has_its_reason(back_office: BackOffice) -> None:
    ask(back_office, SUBMIT_BOOKING, BOOKING, "k1")
    held = {"confirmation_held_by": "U-88"}
    httpx2.put(f"{back_office.url}/control/bookings/k1", json=held).raise_for_status()
    said = ask(back_office, CANCEL_BOOKING, CANCELLATION, "c1")
    assert (said.answer, said.reason) == (Answer.REJECTED, "confirmation_held")


def test_a_lost_answer_is_no_answer_and_the_look_up_finds_the_seat(back_office: BackOffice) -> None:
    back_office.fault("W102", "answer_lost", times=1)
    with pytest.raises(ToolFailed) as lost:
        ask(back_office, SUBMIT_BOOKING, BOOKING, "k1")
    assert (lost.value.failure.code, lost.value.failure.executed) == ("no_answer", None)
    assert ask(back_office, LOOK_UP_BOOKING, BOOKING, "k1").answer is Answer.ACCEPTED


def test_not_there_proves_absence_only_in_the_ledger_and_once_nothing_can_arrive(back_office: BackOffice) -> None:
    assert ask(back_office, LOOK_UP_BOOKING, BOOKING, "k1", True).answer is Answer.NOT_FOUND_YET
    assert ask(back_office, LOOK_UP_BOOKING, BOOKING, "k1", False).answer is Answer.ABSENT
    back_office.fault("W102", "lookup_lags", lookups=1)
    assert ask(back_office, LOOK_UP_BOOKING, BOOKING, "k1", False).answer is Answer.NOT_FOUND_YET


@pytest.mark.parametrize("fault", ["pending", "queued"])
def test_what_is_queued_is_pending_and_quotes_its_reference(back_office: BackOffice, fault: str) -> None:
    back_office.fault("W102", fault, lookups=1)
    said = ask(back_office, SUBMIT_BOOKING, BOOKING, "k1")
    assert (said.answer, said.reference) == (Answer.PENDING, "TB-1001")
    answers = [ask(back_office, LOOK_UP_BOOKING, BOOKING, "k1").answer for _ in range(2)]
    assert answers == [Answer.PENDING, Answer.ACCEPTED]


@pytest.mark.parametrize("fault", ["contradictory", "other_order"])
def test_receipts_that_contradict_each_other_or_name_another_event_are_contradictory(
    back_office: BackOffice, fault: str
) -> None:
    back_office.fault("W102", fault, **({"other": "W104"} if fault == "other_order" else {}))
    ask(back_office, SUBMIT_BOOKING, BOOKING, "k1")
    said = ask(back_office, LOOK_UP_BOOKING, BOOKING, "k1")
    assert said.answer is Answer.CONTRADICTORY
    assert said.reason


def test_a_rate_limit_is_declared_not_executed(back_office: BackOffice) -> None:
    back_office.fault("W102", "rate_limited", times=1, retry_after=2)
    with pytest.raises(ToolFailed) as limited:
        ask(back_office, SUBMIT_BOOKING, BOOKING, "k1")
    assert (limited.value.failure.executed, limited.value.failure.retry_after) == (False, 2.0)


def test_the_tools_ask_for_one_segment_of_a_path_whatever_stands_in_it() -> None:
    service = Says(booking_id="../orders/B456?x=1", confirmation_held_by=None, state="accepted")
    call = Call(READ_BOOKING.name, {"booking_id": "../orders/B456?x=1"})
    READ_BOOKING.perform(service, call, monotonic() + 1)
    assert service.asked == ["GET /bookings/..%2Forders%2FB456%3Fx%3D1"]


# As no service should be


@pytest.mark.parametrize(
    ("tool", "params", "answer"),
    [
        (CHECK_BOOKING_AUTHORITY, {**SEAT, "user": "U-88"}, {**SEAT, "allowed": "yes"}),
        (CHECK_BOOKING_AUTHORITY, {**SEAT, "user": "U-88"}, {"event_id": "W104", "allowed": True}),
        (READ_EVENT, SEAT, {"event_id": "W102", "participant_id": "P-302"}),
        (READ_EVENT, SEAT, {}),
        (READ_SEAT, SEAT, {"records": "none"}),
        (READ_SEAT, SEAT, {"records": ["B-5001"]}),
        (READ_SEAT, SEAT, {"records": [{**RECEIPT, "participant_id": "P-302"}]}),
        (READ_BOOKING, {"booking_id": "B-5001"}, {"booking_id": "B-5002", "confirmation_held_by": None}),
        (READ_BOOKING, {"booking_id": "B-5001"}, {"booking_id": "B-5001", "state": "accepted"}),
    ],
)
def test_a_read_that_is_about_something_else_or_lacks_its_fields_is_no_fact(
    tool: Tool, params: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    with pytest.raises(ToolFailed) as failed:
        told(tool, params, **answer)
    assert failed.value.failure.code == "invalid_output"


@pytest.mark.parametrize(
    "change",
    [
        {"booking_id": None},
        {"booking_id": "B-5001 <b>as agreed</b>"},
        {"booking_id": 5001},
        {"state": "done"},
        {"state": None},
        {"operation_key": None},
        {"participant_id": None},
    ],
)
def test_what_is_no_receipt_counts_for_nothing(change: Mapping[str, Any]) -> None:
    with pytest.raises(ToolFailed) as failed:
        told(SUBMIT_BOOKING, BOOKING, "k1", **{**RECEIPT, **change})
    assert failed.value.failure.code == "invalid_output"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"event_id": "W104"}, "event W104, not W102"),
        ({"participant_id": "P-302"}, "participant P-302, not P-301"),
        ({"operation_key": "k2"}, "operation key k2, not k1"),
        ({"price_minor": 1}, "price 1, not 2500"),
    ],
)
def test_a_receipt_of_somebody_elses_seat_is_a_contradiction(change: Mapping[str, Any], names: str) -> None:
    said = told(SUBMIT_BOOKING, BOOKING, "k1", **{**RECEIPT, **change})
    assert said.answer is Answer.CONTRADICTORY
    assert names in said.reason


def test_a_cancellation_that_is_answered_with_a_standing_booking_is_no_cancellation() -> None:
    with pytest.raises(ToolFailed, match="does not say that the booking was cancelled"):
        told(CANCEL_BOOKING, CANCELLATION, "c1", **{**RECEIPT, "operation_key": "c1"})
    for other in ({"booking_id": "B-5002"}, {"operation_key": "k1"}):
        cancelled = {**RECEIPT, "state": "cancelled", "operation_key": "c1", **other}
        assert told(CANCEL_BOOKING, CANCELLATION, "c1", **cancelled).answer is Answer.CONTRADICTORY


def test_a_booking_that_somebody_cancelled_at_the_service_is_a_contradiction() -> None:
    said = told(SUBMIT_BOOKING, BOOKING, "k1", **{**RECEIPT, "state": "cancelled"})
    assert (said.answer, "not by this run" in said.reason) == (Answer.CONTRADICTORY, True)
