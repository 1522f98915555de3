"""The authority in memory, for tests that make thousands of calls: it answers as the demo's back office does, and keeps
books that a test may trust more than the product.

Two things are worse here than anywhere else. It knows no operation key again: what is sent twice happens twice, and is
in the books twice. And every call has a fate, which somebody else draws: whether and when it arrives, how the service
rules on it, what its caller hears of it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from runs.domain.errors import Failure
from runs.tools.http import failure_of
from runs.tools.tool import ToolFailed

BEGINNING = datetime.fromisoformat("2026-09-25T08:00:00+00:00")
BUSINESS_DATE = "2026-09-25"
DESK = frozenset({"support", "supervisor", "alice", "ann", "bob"})
IN_FLIGHT = 10.0  # seconds that a request may still be on its way once its sender has given up
IN_FORCE: Mapping[str, tuple[tuple[str, int], ...]] = {  # version and days
    "in force": (("v3", 7),),
    "changed": (("v4", 2),),
    "conflicting": (("v3", 7), ("v4", 3)),
    "missing": (),
}
GOES_ON_TO = {"pending": ("accepted", "rejected"), "accepted": ("paid", "cancelled")}


class Clock:
    """The one time that everybody here goes by. It stands still unless somebody lets it pass."""

    def __init__(self) -> None:
        self.now = BEGINNING
        self.passed: list[Callable[[], None]] = []  # who has to be told

    def monotonic(self) -> float:
        return (self.now - BEGINNING).total_seconds()

    def passes(self, seconds: float) -> None:
        self.until(self.now + timedelta(seconds=seconds))

    def until(self, moment: datetime) -> None:
        self.now = max(self.now, moment)
        for told in self.passed:
            told()


@dataclass
class Order:
    order_id: str
    customer: str
    amount_minor: int
    opened: bool = False
    version: int = 1


@dataclass
class Refund:
    """One line of the books: something that happened."""

    key: str
    order_id: str
    amount_minor: int
    currency: str
    state: str  # pending, accepted, paid, cancelled; or rejected, which is nothing that happened
    number: str = ""
    tracking: str = ""
    reason: str = ""

    @property
    def happened(self) -> bool:
        return self.state != "rejected"

    @property
    def stands(self) -> bool:
        return self.state in {"pending", "accepted", "paid"}


@dataclass(frozen=True)
class Call:
    kind: str  # authority, orders, policies, submit, cancel, lookup
    order_id: str
    key: str
    caller: str
    number: str = ""  # of the refund that is to be cancelled


@dataclass
class Sent:
    """One submission, or one cancellation, as it left the product."""

    call: Call
    body: Mapping[str, Any]
    at: datetime
    gone_by: datetime  # by then it has arrived, or never will
    undone: bool = False  # its sender heard that nothing was done with it
    absent: bool = False  # its sender heard from the books, after `gone_by`, that it is not there


@dataclass(frozen=True)
class Heard:
    """What one source last said to one caller."""

    at: datetime
    data: Mapping[str, Any]


class Reply(NamedTuple):
    status: int
    body: Any  # None: not a JSON object
    headers: Mapping[str, str] = {}


@dataclass(frozen=True)
class Fate:
    """What becomes of a call: what its caller hears, whether and when it arrives, and how the service rules on it."""

    hears: str = "the truth"
    lands: float | None = 0.0  # seconds after its sender gave up; 0: while the sender listens; None: never
    ruling: str = "accepted"

    def __str__(self) -> str:
        lands = "" if self.lands == 0 else f", lands {self.lands} s later" if self.lands else ", never lands"
        return f"{self.hears}{lands}{'' if self.ruling == 'accepted' else f', {self.ruling}'}"


def _says(**fields: Any) -> Callable[[Reply], Reply]:
    """The truth, but for some fields of its records."""

    def said(truth: Reply) -> Reply:
        if "records" in truth.body:
            return truth._replace(body={**truth.body, "records": [{**r, **fields} for r in truth.body["records"]]})
        return truth._replace(body={**truth.body, **fields})

    return said


def _contradicts_itself(truth: Reply) -> Reply:
    records = truth.body.get("records", [])
    flipped = [
        {**r, "submit_state": "rejected", "reason": "duplicate_request"}
        if r["submit_state"] != "rejected"
        else {**r, "submit_state": "accepted", "request_id": "R001"}
        for r in records
    ]
    return truth._replace(body={**truth.body, "records": [*records, *flipped]})


def _lags(truth: Reply) -> Reply:
    return Reply(200, {"found": False, "records": [], "store": "index"})


def _error(status: int, code: str, **more: Any) -> Callable[[Reply], Reply]:
    headers = {"retry-after": str(more.pop("after"))} if "after" in more else {}
    return lambda truth: Reply(status, {"code": code, "message": f"The service says {code}.", **more}, headers)


HEARD: Mapping[str, Callable[[Reply], Reply]] = {
    "the truth": lambda truth: truth,
    "503": _error(503, "unavailable"),
    "500": lambda truth: Reply(500, None),
    "429": _error(429, "rate_limited", after=2),
    "429, not executed": _error(429, "rate_limited", after=2, executed=False),
    "401": _error(401, "credential_refused"),
    "403": _error(403, "access_denied"),
    "404": _error(404, "order_unknown"),
    "422": _error(422, "invalid_input"),
    "no JSON": lambda truth: Reply(200, None),
    "an empty object": lambda truth: Reply(200, {}),
    "another order's": _says(order_id="E307"),
    "another key's": _says(operation_key="refund-E307-0123456789abcdef"),
    "another amount": _says(amount_minor=1),
    "no number": _says(request_id=None),
    "only that it is queued": lambda truth: Reply(
        200, {"status": "queued", "tracking_id": truth.body.get("tracking_id")}
    ),
    "a state nobody knows": _says(submit_state="processing", status="processing"),
    "the index, which lags": _lags,
    "two records that differ": _contradicts_itself,
}
WRITES = frozenset({"submit", "cancel"})
NOT_DONE = frozenset({"no connection", "429, not executed", "401", "403", "422"})


class Authority:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        clock.passed.append(self._land)
        self.orders = {
            order.order_id: order
            for order in (
                Order("B456", "U-88", 59_00),
                Order("D041", "U-88", 64_00),
                Order("C204", "U-88", 249_00),
                Order("A123", "U-88", 79_00, opened=True),
            )
        }
        self.policies = "in force"
        self.withdrawn: set[str] = set()  # who may not act any more, for anybody
        self.books: list[Refund] = []
        self.cancelled: dict[str, Refund] = {}  # by the cancellation's key
        self.sent: list[Sent] = []
        self.calls: list[Call] = []
        self.heard: dict[tuple[str, str], Heard] = {}  # by caller and kind of call
        self.caller = ""  # on whose behalf calls are made now
        self.fate: Callable[[Call], Fate] = lambda call: Fate()
        self.leaving: Callable[[Call, Mapping[str, Any]], None] = lambda call, body: None
        self.meanwhile: Callable[[Call, str], None] = lambda call, moment: None
        self._on_their_way: list[tuple[datetime, Sent, str]] = []

    # The books

    def of(self, key: str) -> list[Refund]:
        return [refund for refund in self.books if refund.key == key]

    def is_on_its_way(self, key: str) -> bool:
        return any(sent.call.key == key for _, sent, _ in self._on_their_way)

    def decide(self, refund: Refund, state: str) -> None:
        """The service makes up its mind about what is pending, or goes on with what it accepted."""
        refund.state = state
        if state == "accepted":
            refund.number = self._number()
        if state == "rejected":
            refund.reason = "not_refundable"

    # What the product calls

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
        asked = params or {}
        call = self._call(method, path, asked, body or {}, headers or {})
        self.calls.append(call)
        if call.kind in WRITES:
            self.leaving(call, body or {})
        self.meanwhile(call, "before it is sent")
        if self.clock.monotonic() >= until:  # as the connection's own time-out does
            raise ToolFailed(Failure("no_answer", "No answer in time."))
        fate = self.fate(call)
        sent = self._send(call, fate, body or {}, until) if call.kind in WRITES else None
        truth = self._truth(call, asked, sent)
        self.meanwhile(call, "before its answer is heard")
        if fate.hears == "nothing":
            self.clock.passes(max(0.0, until - self.clock.monotonic()))
            raise ToolFailed(Failure("no_answer", "No answer in time."))
        if sent and fate.hears in NOT_DONE:
            sent.undone = True
        if fate.hears == "no connection":
            raise ToolFailed(Failure("unreachable", "The service could not be reached.", executed=False))
        said = HEARD[fate.hears](truth)
        if said == truth:
            self._listened(call, said)
        if said.body is not None and (200 <= said.status < 300 or said.body.get("code") == "refused"):
            return said.status, said.body
        if 200 <= said.status < 300:
            raise ToolFailed(Failure("invalid_output", "The answer was not a JSON object."))
        raise ToolFailed(failure_of(said.status, said.headers, said.body or {}))

    def _call(self, method: str, path: str, asked: Mapping[str, str], body: Any, headers: Any) -> Call:
        match method, path.split("/")[1:]:
            case "GET", ["authority" | "policies" as kind]:
                return Call(kind, asked["order"], "", self.caller)
            case "GET", ["orders", order_id]:
                return Call("orders", order_id, "", self.caller)
            case "POST", ["refunds"]:
                return Call("submit", body["order_id"], headers["Idempotency-Key"], self.caller)
            case "POST", ["refunds", number, "cancel"]:
                order_id = next((refund.order_id for refund in self.books if refund.number == number), "")
                return Call("cancel", order_id, headers["Idempotency-Key"], self.caller, number)
            case "GET", ["refunds"]:
                return Call("lookup", asked["order"], asked["operation_key"], self.caller)
        raise LookupError(f"The authority in memory has no {method} {path}.")

    def _send(self, call: Call, fate: Fate, body: Mapping[str, Any], until: float) -> Sent:
        now, left = self.clock.now, until - self.clock.monotonic()
        sent = Sent(call, body, now, now + timedelta(seconds=left + IN_FLIGHT))
        self.sent.append(sent)
        if fate.lands == 0:
            self._happens(sent, fate.ruling)
        elif fate.lands:
            gives_up = left if fate.hears == "nothing" else 0.0
            self._on_their_way.append((now + timedelta(seconds=gives_up + fate.lands), sent, fate.ruling))
        return sent

    def _land(self) -> None:
        arrived = [late for late in self._on_their_way if late[0] <= self.clock.now]
        self._on_their_way = [late for late in self._on_their_way if late[0] > self.clock.now]
        for _, sent, ruling in sorted(arrived, key=lambda late: late[0]):
            self._happens(sent, ruling)

    def _happens(self, sent: Sent, ruling: str) -> None:
        if sent.call.kind == "cancel":
            for refund in self.books:
                if refund.number == sent.call.number and refund.state == "accepted":
                    refund.state = "cancelled"
                    self.cancelled[sent.call.key] = refund
            return
        order = self.orders[sent.call.order_id]
        refund = Refund(sent.call.key, order.order_id, sent.body["amount_minor"], sent.body["currency"], "rejected")
        if ruling == "refused":
            refund.reason = "not_refundable"
        elif any(known.stands and known.key != refund.key for known in self._about(order.order_id)):
            refund.reason = "already_refunded"
        elif refund.amount_minor > order.amount_minor:
            refund.reason = "amount_too_high"
        if not refund.reason:
            refund.state = ruling
            refund.tracking = f"T-{1001 + len(self.books)}" if ruling == "pending" else ""
            refund.number = self._number() if ruling == "accepted" else ""
        self.books.append(refund)

    def _about(self, order_id: str) -> Iterator[Refund]:
        return (refund for refund in self.books if refund.order_id == order_id)

    def _number(self) -> str:
        return f"R{789 + sum(bool(refund.number) for refund in self.books)}"

    def _listened(self, call: Call, said: Reply) -> None:
        """The truth was heard: what may rest on it from now on."""
        if call.kind == "lookup" and not said.body["records"]:
            for sent in self.sent:
                if sent.call.key == call.key and self.clock.now >= sent.gone_by:
                    sent.absent = True
        elif call.kind in {"authority", "orders", "policies"}:
            self.heard[call.caller, call.kind] = Heard(self.clock.now, said.body)

    def _truth(self, call: Call, asked: Mapping[str, str], sent: Sent | None) -> Reply:
        order = self.orders.get(call.order_id)
        if order is None:
            return Reply(404, {"code": "order_unknown", "message": f"There is no order {call.order_id}."})
        match call.kind:
            case "authority":
                user = asked["user"]
                allowed = user not in self.withdrawn and (user in DESK or user == order.customer)
                return Reply(200, {"user": user, "order": order.order_id, "allowed": allowed})
            case "orders":
                return Reply(200, {**vars(order), "delivered_on": "2026-09-22", "currency": "EUR"})
            case "policies":
                terms = {"requires_unopened": True, "approval_above_minor": 100_00}
                found = [{"version": v, "window_days": days, **terms} for v, days in IN_FORCE[self.policies]]
                return Reply(200, {"business_date": BUSINESS_DATE, "policies": found})
            case "lookup":
                refunds = self.of(call.key)
                if call.key in self.cancelled:
                    refunds = [replace(self.cancelled[call.key], key=call.key)]
                records = [_record(refund) for refund in refunds]
                return Reply(200, {"found": bool(records), "records": records, "store": "ledger"})
        if call.kind == "cancel":
            return self._cancellation(call)
        refund = next((known for known in reversed(self.books) if known.key == call.key), None)
        if refund is None:
            return Reply(200, {})  # nobody there who could answer; what is heard is something else
        if refund.state == "rejected":
            return Reply(409, {"code": "refused", "message": "The refund is refused.", **_record(refund)})
        return Reply(202 if refund.state == "pending" else 201, _record(refund))

    def _cancellation(self, call: Call) -> Reply:
        if call.key in self.cancelled:
            return Reply(200, _record(replace(self.cancelled[call.key], key=call.key)))
        state = next((refund.state for refund in self.books if refund.number == call.number), "")
        if state == "accepted":
            return Reply(200, {})  # it did not arrive
        refused = {"submit_state": "rejected", "reason": f"already_{state}", "operation_key": call.key}
        return Reply(409, {"code": "refused", "message": "The refund cannot be cancelled.", **refused})


def _record(refund: Refund) -> dict[str, Any]:
    facts = {
        "submit_state": "accepted" if refund.state == "paid" else refund.state,
        "request_id": refund.number,
        "tracking_id": refund.tracking,
        "order_id": refund.order_id,
        "operation_key": refund.key,
        "amount_minor": refund.amount_minor,
        "currency": refund.currency,
        "reason": refund.reason,
    }
    return {name: value for name, value in facts.items() if value != ""}
