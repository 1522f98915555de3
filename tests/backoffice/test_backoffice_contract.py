"""What the back office promises to anyone who calls it."""

import re
from threading import Barrier, Thread

import pytest

from .office import Office

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def test_it_is_healthy_without_a_credential(office: Office) -> None:
    response = office.client.get("/health", headers={"Authorization": ""})
    assert response.status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic demo-key", "demo-key"])
def test_it_refuses_a_missing_or_unknown_credential(office: Office, header: str) -> None:
    response = office.client.get("/orders/B456", headers={"Authorization": header})
    assert response.status_code == 401
    assert response.json()["code"] == "credential_refused"
    assert office.calls()[-1]["status"] == 401


def test_it_accepts_the_second_credential(office: Office) -> None:
    assert office.client.get("/orders/B456", headers={"Authorization": "Bearer demo-key-2"}).status_code == 200


def test_it_says_what_it_guarantees(office: Office) -> None:
    said = office.get("/capabilities").json()
    assert said["replay_guarantee_hours"] == 24
    assert said["lookup_by_operation_key"] is True


@pytest.mark.parametrize(
    ("user", "order", "allowed", "reason"),
    [
        ("U-88", "B456", True, "owner"),
        ("U-89", "B456", False, "not_owner"),
        ("U-12345", "B456", False, "not_owner"),
        ("support", "B456", True, "desk"),
        ("support2", "C881", True, "desk"),
        ("supervisor", "B456", True, "desk"),
        ("administrator", "B456", True, "desk"),
    ],
)
def test_customers_act_on_their_own_orders_and_the_desk_on_all(
    office: Office, user: str, order: str, allowed: bool, reason: str
) -> None:
    said = office.get("/authority", user=user, order=order).json()
    assert INSTANT.fullmatch(said.pop("as_of"))
    assert said == {"user": user, "order": order, "allowed": allowed, "reason": reason}


def test_an_unknown_order_is_definitely_not_found(office: Office) -> None:
    for response in (
        office.get("/authority", user="U-88", order="X999"),
        office.get("/orders/X999"),
        office.submit("k", "X999"),
    ):
        assert response.status_code == 404
        assert response.json()["code"] == "order_unknown"


def test_an_order_is_told_in_full(office: Office) -> None:
    order = office.get("/orders/B456").json()
    assert INSTANT.fullmatch(order.pop("as_of"))
    assert order == {
        "order_id": "B456",
        "customer": "U-88",
        "item": "Wireless headphones",
        "delivered_on": "2026-09-22",
        "opened": False,
        "amount_minor": 5900,
        "currency": "EUR",
        "version": 1,
    }


def test_the_other_order_of_the_story_was_opened(office: Office) -> None:
    order = office.get("/orders/A123").json()
    assert (order["delivered_on"], order["opened"]) == ("2026-09-20", True)


def test_one_policy_is_in_force_on_the_business_date(office: Office) -> None:
    said = office.get("/policies", kind="refund").json()
    assert said["business_date"] == "2026-09-25"
    assert said["policies"] == [
        {
            "kind": "refund",
            "version": "v3",
            "valid_from": "2026-07-01",
            "valid_to": None,
            "window_days": 7,
            "requires_unopened": True,
            "approval_above_minor": 10000,
            "currency": "EUR",
        }
    ]
    assert office.get("/policies", kind="exchange").json()["policies"] == []


def test_a_refund_is_accepted_with_a_receipt_that_a_look_up_repeats(office: Office) -> None:
    assert office.look_up("k1") | {"as_of": None} == {"found": False, "records": [], "store": "ledger", "as_of": None}
    response = office.submit("k1")
    assert response.status_code == 201
    receipt = response.json()
    assert INSTANT.fullmatch(receipt.pop("as_of"))
    assert receipt == {
        "submit_state": "accepted",
        "request_id": "R789",
        "order_id": "B456",
        "operation_key": "k1",
        "amount_minor": 5900,
        "currency": "EUR",
    }
    found = office.look_up("k1")
    assert (found["found"], found["store"]) == (True, "ledger")
    assert [record | {"as_of": 0} for record in found["records"]] == [receipt | {"as_of": 0}]


def test_receipts_count_on_from_the_story_s(office: Office) -> None:
    assert office.submit("k1", "C881", 42_50).json()["request_id"] == "R790"
    assert office.submit("k2", "B456").json()["request_id"] == "R789"
    assert office.submit("k3", "D014", 34_90).json()["request_id"] == "R791"


def test_the_same_request_again_finds_the_same_refund(office: Office) -> None:
    first, second = office.submit("k1"), office.submit("k1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["request_id"] == second.json()["request_id"]
    assert len(office.effects()) == 1
    assert len(office.calls("submit")) == 2


@pytest.mark.parametrize(("order", "amount"), [("B456", 58_00), ("C881", 42_50), ("X999", 59_00)])
def test_a_key_belongs_to_one_request(office: Office, order: str, amount: int) -> None:
    office.submit("k1")
    response = office.submit("k1", order, amount)
    assert response.status_code == 422
    assert response.json()["code"] == "key_reused"
    assert len(office.effects()) == 1


def test_an_order_is_refunded_once(office: Office) -> None:
    office.submit("k1")
    response = office.submit("k2")
    assert response.status_code == 409
    assert response.json() | {"as_of": 0, "message": ""} == {
        "code": "refused",
        "message": "",
        "submit_state": "rejected",
        "reason": "already_refunded",
        "order_id": "B456",
        "operation_key": "k2",
        "amount_minor": 5900,
        "currency": "EUR",
        "as_of": 0,
    }
    assert office.state("k2") == "rejected"
    assert office.submit("k2").status_code == 409
    assert [effect["operation_key"] for effect in office.effects()] == ["k1"]


def test_a_refund_in_progress_stands_in_the_way_of_another(office: Office) -> None:
    office.fault("pending", times=1)
    office.submit("k1")
    assert office.submit("k2").json()["reason"] == "refund_in_progress"


def test_no_more_is_refunded_than_the_order_cost(office: Office) -> None:
    assert office.submit("k1", amount=59_01).json()["reason"] == "amount_too_high"
    assert office.submit("k2", currency="USD").json()["reason"] == "currency_mismatch"
    assert office.effects() == []


def test_identical_requests_at_once_have_one_effect(office: Office) -> None:
    together, answers = Barrier(16), []

    def send() -> None:
        together.wait()
        answers.append(office.submit("k1").json()["request_id"])

    threads = [Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["R789"] * 16
    assert len(office.effects()) == 1
    assert [call["status"] for call in office.calls("submit")] == [201] * 16


def test_different_keys_at_once_refund_the_order_once(office: Office) -> None:
    together, answers = Barrier(12), []

    def send(key: str) -> None:
        together.wait()
        answers.append(office.submit(key).status_code)

    threads = [Thread(target=send, args=(f"k{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201] + [409] * 11
    assert len(office.effects()) == 1


def test_an_accepted_refund_can_be_cancelled_once(office: Office) -> None:
    office.submit("k1")
    response = office.cancel("R789", "c1")
    assert response.status_code == 200
    assert response.json()["submit_state"] == "cancelled"
    assert office.cancel("R789", "c1").json()["submit_state"] == "cancelled"
    assert office.state("k1") == "cancelled"
    assert office.state("c1") == "cancelled"
    assert office.submit("k1").json()["submit_state"] == "cancelled"
    assert office.cancel("R789", "c2").json()["reason"] == "already_cancelled"
    assert office.submit("k2").json()["request_id"] == "R790"


def test_a_cancellation_needs_a_key_of_its_own(office: Office) -> None:
    office.submit("k1")
    assert office.cancel("R789", "k1").json()["code"] == "key_reused"
    assert office.client.post("/refunds/R789/cancel").json()["field"] == "Idempotency-Key"
    assert office.cancel("R555", "c1").json()["code"] == "request_unknown"
    office.cancel("R789", "c1")
    assert office.submit("c1", "C881", 100).json()["code"] == "key_reused"


def test_a_paid_refund_cannot_be_cancelled(office: Office) -> None:
    office.submit("k1")
    office.control("PUT", "payments/R789", {"state": "paid"})
    assert office.cancel("R789", "c1").json()["reason"] == "already_paid"
    assert office.state("k1") == "accepted"


def test_a_call_is_on_record_with_whom_it_was_about(office: Office) -> None:
    office.get("/authority", user="U-88", order="B456")
    office.get("/orders/B456")
    office.get("/policies", kind="refund", order="B456")
    office.submit("k1")
    office.look_up("k1")
    office.look_up("nothing", order="B456")
    office.look_up("nothing")
    calls = office.calls()
    assert [(call["kind"], call["order_id"], call["operation_key"]) for call in calls] == [
        ("authority", "B456", None),
        ("orders", "B456", None),
        ("policies", "B456", None),
        ("submit", "B456", "k1"),
        ("lookup", "B456", "k1"),
        ("lookup", "B456", "nothing"),
        ("lookup", None, "nothing"),
    ]
    assert all(INSTANT.fullmatch(call["at"]) for call in calls)
    assert len(office.calls(order_id="B456")) == 6
    assert office.calls(order_id="A123") == []
