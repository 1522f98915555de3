"""Orders and pages. The next page begins after the last row of this one, whatever has come and gone meanwhile."""

import json
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import BadRequest
from django.db.models import F, Q
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from runs.models import Run
from runs.models.run import RunQuerySet

PAGE = 25
FEW = 2000


@dataclass(frozen=True)
class Order:
    """By which instants, and then by number. As PostgreSQL has it by itself, and with it the indexes: an instant that
    is missing is later than every other."""

    name: str
    label: Any
    instants: tuple[str, ...]
    latest_first: bool = False

    def sort(self, runs: RunQuerySet) -> RunQuerySet:
        columns = [F(name) for name in (*self.instants, "pk")]
        return runs.order_by(*(column.desc() if self.latest_first else column.asc() for column in columns))

    def behind(self, instants: list[datetime | None], number: uuid.UUID) -> Q:
        """What stands after the row with these values."""
        found, same = Q(pk__in=[]), Q()
        for name, at in zip(self.instants, instants, strict=True):
            found |= same & self._later(name, at)
            same &= Q(**{name: at}) if at else Q(**{f"{name}__isnull": True})
        return found | same & Q(**{"pk__lt" if self.latest_first else "pk__gt": number})

    def _later(self, name: str, at: datetime | None) -> Q:
        if self.latest_first:
            return Q(**{f"{name}__lt": at}) if at else Q(**{f"{name}__isnull": False})
        return Q(**{f"{name}__gt": at}) | Q(**{f"{name}__isnull": True}) if at else Q(pk__in=[])

    def from_here(self, at: datetime | None) -> Q:
        """Says a part of `behind` again, as what the index is entered by: a deep page does not read those before it.
        Only where no instant is missing."""
        name = self.instants[0]
        return Q(**{f"{name}__lte" if self.latest_first else f"{name}__gte": at}) if at else Q()


ORDERS = {
    order.name: order
    for order in (
        Order("urgency", lazy("Most urgent first"), ("answer_by", "stopped_at")),
        Order("age", lazy("Longest stopped first"), ("stopped_at",)),
        Order("newest", lazy("Latest first"), ("stopped_at",), latest_first=True),
    )
}


def page(runs: RunQuerySet, order: Order, after: str, *, all_stopped: bool) -> tuple[list[Run], str]:
    """One page of rows, and where the next one begins (empty: nowhere)."""
    found = order.sort(runs.select_related("holder"))
    if after:
        instants, number = _read_cursor(after, order)
        found = found.filter(order.behind(instants, number))
        if all_stopped:
            found = found.filter(order.from_here(instants[0]))
    rows = list(found[: PAGE + 1])
    return rows[:PAGE], _cursor(rows[PAGE - 1], order) if len(rows) > PAGE else ""


def few_or_many(found: RunQuerySet) -> RunQuerySet:
    """What a search finds, so that it is put in order quickly: few by sorting them, many by going through the order
    until a page is full. Left to guess which it is, the planner may look through a million rows for none."""
    numbers = list(found.order_by().values_list("pk", flat=True)[: FEW + 1])
    return Run.objects.filter(pk__in=numbers) if len(numbers) <= FEW else found


def _cursor(run: Run, order: Order) -> str:
    instants = [at.isoformat() if (at := getattr(run, name)) else None for name in order.instants]
    return urlsafe_b64encode(json.dumps([order.name, *instants, str(run.pk)]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str, order: Order) -> tuple[list[datetime | None], uuid.UUID]:
    try:
        name, *instants, number = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if name != order.name or len(instants) != len(order.instants):
            raise ValueError(name)
        return [None if text is None else instant(text) for text in instants], uuid.UUID(number)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise BadRequest(_("The address of this page is damaged. Start at the first page.")) from None


def instant(text: str) -> datetime:
    """An instant in UTC. Raises ValueError for what is none, or lies outside the calendar."""
    at = parse_datetime(text)
    if at is None or at.tzinfo is None:
        raise ValueError(text)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError(text) from None
