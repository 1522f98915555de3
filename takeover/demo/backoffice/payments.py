"""Whether the money of an accepted refund went out: a record of its own beside the refund's.

A refund that is accepted is not paid yet. It is once the bank says so; the bank may also say that it failed, and then
somebody sends it off again. What was cancelled is never paid.
"""

import sqlite3
from dataclasses import dataclass, replace
from enum import StrEnum

from takeover.demo.backoffice.answers import now
from takeover.demo.backoffice.store import Refund, Refused, State, Store, Unknown


class Payment(StrEnum):
    UNPAID = "unpaid"
    PROCESSING = "processing"
    PAID = "paid"
    FAILED = "failed"
    VOID = "void"  # the refund was cancelled


GOES_ON_TO = {
    Payment.UNPAID: frozenset({Payment.PROCESSING, Payment.PAID, Payment.FAILED}),
    Payment.PROCESSING: frozenset({Payment.PAID, Payment.FAILED}),
    Payment.FAILED: frozenset({Payment.PROCESSING, Payment.PAID}),
}
NEXT = {Payment.UNPAID: Payment.PROCESSING, Payment.PROCESSING: Payment.PAID}


@dataclass(frozen=True)
class Paid:
    """How the payment of one refund stands."""

    refund: Refund
    state: Payment
    reason: str | None = None


class Payments:
    def __init__(self, store: Store) -> None:
        self.store = store

    def of(self, request_id: str) -> Paid:
        """Raises Unknown where no refund has this number."""
        with self.store.transaction() as db:
            return self._of(db, request_id)

    def settle(self, request_id: str, state: Payment, reason: str | None = None) -> Paid:
        """The bank has spoken. Raises Unknown, and Refused where that cannot follow on what it said before."""
        with self.store.transaction() as db:
            stands = self._of(db, request_id)
            if state not in GOES_ON_TO.get(stands.state, ()):
                raise Refused(f"already_{stands.state}")
            return self._put(db, replace(stands, state=state, reason=reason if state is Payment.FAILED else None))

    def go_on(self, request_id: str, fails: str | None = None) -> Paid:
        """One step further where there is one, or into failing for the reason `fails`."""
        with self.store.transaction() as db:
            stands = self._of(db, request_id)
            step = NEXT.get(stands.state)
            if step is None:
                return stands
            return self._put(db, replace(stands, state=Payment.FAILED if fails else step, reason=fails))

    def _of(self, db: sqlite3.Connection, request_id: str) -> Paid:
        refund = self.store.by_request(request_id)
        if refund is None:
            raise Unknown
        if refund.state is not State.ACCEPTED:
            return Paid(refund, Payment.VOID)
        row = db.execute("SELECT state, reason FROM payments WHERE request_id = ?", (request_id,)).fetchone()
        return Paid(refund, Payment(row["state"]), row["reason"]) if row else Paid(refund, Payment.UNPAID)

    def _put(self, db: sqlite3.Connection, paid: Paid) -> Paid:
        row = (paid.refund.request_id, paid.state, paid.reason, now())
        db.execute("INSERT OR REPLACE INTO payments VALUES (?, ?, ?, ?)", row)
        return paid
