"""How runs end: by day and workflow, by reason, and how long the open ones wait. Every figure leads to its runs.

A run counts on the day of its last stop: a finished one with how it ended, an open one with how it stands.
"""

import csv
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import permission_required
from django.core.exceptions import BadRequest
from django.db.models import (
    Aggregate,
    Count,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Max,
    Q,
)
from django.db.models.functions import Cast, Now, TruncDate
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import case
from runs.domain.interventions import Permission
from runs.domain.states import Outcome, StopReason
from runs.models import Run
from runs.models.run import FINAL_STATES, RunQuerySet
from takeover.console import bars, desk, moments, words
from takeover.console.bars import STACK, Chart, Figure

audits = permission_required(f"runs.{Permission.AUDIT}", raise_exception=True)

PERIODS = (7, 14, 30, 90)
BY_WEEK_FROM = 31  # more bars than this cannot be told apart on a telephone
PAGE = 50


@dataclass(frozen=True)
class Selection:
    """What a page is about, as its address says it."""

    days: int = 14
    workflow: str = ""
    outcome: str = ""
    reason: str = ""
    error_class: str = ""
    day: date | None = None
    span: int = 1  # days from `day` on

    @classmethod
    def of(cls, query: QueryDict) -> "Selection":
        days, span, day = query.get("days", "14"), query.get("span", "1"), query.get("day", "")
        outcome, reason = query.get("outcome", ""), query.get("reason", "")
        if days not in {str(period) for period in PERIODS}:
            raise BadRequest(_("The period must be one of %(days)s days.") % {"days": ", ".join(map(str, PERIODS))})
        if span not in {"1", "7"}:
            raise BadRequest(_("A bar stands for one day or for seven."))
        if outcome and outcome not in set(Outcome):
            raise BadRequest(_("There is no such outcome."))
        if reason and reason not in set(StopReason):
            raise BadRequest(_("There is no such reason."))
        if any("\x00" in value for _name, value in query.items()):
            raise BadRequest(_("This text cannot be searched for."))
        return cls(
            int(days),
            query.get("workflow", ""),
            outcome,
            reason,
            query.get("error", ""),
            _date(day) if day else None,
            int(span),
        )

    def query(self, **change: Any) -> str:
        now = {
            "days": None if self.day else self.days,
            "workflow": self.workflow,
            "outcome": self.outcome,
            "reason": self.reason,
            "error": self.error_class,
            "day": self.day,
            "span": self.span if self.span > 1 else "",
            **change,
        }
        return urlencode({name: value for name, value in now.items() if value})

    def address(self, screen: str, **change: Any) -> str:
        query = self.query(**change)
        return reverse(screen) + (f"?{query}" if query else "")

    @property
    def by_week(self) -> bool:
        return self.days >= BY_WEEK_FROM

    @property
    def first_day(self) -> date:
        if self.day:
            return self.day
        first = timezone.localdate() - timedelta(days=self.days - 1)
        return first - timedelta(days=first.weekday()) if self.by_week else first

    @property
    def last_day(self) -> date:
        return self.day + timedelta(days=self.span - 1) if self.day else timezone.localdate()

    def runs(self) -> RunQuerySet:
        found = Run.objects.exclude(outcome="").filter(
            stopped_at__gte=_midnight(self.first_day), stopped_at__lt=_midnight(self.last_day + timedelta(days=1))
        )
        wanted = {
            "workflow": self.workflow,
            "outcome": self.outcome,
            "stop_reason": self.reason,
            "error_class": self.error_class,
        }
        return found.filter(**{field: value for field, value in wanted.items() if value})


def _date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise BadRequest(_("A day is written like 2026-09-25.")) from None
    if not 2000 <= day.year <= 2999:
        raise BadRequest(_("A day is written like 2026-09-25."))
    return day


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))


# The page


@audits
@require_safe
@never_cache
def outcomes(request: HttpRequest) -> HttpResponse:
    chosen = Selection.of(request.GET)
    counted = _counted(chosen)
    return render(
        request,
        "outcomes.html",
        {
            "chosen": chosen,
            "periods": [(days, chosen.address("outcomes", days=days)) for days in PERIODS],
            "workflows": _workflows(chosen),
            "figures": list(_figures(chosen, counted)),
            "total": sum(counted.values()),
            "at_risk": chosen.runs().filter(effects_at_risk__gt=0).count(),
            "closed_at_risk": chosen.runs().filter(effects_at_risk__gt=0, state__in=FINAL_STATES).count(),
            "running": _of_workflow(chosen).filter(outcome="").count(),
            "charts": list(_charts(chosen, counted)),
            "reasons": list(_reasons(chosen)),
            "waits": list(_waits(chosen)),
            "csv": chosen.address("outcomes-csv"),
        },
    )


Counted = dict[tuple[str, date, str], int]  # (workflow, first day of the bar, outcome): runs


def _counted(chosen: Selection) -> Counted:
    counted: Counted = {}
    rows = chosen.runs().annotate(day=TruncDate("stopped_at")).values_list("workflow", "day", "outcome")
    for workflow, day, outcome, count in rows.annotate(count=Count("pk")).order_by("workflow", "day"):
        bar = day - timedelta(days=day.weekday()) if chosen.by_week else day
        counted[workflow, bar, outcome] = counted.get((workflow, bar, outcome), 0) + count
    return counted


def _of_workflow(chosen: Selection) -> RunQuerySet:
    return Run.objects.filter(workflow=chosen.workflow) if chosen.workflow else Run.objects.all()


def _workflows(chosen: Selection) -> list[tuple[str, str, bool]]:
    """Name, address and whether it is chosen, of every workflow that ever had a run; the first stands for all."""
    names = Run.objects.order_by("workflow").values_list("workflow", flat=True).distinct()
    every = (_("All workflows"), chosen.address("outcomes", workflow=""), not chosen.workflow)
    return [
        every,
        *(
            (words.workflow(name).capitalize(), chosen.address("outcomes", workflow=name), name == chosen.workflow)
            for name in names
        ),
    ]


def _figures(chosen: Selection, counted: Counted) -> Iterator[Figure]:
    for outcome in STACK:
        count = sum(n for (_workflow, _day, ended), n in counted.items() if ended == outcome)
        yield Figure(
            outcome, words.word(outcome, words.OUTCOME), count, chosen.address("outcomes-runs", outcome=outcome)
        )


def _charts(chosen: Selection, counted: Counted) -> Iterator[Chart]:
    step = 7 if chosen.by_week else 1
    days = [chosen.first_day + timedelta(days=n) for n in range(0, (chosen.last_day - chosen.first_day).days + 1, step)]
    for workflow in sorted({workflow for workflow, _day, _outcome in counted}):
        counts = {day: {o: counted.get((workflow, day, o), 0) for o in STACK} for day in days}
        here = Selection(chosen.days, workflow)

        def behind(day: date, outcome: Outcome, here: Selection = here) -> str:
            return here.address("outcomes-runs", days="", day=day, span=step if step > 1 else "", outcome=outcome)

        yield bars.chart(workflow, words.workflow(workflow).capitalize(), counts, step, behind)


# The tables


@dataclass(frozen=True)
class Reason:
    outcome: str
    label: str
    error_class: str
    count: int
    share: str
    at_risk: int
    url: str


def _reasons(chosen: Selection) -> Iterator[Reason]:
    found = (
        chosen.runs()
        .values_list("outcome", "stop_reason", "error_class")
        .annotate(count=Count("pk"), at_risk=Count("pk", filter=Q(effects_at_risk__gt=0)))
        .order_by("-count", "outcome", "stop_reason")
    )
    rows = list(found)
    total = sum(row[3] for row in rows)
    for outcome, reason, error_class, count, at_risk in rows:
        url = chosen.address("outcomes-runs", outcome=outcome, reason=reason, error=error_class)
        label, error = words.word(reason, words.REASON), words.word(error_class, words.ERROR)
        yield Reason(outcome, label, error, count, f"{100 * count / total:.0f} %", at_risk, url)


class Percentile(Aggregate):
    """The time within which this share of them falls, as PostgreSQL's ordered-set aggregate has it."""

    function = "percentile_cont"
    template = "%(function)s(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"

    def __init__(self, share: float, expression: Any) -> None:
        super().__init__(expression, share=share, output_field=DurationField())


@dataclass(frozen=True)
class Wait:
    outcome: str
    label: str
    count: int
    half: str
    most: str
    longest: str


def _waits(chosen: Selection) -> Iterator[Wait]:
    since = ExpressionWrapper(Cast(Now(), DateTimeField()) - F("stopped_at"), output_field=DurationField())
    found = (
        _of_workflow(chosen)
        .with_people()
        .filter(stopped_at__isnull=False)
        .annotate(waited=since)
        .values_list("outcome")
        .annotate(
            count=Count("pk"),
            half=Percentile(0.5, F("waited")),
            most=Percentile(0.9, F("waited")),
            longest=Max("waited"),
        )
    )
    rows = {outcome: figures for outcome, *figures in found}
    for outcome in STACK:
        if outcome in rows:
            count, *times = rows[outcome]
            yield Wait(outcome, words.word(outcome, words.OUTCOME), count, *map(words.spell, times))


# The runs behind a figure


@dataclass(frozen=True)
class Row:
    id: uuid.UUID
    title: str
    outcome: str
    outcome_label: str
    reason: str
    stopped_at: datetime | None
    at_risk: bool


@audits
@require_safe
@never_cache
def runs(request: HttpRequest) -> HttpResponse:
    chosen = Selection.of(request.GET)
    page = request.GET.get("page", "1")
    if not re.fullmatch("[0-9]{1,6}", page) or not 1 <= int(page) <= 100_000:
        raise BadRequest(_("There is no such page."))
    number = int(page)
    found = chosen.runs().order_by("-stopped_at", "pk")
    rows = list(found[(number - 1) * PAGE : number * PAGE + 1])
    return render(
        request,
        "outcomes_runs.html",
        {
            "chosen": chosen,
            "said": list(_said(chosen)),
            "total": found.count(),
            "rows": [
                Row(
                    run.pk,
                    case.title(run),
                    desk.stands_as(run),
                    words.word(desk.stands_as(run), words.STANDING),
                    words.word(run.stop_reason, words.REASON),
                    run.stopped_at,
                    run.effects_at_risk > 0,
                )
                for run in rows[:PAGE]
            ],
            "back": Selection(chosen.days, chosen.workflow).address("outcomes"),
            "earlier": chosen.address("outcomes-runs", page=number - 1) if number > 1 else "",
            "later": chosen.address("outcomes-runs", page=number + 1) if len(rows) > PAGE else "",
        },
    )


def _said(chosen: Selection) -> Iterator[str]:
    """The selection in words, for the heading."""
    if chosen.outcome:
        yield words.word(chosen.outcome, words.OUTCOME)
    if chosen.reason:
        yield words.word(chosen.reason, words.REASON)
    if chosen.error_class:
        yield words.word(chosen.error_class, words.ERROR)
    if chosen.workflow:
        yield words.workflow(chosen.workflow)
    if chosen.first_day == chosen.last_day:
        yield moments.date_of(chosen.first_day)
    else:
        yield f"{moments.date_of(chosen.first_day)} – {moments.date_of(chosen.last_day)}"


# The same as a file

COLUMNS = {
    "day": "day",
    "workflow": "workflow",
    "workflow_version": "version",
    "policy": "policy",
    "outcome": "outcome",
    "stop_reason": "reason",
    "error_class": "error_class",
}


@audits
@require_safe
@never_cache
def outcomes_csv(request: HttpRequest) -> HttpResponse:
    chosen = Selection.of(request.GET)
    found = (
        chosen.runs()
        .annotate(day=TruncDate("stopped_at"))
        .values_list(*COLUMNS)
        .annotate(count=Count("pk"), at_risk=Count("pk", filter=Q(effects_at_risk__gt=0)))
        .order_by(*COLUMNS)
    )
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="outcomes-{chosen.first_day}-{chosen.last_day}.csv"'
    writer = csv.writer(response)
    writer.writerow([*COLUMNS.values(), "runs", "runs_with_open_effect"])
    writer.writerows(_harmless(row) for row in found)
    return response


def _harmless(row: Iterable[Any]) -> list[Any]:
    """A spreadsheet takes a cell that begins like this for a formula and runs it."""
    return [f"'{cell}" if isinstance(cell, str) and cell[:1] in set("=+-@\t\r\n") else cell for cell in row]
