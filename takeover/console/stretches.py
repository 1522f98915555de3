"""What each stretch of a run spent, from one stop to the next: read off the packages written with the stops."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from runs.models import Run

MOST = 8  # shown, the latest
Figures = Mapping[str, tuple[int, int]]  # limit and what was spent, by dimension


@dataclass(frozen=True)
class Mark:
    """The budgets at one instant."""

    at: datetime | None
    outcome: str
    stop_reason: str
    figures: Figures


@dataclass(frozen=True)
class Stretch:
    end: Mark
    spent: dict[str, int]  # by dimension, where anything was
    raised: dict[str, int]  # limits that were extended meanwhile


def stretches(run: Run, budgets: Iterable[Mapping[str, Any]]) -> list[Stretch]:
    """One after the other, if the run was ever resumed; `budgets` are the lines as they stand now."""
    if run.stretch < (2 if run.outcome else 1):  # under way for the first time, or stopped for the first time
        return []
    rows = run.handoffs.order_by("-version").values_list(
        "version", "made_at", "package__outcome", "package__stop_reason", "package__budgets"
    )
    stops = list(rows[: MOST + 1])[::-1]
    marks = [Mark(at, outcome, reason, _figures(lines)) for _version, at, outcome, reason, lines in stops]
    if len(stops) <= MOST:
        marks.insert(0, Mark(None, "", "", {}))  # the start
    if not run.outcome or not stops or stops[-1][0] != run.stretch:
        marks.append(Mark(run.stopped_at, run.outcome, run.stop_reason, _figures(budgets)))
    made = [_between(before, after) for before, after in pairwise(marks)]
    return made if len(made) > 1 else []


def _figures(lines: Iterable[Mapping[str, Any]] | None) -> Figures:
    return {line["dimension"]: (line["limit"], line["spent"]) for line in lines or ()}


def _between(before: Mark, after: Mark) -> Stretch:
    was = {name: before.figures.get(name, (limit, 0)) for name, (limit, _) in after.figures.items()}
    grown = {name: (limit - was[name][0], spent - was[name][1]) for name, (limit, spent) in after.figures.items()}
    return Stretch(
        after,
        spent={name: by for name, (_, by) in grown.items() if by > 0},
        raised={name: by for name, (by, _) in grown.items() if by > 0},
    )
