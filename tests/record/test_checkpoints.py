"""Checkpoints: what was sealed is told to where nobody at the database can take it back."""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from runs.engine import seal as sealing
from runs.engine.audit import verify
from runs.engine.seal import Checkpoints
from runs.models import Seal
from tests.record.conftest import seal_all, write

pytestmark = pytest.mark.django_db(transaction=True)


class Witness(ThreadingHTTPServer):
    """Keeps what it is told; answers with `status`, or not before `release`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told: list[dict[str, Any]] = []
        self.status = 204
        self.release = threading.Event()
        self.release.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/witness?token=not-for-the-log"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sealer that gave up has gone when the answer comes."""


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        witness = self.server
        assert isinstance(witness, Witness)
        witness.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        witness.release.wait(30)
        self.send_response(witness.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        pass


@pytest.fixture
def witness(settings: Settings) -> Iterator[Witness]:
    with Witness() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        settings.AUDIT_WEBHOOK = server.address
        yield server
        server.release.set()
        server.shutdown()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="runs.engine.seal")
    return caplog


def a_minute_later(checkpoints: Checkpoints) -> None:
    checkpoints.tried_at -= sealing.CHECKPOINT
    checkpoints.leave()


def test_a_checkpoint_says_in_the_log_what_verify_expects(said: pytest.LogCaptureFixture) -> None:
    write("first")
    seal_all()

    Checkpoints().leave()

    last = Seal.objects.get()
    assert [record.levelname for record in said.records] == ["INFO"]
    assert f"seal 1, hash {last.hash}, signature {last.signature}" in said.records[0].getMessage()
    assert verify(expect=last.hash).broken == ""


def test_checkpoints_come_once_a_minute_and_only_with_something_new(said: pytest.LogCaptureFixture) -> None:
    checkpoints = Checkpoints()
    checkpoints.leave()
    assert not said.records  # nothing is sealed
    write("first")
    seal_all()
    checkpoints.leave()
    write("second")
    seal_all()
    checkpoints.leave()
    assert len(said.records) == 1

    a_minute_later(checkpoints)
    a_minute_later(checkpoints)

    assert [
        "seal 1," in said.records[0].getMessage(),
        "seal 2," in said.records[1].getMessage(),
        len(said.records),
    ] == [True, True, 2]


def test_a_webhook_is_told_each_checkpoint_once(witness: Witness, said: pytest.LogCaptureFixture) -> None:
    write("first")
    seal_all()
    checkpoints = Checkpoints()
    checkpoints.leave()
    a_minute_later(checkpoints)

    last = Seal.objects.get()
    assert witness.told == [
        {
            "seal": 1,
            "hash": last.hash,
            "up_to": last.up_to.isoformat(),
            "sealed_at": last.sealed_at.isoformat(),
            "key_id": last.key_id,
            "signature": last.signature,
        }
    ]
    assert [record.levelname for record in said.records] == ["INFO"]


def test_a_webhook_that_fails_is_told_again_at_the_next_checkpoint(
    witness: Witness, said: pytest.LogCaptureFixture
) -> None:
    witness.status = 503
    write("first")
    seal_all()
    checkpoints = Checkpoints()
    checkpoints.leave()
    checkpoints.leave()
    assert len(witness.told) == 1  # not every second
    witness.status = 204
    a_minute_later(checkpoints)
    a_minute_later(checkpoints)

    assert [told["seal"] for told in witness.told] == [1, 1]
    assert [record.levelname for record in said.records] == ["INFO", "WARNING", "INFO"]
    assert "did not reach AUDIT_WEBHOOK (it answered 503)" in said.records[1].getMessage()


def test_a_webhook_that_does_not_answer_is_given_up_after_a_while(
    witness: Witness, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "WEBHOOK_WITHIN", 0.2)
    witness.release.clear()
    write("first")
    seal_all()

    Checkpoints().leave()  # comes back although nobody has answered

    assert not witness.release.is_set()
    assert "(no answer within 0.2 s)" in said.records[1].getMessage()


def test_a_webhook_that_is_down_is_said_without_its_address(settings: Settings, said: pytest.LogCaptureFixture) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        settings.AUDIT_WEBHOOK = f"http://127.0.0.1:{nobody.getsockname()[1]}/witness?token=not-for-the-log"
        write("first")
        seal_all()
        Checkpoints().leave()

    assert "(ConnectError)" in said.records[1].getMessage()
    assert not [record for record in said.records if "not-for-the-log" in record.getMessage()]
