"""Orders and pages. The next page begins after the last row of this one, whatever has come and gone meanwhile."""

import json
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import BadRequest
from django.db.models import Q
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from runs.domain.money import is_currency, is_minor
from runs.models import Run
from runs.models.run import RunQuerySet

PAGE = 25
FEW = 2000
LOOKED_THROUGH = 20_000


@dataclass(frozen=True)
class Order:
    """By which columns, as Django writes them; the last tells every run from every other. As PostgreSQL has it by
    itself, and with it the indexes: what is missing is larger than every value."""

    name: str
    label: Any
    columns: tuple[str, ...]
    note: Any = ""  # what whoever reads it might take for granted, and is not so

    def behind(self, values: list[Any]) -> Q:
        """What stands after the row with these values."""
        found, same = Q(pk__in=[]), Q()
        for column, value in zip(self.columns, values, strict=True):
            found |= same & _after(column, value)
            name = column.removeprefix("-")
            same &= Q(**{f"{name}__isnull": True}) if value is None else Q(**{name: value})
        return found

    def up_to(self, value: Any) -> Q:
        """What stands no further down than this value of the first column, of which none is missing."""
        name = self.columns[0]
        return Q(**({f"{name[1:]}__gte": value} if name.startswith("-") else {f"{name}__lte": value}))

    def from_here(self, value: Any) -> Q:
        """Says a part of `behind` again, as what the index is entered by: a deep page does not read those before it.
        Only where nothing is missing in the first column."""
        name = self.columns[0]
        at_least = {f"{name[1:]}__lte" if name.startswith("-") else f"{name}__gte": value}
        return Q() if value is None else Q(**at_least)


def _after(column: str, value: Any) -> Q:
    if column.startswith("-"):
        name = column[1:]
        return Q(**{f"{name}__isnull": False}) if value is None else Q(**{f"{name}__lt": value})
    return Q(pk__in=[]) if value is None else Q(**{f"{column}__gt": value}) | Q(**{f"{column}__isnull": True})


ORDERS = {
    order.name: order
    for order in (
        Order("urgency", lazy("Most urgent first"), ("answer_by", "stopped_at", "pk")),
        Order("age", lazy("Longest stopped first"), ("stopped_at", "pk")),
        Order("newest", lazy("Latest first"), ("-stopped_at", "-pk")),
        Order(
            "value",
            lazy("Largest amount first"),
            ("stake_currency", "-stake_minor", "answer_by", "stopped_at", "pk"),
            lazy("Each currency by itself: amounts are not converted. Cases without a known amount come last."),
        ),
    )
}


Page = tuple[list[Run], str]  # its rows, and where the next one begins (empty: nowhere)


def page(runs: RunQuerySet, order: Order, after: str, *, all_stopped: bool) -> Page:
    return _cut(_behind(runs, order, after, all_stopped), order)


def if_few(found: RunQuerySet) -> RunQuerySet | None:
    """What a search finds, where that is so few that it is quickly put in order. The planner cannot tell: what is
    frequent among the open runs may not occur once among a million that have ended."""
    numbers = list(found.order_by().values_list("pk", flat=True)[: FEW + 1])
    return Run.objects.filter(pk__in=numbers) if len(numbers) <= FEW else None


def page_of_many(part: RunQuerySet, says: Q, order: Order, after: str, *, all_stopped: bool) -> Page | None:
    """A page of what `says` finds in a part where it finds many: rows are looked through in their order until the page
    is full. None where it is not after the first LOOKED_THROUGH of those that have ended, which may be a million."""
    rows = _behind(part, order, after, all_stopped)
    column = order.columns[0].removeprefix("-")
    edge = rows.values_list(column, flat=True)[LOOKED_THROUGH:].first() if all_stopped else None
    if edge is None:
        return _cut(rows.filter(says), order)
    found, next_page = _cut(rows.filter(order.up_to(edge), says), order)
    return (found, next_page) if next_page else None


def _behind(runs: RunQuerySet, order: Order, after: str, all_stopped: bool) -> RunQuerySet:
    found = runs.select_related("holder").order_by(*order.columns)
    if after:
        values = _read_cursor(after, order)
        found = found.filter(order.behind(values))
        if all_stopped:
            found = found.filter(order.from_here(values[0]))
    return found


def _cut(found: RunQuerySet, order: Order) -> Page:
    rows = list(found[: PAGE + 1])
    return rows[:PAGE], _cursor(rows[PAGE - 1], order) if len(rows) > PAGE else ""


def _cursor(run: Run, order: Order) -> str:
    values = [getattr(run, column.removeprefix("-")) for column in order.columns]
    written = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return urlsafe_b64encode(json.dumps([order.name, *written], default=str).encode()).decode().rstrip("=")


def _read_cursor(cursor: str, order: Order) -> list[Any]:
    try:
        name, *values = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if name != order.name:
            raise ValueError(name)
        columns = [column.removeprefix("-") for column in order.columns]
        return [_read(column, value) for column, value in zip(columns, values, strict=True)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise BadRequest(_("The address of this page is damaged. Start at the first page.")) from None


def _read(column: str, value: Any) -> Any:
    """One value of a cursor. Raises ValueError for what this column cannot hold."""
    match column:
        case "pk":
            return uuid.UUID(value)
        case _ if value is None:
            return None
        case "stake_minor" if is_minor(value):
            return value
        case "stake_currency" if is_currency(value):
            return value
        case "answer_by" | "stopped_at":
            return instant(value)
    raise ValueError(value)


def instant(text: str) -> datetime:
    """An instant in UTC. Raises ValueError for what is none, or lies outside the calendar."""
    at = parse_datetime(text)
    if at is None or at.tzinfo is None:
        raise ValueError(text)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError(text) from None
