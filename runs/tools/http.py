"""HTTP with a total deadline and a byte cap that we enforce ourselves.

An HTTP client's time-out is per read: a server that drips a byte a second keeps a "one second" call alive for ever.
So every call of a process runs on one background event loop, under one deadline for all of it. Connections are pooled.
"""

import asyncio
import json
import logging
import math
import os
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any

import httpx2

from runs.domain.errors import CLASS_OF_CODE, IN_OUR_WORDS, Failure
from runs.tools.tool import ToolFailed

log = logging.getLogger(__name__)
MOST_BYTES = 1_000_000
NOT_DELIVERED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class _Loop:
    """One event loop in one thread per process; made anew after a fork, because threads do not survive it."""

    def __init__(self) -> None:
        self.pid = 0
        self.lock = threading.Lock()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        with self.lock:
            if self.pid != os.getpid():
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self.loop.run_forever, name="tool-calls", daemon=True).start()
                self.pid = os.getpid()
                self.clients: dict[str, httpx2.AsyncClient] = {}
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result()

    def client(self, url: str) -> httpx2.AsyncClient:
        if url not in self.clients:
            limits = httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=20)
            self.clients[url] = httpx2.AsyncClient(base_url=url, limits=limits, trust_env=False)
        return self.clients[url]


_calls = _Loop()


class HttpService:
    """One service at one address under the product's own credential."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def request(
        self,
        method: str,
        path: str,
        *,
        until: float,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, Any]]:
        """Status and JSON object of a 2xx answer, and of a declared refusal (409). Raises ToolFailed for all else."""
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        status, reply_headers, content = self.send(method, path, sent, until=until, params=params, json=body)
        data = json_object(content)
        if 200 <= status < 300 or (status == 409 and data and data.get("code") == "refused"):
            if data is None:
                raise ToolFailed(Failure("invalid_output", "The answer was not a JSON object."))
            return status, data
        raise ToolFailed(failure_of(status, reply_headers, data or {}))

    def send(
        self, method: str, path: str, headers: Mapping[str, str], *, until: float, **more: Any
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of whatever was answered. Nothing is added to `headers`, the credential neither.

        `more` is the client's own: `params`, `json` or `content`. Raises ToolFailed where there was no whole answer.
        """
        return _calls.run(self._until(until, method, path, headers=headers, **more))  # type: ignore[no-any-return]

    async def _until(self, until: float, method: str, path: str, **more: Any) -> tuple[int, Mapping[str, str], bytes]:
        left = max(0.0, until - monotonic())
        try:
            async with asyncio.timeout(left):
                return await self._call(until, left, method, path, **more)
        except TimeoutError:
            raise ToolFailed(Failure("no_answer", f"No answer within {left:.2g} s.")) from None

    async def _call(
        self, until: float, left: float, method: str, path: str, **more: Any
    ) -> tuple[int, Mapping[str, str], bytes]:
        async def in_time(event: str, _: object) -> None:
            # A process that stood still wakes up with its time-outs past and its work before it, perhaps on a
            # connection that was just made: what is too late by then must not leave, for others count on that.
            if ".send_request_" in event and event.endswith(".started") and monotonic() >= until:
                raise TimeoutError

        client = _calls.client(self.url)
        try:
            # Redirects are not followed: a write must not be carried to another address.
            async with client.stream(
                method,
                path,
                timeout=left,
                follow_redirects=False,
                extensions={"trace": in_time},
                **more,
            ) as reply:
                content = b""
                async for chunk in reply.aiter_bytes():
                    content += chunk
                    if len(content) > MOST_BYTES:
                        raise ToolFailed(Failure("too_large", f"The answer was larger than {MOST_BYTES} bytes."))
                return reply.status_code, dict(reply.headers), content
        except NOT_DELIVERED as problem:
            log.info("%s %s: %s", method, path, type(problem).__name__)
            message = "The service could not be reached."
            raise ToolFailed(Failure("unreachable", message, executed=False)) from problem
        except httpx2.HTTPError as problem:
            log.info("%s %s: %s", method, path, type(problem).__name__)
            message = "The connection ended before an answer came."
            raise ToolFailed(Failure("no_answer", message)) from problem


def json_object(content: bytes | str) -> dict[str, Any] | None:
    """The JSON object that `content` is; None where it is anything else, or holds what is no JSON number."""
    try:
        data = json.loads(content, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


# What a status means, and whether it is hearsay where no code of the service's own stands beside it. Any other status
# is an error that nobody knows; the outcome of a write is unknown then, as after 404, 429 and a server's fault.
STATUSES = {
    401: ("credential_refused", False),  # whoever checks credentials stands before what is carried out
    403: ("access_denied", True),  # a filter says it, too, of an answer that it keeps back
    404: ("not_found", True),  # a proxy says it, too, that leads elsewhere, perhaps after the first place was too slow
    422: ("invalid_input", False),  # only who read the values says that
    429: ("rate_limited", True),
    **dict.fromkeys((500, 502, 503, 504), ("unavailable", True)),
}


def failure_of(status: int, headers: Mapping[str, str], data: Mapping[str, Any]) -> Failure:
    """What an answer with this status means; `data` may hold a `message` and the service's own stable `code`."""
    message = str(data.get("message") or f"The service answered {status}.")
    retry_after = _seconds(headers.get("retry-after", ""))
    code, hearsay = STATUSES.get(status, (f"http_{status}", True))
    executed = False if status == 429 and data.get("executed") is False else None
    # The service's own stable code goes before its status, but never makes a server's fault a definite refusal.
    own = data.get("code") if 400 <= status < 500 and status != 429 else None
    if isinstance(own, str) and own in CLASS_OF_CODE.keys() - IN_OUR_WORDS - {"refused"}:
        code, hearsay = own, False
    return Failure(code, message, executed, retry_after, hearsay)


def _seconds(text: str) -> float | None:
    """Retry-After, in seconds or as a date; None where it is neither."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
