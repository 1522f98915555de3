"""Each fault does what its line in the catalogue says, and the ledger tells the truth about it."""

import socket
import time
from pathlib import Path

import httpx2
import pytest

from takeover.demo.backoffice.faults import CATALOGUE

from .office import AUTHORISED, ROOT, Office, eventually

CALLS = {
    "authority": ("GET", "/authority?user=U-88&order=B456"),
    "orders": ("GET", "/orders/B456"),
    "policies": ("GET", "/policies?kind=refund&order=B456"),
    "submit": ("POST", "/refunds"),
    "lookup": ("GET", "/refunds?operation_key=k1&order=B456"),
    "cancel": ("POST", "/refunds/R789/cancel"),
}
SUBMISSION = {"order_id": "B456", "amount_minor": 5900, "currency": "EUR"}


def call(office: Office, kind: str) -> httpx2.Response:
    method, path = CALLS[kind]
    key = {"submit": "k1", "cancel": "c1"}.get(kind)
    return office.client.request(
        method,
        path,
        json=SUBMISSION if kind == "submit" else None,
        headers={"Idempotency-Key": key} if key else {},
    )


def raw_submit(office: Office, seconds: float = 10) -> bytes:
    """Every byte that comes back, and the end of the connection."""
    body = b'{"order_id":"B456","amount_minor":5900,"currency":"EUR"}'
    head = (
        f"POST /refunds HTTP/1.1\r\nHost: {office.host}:{office.port}\r\nIdempotency-Key: k1\r\n"
        f"Authorization: {AUTHORISED['Authorization']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((office.host, office.port), timeout=seconds) as caller:
        caller.sendall(head.encode() + body)
        received = b""
        while chunk := caller.recv(4096):
            received += chunk
        return received


def test_answer_lost_has_its_effect_and_not_one_byte_of_an_answer(office: Office) -> None:
    office.fault("answer_lost", times=1)
    assert raw_submit(office) == b""
    assert [effect["request_id"] for effect in office.effects()] == ["R789"]
    (call,) = office.calls("submit")
    assert (call["fault"], call["status"]) == ("answer_lost", None)
    assert office.look_up("k1")["records"][0]["request_id"] == "R789"
    assert office.submit("k1").json()["request_id"] == "R789"


def test_answer_lost_looks_like_a_broken_connection_to_a_client(office: Office) -> None:
    office.fault("answer_lost")
    with pytest.raises(httpx2.TransportError):
        office.submit("k1")


def test_answer_lost_can_hang_first(office: Office) -> None:
    office.fault("answer_lost", seconds=0.4)
    began = time.monotonic()
    assert raw_submit(office) == b""
    assert time.monotonic() - began >= 0.4
    assert len(office.effects()) == 1


def test_answer_lost_strikes_a_cancellation_too(office: Office) -> None:
    office.submit("k1")
    office.fault("answer_lost", where="cancel")
    with pytest.raises(httpx2.TransportError):
        office.cancel("R789", "c1")
    assert office.state("c1") == "cancelled"


def test_timeout_before_effect_has_none(office: Office) -> None:
    office.fault("timeout_before_effect", seconds=0.4, times=1)
    began = time.monotonic()
    assert raw_submit(office) == b""
    assert time.monotonic() - began >= 0.4
    assert office.effects() == []
    assert office.look_up("k1", order="B456")["store"] == "ledger"
    assert [(call["fault"], call["status"]) for call in office.calls("submit")] == [("timeout_before_effect", None)]


def test_timeout_before_effect_outlasts_the_client(office: Office) -> None:
    office.fault("timeout_before_effect")
    with pytest.raises(httpx2.TimeoutException):
        office.submit("k1", timeout=0.3)
    assert office.effects() == []


@pytest.mark.parametrize("look_ups", [0, 1, 3])
def test_pending_is_accepted_after_so_many_look_ups(office: Office, look_ups: int) -> None:
    office.fault("pending", lookups=look_ups)
    response = office.submit("k1")
    assert response.status_code == 202
    said = response.json()
    assert said["submit_state"] == "pending"
    assert said["tracking_id"].startswith("T-")
    assert (said["order_id"], said["operation_key"]) == ("B456", "k1")
    assert "request_id" not in said
    assert [office.state("k1") for _ in range(look_ups + 1)] == ["pending"] * look_ups + ["accepted"]
    assert office.look_up("k1")["records"][0]["request_id"] == "R789"
    assert office.submit("k1").status_code == 201
    assert len(office.effects()) == 1


def test_pending_without_a_number_stays_pending(office: Office) -> None:
    office.fault("pending")
    office.submit("k1")
    office.client.delete("/control/faults")
    assert {office.state("k1") for _ in range(10)} == {"pending"}
    assert office.submit("k1").status_code == 202


def test_refused_is_on_the_books(office: Office) -> None:
    office.fault("refused", reason="seller_objects", times=1)
    response = office.submit("k1")
    assert response.status_code == 409
    assert (response.json()["code"], response.json()["reason"]) == ("refused", "seller_objects")
    assert office.look_up("k1")["records"][0]["submit_state"] == "rejected"
    assert office.effects() == []
    assert office.submit("k1").status_code == 409


def test_queued_is_a_success_that_says_nothing(office: Office) -> None:
    office.fault("queued", lookups=1)
    response = office.submit("k1")
    assert response.status_code == 200
    assert set(response.json()) == {"status", "tracking_id"}
    assert response.json()["status"] == "queued"
    assert [office.state("k1"), office.state("k1")] == ["pending", "accepted"]


def test_contradictory_finds_two_states_under_one_key(office: Office) -> None:
    office.fault("contradictory")
    assert office.look_up("k1", order="B456")["records"] == []
    office.submit("k1")
    records = office.look_up("k1")["records"]
    assert [record["submit_state"] for record in records] == ["accepted", "rejected"]
    assert {record["operation_key"] for record in records} == {"k1"}
    assert len(office.effects()) == 1


def test_contradictory_contradicts_a_refusal_too(office: Office) -> None:
    office.fault("refused")
    office.fault("contradictory")
    office.submit("k1")
    assert [record["submit_state"] for record in office.look_up("k1")["records"]] == ["rejected", "accepted"]


def test_other_order_misnames_the_receipt_and_the_look_up(office: Office) -> None:
    office.fault("other_order")
    response = office.submit("k1")
    assert (response.status_code, response.json()["order_id"]) == (201, "D041")
    assert office.look_up("k1")["records"][0]["order_id"] == "D041"
    assert [effect["order_id"] for effect in office.effects()] == ["B456"]
    assert office.calls("lookup")[-1]["order_id"] == "B456"


def test_rate_limited_is_declared_not_executed(office: Office) -> None:
    office.fault("rate_limited", retry_after=7, times=1)
    response = office.submit("k1")
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    assert (response.json()["code"], response.json()["executed"]) == ("rate_limited", False)
    assert office.effects() == []
    assert office.submit("k1").status_code == 201


@pytest.mark.parametrize("after_effect", [True, False])
def test_unavailable_may_come_after_the_effect(office: Office, after_effect: bool) -> None:
    office.fault("unavailable", after_effect=after_effect, times=1)
    assert office.submit("k1").status_code == 503
    assert len(office.effects()) == after_effect


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("unavailable", 503),
        ("rate_limited", 429),
        ("credential_refused", 401),
        ("access_denied", 403),
        ("error_500", 500),
        ("empty", 200),
        ("malformed", 200),
    ],
)
def test_a_fault_strikes_where_it_is_told_to(office: Office, fault: str, kind: str, status: int) -> None:
    if kind == "cancel":
        office.submit("before")
    office.fault(fault, where=kind)
    others = [call(office, other).status_code for other in CALLS if other not in (kind, "submit", "cancel")]
    assert others == [200] * len(others)
    assert call(office, kind).status_code == status
    recorded = office.calls(kind)[-1]
    assert (recorded["order_id"], recorded["fault"], recorded["status"]) == ("B456", fault, status)


def test_slow_is_late(office: Office) -> None:
    office.fault("slow", seconds=0.4, where="orders")
    began = time.monotonic()
    assert office.get("/orders/B456").status_code == 200
    assert time.monotonic() - began >= 0.4


def test_slow_lands_after_the_client_has_left(office: Office) -> None:
    office.fault("slow", seconds=1.5)
    with pytest.raises(httpx2.TimeoutException):
        office.submit("k1", timeout=0.2)
    assert office.look_up("k1", order="B456")["found"] is False
    eventually(office.effects)
    assert [call["status"] for call in office.calls("submit")] == [None]


def test_lookup_down_leaves_submitting_alone(office: Office) -> None:
    office.fault("lookup_down", times=2)
    assert office.submit("k1").status_code == 201
    statuses = [office.get("/refunds", operation_key="k1").status_code for _ in range(3)]
    assert statuses == [503, 503, 200]


def test_lookup_lags_for_so_many_look_ups(office: Office) -> None:
    office.fault("lookup_lags", lookups=2)
    office.submit("k1")
    found = [office.look_up("k1") for _ in range(3)]
    assert [(said["found"], said["store"]) for said in found] == [
        (False, "index"),
        (False, "index"),
        (True, "ledger"),
    ]


def test_lookup_lags_for_each_key_by_itself(office: Office) -> None:
    office.fault("lookup_lags", None, lookups=1)
    office.submit("k1")
    office.submit("k2", "C881", 42_50)
    assert [office.state(key) for key in ("k1", "k2", "k1", "k2")] == [None, None, "accepted", "accepted"]


def test_lookup_lags_for_so_long_after_the_refund(office: Office) -> None:
    office.fault("lookup_lags", seconds=1)
    time.sleep(1.1)
    office.submit("k1")
    assert office.look_up("k1")["store"] == "index"
    eventually(lambda: office.look_up("k1")["found"])


def test_a_new_credential_can_cure_a_refused_one(office: Office) -> None:
    office.fault("credential_refused", credential="demo-key")
    assert office.get("/orders/B456").json()["code"] == "credential_refused"
    assert office.client.get("/orders/B456", headers={"Authorization": "Bearer demo-key-2"}).status_code == 200


def test_access_denied_has_a_code(office: Office) -> None:
    office.fault("access_denied", where="policies")
    response = office.get("/policies", kind="refund", order="B456")
    assert (response.status_code, response.json()["code"]) == (403, "access_denied")


def test_order_incomplete_lacks_what_decides(office: Office) -> None:
    office.fault("order_incomplete")
    order = office.get("/orders/B456").json()
    assert "delivered_on" not in order
    assert "opened" not in order
    assert order["amount_minor"] == 5900


@pytest.mark.parametrize(
    ("fault", "in_force"),
    [
        ("policy_conflict", [("v3", 7), ("v4", 3)]),
        ("policy_missing", []),
        ("policy_changed", [("v4", 2)]),
    ],
)
def test_policies_conflict_vanish_or_change(office: Office, fault: str, in_force: list[tuple[str, int]]) -> None:
    office.fault(fault)
    said = office.get("/policies", kind="refund", order="B456").json()["policies"]
    assert [(policy["version"], policy["window_days"]) for policy in said] == in_force
    untouched = office.get("/policies", kind="refund", order="C881").json()["policies"]
    assert [policy["version"] for policy in untouched] == ["v3"]


def test_malformed_breaks_off_after_the_effect(office: Office) -> None:
    office.fault("malformed")
    response = office.submit("k1")
    assert response.status_code == 200
    with pytest.raises(ValueError, match="string"):
        response.json()
    assert len(office.effects()) == 1


def test_empty_has_a_status_and_nothing_else(office: Office) -> None:
    office.fault("empty", where="lookup")
    response = office.get("/refunds", operation_key="k1", order="B456")
    assert (response.status_code, response.content) == (200, b"")


def test_error_500_has_no_code(office: Office) -> None:
    office.fault("error_500")
    response = office.submit("k1")
    assert (response.status_code, response.text) == (500, "Internal Server Error")
    assert response.headers["Content-Type"].startswith("text/plain")
    assert office.effects() == []


def test_huge_goes_on_for_fifty_megabytes(office: Office) -> None:
    office.fault("huge", where="orders")
    with office.client.stream("GET", "/orders/B456") as response:
        assert sum(len(chunk) for chunk in response.iter_raw()) >= 50 * 1024 * 1024


def test_huge_survives_a_client_that_has_had_enough(office: Office) -> None:
    office.fault("huge", where="orders")
    with office.client.stream("GET", "/orders/B456") as response:
        next(response.iter_raw())
    assert office.get("/health").status_code == 200


def test_a_fault_is_used_up(office: Office) -> None:
    office.fault("unavailable", times=2)
    assert [office.submit("k1").status_code for _ in range(3)] == [503, 503, 201]
    assert office.active() == []


def test_a_refused_input_uses_up_no_fault(office: Office) -> None:
    office.fault("unavailable", times=1)
    assert office.submit("k1", amount=-1).status_code == 422
    assert [fault["struck"] for fault in office.active()] == [0]


def test_faults_of_one_call_strike_one_after_the_other(office: Office) -> None:
    office.fault("unavailable", times=1)
    office.fault("rate_limited", times=1)
    assert [office.submit("k1").status_code for _ in range(3)] == [503, 429, 201]


def test_the_fault_of_a_key_comes_before_that_of_an_order_before_that_of_all(office: Office) -> None:
    office.fault("unavailable", None)
    office.fault("rate_limited")
    office.fault("error_500", None, operation_key="k1")
    assert office.submit("k1").status_code == 500
    assert office.submit("k2").status_code == 429
    assert office.submit("k3", "C881", 42_50).status_code == 503


def test_other_orders_are_left_alone(office: Office) -> None:
    office.fault("unavailable", "C881", where="any")
    assert office.submit("k1").status_code == 201


def test_every_fault_is_in_the_manual_with_its_parameters() -> None:
    manual = Path(ROOT / "docs" / "back-office.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(" `"): line for line in manual.splitlines() if line.startswith("| `")}
    for fault in CATALOGUE.values():
        for parameter in fault.parameters:
            assert f"`{parameter.name}`" in rows[fault.name], (fault.name, parameter.name)
        assert fault.meaning.rstrip(".") in rows[fault.name]
