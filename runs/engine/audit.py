"""Recomputing the sealed record: does every event still say what it said when it was sealed (docs/record.md)?

First the seals alone, as a chain; then every event against its seal. All of it sees one snapshot, row by row: neither
the number of events nor that of seals matters to the memory it takes.
"""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction

from runs.engine.seal import Front, floor_here
from runs.models import Event, Seal
from runs.models.event import EventQuerySet
from runs.models.seal import COVERED, FIRST, SealedEvent, SealQuerySet, key_id

BEFORE_ALL = (-(2**63), -(2**63))
CHUNK = 1_000  # rows in memory at once
MOST_COMPARED = 100_000  # events of a seal that does not fit, to say which


Row = tuple[SealedEvent, str | None]  # an event and its text; none, or an empty one, is not kept any more


class Broken(Exception):
    """The first thing that does not fit, as a sentence."""


class Order(NamedTuple):
    """A stretch of the record within one order of transactions: its events' ids lie above `floor`."""

    floor: int
    first_seal: int


@dataclass
class Report:
    """What was found. `broken` is empty where all fits; what comes after the first break was not looked at."""

    broken: str = ""
    seals: int = 0
    sealed: int = 0  # events that were recomputed and fit
    emptied: int = 0  # of those, events whose text is not kept any more
    not_sealed: int = 0
    last: Seal | None = None
    orders: list[Order] = field(default_factory=list)

    @property
    def up_to(self) -> datetime | None:
        return self.last.up_to if self.last else None


def verify(expect: str = "") -> Report:
    """Recompute everything. `expect`: the hash of a checkpoint, which must be in the chain ("": none is known)."""
    report = Report()
    keys = {key_id(key): key for key in settings.AUDIT_KEYS(make=False)}
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            _check_chain(report, keys, expect)
            _check_events(report)
        except Broken as problem:
            sentence = str(problem)
            report.broken = sentence[0].upper() + sentence[1:]
    return report


def _check_chain(report: Report, keys: dict[str, str], expect: str) -> None:
    previous, seen = FIRST, not expect
    for seal in Seal.objects.defer("marks").order_by("number").iterator(CHUNK):
        number = report.seals + 1
        if seal.number != number:
            raise Broken(f"Seal {number} is missing: the next one is seal {seal.number}.")
        if seal.own_hash() != seal.hash:
            raise Broken(f"Seal {number} was changed: its hash is not that of what it says.")
        if seal.previous != previous:
            raise Broken(f"Seal {number} does not follow seal {number - 1} as it stands: one of them was made anew.")
        if seal.key_id not in keys:
            place = "AUDIT_KEY or the file audit-key of the data folder"
            raise Broken(f"Seal {number} was signed by another key ({seal.key_id}) than those in {place}.")
        if not hmac.compare_digest(seal.signature, seal.signature_by(keys[seal.key_id])):
            raise Broken(f"Seal {number} was not signed by the key that it names ({seal.key_id}).")
        if not report.orders or report.orders[-1].floor != seal.floor:
            report.orders.append(Order(seal.floor, number))
        report.seals, report.last, previous = number, seal, seal.hash
        seen = seen or seal.hash == expect
    if not seen:
        end = f"the last one is seal {report.seals}" if report.seals else "there are no seals"
        raise Broken(f"No seal has the expected hash, and {end}: seals were cut off at the end, or made anew.")


def _check_events(report: Report) -> None:
    orders, front = report.orders or [Order(0, 1)], Front.read()
    if report.last and front.is_another_cluster(report.last):
        orders.append(Order(floor_here(report.last), report.seals + 1))  # no seal has begun it yet
    for order, following in pairwise([*orders, None]):
        assert order
        events = Event.objects.after(BEFORE_ALL)
        if order.floor:  # the first order takes in whatever id or transaction somebody may have forged
            events = events.filter(id__gt=order.floor)
        if following:
            events = events.filter(id__lte=following.floor)
        end = following.first_seal if following else report.seals + 1
        seals = Seal.objects.defer("marks").filter(number__gte=order.first_seal, number__lt=end).order_by("number")
        for event, text in _behind(seals, events, report):
            if end <= report.seals:
                raise Broken(f"{_name(event)} is under no seal although there are later ones: it was added.")
            _check_text(event, text)
            report.not_sealed += 1


def _behind(seals: SealQuerySet, events: EventQuerySet, report: Report) -> Iterator[Row]:
    """Hold one order's events against its seals. Those behind its last seal are handed on."""
    rows = _rows(events)
    row, place = next(rows, None), BEFORE_ALL
    for seal in seals.iterator(CHUNK):
        body, count, misfit = hashlib.sha256(), 0, None
        while row and row[0].place <= seal.place:
            body.update(row[0].line)
            count += 1
            report.emptied += not row[1]
            misfit = misfit or (None if _text_fits(*row) else row)
            row = next(rows, None)
        if body.hexdigest() != seal.events_hash:
            raise Broken(_difference(seal, events.after(place)))
        if misfit:
            _check_text(*misfit)
        report.sealed += count
        place = seal.place
    if row:
        yield row
        yield from rows


def _rows(events: EventQuerySet) -> Iterator[Row]:
    for *covered, text in events.values_list(*COVERED, "text_row__text").iterator(CHUNK):
        yield SealedEvent(*covered), text


def _text_fits(event: SealedEvent, text: str | None) -> bool:
    return not text or hashlib.sha256(text.encode()).hexdigest() == event.digest


def _check_text(event: SealedEvent, text: str | None) -> None:
    if not _text_fits(event, text):
        raise Broken(f"The text of {_name(event)} does not fit its digest: it was changed.")


def _difference(seal: Seal, behind: EventQuerySet) -> str:
    """Which of the events that a seal covers does not fit, as far as its marks tell."""
    rows = behind.filter(transaction_id__lte=seal.last_transaction).values_list(*COVERED)[:MOST_COMPARED]
    there = [event for event in (SealedEvent(*row) for row in rows) if event.place <= seal.place]
    marked = seal.marked()
    ids, sealed_ids = [event.id for event in there], [number for number, _ in marked]
    if ids != sealed_ids and sorted(ids) == sorted(sealed_ids):
        moved = next(event for event, number in zip(there, sealed_ids, strict=True) if event.id != number)
        return f"The events of seal {seal.number} were put into another order, from {_name(moved)} on."
    there_ids = set(ids)
    for number in sealed_ids:
        if number not in there_ids:
            elsewhere = Event.objects.filter(pk=number).exists()
            what = "was moved away by a change of its transaction" if elsewhere else "is missing"
            return f"Event {number}, which seal {seal.number} covers, {what}."
    marks = dict(marked)
    for event in there:
        if marked and event.id not in marks:
            return f"{_name(event)} stands among those of seal {seal.number}, which does not cover it: it was added."
        if marked and event.mark(event.line) != marks[event.id]:
            return f"{_name(event)} was changed after seal {seal.number} was made."
    return f"What stands at seal {seal.number} is not what was sealed, and its marks do not tell which event it is."


def _name(event: SealedEvent) -> str:
    return f"event {event.id} ({event.kind}{f' of run {event.run}' if event.run else ''})"
