"""Workshops and bookings: what their service promises, its faults, its controls, and what its ledger says."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from .office import Office

EVENT, PARTICIPANT = "W102", "P-301"


def book(
    office: Office, key: str, event: str = EVENT, participant: str = PARTICIPANT, price: int = 25_00, **more: object
) -> httpx2.Response:
    body = {"event_id": event, "participant_id": participant, "price_minor": price, "currency": "EUR", **more}
    return office.client.post("/bookings", json=body, headers={"Idempotency-Key": key})


def look_up(office: Office, key: str, **query: str) -> dict[str, Any]:
    response = office.get("/bookings", operation_key=key, **query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def state(office: Office, key: str) -> str | None:
    records = look_up(office, key)["records"]
    return records[0]["state"] if records else None


def cancel(office: Office, number: str, key: str) -> httpx2.Response:
    return office.client.post(f"/bookings/{number}/cancel", headers={"Idempotency-Key": key})


def event(office: Office, event_id: str = EVENT, participant: str = PARTICIPANT) -> dict[str, Any]:
    said: dict[str, Any] = office.get(f"/events/{event_id}", participant=participant).json()
    return said


# What it promises


@pytest.mark.parametrize(
    ("user", "reason"),
    [("U-88", "participant"), ("U-71", "organiser"), ("support", "desk"), ("U-89", "stranger")],
)
def test_people_book_for_themselves_organisers_for_their_event_and_the_desk_for_all(
    office: Office, user: str, reason: str
) -> None:
    said = office.get("/events/W104/authority", user=user, participant=PARTICIPANT).json()
    del said["as_of"]
    allowed = reason != "stranger"
    assert said == {
        "user": user,
        "event_id": "W104",
        "participant_id": PARTICIPANT,
        "allowed": allowed,
        "reason": reason,
    }


def test_an_organiser_is_nobody_at_another_event(office: Office) -> None:
    said = office.get("/events/W103/authority", user="U-71", participant=PARTICIPANT).json()
    assert (said["allowed"], said["reason"]) == (False, "stranger")


def test_an_event_is_told_in_full(office: Office) -> None:
    said = event(office)
    del said["as_of"]
    assert said == {
        "event_id": "W102",
        "title": "Sourdough in a day",
        "organiser": "supervisor",
        "starts_on": "2026-10-10",
        "business_date": "2026-09-25",
        "seats": 8,
        "seats_left": 8,
        "price_minor": 25_00,
        "currency": "EUR",
        "admission": "open",
        "version": 1,
        "participant_id": "P-301",
        "registration": "approved",
    }


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/events/W999?participant=P-301", "event_unknown"),
        ("/events/W102?participant=P-999", "participant_unknown"),
        ("/events/W999/authority?user=U-88&participant=P-301", "event_unknown"),
        ("/bookings/B-1", "booking_unknown"),
    ],
)
def test_what_is_unknown_is_definitely_not_found(office: Office, path: str, code: str) -> None:
    response = office.client.get(path)
    assert (response.status_code, response.json()["code"]) == (404, code)


def test_a_booking_is_accepted_with_a_receipt_that_a_look_up_repeats(office: Office) -> None:
    assert look_up(office, "k1") | {"as_of": 0} == {"found": False, "records": [], "store": "ledger", "as_of": 0}
    response = book(office, "k1")
    assert response.status_code == 201
    receipt = response.json() | {"as_of": 0}
    assert receipt == {
        "state": "accepted",
        "booking_id": "B-5001",
        "event_id": "W102",
        "participant_id": "P-301",
        "operation_key": "k1",
        "price_minor": 25_00,
        "currency": "EUR",
        "as_of": 0,
    }
    found = look_up(office, "k1", event=EVENT, participant=PARTICIPANT)
    assert (found["found"], found["store"]) == (True, "ledger")
    assert [record | {"as_of": 0} for record in found["records"]] == [receipt]


def test_the_same_request_again_finds_the_same_booking(office: Office) -> None:
    assert [book(office, "k1").json()["booking_id"] for _ in range(3)] == ["B-5001"] * 3
    assert len(office.effects()) == 1
    assert event(office)["seats_left"] == 7


@pytest.mark.parametrize("other", [{"event": "W104"}, {"participant": "P-302"}, {"price": 1}])
def test_a_key_belongs_to_one_request(office: Office, other: dict[str, Any]) -> None:
    book(office, "k1")
    response = book(office, "k1", **other)
    assert (response.status_code, response.json()["code"]) == (422, "key_reused")
    assert len(office.effects()) == 1


def test_nobody_has_two_seats_at_one_event(office: Office) -> None:
    book(office, "k1")
    response = book(office, "k2")
    assert (response.status_code, response.json()["reason"]) == (409, "already_booked")
    assert state(office, "k2") == "rejected"
    records = office.get(f"/events/{EVENT}/bookings", participant=PARTICIPANT).json()["records"]
    assert [record["booking_id"] for record in records] == ["B-5001"]


def test_what_is_pending_stands_in_the_way_and_takes_a_seat(office: Office) -> None:
    office.control("PUT", f"events/{EVENT}", {"seats": 1})
    office.fault("pending", EVENT, times=1)
    book(office, "k1")
    assert book(office, "k2").json()["reason"] == "booking_in_progress"
    assert book(office, "k3", participant="P-302").json()["reason"] == "full"


@pytest.mark.parametrize(
    ("booking", "reason"),
    [
        ({"event": "W301", "price": 20_00}, "full"),
        ({"event": "W302", "price": 5_00}, "already_started"),
        ({"participant": "P-331"}, "registration_not_approved"),
        ({"price": 24_99}, "price_changed"),
    ],
)
def test_the_service_says_why_it_refuses_a_booking(office: Office, booking: dict[str, Any], reason: str) -> None:
    response = book(office, "k1", **booking)
    assert (response.status_code, response.json()["code"]) == (409, "refused")
    assert response.json()["reason"] == reason
    assert state(office, "k1") == "rejected"
    assert office.effects() == []


def test_there_are_no_more_seats_than_there_are_however_many_ask_at_once(office: Office) -> None:
    office.control("PUT", f"events/{EVENT}", {"seats": 3})
    with ThreadPoolExecutor(10) as people:
        answers = list(people.map(lambda n: book(office, f"k{n}", participant=f"P-{300 + n}"), range(1, 11)))
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [409] * 7
    assert {answer.json()["reason"] for answer in answers if answer.status_code == 409} == {"full"}
    assert event(office)["seats_left"] == 0
    assert len(office.effects(order_id=EVENT)) == 3


# Cancelling


def test_a_booking_is_cancelled_once_and_its_seat_is_free_again(office: Office) -> None:
    book(office, "k1")
    assert cancel(office, "B-5001", "c1").json()["state"] == "cancelled"
    assert cancel(office, "B-5001", "c1").json()["state"] == "cancelled"
    assert (state(office, "k1"), state(office, "c1")) == ("cancelled", "cancelled")
    assert cancel(office, "B-5001", "c2").json()["reason"] == "already_cancelled"
    assert event(office)["seats_left"] == 8
    assert book(office, "k2").json()["booking_id"] == "B-5002"


def test_a_cancellation_needs_a_key_of_its_own(office: Office) -> None:
    book(office, "k1")
    assert cancel(office, "B-5001", "k1").json()["code"] == "key_reused"
    assert office.client.post("/bookings/B-5001/cancel").json()["field"] == "Idempotency-Key"
    cancel(office, "B-5001", "c1")
    assert book(office, "c1", "W104", price=12_00).json()["code"] == "key_reused"


def test_whoever_holds_a_confirmation_relies_on_the_booking(office: Office) -> None:
    book(office, "k1")
    assert office.get("/bookings/B-5001").json()["confirmation_held_by"] is None
    office.control("PUT", "bookings/k1", {"confirmation_held_by": "U-88"})
    assert office.get("/bookings/B-5001").json()["confirmation_held_by"] == "U-88"
    assert cancel(office, "B-5001", "c1").json() | {"message": ""} == {
        "code": "refused",
        "message": "",
        "state": "rejected",
        "reason": "confirmation_held",
        "booking_id": "B-5001",
        "operation_key": "c1",
    }
    office.control("PUT", "bookings/k1", {"confirmation_held_by": None})
    assert cancel(office, "B-5001", "c2").status_code == 200


def test_on_its_day_a_workshop_counts_as_begun(office: Office) -> None:
    book(office, "k1")
    office.control("PUT", f"events/{EVENT}", {"starts_on": "2026-09-25"})
    assert cancel(office, "B-5001", "c1").json()["reason"] == "already_started"
    office.control("PUT", f"events/{EVENT}", {"starts_on": "2026-09-26"})
    assert cancel(office, "B-5001", "c2").status_code == 200


# Faults, by the same mechanism as those of refunds


def test_answer_lost_books_the_seat_and_leaves_no_byte_of_an_answer(office: Office) -> None:
    office.fault("answer_lost", EVENT, times=1)
    with pytest.raises(httpx2.TransportError):
        book(office, "k1")
    assert [effect["request_id"] for effect in office.effects()] == ["B-5001"]
    assert look_up(office, "k1")["records"][0]["booking_id"] == "B-5001"
    (call,) = office.calls("submit", order_id=EVENT)
    assert (call["fault"], call["status"]) == ("answer_lost", None)


def test_timeout_before_effect_takes_no_seat(office: Office) -> None:
    office.fault("timeout_before_effect", EVENT, seconds=0, times=1)
    with pytest.raises(httpx2.TransportError):
        book(office, "k1")
    assert office.effects() == []
    assert event(office)["seats_left"] == 8


@pytest.mark.parametrize("fault", ["pending", "queued"])
def test_pending_is_accepted_after_so_many_look_ups(office: Office, fault: str) -> None:
    office.fault(fault, EVENT, lookups=1)
    response = book(office, "k1")
    assert response.status_code == (202 if fault == "pending" else 200)
    assert response.json()["tracking_id"] == "TB-1001"
    assert [state(office, "k1") for _ in range(2)] == ["pending", "accepted"]
    assert len(office.effects()) == 1


def test_refused_is_on_the_books_under_its_key(office: Office) -> None:
    office.fault("refused", EVENT, reason="organiser_declined")
    assert book(office, "k1").json()["reason"] == "organiser_declined"
    assert state(office, "k1") == "rejected"
    assert office.effects() == []


def test_contradictory_finds_two_states_under_one_key(office: Office) -> None:
    office.fault("contradictory", EVENT)
    assert look_up(office, "k1", event=EVENT)["records"] == []
    book(office, "k1")
    assert [record["state"] for record in look_up(office, "k1")["records"]] == ["accepted", "rejected"]


def test_the_receipt_may_name_another_event_and_the_ledger_the_right_one(office: Office) -> None:
    office.fault("other_order", EVENT, other="W104")
    assert book(office, "k1").json()["event_id"] == "W104"
    assert look_up(office, "k1")["records"][0]["event_id"] == "W104"
    assert [effect["order_id"] for effect in office.effects()] == [EVENT]


def test_rate_limited_is_declared_not_executed(office: Office) -> None:
    office.fault("rate_limited", EVENT, times=1, retry_after=7)
    response = book(office, "k1")
    assert (response.status_code, response.headers["Retry-After"], response.json()["executed"]) == (429, "7", False)
    assert office.effects() == []
    assert book(office, "k1").status_code == 201


def test_lookup_lags_until_the_index_has_seen_the_booking(office: Office) -> None:
    office.fault("lookup_lags", EVENT, lookups=1)
    book(office, "k1")
    assert [(look_up(office, "k1")[field]) for field in ("store", "store")] == ["index", "ledger"]


def test_lookup_lags_for_so_long_after_the_booking(office: Office) -> None:
    office.fault("lookup_lags", EVENT, seconds=600)
    book(office, "k1")
    assert look_up(office, "k1")["store"] == "index"


def test_event_incomplete_lacks_what_decides(office: Office) -> None:
    office.fault("event_incomplete", EVENT)
    assert not {"starts_on", "seats_left"} & event(office).keys()


@pytest.mark.parametrize("fault", [("unavailable", 503), ("access_denied", 403), ("credential_refused", 401)])
@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("events", f"/events/{EVENT}?participant=P-301"),
        ("authority", f"/events/{EVENT}/authority?user=U-88&participant=P-301"),
        ("bookings", f"/events/{EVENT}/bookings?participant=P-301"),
        ("bookings", "/bookings/B-5001"),
        ("lookup", f"/bookings?operation_key=k1&event={EVENT}"),
    ],
)
def test_a_fault_strikes_where_it_is_told_to_and_that_event_only(
    office: Office, kind: str, path: str, fault: tuple[str, int]
) -> None:
    book(office, "k1")
    office.fault(fault[0], "W104", where=kind)
    assert office.client.get(path).status_code == 200
    office.fault(fault[0], EVENT, where=kind)
    assert office.client.get(path).status_code == fault[1]
    recorded = office.calls(kind)[-1]
    assert (recorded["order_id"], recorded["fault"], recorded["status"]) == (EVENT, *fault)


def test_a_call_is_on_record_with_the_event_it_was_about(office: Office) -> None:
    book(office, "k1")
    look_up(office, "k1")
    look_up(office, "nothing", event=EVENT)
    cancel(office, "B-5001", "c1")
    look_up(office, "c1")
    assert [(call["kind"], call["operation_key"]) for call in office.calls(order_id=EVENT)] == [
        ("submit", "k1"),
        ("lookup", "k1"),
        ("lookup", "nothing"),
        ("cancel", "c1"),
        ("lookup", "c1"),
    ]


# Nonsense


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("event_id", None),
        ("event_id", "../W102"),
        ("participant_id", "\u202eP-301"),
        ("participant_id", 7),
        ("price_minor", True),
        ("price_minor", -1),
        ("price_minor", 25.0),
        ("currency", "eur"),
        ("note", "hello"),
    ],
)
def test_a_wrong_field_is_named(office: Office, field: str, value: object) -> None:
    body = {"event_id": EVENT, "participant_id": PARTICIPANT, "price_minor": 25_00, "currency": "EUR", field: value}
    response = office.client.post("/bookings", json=body, headers={"Idempotency-Key": "k1"})
    assert (response.status_code, response.json()["field"]) == (422, field)
    assert office.effects() == []


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("events/W102", {"seats": -1}, "seats"),
        ("events/W102", {"seats": True}, "seats"),
        ("events/W102", {"starts_on": "soon"}, "starts_on"),
        ("events/W102", {"admission": "all"}, "admission"),
        ("events/W102", {"version": 7}, "version"),
        ("participants/P-301", {"registration": "yes"}, "registration"),
        ("bookings/k1", {"state": "paid"}, "state"),
        ("bookings/k1", {"confirmation_held_by": ""}, "confirmation_held_by"),
    ],
)
def test_a_control_that_makes_no_sense_is_refused_with_the_field(
    office: Office, path: str, body: dict[str, Any], field: str
) -> None:
    book(office, "k1")
    response = office.control("PUT", path, body)
    assert (response.status_code, response.json()["field"]) == (422, field)
    assert event(office)["version"] == 1


# Controls, page, restart


def test_a_pending_booking_is_decided_by_hand_once(office: Office) -> None:
    office.fault("pending", EVENT)
    book(office, "k1")
    assert office.control("PUT", "bookings/k1", {"state": "accepted"}).json()["booking_id"] == "B-5001"
    again = office.control("PUT", "bookings/k1", {"state": "rejected"})
    assert (again.status_code, again.json()["reason"]) == (409, "already_accepted")
    assert office.control("PUT", "bookings/nothing", {"state": "accepted"}).status_code == 404


def test_the_page_shows_bookings_and_seats_and_its_buttons_work(office: Office) -> None:
    office.control("PUT", f"events/{EVENT}", {"title": "<b>Bread & more</b>"})
    office.fault("pending", EVENT)
    book(office, "k1")
    page = office.get("/").text
    assert "&lt;b&gt;Bread &amp; more&lt;/b&gt;" in page
    assert "7 of 8" in page
    assert re.search(r"<td>W102</td><td>P-301</td><td>pending</td><td>TB-1001</td>", page)
    for do, shown in (("accept", "accepted"), ("hand out", "P-301"), ("take back", "nobody")):
        response = office.client.post("/booking", data={"operation_key": "k1", "do": do, "holder": "P-301"})
        assert (response.status_code, response.headers["Location"]) == (303, "/#bookings")
        assert f"<td>{shown}</td>" in office.get("/").text
    refused = office.client.post("/booking", data={"operation_key": "k1", "do": "pay"})
    assert (refused.status_code, "<code>do</code>" in refused.text) == (422, True)


def test_a_reset_brings_back_the_first_day(office: Office) -> None:
    book(office, "k1")
    office.control("PUT", f"events/{EVENT}", {"seats": 1})
    office.control("PUT", "participants/P-301", {"registration": "requested"})
    office.control("POST", "reset")
    said = event(office)
    assert (said["seats_left"], said["registration"], office.effects()) == (8, "approved", [])


def test_a_restart_keeps_the_bookings(own_office: Office) -> None:
    book(own_office, "k1")
    own_office.kill()
    own_office.start()
    assert state(own_office, "k1") == "accepted"
    assert event(own_office)["seats_left"] == 7
