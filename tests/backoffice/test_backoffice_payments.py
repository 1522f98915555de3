"""Refunds in parts, and what became of the money: accepted is not paid."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

import pytest

from takeover.demo.backoffice.payments import Payments
from takeover.demo.backoffice.store import KeyReused, State, Store, Submission

from .office import Office


def at_once(count: int, act: Callable[[int], object]) -> list[object]:
    together, answers = Barrier(count), []

    def one(number: int) -> None:
        together.wait()
        answers.append(act(number))

    threads = [Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def left(office: Office, order_id: str = "B456") -> tuple[int, int]:
    said = office.get(f"/orders/{order_id}/refunds").json()
    assert (said["order_id"], said["cost_minor"], said["currency"]) == (order_id, 59_00, "EUR")
    return said["refunded_minor"], said["left_minor"]


def payment(office: Office, request_id: str = "R789") -> str:
    return str(office.get(f"/payments/{request_id}").json()["payment_state"])


def bank_says(office: Office, state: str, request_id: str = "R789") -> int:
    return office.control("PUT", f"payments/{request_id}", {"state": state}).status_code


# In parts


def test_an_order_is_refunded_in_parts_up_to_what_it_cost(office: Office) -> None:
    assert left(office) == (0, 59_00)
    assert office.submit("k1", amount=20_00).status_code == 201
    assert office.submit("k2", amount=30_00).status_code == 201
    assert left(office) == (50_00, 9_00)
    assert office.submit("k3", amount=9_01).json()["reason"] == "more_than_is_left"
    assert office.submit("k4", amount=9_00).status_code == 201
    assert office.submit("k5", amount=1).json()["reason"] == "already_refunded"
    assert left(office) == (59_00, 0)


def test_what_is_pending_is_not_given_twice(office: Office) -> None:
    office.fault("pending", times=1)
    office.submit("k1", amount=59_00)
    assert left(office) == (59_00, 0)
    assert office.submit("k2", amount=1).json()["reason"] == "refund_in_progress"
    office.control("PUT", "refunds/k1", {"state": "rejected"})
    assert left(office) == (0, 59_00)


def test_what_was_cancelled_can_be_given_again(office: Office) -> None:
    office.submit("k1", amount=40_00)
    office.cancel("R789", "c1")
    assert office.submit("k2", amount=59_00).status_code == 201


def test_parts_asked_for_at_once_never_come_to_more_than_the_order_cost(office: Office) -> None:
    answers = at_once(12, lambda number: office.submit(f"k{number}", amount=10_00).status_code)
    assert sorted(map(str, answers)) == ["201"] * 5 + ["409"] * 7
    assert left(office) == (50_00, 9_00)


def test_the_books_themselves_refuse_more_than_the_order_cost(tmp_path: Path) -> None:
    store = Store(tmp_path / "books.sqlite3")
    store.submit(Submission("k1", "B456", 50_00, "EUR"))
    with store.transaction() as db, pytest.raises(sqlite3.IntegrityError, match="more than the order cost"):
        db.execute(
            "INSERT INTO refunds SELECT 'k2', order_id, 901, currency, state, 'R1', NULL, 0, NULL, NULL, made_at"
            " FROM refunds"
        )
    store.close()


def test_what_an_unknown_order_has_left_is_definitely_not_found(office: Office) -> None:
    answer = office.get("/orders/X999/refunds")
    assert (answer.status_code, answer.json()["code"]) == (404, "order_unknown")


# The money


def test_an_accepted_refund_is_not_paid(office: Office) -> None:
    office.submit("k1", amount=20_00)
    said = office.get("/payments/R789").json()
    assert said | {"as_of": 0} == {
        "request_id": "R789",
        "order_id": "B456",
        "payment_state": "unpaid",
        "amount_minor": 20_00,
        "currency": "EUR",
        "as_of": 0,
    }


def test_the_bank_s_word_goes_one_way(office: Office) -> None:
    office.submit("k1")
    assert bank_says(office, "processing") == 200
    assert payment(office) == "processing"
    assert bank_says(office, "processing") == 409
    assert bank_says(office, "failed") == 200
    assert office.get("/payments/R789").json()["reason"] == "account_closed"
    assert bank_says(office, "processing") == 200
    assert "reason" not in office.get("/payments/R789").json()
    assert bank_says(office, "paid") == 200
    assert bank_says(office, "failed") == 409
    assert payment(office) == "paid"
    assert office.state("k1") == "accepted", "the refund's own record is about acceptance"


def test_what_is_being_paid_cannot_be_cancelled_and_what_failed_can(office: Office) -> None:
    office.submit("k1")
    bank_says(office, "processing")
    assert office.cancel("R789", "c1").json()["reason"] == "already_processing"
    bank_says(office, "failed")
    assert office.cancel("R789", "c1").status_code == 200
    assert payment(office) == "void"
    assert bank_says(office, "paid") == 409


def test_only_an_accepted_refund_has_a_payment(office: Office) -> None:
    office.fault("pending")
    office.submit("k1")
    for answer in (office.get("/payments/R789"), office.control("PUT", "payments/R789", {"state": "paid"})):
        assert (answer.status_code, answer.json()["code"]) == (404, "request_unknown")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"state": "gone"}, "state"),
        ({}, "state"),
        ({"state": "paid", "when": "now"}, "when"),
        ({"state": True}, "state"),
    ],
)
def test_what_the_bank_could_not_say_is_refused(office: Office, fields: dict[str, object], field: str) -> None:
    office.submit("k1")
    answer = office.control("PUT", "payments/R789", fields)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert payment(office) == "unpaid"


def test_a_payment_can_be_told_to_go_on_to_fail_or_to_fall_short(office: Office) -> None:
    office.submit("k1")
    office.fault("payment_goes_on", times=1)
    assert (payment(office), payment(office)) == ("processing", "processing")
    office.fault("payment_short", times=1)
    short = office.get("/payments/R789").json()
    assert (short["payment_state"], short["amount_minor"]) == ("paid", 58_99)
    office.fault("payment_fails", times=1, reason="name_mismatch")
    failed = office.get("/payments/R789").json()
    assert (failed["payment_state"], failed["reason"]) == ("failed", "name_mismatch")
    assert payment(office) == "failed", "that one is true"


def test_a_read_of_a_payment_is_on_record_with_its_order(office: Office) -> None:
    office.submit("k1")
    office.get("/payments/R789")
    office.get("/payments/R555", order="B456")
    assert [(call["order_id"], call["status"]) for call in office.calls("payment")] == [("B456", 200), ("B456", 404)]


def test_the_bank_speaks_by_form(office: Office) -> None:
    office.submit("k1")
    page = office.get("/").text
    assert "<td>59.00 EUR</td><td>accepted</td><td>unpaid</td>" in page
    assert "Pay</button>" in page
    assert office.client.post("/pay", data={"request_id": "R789", "state": "paid"}).status_code == 303
    assert payment(office) == "paid"
    assert "Pay</button>" not in office.get("/").text
    again = office.client.post("/pay", data={"request_id": "R789", "state": "paid"})
    assert (again.status_code, 'role="alert"' in again.text) == (409, True)


def test_the_books_of_an_older_back_office_are_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "books.sqlite3"
    store = Store(file)
    store.submit(Submission("k1", "B456", 59_00, "EUR"))
    store.close()
    with sqlite3.connect(file) as old:
        old.executescript(
            """PRAGMA ignore_check_constraints = 1;
            UPDATE refunds SET state = 'paid';
            DROP TABLE payments; DROP TRIGGER never_more_than_it_cost; DROP INDEX refunds_by_order;
            CREATE UNIQUE INDEX one_refund_per_order ON refunds (order_id);
            PRAGMA user_version = 1;"""
        )
    old.close()

    store = Store(file)
    assert (found := store.by_key("k1"))
    assert found.state is State.ACCEPTED
    assert Payments(store).of("R789").state == "paid"
    with pytest.raises(KeyReused):
        store.submit(Submission("k1", "B456", 1, "EUR"))
    assert store.submit(Submission("k2", "B456", 1, "EUR")).reason == "already_refunded"
    store.close()
