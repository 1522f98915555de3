"""The books: orders, refunds, faults and the ledger of calls, in one SQLite file that survives a restart.

One connection behind one lock: writers take turns, so two identical requests at once are one after the other
and the second finds the first one's refund.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from takeover.demo.backoffice import seed
from takeover.demo.backoffice.answers import now
from takeover.demo.backoffice.faults import CATALOGUE, Kind, NewFault, Values
from takeover.demo.backoffice.seed import Order

SCHEMA_VERSION = 2
SCHEMA = """
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY,
    customer TEXT NOT NULL,
    item TEXT NOT NULL,
    delivered_on TEXT NOT NULL,
    opened INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    version INTEGER NOT NULL
);
CREATE TABLE refunds (
    operation_key TEXT PRIMARY KEY,
    order_id TEXT NOT NULL,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'accepted', 'rejected', 'cancelled')),
    request_id TEXT UNIQUE,
    tracking_id TEXT UNIQUE,
    queued INTEGER NOT NULL,
    reason TEXT,
    lookups_left INTEGER,
    made_at TEXT NOT NULL
);
CREATE INDEX refunds_by_order ON refunds (order_id);
CREATE TABLE cancellations (
    operation_key TEXT PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    made_at TEXT NOT NULL
);
CREATE TABLE faults (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fault TEXT NOT NULL,
    order_id TEXT,
    operation_key TEXT,
    times INTEGER,
    struck INTEGER NOT NULL DEFAULT 0,
    parameters TEXT NOT NULL,
    made_at TEXT NOT NULL
);
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    order_id TEXT,
    operation_key TEXT,
    fault_id INTEGER,
    fault TEXT,
    status INTEGER
);
CREATE INDEX calls_by_fault ON calls (fault_id, operation_key) WHERE fault_id IS NOT NULL;
CREATE INDEX calls_by_order ON calls (order_id);
"""
MONEY = """
-- What became of the money of an accepted refund; without a row nothing has happened yet.
CREATE TABLE payments (
    request_id TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('processing', 'paid', 'failed')),
    reason TEXT,
    changed_at TEXT NOT NULL
);
-- Whatever the code above this believes: the refunds of one order never come to more than it cost.
CREATE TRIGGER never_more_than_it_cost BEFORE INSERT ON refunds
    WHEN NEW.state IN ('pending', 'accepted') AND NEW.amount_minor > (
        SELECT cost.amount_minor - coalesce(sum(given.amount_minor), 0)
        FROM orders cost LEFT JOIN refunds given
            ON given.order_id = cost.order_id AND given.state IN ('pending', 'accepted')
        WHERE cost.order_id = NEW.order_id
    )
BEGIN SELECT RAISE(ABORT, 'more than the order cost'); END;
"""
# Of a file from when an order was refunded once and in full, and "paid" was a state of the refund itself.
UPGRADE = """
DROP INDEX one_refund_per_order;
CREATE INDEX refunds_by_order ON refunds (order_id);
INSERT INTO payments SELECT request_id, 'paid', NULL, made_at FROM refunds WHERE state = 'paid';
UPDATE refunds SET state = 'accepted' WHERE state = 'paid'
"""
# Fault numbers start again too.
EMPTY = """
DELETE FROM orders;
DELETE FROM refunds;
DELETE FROM cancellations;
DELETE FROM payments;
DELETE FROM faults;
DELETE FROM calls;
DELETE FROM sqlite_sequence
"""


class NotOurFile(Exception):
    """The data file is another program's."""


class State(StrEnum):
    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


STANDING = frozenset({State.PENDING, State.ACCEPTED})


@dataclass(frozen=True)
class Submission:
    operation_key: str
    order_id: str
    amount_minor: int
    currency: str


@dataclass(frozen=True)
class Refund:
    operation_key: str
    order_id: str
    amount_minor: int
    currency: str
    state: State
    request_id: str | None
    tracking_id: str | None
    queued: bool
    reason: str | None
    lookups_left: int | None
    made_at: str

    def matches(self, wanted: Submission) -> bool:
        mine = (self.order_id, self.amount_minor, self.currency)
        return mine == (wanted.order_id, wanted.amount_minor, wanted.currency)


@dataclass(frozen=True)
class Ruling:
    """How a fault wants a fresh submission decided; without one it is accepted at once."""

    refuse: str | None = None
    pending: bool = False
    queued: bool = False
    lookups: int | None = None


ACCEPT = Ruling()


@dataclass(frozen=True)
class Decision:
    """What the service made up its mind about: `about` is an order or an event, `reference` a number or a reason."""

    operation_key: str
    about: str
    reference: str | None


@dataclass(frozen=True)
class Behind:
    """What lies behind an operation key: what it is about, and since when it is on the books."""

    about: str
    made_at: str


@dataclass(frozen=True)
class Call:
    id: int
    kind: Kind
    order_id: str | None
    operation_key: str | None


@dataclass(frozen=True)
class Strike:
    fault: str
    values: Values


class KeyReused(Exception):
    """The key already belongs to another operation."""


class Unknown(Exception):
    """There is no such order or request."""


class Refused(Exception):
    """The business says no; nothing was written."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Service(Protocol):
    """Another service's part of these books: its own tables in the same file, under the same faults and ledger."""

    def open(self, db: sqlite3.Connection) -> None:
        """Make and fill what is not there yet."""

    def begin_anew(self, db: sqlite3.Connection) -> None: ...

    def behind(self, db: sqlite3.Connection, operation_key: str) -> Behind | None: ...

    def effects(self, about: str | None) -> list[dict[str, object]]:
        """Lines of the ledger: what really happened."""


class Store:
    def __init__(self, file: Path) -> None:
        self.decided: Callable[[Decision], None] = lambda decision: None  # told what became of something pending
        self.services: list[Service] = []
        self.resets = 0
        self._lock = threading.RLock()
        self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=10)
        self._db.row_factory = sqlite3.Row
        # WAL with NORMAL keeps every committed row when the process is killed, without a disk flush for each.
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self._writing() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            filled = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if version not in (1, SCHEMA_VERSION) and (version or filled):
                raise NotOurFile("it is another program's")
            if version != SCHEMA_VERSION:
                for statement in (MONEY + UPGRADE if filled else SCHEMA + MONEY).split(";\n"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            if not filled:
                self._seed(db)

    def keep(self, service: Service) -> None:
        with self._writing() as db:
            service.open(db)
        self.services.append(service)

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """For what other services read and write: one after the other, in full or not at all."""
        return self._writing()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def reset(self) -> None:
        """Begin the books anew. What is still under way was about the old ones: see `resets`."""
        with self._writing() as db:
            self.resets += 1
            for statement in EMPTY.split(";\n"):
                db.execute(statement)
            self._seed(db)
            for service in self.services:
                service.begin_anew(db)

    # Orders

    def order(self, order_id: str) -> Order:
        row = self._one("SELECT * FROM orders WHERE order_id = ?", order_id)
        if row is None:
            raise Unknown
        return _order(row)

    def orders(self) -> list[Order]:
        return [_order(row) for row in self._all("SELECT * FROM orders ORDER BY order_id")]

    def change_order(self, order_id: str, fields: Mapping[str, object]) -> Order:
        """Changes an order, or creates it; each change is a new version."""
        with self._writing() as db:
            try:
                before = self.order(order_id)
            except Unknown:
                before = Order(order_id, "U-88", "Unnamed item", "2026-09-22", seed.SEALED, 59_00, version=0)
            known = asdict(before)
            order = Order(**{**known, **{name: fields[name] for name in known if name in fields}})
            order = replace(order, version=before.version + 1)
            self._save(db, order)
        return order

    # Refunds

    def submit(self, wanted: Submission, ruling: Ruling = ACCEPT) -> Refund:
        """One refund per key: the same request again finds what became of the first."""
        with self._writing() as db:
            if self._cancellation(wanted.operation_key):
                raise KeyReused
            if known := self.by_key(wanted.operation_key):
                if not known.matches(wanted):
                    raise KeyReused
                return known
            order = self.order(wanted.order_id)
            reason = self._objection(order, wanted) or ruling.refuse
            state = State.REJECTED if reason else State.PENDING if ruling.pending else State.ACCEPTED
            refund = Refund(
                wanted.operation_key,
                wanted.order_id,
                wanted.amount_minor,
                wanted.currency,
                state,
                self._next_request_id(wanted.order_id) if state is State.ACCEPTED else None,
                self._next_tracking_id() if state is State.PENDING else None,
                ruling.queued and state is State.PENDING,
                reason,
                ruling.lookups if state is State.PENDING else None,
                now(),
            )
            db.execute(
                "INSERT INTO refunds VALUES (:operation_key, :order_id, :amount_minor, :currency, :state,"
                " :request_id, :tracking_id, :queued, :reason, :lookups_left, :made_at)",
                asdict(refund),
            )
            return refund

    def look_up(self, operation_key: str) -> Refund | None:
        """What became of a key. A pending refund counts the look-ups and is accepted when it has seen enough."""
        with self._writing() as db:
            refund = self.by_key(operation_key) or self._cancelled_by(operation_key)
            if refund is None or refund.state is not State.PENDING or refund.lookups_left is None:
                return refund
            if refund.lookups_left == 0:
                return self._accept(db, refund)
            db.execute(
                "UPDATE refunds SET lookups_left = lookups_left - 1 WHERE operation_key = ?", (refund.operation_key,)
            )
            return refund

    def cancel(self, request_id: str, operation_key: str) -> Refund:
        with self._writing() as db:
            if self.by_key(operation_key):
                raise KeyReused
            known = self._cancellation(operation_key)
            if known and known["request_id"] != request_id:
                raise KeyReused
            refund = self.by_request(request_id)
            if refund is None:
                raise Unknown
            if not known:
                if refund.state is not State.ACCEPTED:
                    raise Refused(f"already_{refund.state}")
                payment = db.execute("SELECT state FROM payments WHERE request_id = ?", (request_id,)).fetchone()
                if payment and payment["state"] != "failed":
                    raise Refused(f"already_{payment['state']}")
                db.execute("INSERT INTO cancellations VALUES (?, ?, ?)", (operation_key, request_id, now()))
                self._set_state(db, refund, State.CANCELLED)
            return replace(refund, state=State.CANCELLED, operation_key=operation_key)

    def settle(self, operation_key: str, state: State, reason: str) -> Refund:
        """The service makes up its mind: pending is accepted or rejected."""
        with self._writing() as db:
            refund = self.by_key(operation_key)
            if refund is None:
                raise Unknown
            if refund.state is not State.PENDING:
                raise Refused(f"already_{refund.state}")
            if state is State.ACCEPTED:
                return self._accept(db, refund)
            db.execute("UPDATE refunds SET reason = ? WHERE operation_key = ?", (reason, operation_key))
            self._set_state(db, refund, state)
            return replace(refund, state=state, reason=reason, lookups_left=None)

    def of_order(self, order_id: str) -> tuple[Order, list[Refund]]:
        """The order, and its refunds that stand: what is pending counts as given."""
        with self._lock:
            order = self.order(order_id)
            return order, [refund for refund in self.effects(order_id) if refund.state in STANDING]

    def by_key(self, operation_key: str) -> Refund | None:
        row = self._one("SELECT * FROM refunds WHERE operation_key = ?", operation_key)
        return None if row is None else _refund(row)

    def by_request(self, request_id: str) -> Refund | None:
        row = self._one("SELECT * FROM refunds WHERE request_id = ?", request_id)
        return None if row is None else _refund(row)

    def behind(self, operation_key: str) -> Behind | None:
        """What any service's books have under this key."""
        if refund := self.by_key(operation_key) or self._cancelled_by(operation_key):
            return Behind(refund.order_id, refund.made_at)
        with self._lock:
            found = (service.behind(self._db, operation_key) for service in self.services)
            return next((behind for behind in found if behind), None)

    def effects(self, order_id: str | None = None) -> list[Refund]:
        """What really happened in the world: a rejected submission is none."""
        return [
            _refund(row)
            for row in self._all(
                "SELECT * FROM refunds WHERE state <> 'rejected' AND (?1 IS NULL OR order_id = ?1) ORDER BY rowid",
                order_id,
            )
        ]

    # The ledger of calls

    def arrived(self, method: str, path: str, kind: Kind, order_id: str | None, operation_key: str | None) -> Call:
        """On record before anything is done, so that a call that is cut is on record as well."""
        with self._writing() as db:
            (number,) = db.execute(
                "INSERT INTO calls (at, method, path, kind, order_id, operation_key) VALUES (?, ?, ?, ?, ?, ?)"
                " RETURNING id",
                (now(), method, path, kind, order_id, operation_key),
            ).fetchone()
            return Call(number, kind, order_id, operation_key)

    def answered(self, call: Call, status: int) -> None:
        with self._writing() as db:
            db.execute("UPDATE calls SET status = ? WHERE id = ?", (status, call.id))

    def calls(self, order_id: str | None = None) -> list[sqlite3.Row]:
        return self._all("SELECT * FROM calls WHERE (?1 IS NULL OR order_id = ?1) ORDER BY id", order_id)

    def latest_calls(self, count: int) -> list[sqlite3.Row]:
        return self._all("SELECT * FROM calls ORDER BY id DESC LIMIT ?", count)

    # Faults

    def switch_on(self, fault: NewFault) -> int:
        with self._writing() as db:
            (number,) = db.execute(
                "INSERT INTO faults (fault, order_id, operation_key, times, parameters, made_at)"
                " VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
                (fault.fault, fault.order_id, fault.operation_key, fault.times, json.dumps(fault.values), now()),
            ).fetchone()
            return int(number)

    def switch_off(self, *, fault_id: int | None = None, order_id: str | None = None) -> int:
        """Without an id or an order: all of them."""
        with self._writing() as db:
            return db.execute(
                "DELETE FROM faults WHERE (?1 IS NULL OR id = ?1) AND (?2 IS NULL OR order_id = ?2)",
                (fault_id, order_id),
            ).rowcount

    def faults(self) -> list[dict[str, object]]:
        return [
            {
                "id": row["id"],
                "fault": row["fault"],
                "order_id": row["order_id"],
                "operation_key": row["operation_key"],
                "times": row["times"],
                "struck": row["struck"],
                "at": row["made_at"],
                **json.loads(row["parameters"]),
            }
            for row in self._all("SELECT * FROM faults ORDER BY id")
        ]

    def strike(self, call: Call, credential: str) -> Strike | None:
        """The fault that strikes this call, used up by one: the most specific first, then the oldest."""
        with self._writing() as db:
            for row in db.execute(
                "SELECT * FROM faults WHERE (order_id IS NULL OR order_id = ?)"
                " AND (operation_key IS NULL OR operation_key = ?)"
                " ORDER BY operation_key IS NULL, order_id IS NULL, id",
                (call.order_id, call.operation_key),
            ).fetchall():
                values: Values = json.loads(row["parameters"])
                if not self._hits(row, values, call, credential):
                    continue
                db.execute(
                    "UPDATE faults SET times = times - 1, struck = struck + 1 WHERE id = ?",
                    (row["id"],),
                )
                db.execute("DELETE FROM faults WHERE times = 0")
                db.execute(
                    "UPDATE calls SET fault_id = ?, fault = ? WHERE id = ?",
                    (row["id"], row["fault"], call.id),
                )
                return Strike(row["fault"], values)
            return None

    def _hits(self, row: sqlite3.Row, values: Values, call: Call, credential: str) -> bool:
        fault = CATALOGUE[row["fault"]]
        if not fault.hits(call.kind, values) or values.get("credential") not in (None, credential):
            return False
        if call.kind is Kind.LOOKUP and fault.needs_record and self.behind(call.operation_key or "") is None:
            return False
        return fault.name != "lookup_lags" or self._still_lags(row, values, call.operation_key or "")

    def _still_lags(self, row: sqlite3.Row, values: Values, operation_key: str) -> bool:
        if isinstance(lookups := values["lookups"], int):
            seen = self._one(
                "SELECT count(*) FROM calls WHERE fault_id = ? AND operation_key = ?", row["id"], operation_key
            )
            return seen is not None and seen[0] < lookups
        if isinstance(seconds := values["seconds"], int | float):
            behind = self.behind(operation_key)
            since = max(row["made_at"], behind.made_at if behind else "")
            return datetime.fromisoformat(now()) < datetime.fromisoformat(since) + timedelta(seconds=seconds)
        return True

    # Inside

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _all(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def _one(self, query: str, *values: object) -> sqlite3.Row | None:
        with self._lock:
            row: sqlite3.Row | None = self._db.execute(query, values).fetchone()
            return row

    def _seed(self, db: sqlite3.Connection) -> None:
        for order in seed.ORDERS:
            self._save(db, order)

    def _save(self, db: sqlite3.Connection, order: Order) -> None:
        db.execute(
            "INSERT OR REPLACE INTO orders VALUES"
            " (:order_id, :customer, :item, :delivered_on, :opened, :amount_minor, :currency, :version)",
            asdict(order),
        )

    def _objection(self, order: Order, wanted: Submission) -> str | None:
        if wanted.currency != order.currency:
            return "currency_mismatch"
        if wanted.amount_minor > order.amount_minor:
            return "amount_too_high"
        _, standing = self.of_order(order.order_id)
        left = order.amount_minor - sum(refund.amount_minor for refund in standing)
        if wanted.amount_minor <= left:
            return None
        if left > 0:
            return "more_than_is_left"
        pending = any(refund.state is State.PENDING for refund in standing)
        return "refund_in_progress" if pending else "already_refunded"

    def _next_request_id(self, order_id: str) -> str:
        if order_id == seed.STORY_ORDER and self.by_request(f"R{seed.STORY_RECEIPT}") is None:
            return f"R{seed.STORY_RECEIPT}"
        highest = self._one("SELECT max(CAST(substr(request_id, 2) AS INTEGER)) FROM refunds")
        return f"R{max(highest[0] or 0 if highest else 0, seed.STORY_RECEIPT) + 1}"

    def _next_tracking_id(self) -> str:
        tracked = self._one("SELECT count(tracking_id) FROM refunds")
        return f"T-{(tracked[0] if tracked else 0) + 1001}"

    def _accept(self, db: sqlite3.Connection, refund: Refund) -> Refund:
        request_id = self._next_request_id(refund.order_id)
        db.execute("UPDATE refunds SET request_id = ? WHERE operation_key = ?", (request_id, refund.operation_key))
        self._set_state(db, refund, State.ACCEPTED)
        return replace(refund, state=State.ACCEPTED, request_id=request_id, lookups_left=None)

    def _set_state(self, db: sqlite3.Connection, refund: Refund, state: State) -> None:
        db.execute(
            "UPDATE refunds SET state = ?, lookups_left = NULL WHERE operation_key = ?",
            (state, refund.operation_key),
        )

    def _cancellation(self, operation_key: str) -> sqlite3.Row | None:
        return self._one("SELECT * FROM cancellations WHERE operation_key = ?", operation_key)

    def _cancelled_by(self, operation_key: str) -> Refund | None:
        """The refund that a cancellation of this key undid, under the cancellation's own key."""
        known = self._cancellation(operation_key)
        refund = self.by_request(known["request_id"]) if known else None
        return replace(refund, operation_key=operation_key) if refund else None


def _order(row: sqlite3.Row) -> Order:
    return Order(**{**dict(row), "opened": bool(row["opened"])})


def _refund(row: sqlite3.Row) -> Refund:
    return Refund(**{**dict(row), "state": State(row["state"]), "queued": bool(row["queued"])})
