"""What the back office says of its own accord, once it has decided what was pending."""

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from .office import ROOT, Office, eventually

SECRET = "whsec_dGhlIGJhY2sgb2ZmaWNlIHNpZ25zIHdpdGggdGhpcyE="


class Receiver:
    """Takes what is sent to it, and answers what it is told to: by default that it was accepted."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []  # in turn; then 202
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                status = receiver.answers.pop(0) if receiver.answers else 202
                if status:
                    self.send_response(status)
                    self.end_headers()

            def log_message(self, *line: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/callbacks/"
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.received]

    def said(self) -> list[Any]:
        """What came, as far as it is signed."""
        return [Webhook(SECRET).verify(body, headers) for headers, body in self.received]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def calling(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    """A back office that calls back."""
    monkeypatch.setenv("CALLBACK_SECRET", SECRET)
    office = Office(tmp_path / "books.sqlite3", "--callbacks-to", receiver.url)
    yield office
    if office.process.poll() is None:
        office.kill()


def pending(office: Office, key: str = "k1") -> None:
    office.fault("pending", times=1)
    assert office.submit(key).status_code == 202


def decided(office: Office, key: str = "k1", state: str = "accepted") -> None:
    assert office.control("PUT", f"refunds/{key}", {"state": state}).status_code == 200


def test_a_decided_refund_is_called_back_about_signed(calling: Office, receiver: Receiver) -> None:
    pending(calling)
    decided(calling)

    eventually(lambda: receiver.received)
    assert receiver.said() == [{"operation_key": "k1", "reference": "R789"}]
    eventually(lambda: [call["status"] for call in calling.calls("callback")] == [202])
    (call,) = calling.calls("callback", order_id="B456")
    assert (call["method"], call["path"], call["operation_key"]) == ("POST", receiver.url, "k1")


def test_a_refusal_is_called_back_about_too_and_a_payment_is_not(calling: Office, receiver: Receiver) -> None:
    pending(calling)
    decided(calling, state="rejected")
    eventually(lambda: receiver.received)
    calling.submit("k2")
    calling.control("PUT", "payments/R789", {"state": "paid"})

    assert receiver.said() == [{"operation_key": "k1", "reference": "not_refundable"}]
    assert [call["operation_key"] for call in calling.calls("callback")] == ["k1"]


@pytest.mark.parametrize(("state", "reference"), [("accepted", "B-5001"), ("rejected", "organiser_declined")])
def test_a_decided_booking_is_called_back_about_like_a_refund(
    calling: Office, receiver: Receiver, state: str, reference: str
) -> None:
    calling.fault("pending", "W102", times=1)
    seat = {"event_id": "W102", "participant_id": "P-301", "price_minor": 25_00, "currency": "EUR"}
    assert calling.client.post("/bookings", json=seat, headers={"Idempotency-Key": "k1"}).status_code == 202
    calling.control("PUT", "bookings/k1", {"state": state})

    eventually(lambda: receiver.received)
    assert receiver.said() == [{"operation_key": "k1", "reference": reference}]
    eventually(lambda: [call["status"] for call in calling.calls("callback", order_id="W102")] == [202])


def test_a_page_that_decides_calls_back_as_well(calling: Office, receiver: Receiver) -> None:
    pending(calling)

    calling.client.post("/settle", data={"operation_key": "k1", "state": "accepted"})

    eventually(lambda: receiver.received)
    assert receiver.said() == [{"operation_key": "k1", "reference": "R789"}]


@pytest.mark.parametrize("answer", [503, 429, 0], ids=["503", "429", "none"])
def test_a_message_that_was_not_taken_is_sent_again_under_the_same_id(
    calling: Office, receiver: Receiver, answer: int
) -> None:
    receiver.answers = [answer]
    pending(calling)
    decided(calling)

    eventually(lambda: len(receiver.received) == 2, seconds=10)
    assert len(set(receiver.ids)) == 1
    assert len(receiver.said()) == 2
    eventually(lambda: [call["status"] for call in calling.calls("callback")] == [202])


@pytest.mark.parametrize("answer", [401, 404, 301])
def test_a_message_that_was_refused_is_not_sent_again(calling: Office, receiver: Receiver, answer: int) -> None:
    receiver.answers = [answer]
    pending(calling)
    decided(calling)

    eventually(lambda: [call["status"] for call in calling.calls("callback")] == [answer])
    code, complaints = calling.stop()
    assert code == 0
    assert complaints == f"The callback about k1 was not taken ({answer})\n"
    assert len(receiver.received) == 1


def test_callback_twice_is_the_same_message_twice(calling: Office, receiver: Receiver) -> None:
    calling.fault("callback_twice")
    pending(calling)
    decided(calling)

    eventually(lambda: len(receiver.received) == 2)
    assert len(set(receiver.ids)) == 1
    assert receiver.said() == [{"operation_key": "k1", "reference": "R789"}] * 2
    eventually(lambda: [call["fault"] for call in calling.calls("callback")] == ["callback_twice", None])


def test_callback_late_keeps_nobody_waiting(calling: Office, receiver: Receiver) -> None:
    calling.fault("callback_late", seconds=0.5)
    pending(calling)
    decided(calling)

    assert not receiver.received
    eventually(lambda: receiver.received)
    assert receiver.said() == [{"operation_key": "k1", "reference": "R789"}]


def test_callback_forged_is_not_signed_with_the_secret(calling: Office, receiver: Receiver) -> None:
    calling.fault("callback_forged", times=1)
    pending(calling)
    decided(calling)

    eventually(lambda: receiver.received)
    with pytest.raises(WebhookVerificationError):
        receiver.said()
    assert calling.active() == []


def test_it_stops_in_order_with_a_message_under_way(calling: Office, receiver: Receiver) -> None:
    calling.fault("callback_late", seconds=600)
    pending(calling)
    decided(calling)

    assert calling.stop() == (0, "")


def test_faults_of_callbacks_strike_no_call_of_the_products(office: Office) -> None:
    for fault in ("callback_twice", "callback_late", "callback_forged"):
        office.fault(fault)

    assert office.submit("k1").status_code == 201
    assert [fault["struck"] for fault in office.active()] == [0, 0, 0]


def test_without_an_address_it_calls_nobody(office: Office) -> None:
    pending(office)
    decided(office)

    assert office.calls("callback") == []


@pytest.mark.parametrize(
    ("url", "secret", "sentence"),
    [
        ("ftp://127.0.0.1/", SECRET, "--callbacks-to: must be an address such as http"),
        ("nowhere", SECRET, "--callbacks-to: must be an address such as http"),
        ("http://127.0.0.1:99999/", SECRET, "--callbacks-to: must be an address such as http"),
        ("http://127.0.0.1:1/", "", "CALLBACK_SECRET must be whsec_"),
        ("http://127.0.0.1:1/", "whsec_", "CALLBACK_SECRET must be whsec_"),
        ("http://127.0.0.1:1/", "whsec_*", "CALLBACK_SECRET must be whsec_"),
        ("http://127.0.0.1:1/", "a secret", "CALLBACK_SECRET must be whsec_"),
    ],
)
def test_what_it_could_not_call_back_with_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, secret: str, sentence: str
) -> None:
    monkeypatch.setenv("CALLBACK_SECRET", secret)
    command = [sys.executable, "-m", "takeover.demo.backoffice", "--port", "0", "--data", str(tmp_path / "books")]

    ended = subprocess.run([*command, "--callbacks-to", url], cwd=ROOT, capture_output=True, text=True, timeout=20)

    assert ended.returncode
    assert sentence in ended.stderr
