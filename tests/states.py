"""Runs and writes as a test needs them: taken to a state by the moves that lead there, for the database allows no other
way. `without_guards` is for rows that came about by the rules once and are laid back, and to see that something else
notices as well.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from runs.domain.effects import EffectState
from runs.domain.states import TRANSITIONS, State
from runs.models import Effect, Run


def bring(run: Run, to: str, **values: Any) -> Run:
    """`run` in state `to`, by the shortest way of moves, with `values` of other fields set in the same update."""
    way = _way(((state, leads_to, move) for (state, move), leads_to in TRANSITIONS.items()), run.state, to)
    Run.objects.filter(pk=run.pk).update(state=State(to), moves=way, **values)
    run.refresh_from_db()
    return run


def bring_write(effect: Effect, to: str, **values: Any) -> Effect:
    """`effect` in state `to`, by the fewest changes, as if each had been a commit."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT before, after, after FROM runs_effectchange")
        way = _way(cursor.fetchall(), effect.state, to)
    for state in way:
        Effect.objects.filter(pk=effect.pk).update(state=EffectState(state))
    Effect.objects.filter(pk=effect.pk).update(**values)
    effect.refresh_from_db()
    return effect


@contextmanager
def without_guards(*tables: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        try:
            yield
        finally:
            for table in tables:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def _way(steps: Iterable[tuple[str, str, str]], start: str, to: str) -> list[str]:
    """The names on the shortest way from `start` to `to`, of `steps` (from, to, name)."""
    steps = [(str(before), str(after), str(name)) for before, after, name in steps]
    ways: dict[str, list[str]] = {start: []}
    while to not in ways:
        further = {b: [*ways[a], name] for a, b, name in steps if a in ways and b not in ways}
        assert further, f"no way leads from {start} to {to}"
        ways |= further
    return ways[to]
