"""Bars of stacked outcomes: heights in pixels, everything across in shares of the width, to fit any screen."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from runs.domain.states import Outcome
from takeover.console import moments, words

# From the bottom of a bar to its top: first what is over, then what is still open.
STACK = (
    Outcome.COMPLETED,
    Outcome.DECLINED,
    Outcome.CANCELLED,
    Outcome.WAITING,
    Outcome.NEEDS_HUMAN,
    Outcome.LIMIT_REACHED,
)
PLOT = 160  # height of the tallest bar
LEAST = 4  # height below which a segment could neither be seen nor hit
ROOM_FOR_A_FIGURE = 15

Address = Callable[[date, Outcome], str]  # of the runs behind one segment


@dataclass(frozen=True)
class Figure:
    outcome: str
    label: str
    count: int
    url: str


@dataclass(frozen=True)
class Segment:
    outcome: str
    count: int
    label: str
    url: str
    y: int
    height: int
    figure_y: int | None  # where the count is written inside it; None: no room


@dataclass(frozen=True)
class Bar:
    day: date
    label: str
    short: str  # under the bar; empty where labels would run into each other
    is_between: bool  # a label that is left out where there is even less room
    total: int
    x: str
    width: str
    middle: str
    top: int
    segments: tuple[Segment, ...]
    cells: tuple[Figure, ...]  # the same in the table, zeros included


@dataclass(frozen=True)
class Chart:
    name: str
    title: str
    total: int
    bars: tuple[Bar, ...]
    marks: tuple[tuple[int, int], ...]  # value and height of each horizontal line


def chart(name: str, title: str, counts: Mapping[date, Mapping[Outcome, int]], step: int, behind: Address) -> Chart:
    """One bar for each day of `counts`, which stand `step` days apart."""
    tallest = _round_up(max(sum(of_day.values()) for of_day in counts.values()))
    bars = tuple(
        _bar(day, of_day, tallest, place, len(counts), step, behind)
        for place, (day, of_day) in enumerate(counts.items())
    )
    marks = tuple((value, PLOT - round(PLOT * value / tallest)) for value in _marks(tallest))
    return Chart(name, title, sum(bar.total for bar in bars), bars, marks)


def _bar(
    day: date, counts: Mapping[Outcome, int], tallest: int, place: int, places: int, step: int, behind: Address
) -> Bar:
    slot = 100 / places
    label = moments.date_of(day)
    if step > 1:
        label = _("Week from %(day)s") % {"day": label}
    segments: list[Segment] = []
    cells: list[Figure] = []
    y = PLOT
    for outcome, count in counts.items():
        url = behind(day, outcome)
        cells.append(Figure(outcome, words.word(outcome, words.OUTCOME), count, url))
        if not count:
            continue
        height = max(LEAST, round(PLOT * count / tallest))
        y -= height
        runs = ngettext("%(count)s run", "%(count)s runs", count) % {"count": count}
        says = f"{label}, {words.word(outcome, words.OUTCOME)}: {runs}"
        room = height >= ROOM_FOR_A_FIGURE
        segments.append(Segment(outcome, count, says, url, y, height, y + height // 2 if room else None))
    every = math.ceil(places / 7)
    return Bar(
        day,
        label,
        date_format(day, pgettext("format of a date", "j M")) if place % every == 0 else "",
        place % (2 * every) != 0,
        sum(counts.values()),
        f"{slot * (place + 0.14):.3f}%",
        f"{slot * 0.72:.3f}%",
        f"{slot * (place + 0.5):.3f}%",
        y,
        tuple(segments),
        tuple(cells),
    )


def _round_up(most: int) -> int:
    """The top of the scale: the next figure that divides into even marks."""
    size = 10 ** max(0, len(str(most)) - 1)
    return next(size * n for n in (1, 2, 4, 5, 6, 8, 10) if size * n >= most) if most > 4 else 4


def _marks(tallest: int) -> list[int]:
    return [0, tallest // 2, tallest] if tallest % 2 == 0 else [0, tallest]
