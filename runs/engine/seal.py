"""Sealing the record: what can no longer change is chained and signed, about once a second (docs/record.md).

An event may be sealed once no transaction is open that began before its own: then nothing can come in before it any
more. So a transaction that stays open for long holds sealing up, and nothing is ever left out. No clock is involved.

In another database cluster, where a dump was restored, transactions are counted from below again, and what is new there
would lie before the last seal's end. That is noticed by the cluster's own identifier, or by an end that the count has
not reached yet. Ids go on rising, since a dump carries its sequences along: so what came with the dump is sealed as it
is, and after that the order begins anew above a floor, the greatest id that is sealed by then.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any

import httpx2
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection, models, transaction

from runs.models import Event, Seal
from runs.models.seal import COVERED, FIRST, SealedEvent, key_id

log = logging.getLogger(__name__)
AT_ONCE = 5_000  # events under one seal
IN_ONE_TICK = 10  # seals; what is left waits for the next tick
CHECKPOINT = 60.0  # seconds between two checkpoints, where there is something new
WEBHOOK_WITHIN = 5.0  # seconds for all of it
LOCK = 0x5EA1  # of our own choice; whoever holds it seals


class Xmax(models.Func):
    """The first transaction that this very statement cannot see. What it sees above was not written in this cluster."""

    template = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    output_field = models.BigIntegerField()


@dataclass(frozen=True)
class Front:
    """How far the record may be sealed, as one statement sees it."""

    cluster: int
    settled_below: int  # transactions with lower numbers have all ended
    unseen_from: int  # no transaction of this cluster with such a number has ended yet
    now: datetime

    @classmethod
    def read(cls) -> "Front":
        with connection.cursor() as cursor:
            cursor.execute(
                """SELECT (SELECT system_identifier FROM pg_control_system()),
                          pg_snapshot_xmin(seen)::text::bigint, pg_snapshot_xmax(seen)::text::bigint, clock_timestamp()
                     FROM pg_current_snapshot() AS seen"""
            )
            return cls(*cursor.fetchone())

    def is_another_cluster(self, last: Seal | None) -> bool:
        """Whether the order that `last` ended does not go on here."""
        return last is None or last.cluster != self.cluster or last.last_transaction >= self.unseen_from


def floor_here(last: Seal | None) -> int:
    """Up to which id events were written elsewhere, where the order of `last` does not go on."""
    foreign = Event.objects.filter(transaction_id__gte=Xmax()).order_by("-id").values_list("id", flat=True).first()
    return max(last.highest if last else 0, foreign or 0)


def seal() -> int:
    """Seal the next events, at most AT_ONCE of them. Returns how many; 0 if there is nothing, or if another is at it.

    Raises DatabaseError, and ImproperlyConfigured where no key can be had.
    """
    keys = settings.AUDIT_KEYS()
    with transaction.atomic():
        if not _is_alone():
            return 0
        last = Seal.objects.latest_one()
        front = Front.read()  # after the lock: it must not be older than the last seal
        events, floor, cluster = _next_events(last, front)
        if not events:
            return 0
        if last and last.key_id not in map(key_id, keys):
            log.warning("Seal %d was signed by a key that is not here; now %s signs", last.number, key_id(keys[0]))
        made = Seal(
            number=last.number + 1 if last else 1,
            previous=last.hash if last else FIRST,
            cluster=cluster,
            floor=floor,
            highest=last.highest if last else 0,
            sealed_at=front.now,
        )
        made.cover(events)
        made.sign(keys[0])
        made.save(force_insert=True)
    return made.count


def _is_alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        return bool(cursor.fetchone()[0])


def _next_events(last: Seal | None, front: Front) -> tuple[list[SealedEvent], int, int]:
    """What comes next in the order, the floor under it, and the cluster whose order it is (0: nobody knows)."""
    floor, place, cluster = (last.floor, last.place, last.cluster) if last else (0, (0, 0), 0)
    if front.is_another_cluster(last):
        ceiling = floor_here(last)
        if brought := _first(Event.objects.after(place).filter(id__gt=floor, id__lte=ceiling)):
            return brought, floor, cluster
        floor, place, cluster = ceiling, (0, 0), front.cluster
    found = Event.objects.after(place).filter(id__gt=floor, transaction_id__lt=front.settled_below)
    return _first(found), floor, cluster


def _first(events: models.QuerySet[Event]) -> list[SealedEvent]:
    return [SealedEvent(*row) for row in events.values_list(*COVERED)[:AT_ONCE]]


def not_sealed() -> models.QuerySet[Event]:
    """The events that are under no seal yet."""
    last = Seal.objects.latest_one()
    floor, place = (last.floor, last.place) if last else (0, (0, 0))
    waiting = Event.objects.after(place).filter(id__gt=floor)
    if last and Front.read().is_another_cluster(last):
        ceiling = floor_here(last)
        return waiting.filter(id__lte=ceiling) | Event.objects.filter(id__gt=ceiling)
    return waiting


def never_sealed() -> models.QuerySet[Event]:
    """Events under no seal that no seal will take in: of transactions that this cluster has not come to yet.

    The guard `an_event_names_its_transaction` lets nobody write one; who may switch it off can.
    """
    last = Seal.objects.latest_one()
    if last is None or Front.read().is_another_cluster(last):
        return Event.objects.none()  # they count as brought along
    return Event.objects.filter(id__gt=last.floor, transaction_id__gte=Xmax()).order_by("transaction_id", "id")


class NeverSealed(Exception):
    """An event that no seal will take in. The message says which."""


class Sealer:
    """What a sweeper does about the record, once a second. Never raises: a record that waits harms no run."""

    def __init__(self) -> None:
        self.checkpoints = Checkpoints()
        self.trouble = ""

    def tick(self) -> None:
        try:
            for _ in range(IN_ONE_TICK):
                if seal() < AT_ONCE:
                    break
            self.checkpoints.leave()
            if stray := never_sealed().first():
                raise NeverSealed(
                    f"event {stray.pk} ({stray.kind}) names transaction {stray.transaction_id}, of the future"
                )
            self.trouble = ""
        except Exception as problem:
            if self.trouble != (trouble := f"{type(problem).__name__}: {problem}".strip()):  # once, not every second
                known = isinstance(problem, DatabaseError | ImproperlyConfigured | NeverSealed)
                log.error("The record could not be sealed: %s", trouble, exc_info=not known)
            self.trouble = trouble


class Checkpoints:
    """The last seal's hash, told to where the database's owner cannot take it back: the log, and a webhook."""

    def __init__(self) -> None:
        self.told = 0  # number of the last seal that arrived
        self.tried_at = float("-inf")

    def leave(self) -> None:
        if monotonic() - self.tried_at < CHECKPOINT:
            return
        last = Seal.objects.latest_one()
        if last is None or last.number == self.told:
            return
        self.tried_at = monotonic()
        told = checkpoint(last)
        log.info("Record sealed up to %(up_to)s: seal %(seal)d, hash %(hash)s, signature %(signature)s", told)
        if settings.AUDIT_WEBHOOK and (why_not := asyncio.run(_post(settings.AUDIT_WEBHOOK, told))):
            log.warning("The checkpoint did not reach AUDIT_WEBHOOK (%s); the next one tries again", why_not)
            return
        self.told = last.number


def checkpoint(last: Seal) -> dict[str, Any]:
    """What leaves the machine. `hash` is what `manage.py audit verify --expect` takes."""
    return {
        "seal": last.number,
        "hash": last.hash,
        "up_to": last.up_to.isoformat(),
        "sealed_at": last.sealed_at.isoformat(),
        "key_id": last.key_id,
        "signature": last.signature,
    }


async def _post(address: str, told: dict[str, Any]) -> str:
    """Send it; the answer's body is not read. Returns why it did not arrive, without the address, or nothing."""
    try:
        async with (
            asyncio.timeout(WEBHOOK_WITHIN),
            httpx2.AsyncClient(trust_env=False, timeout=WEBHOOK_WITHIN) as client,
            client.stream("POST", address, json=told) as reply,
        ):
            return "" if reply.is_success else f"it answered {reply.status_code}"
    except TimeoutError:
        return f"no answer within {WEBHOOK_WITHIN:g} s"
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        return type(problem).__name__
