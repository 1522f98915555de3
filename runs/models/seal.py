import hashlib
import hmac
import json
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import models

FIRST = "0" * 64  # what the first seal names as the hash of the one before
ENCODE = json.JSONEncoder(separators=(",", ":")).encode
MARK = struct.Struct(">q8s")


class SealedEvent(NamedTuple):
    """What a seal covers of an event, in the order in which it is hashed. The text is covered by its digest."""

    id: int
    run: UUID | None
    kind: str
    actor: int | None
    at: datetime
    transaction: int
    digest: str

    @property
    def place(self) -> tuple[int, int]:
        return self.transaction, self.id

    @property
    def line(self) -> bytes:
        """The one spelling that is hashed: a JSON array in ASCII, the time in UTC to the microsecond."""
        run = str(self.run) if self.run else None
        return _line([self.id, run, self.kind, self.actor, _instant(self.at), self.transaction, self.digest])

    def mark(self, line: bytes) -> bytes:
        return MARK.pack(self.id, hashlib.sha256(line).digest()[:8])


COVERED = ("id", "run_id", "kind", "actor_id", "at", "transaction_id", "digest")  # as columns of Event


class SealQuerySet(models.QuerySet["Seal"]):
    def latest_one(self) -> "Seal | None":
        return self.defer("marks").order_by("number").last()


class Seal(models.Model):
    """One row over the events that can no longer change, chained to the one before and signed.

    Events are sealed in the order (transaction, id). The numbers of transactions begin anew in another database
    cluster, so that order holds between two `floor`s only: a seal covers events with ids above its floor, up to the
    floor of the next seals that have another.
    """

    number = models.BigIntegerField(primary_key=True)  # 1, 2, 3 … without a gap: two seals cannot follow the same one
    previous = models.CharField(max_length=64)
    cluster = models.BigIntegerField()  # PostgreSQL's own identifier of the database cluster it was made in
    floor = models.BigIntegerField()
    highest = models.BigIntegerField()  # id that this seal or one before it covers
    first_transaction = models.BigIntegerField()
    first_event = models.BigIntegerField()
    last_transaction = models.BigIntegerField()
    last_event = models.BigIntegerField()
    count = models.PositiveIntegerField()
    events_hash = models.CharField(max_length=64)
    up_to = models.DateTimeField()  # the time of the last event
    sealed_at = models.DateTimeField()
    key_id = models.CharField(max_length=16)
    hash = models.CharField(max_length=64)
    signature = models.CharField(max_length=64)
    # Id and short hash of each event. They prove nothing, and only name the event once `events_hash` does not fit.
    marks = models.BinaryField()

    objects = SealQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        ordering = ["number"]

    def __str__(self) -> str:
        return f"seal {self.number}"

    @property
    def place(self) -> tuple[int, int]:
        """Where it ends, in the order of sealing."""
        return self.last_transaction, self.last_event

    def cover(self, events: Sequence[SealedEvent]) -> None:
        """Take in what `events`, at least one and in order, say. What follows from them is set here alone."""
        first, last = events[0], events[-1]
        self.first_transaction, self.first_event = first.transaction, first.id
        self.last_transaction, self.last_event = last.transaction, last.id
        self.highest = max(self.highest, *(event.id for event in events))
        self.count = len(events)
        self.up_to = last.at
        lines = [event.line for event in events]
        self.events_hash = hashlib.sha256(b"".join(lines)).hexdigest()
        self.marks = b"".join(event.mark(line) for event, line in zip(events, lines, strict=True))

    def sign(self, key: str) -> None:
        self.key_id = key_id(key)
        self.hash = self.own_hash()
        self.signature = self.signature_by(key)

    def own_hash(self) -> str:
        """SHA-256 over everything that the seal says, the hash of the one before included."""
        said = [
            *(self.number, self.previous, self.cluster, self.floor, self.highest),
            *(self.first_transaction, self.first_event, self.last_transaction, self.last_event),
            *(self.count, self.events_hash, _instant(self.up_to), _instant(self.sealed_at), self.key_id),
        ]
        return hashlib.sha256(_line(said)).hexdigest()

    def signature_by(self, key: str) -> str:
        return hmac.new(key.encode(), self.hash.encode(), hashlib.sha256).hexdigest()

    def marked(self) -> list[tuple[int, bytes]]:
        """Id and mark of each event that was sealed; nothing where the marks themselves are damaged."""
        marks = bytes(self.marks)
        if len(marks) != self.count * MARK.size:
            return []
        return [(MARK.unpack_from(marks, at)[0], marks[at : at + MARK.size]) for at in range(0, len(marks), MARK.size)]


def key_id(key: str) -> str:
    """Tells which key signed, and not the key."""
    return hashlib.sha256(f"key id of {key}".encode()).hexdigest()[:16]


def _line(values: list[Any]) -> bytes:
    return ENCODE(values).encode() + b"\n"


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")
