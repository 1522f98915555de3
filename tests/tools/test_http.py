"""The HTTP connection against a server that misbehaves, on a loopback port of its own."""

import gzip
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from typing import Any

import anyio
import pytest

from runs.domain.effects import Answer, what_a_failure_means
from runs.domain.errors import Failure
from runs.tools.http import MOST_BYTES, HttpService
from runs.tools.tool import ToolFailed

Reply = Callable[[BaseHTTPRequestHandler], None]
Serve = Callable[[Reply], HttpService]


class Server(ThreadingHTTPServer):
    """Lets one function at a time answer every call, and remembers what was called."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply: Reply
        self.seen: list[str] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave early are what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    def answer(self) -> None:
        assert isinstance(self.server, Server)
        self.server.seen.append(f"{self.command} {self.path}")
        self.server.reply(self)

    do_GET = do_POST = answer  # noqa: N815 - the names that http.server looks for

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        pass


@pytest.fixture(scope="module")
def _server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def server(_server: Server) -> Server:
    _server.seen.clear()
    return _server


@pytest.fixture
def serve(server: Server) -> Serve:
    def answers_with(reply: Reply) -> HttpService:
        server.reply = reply
        return HttpService(f"http://127.0.0.1:{server.server_port}", "a-token")

    return answers_with


def replies(status: int, body: bytes | dict[str, Any], **headers: str) -> Reply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return reply


def failure(service: HttpService, method: str = "GET", deadline: float = 5) -> Failure:
    with pytest.raises(ToolFailed) as failed:
        service.request(method, "/refunds", until=monotonic() + deadline)
    return failed.value.failure


def drips(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then: each of them in time, all of them never."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        threading.Event().wait(0.05)


def hangs(handler: BaseHTTPRequestHandler) -> None:
    threading.Event().wait(10)


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"submit_state":')


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def test_a_call_carries_the_credential_its_own_headers_and_json(serve: Serve) -> None:
    received: dict[str, Any] = {}

    def reply(handler: BaseHTTPRequestHandler) -> None:
        received.update({name.lower(): value for name, value in handler.headers.items()})
        received["body"] = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        replies(201, {"request_id": "R1"})(handler)

    service = serve(reply)
    answer = service.request(
        "POST", "/refunds", until=monotonic() + 5, body={"order_id": "B456"}, headers={"Idempotency-Key": "refund-1"}
    )

    assert answer == (201, {"request_id": "R1"})
    assert received["authorization"] == "Bearer a-token"
    assert received["idempotency-key"] == "refund-1"
    assert received["body"] == {"order_id": "B456"}


@pytest.mark.parametrize("reply", [drips, hangs])
def test_the_deadline_is_for_the_whole_call_however_the_server_spreads_its_bytes(serve: Serve, reply: Reply) -> None:
    service = serve(reply)
    started = monotonic()

    failed = failure(service, deadline=0.3)

    assert monotonic() - started < 4
    assert (failed.code, failed.executed) == ("no_answer", None)
    assert re.search(r"within 0\.[0-3]\d* s", failed.message)


def test_what_grew_too_late_while_a_connection_was_made_does_not_leave_either(
    serve: Serve, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stood still goes on with its work first, and then looks which of its time-outs are over."""
    service, connect = serve(replies(200, {})), anyio.connect_tcp

    async def connected(*args: Any, **kwargs: Any) -> Any:
        stream = await connect(*args, **kwargs)
        sleep(0.4)  # noqa: ASYNC251 - nothing else of this process goes on either
        return stream

    with monkeypatch.context() as patched:
        patched.setattr(anyio, "connect_tcp", connected)
        failed = failure(service, "POST", deadline=0.2)
    service.request("GET", "/afterwards", until=monotonic() + 5)

    assert (failed.code, failed.executed) == ("no_answer", None)
    assert server.seen == ["GET /afterwards"]


def test_what_is_too_late_does_not_leave_any_more(serve: Serve) -> None:
    """A process that stood still before its request left: by now others count on it that nothing arrives."""
    arrived: list[str] = []

    def reply(handler: BaseHTTPRequestHandler) -> None:
        arrived.append(handler.path)
        replies(200, {})(handler)

    failed = failure(serve(reply), "POST", deadline=-0.1)

    assert (failed.code, failed.executed) == ("no_answer", None)
    assert not arrived


@pytest.mark.parametrize("reply", [breaks_off, hangs_up])
def test_a_connection_that_ends_before_the_answer_leaves_the_outcome_open(serve: Serve, reply: Reply) -> None:
    failed = failure(serve(reply), "POST")

    assert (failed.code, failed.executed) == ("no_answer", None)
    assert what_a_failure_means(failed, looking=False) is Answer.UNREACHABLE


def test_a_refused_connection_carried_nothing_out() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port, and nobody answers
        failed = failure(HttpService(f"http://127.0.0.1:{probe.getsockname()[1]}", "a-token"), "POST")

    assert (failed.code, failed.executed) == ("unreachable", False)
    assert what_a_failure_means(failed, looking=False) is Answer.NOT_EXECUTED


def test_an_answer_larger_than_the_cap_is_not_read_to_its_end(serve: Serve) -> None:
    sent = 0

    def floods(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        for _ in range(200):
            sent += handler.wfile.write(b"x" * 500_000)

    assert failure(serve(floods)).code == "too_large"
    assert sent < 100 * 500_000


def test_the_cap_is_on_what_a_compressed_answer_unfolds_to(serve: Serve) -> None:
    small = gzip.compress(b'{"note": "' + b"x" * (2 * MOST_BYTES) + b'"}')
    assert len(small) < 10_000

    assert failure(serve(replies(200, small, Content_Encoding="gzip"))).code == "too_large"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(serve: Serve, server: Server, status: int) -> None:
    elsewhere = f"http://127.0.0.1:{server.server_port}/elsewhere"

    failed = failure(serve(replies(status, b"", Location=elsewhere)), "POST")

    assert (failed.code, failed.executed) == (f"http_{status}", None)
    assert server.seen == ["POST /refunds"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"submit_state": "acc',
        b"[]",
        b"null",
        b'"accepted"',
        b'{"fee": NaN}',
        b'{"fee": Infinity}',
        b'{"fee": -Infinity}',
        b'{"fee": 1e999}',
        b'{"fee": ' + b"9" * 5000 + b"}",
        b'{"a":' * 100_000,
        b"\xff\xfe{}",
    ],
    ids=lambda body: repr(body[:20]),
)
def test_an_answer_that_is_no_json_object_with_numbers_is_no_answer(serve: Serve, body: bytes) -> None:
    failed = failure(serve(replies(200, body)))

    assert (failed.code, failed.executed) == ("invalid_output", None)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, {}, "http_400"),
        (401, {}, "credential_refused"),
        (403, {}, "access_denied"),
        (404, {}, "not_found"),
        (409, {}, "http_409"),
        (418, {}, "http_418"),
        (422, {}, "invalid_input"),
        (429, {}, "rate_limited"),
        (500, {}, "unavailable"),
        (502, {}, "unavailable"),
        (503, {}, "unavailable"),
        (504, {}, "unavailable"),
        (501, {}, "http_501"),
        # The service's own stable code goes before its status ...
        (400, {"code": "credential_refused"}, "credential_refused"),
        (422, {"code": "key_reused"}, "key_reused"),
        # ... unless it is none of ours, or a refusal under a status that does not declare one ...
        (404, {"code": "order_unknown"}, "not_found"),
        (400, {"code": 7}, "http_400"),
        (400, {"code": "refused"}, "http_400"),
        # ... or one that the product alone can know, ...
        (400, {"code": "no_answer"}, "http_400"),
        (404, {"code": "tool_missing"}, "not_found"),
        # ... and a server's fault is never a definite refusal.
        (500, {"code": "invalid_input"}, "unavailable"),
        (503, {"code": "credential_refused"}, "unavailable"),
        (501, {"code": "not_found"}, "http_501"),
    ],
)
def test_statuses_and_codes(serve: Serve, status: int, body: dict[str, Any], code: str) -> None:
    failed = failure(serve(replies(status, body)))

    assert (failed.code, failed.executed) == (code, None)
    assert failed.message == f"The service answered {status}."


# What a write may be taken for that was answered like this, and by nothing else than the status.
OF_A_WRITE = {
    Answer.NOT_EXECUTED: [401, 422],
    Answer.UNREACHABLE: [
        *(300, 301, 302, 303, 304, 307, 308),
        *(400, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418),
        *(421, 423, 424, 425, 426, 428, 429, 431, 444, 451, 499),
        *(500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 522, 524, 599),
    ],
}


@pytest.mark.parametrize(("means", "status"), [(means, status) for means in OF_A_WRITE for status in OF_A_WRITE[means]])
def test_only_a_status_that_nobody_in_between_says_proves_that_a_write_was_not_carried_out(
    serve: Serve, means: Answer, status: int
) -> None:
    assert what_a_failure_means(failure(serve(replies(status, b"")), "POST"), looking=False) is means


@pytest.mark.parametrize(
    ("status", "code", "means"),
    [
        (400, "invalid_input", Answer.NOT_EXECUTED),
        (403, "access_denied", Answer.NOT_EXECUTED),
        (403, "somebody_elses_word", Answer.UNREACHABLE),
        (404, "not_found", Answer.UNREACHABLE),  # what is not found now may have been found before
        (404, "access_denied", Answer.NOT_EXECUTED),
        (409, "key_reused", Answer.UNREACHABLE),
        (429, "invalid_input", Answer.UNREACHABLE),
        (503, "invalid_input", Answer.UNREACHABLE),
    ],
)
def test_the_services_own_code_proves_what_its_status_does_not(
    serve: Serve, status: int, code: str, means: Answer
) -> None:
    assert what_a_failure_means(failure(serve(replies(status, {"code": code})), "POST"), looking=False) is means


def test_a_declared_refusal_is_an_answer(serve: Serve) -> None:
    body = {"code": "refused", "submit_state": "rejected", "reason": "not_refundable"}
    assert serve(replies(409, body)).request("POST", "/refunds", until=monotonic() + 5) == (409, body)


@pytest.mark.parametrize(("says", "executed"), [(False, False), (True, None), (None, None), (0, None), ("no", None)])
def test_only_a_rate_limit_that_says_so_plainly_did_nothing(serve: Serve, says: object, executed: bool | None) -> None:
    assert failure(serve(replies(429, {"executed": says}))).executed is executed


def test_an_error_page_that_is_no_json_is_an_error_all_the_same(serve: Serve) -> None:
    assert failure(serve(replies(500, b"Internal Server Error"))).code == "unavailable"


@pytest.mark.parametrize(
    ("header", "wait"),
    [("7", 7), ("0.5", 0.5), ("-3", 0), ("nan", 0), ("inf", 0), ("soon", 0), ("", 0), ("99999999", 3600)],
)
def test_retry_after_is_taken_as_seconds_within_bounds(serve: Serve, header: str, wait: float) -> None:
    failed = failure(serve(replies(429, {}, Retry_After=header)))
    assert failed.asked_wait() == timedelta(seconds=wait)


def test_retry_after_is_taken_as_a_date(serve: Serve) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < failure(serve(replies(503, {}, Retry_After=at))).asked_wait().total_seconds() <= 60


@pytest.mark.parametrize(
    "header", ["Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 -0000", "Wed, 99 Oct 2026 07:28:00 GMT"]
)
def test_a_date_that_is_over_or_none_asks_for_no_wait(serve: Serve, header: str) -> None:
    assert failure(serve(replies(429, {}, Retry_After=header))).asked_wait() == timedelta()
