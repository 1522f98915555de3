"""A record with some events in it, and hands that change it behind the product's back."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from runs.domain.redaction import digest
from runs.engine.seal import not_sealed, seal
from runs.models import Event
from tests.people import person
from tests.processes import wait_until

KEY = "a-key-that-is-only-used-by-tests-1"


@pytest.fixture(autouse=True)
def _a_key(settings: Settings) -> None:
    keys_are(settings, KEY)


def keys_are(settings: Settings, *keys: str) -> None:
    settings.AUDIT_KEYS = lambda make=True: list(keys)


def write(*kinds: str) -> list[int]:
    """Events, each in a transaction of its own. Returns their ids."""
    return [Event.objects.record(None, kind, person("ada"), note=f"this is {kind}").pk for kind in kinds]


def seal_all() -> int:
    """Until all is sealed: transactions of other tests hold it up, for the server is one. Returns how many events."""
    sealed = 0

    def is_done() -> bool:
        nonlocal sealed
        sealed += seal()
        return not not_sealed().exists()

    wait_until(is_done, within=60)
    return sealed


def by_hand(statement: str, **values: Any) -> int:
    """Change the database without the product. Returns how many rows that was."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


def forge(values: str, **given: Any) -> int:
    """Put an event in past its guard, as the owner of the tables can: `(columns) VALUES (…)`, or a SELECT."""
    by_hand("ALTER TABLE runs_event DISABLE TRIGGER an_event_names_its_transaction")
    put_in = by_hand(f"INSERT INTO runs_event {values}", **given)
    by_hand("ALTER TABLE runs_event ENABLE TRIGGER an_event_names_its_transaction")
    return put_in


class Other:
    """Another session of the database, in a transaction of its own."""

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        self.session = session

    def write(self, kind: str) -> int:
        made = self.session.execute(
            "INSERT INTO runs_event (kind, digest) VALUES (%s, %s) RETURNING id", [kind, digest("{}")]
        ).fetchone()
        assert made
        self.session.execute("INSERT INTO runs_eventtext (event_id, text) VALUES (%s, '{}')", made)
        return int(made[0])

    def commit(self) -> None:
        self.session.commit()


@pytest.fixture
def other(transactional_db: None) -> Iterator[Other]:
    known = connection.settings_dict
    with psycopg.connect(
        host=known["HOST"], port=known["PORT"] or None, user=known["USER"], dbname=known["NAME"]
    ) as session:
        yield Other(session)
        session.rollback()
