"""Nonsense is refused with the field's name; it changes nothing and breaks nothing."""

import json
import socket

import httpx2
import pytest

from .office import AUTHORISED, Office

GOOD = {"order_id": "B456", "amount_minor": 5900, "currency": "EUR"}


def post(office: Office, body: bytes, key: str = "k1") -> httpx2.Response:
    return office.client.post("/refunds", content=body, headers={"Idempotency-Key": key})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"order_id": ' + b"9" * 5_000 + b"}",
        b'{"order_id": "B456"} trailing',
    ],
    ids=["empty", "broken", "array", "null", "bytes", "deep", "long number", "trailing"],
)
def test_a_body_that_is_no_json_object_is_refused(office: Office, body: bytes) -> None:
    response = post(office, body)
    assert response.status_code == 422
    assert response.json()["code"] == "invalid_input"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("order_id", None),
        ("order_id", 7),
        ("order_id", ""),
        ("order_id", "B456\u0000"),
        ("order_id", "\ud800"),
        ("order_id", "B" * 65),
        ("amount_minor", None),
        ("amount_minor", "5900"),
        ("amount_minor", 59.0),
        ("amount_minor", True),
        ("amount_minor", 0),
        ("amount_minor", -1),
        ("amount_minor", 10**30),
        ("amount_minor", float("nan")),
        ("currency", "eur"),
        ("currency", "EURO"),
        ("currency", None),
        ("note", "hello"),
        ("\ud800", 1),
    ],
)
def test_a_wrong_field_is_named(office: Office, field: str, value: object) -> None:
    response = post(office, json.dumps({**GOOD, field: value}).encode())
    assert response.status_code == 422
    assert response.json()["code"] == "invalid_input"
    assert response.json()["field"] == (field if field.isprintable() else "?")
    assert office.effects() == []


@pytest.mark.parametrize("field", GOOD)
def test_a_missing_field_is_named(office: Office, field: str) -> None:
    response = post(office, json.dumps({name: value for name, value in GOOD.items() if name != field}).encode())
    assert response.json()["field"] == field


@pytest.mark.parametrize("key", ["", "two words", "k" * 201])
def test_a_refund_needs_a_key(office: Office, key: str) -> None:
    response = post(office, json.dumps(GOOD).encode(), key)
    assert response.status_code == 422
    assert response.json()["field"] == "Idempotency-Key"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/authority?order=B456", "user"),
        ("/authority?user=U-88", "order"),
        ("/authority?user=U-88&order=%00", "order"),
        ("/policies", "kind"),
        ("/policies?kind=refund&order=%FF", "order"),
        ("/refunds", "operation_key"),
        ("/refunds?operation_key=", "operation_key"),
        ("/refunds?operation_key=%E2%82%AC", "operation_key"),
        ("/orders/%F0%9F%98%80", "order_id"),
        ("/control/ledger?order_id=", "order_id"),
        ("/control/ledger?order=B456", "order"),
    ],
)
def test_a_wrong_query_is_named(office: Office, path: str, field: str) -> None:
    response = office.client.get(path)
    assert response.status_code == 422
    assert response.json()["field"] == field


@pytest.mark.parametrize("path", ["/refunds", "/control/faults", "/switch-on"])
def test_a_large_body_is_refused(office: Office, path: str) -> None:
    large = b'{"order_id": "' + b"B" * 70_000 + b'"}'
    told = office.client.post(path, content=large, headers={"Idempotency-Key": "k"})
    untold = office.client.post(path, content=iter([large]), headers={"Idempotency-Key": "k"})
    assert (told.status_code, untold.status_code) == (413, 413)


def test_a_refused_call_is_on_record(office: Office) -> None:
    post(office, json.dumps({**GOOD, "amount_minor": "lots"}).encode())
    post(office, b"x" * 70_000)
    assert [(call["order_id"], call["operation_key"], call["status"]) for call in office.calls("submit")] == [
        ("B456", "k1", 422),
        (None, "k1", 413),
    ]


def test_a_caller_that_leaves_in_the_middle_of_a_body_was_never_there(office: Office) -> None:
    with socket.create_connection((office.host, office.port)) as caller:
        head = f"POST /refunds HTTP/1.1\r\nHost: {office.host}\r\nAuthorization: {AUTHORISED['Authorization']}\r\n"
        caller.sendall(head.encode() + b"Idempotency-Key: k1\r\nContent-Length: 100\r\n\r\n{")
    assert office.get("/health").status_code == 200
    assert office.calls() == []


def test_an_unknown_path_or_method_is_told_in_json(office: Office) -> None:
    assert office.client.get("/nowhere").json()["code"] == "not_found"
    response = office.client.delete("/refunds")
    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "fault"),
        ({"fault": "gremlins"}, "fault"),
        ({"fault": ["slow"]}, "fault"),
        ({"fault": "slow", "secnds": 2}, "secnds"),
        ({"fault": "slow", "seconds": "2"}, "seconds"),
        ({"fault": "slow", "seconds": -1}, "seconds"),
        ({"fault": "slow", "seconds": float("nan")}, "seconds"),
        ({"fault": "slow", "where": "nowhere"}, "where"),
        ({"fault": "answer_lost", "where": "orders"}, "where"),
        ({"fault": "answer_lost", "after_effect": True}, "after_effect"),
        ({"fault": "lookup_down", "where": "lookup"}, "where"),
        ({"fault": "pending", "lookups": 1.5}, "lookups"),
        ({"fault": "lookup_lags", "lookups": 1, "seconds": 1}, "seconds"),
        ({"fault": "rate_limited", "retry_after": True}, "retry_after"),
        ({"fault": "unavailable", "after_effect": "yes"}, "after_effect"),
        ({"fault": "refused", "times": 0}, "times"),
        ({"fault": "refused", "order_id": "two words"}, "order_id"),
        ({"fault": "refused", "operation_key": 7}, "operation_key"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(office: Office, asked: dict[str, object], field: str) -> None:
    response = office.client.post("/control/faults", content=json.dumps(asked))
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert office.active() == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"delivered_on": "yesterday"}, "delivered_on"),
        ({"delivered_on": "2026-02-30"}, "delivered_on"),
        ({"opened": "no"}, "opened"),
        ({"item": "bell\u0007"}, "item"),
        ({"version": 9}, "version"),
        ({"customer": ""}, "customer"),
    ],
)
def test_a_change_of_an_order_that_makes_no_sense_is_refused(
    office: Office, change: dict[str, object], field: str
) -> None:
    response = office.control("PUT", "orders/B456", change)
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert office.get("/orders/B456").json()["version"] == 1


def test_other_sites_cannot_reach_the_controls_through_a_browser(office: Office) -> None:
    rebound = office.client.get("/control/ledger", headers={"Host": "evil.example"})
    posted = office.client.post("/control/reset", headers={"Origin": "http://evil.example"})
    hidden = office.client.post("/control/reset", headers={"Origin": "null"})
    assert [response.status_code for response in (rebound, posted, hidden)] == [403, 403, 403]
