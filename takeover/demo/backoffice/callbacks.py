"""What the back office says of its own accord: that it has decided what it had left pending.

Signed, and tried a few times. It lies in memory only, so a restart forgets what was not delivered by then: whoever
waits for it has to cope with a message that comes twice, late or never, and does so by asking.
"""

import asyncio
import json
import logging
from datetime import UTC, datetime
from uuid import uuid4

import httpx2
from standardwebhooks import Webhook

from takeover.demo.backoffice.faults import Kind
from takeover.demo.backoffice.store import Call, Decision, Store

log = logging.getLogger(__name__)
ATTEMPTS = 6
FIRST_WAIT = 1.0  # seconds before the second attempt, and twice as long before each further one
PATIENCE = 15.0  # seconds for one attempt
AT_ONCE = 4  # messages
MOST_UNDER_WAY = 100  # messages
TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
FORGERS_SECRET = "whsec_" + "Zm9yZ2VkIGJ5IHNvbWVib2R5IGVsc2U="  # what a callback_forged is signed with


class Callbacks:
    """Sends to one address, signed with one secret. Lives in the event loop's thread."""

    def __init__(self, store: Store, url: str, secret: str) -> None:
        self.store, self.url, self.secret = store, url, secret
        self.under_way: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Callbacks":
        self.client = httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, follow_redirects=False)
        self.turns = asyncio.Semaphore(AT_ONCE)
        self.store.decided = self.decided
        return self

    async def __aexit__(self, *problem: object) -> None:
        for task in self.under_way:
            task.cancel()
        await asyncio.gather(*self.under_way, return_exceptions=True)
        await self.client.aclose()

    def decided(self, decision: Decision) -> None:
        if len(self.under_way) >= MOST_UNDER_WAY:
            log.warning("Too many callbacks are under way; the one about %s is left out", decision.operation_key)
            return
        task = asyncio.get_running_loop().create_task(self._tell(decision))
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def _tell(self, decision: Decision) -> None:
        said = {"operation_key": decision.operation_key, "reference": decision.reference}
        body = json.dumps({name: value for name, value in said.items() if value})
        message_id = f"msg_{uuid4().hex}"
        async with self.turns:
            call = self._on_record(decision)
            strike = self.store.strike(call, "")
            match strike and strike.fault:
                case "callback_late":
                    await asyncio.sleep(float(strike.values["seconds"] or 0) if strike else 0)
                    await self._deliver(call, message_id, body, self.secret)
                case "callback_forged":
                    await self._deliver(call, message_id, body, FORGERS_SECRET)
                case "callback_twice":
                    await self._deliver(call, message_id, body, self.secret)
                    await self._deliver(self._on_record(decision), message_id, body, self.secret)
                case _:
                    await self._deliver(call, message_id, body, self.secret)

    def _on_record(self, decision: Decision) -> Call:
        return self.store.arrived("POST", self.url, Kind.CALLBACK, decision.about, decision.operation_key)

    async def _deliver(self, call: Call, message_id: str, body: str, secret: str) -> None:
        """Until it is taken, refused for good, or was tried often enough. On record stays the last answer."""
        status = None
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(FIRST_WAIT * 2 ** (attempt - 1))
            status = await self._answer(message_id, body, secret)
            if status is not None:
                self.store.answered(call, status)
            if status is not None and status not in TRY_AGAIN:
                break
        if status is None or status >= 300:
            log.warning("The callback about %s was not taken (%s)", call.operation_key, status or "no answer")

    async def _answer(self, message_id: str, body: str, secret: str) -> int | None:
        at = datetime.now(UTC)  # anew for each attempt: an old one is not believed
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": Webhook(secret).sign(message_id, at, body),
        }
        try:
            async with asyncio.timeout(PATIENCE):
                async with self.client.stream("POST", self.url, content=body, headers=headers) as answer:
                    return answer.status_code
        except (httpx2.HTTPError, TimeoutError):
            return None
