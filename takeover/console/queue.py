"""The queue: what lies on the desk, most urgent first, in piles by outcome."""

import json
import re
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2s
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.db.models import CharField, Count, Q
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from runs import case
from runs.domain.effects import EffectState
from runs.interventions import claims
from runs.interventions.refusals import Refused
from runs.models import Effect, Run
from runs.models.run import RunQuerySet
from takeover.console import desk, words

PAGE = 30
MOST_SHOWN = 200
NEWS_UP_TO = 99


@dataclass(frozen=True)
class Place:
    """Where in the queue somebody is: everything that its address says."""

    tab: desk.Tab
    workflow: str = ""
    search: str = ""
    after: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> "Place":
        tab = desk.TABS.get(query.get("tab", "human"))
        if tab is None:
            raise BadRequest(_("There is no such part of the queue."))
        if "\x00" in query.urlencode() or "%00" in query.urlencode():
            raise BadRequest(_("This text cannot be searched for."))
        workflow = query.get("workflow", "")
        if not re.fullmatch(r"\w{0,60}", workflow, re.ASCII):
            raise BadRequest(_("There is no such workflow."))
        return cls(tab, workflow, query.get("q", "").strip()[:200], query.get("after", ""))

    def query(self, **change: str) -> str:
        now = {"tab": self.tab.name, "workflow": self.workflow, "q": self.search, **change}
        return urlencode({name: value for name, value in now.items() if value and (name, value) != ("tab", "human")})

    def address(self, **change: str) -> str:
        query = self.query(**change)
        return reverse("queue") + (f"?{query}" if query else "")

    def without_workflow(self) -> str:
        return self.address(workflow="")

    def here(self) -> str:
        return self.address(after=self.after)

    def runs(self, person: User) -> RunQuerySet:
        """Every run of this part, unordered."""
        return self._fitting().filter(desk.pile(self.tab.name, person))

    def elsewhere(self, person: User) -> list[tuple[desk.Tab, int, str]]:
        """The other parts in which the search finds something, how much, and where. In one query."""
        if not self.search:
            return []
        piles = ["human", "waiting", "limit", "approval"]
        counted = {name: Count("pk", filter=desk.pile(name, person)) for name in (*piles, "open", "closed")}
        found = self._fitting().aggregate(**counted)
        shown = [] if self.tab.name == "open" else piles
        if found["open"] > sum(found[name] for name in piles):  # what runs by itself is in no pile
            shown = [*shown, "open"]
        return [
            (desk.TABS[name], found[name], self.address(tab=name))
            for name in (*shown, "closed")
            if found[name] and name != self.tab.name
        ]

    def _fitting(self) -> RunQuerySet:
        """Every run that the workflow and the search leave, in whatever part."""
        found = Run.objects.all()
        if self.workflow:
            found = found.filter(workflow=self.workflow)
        if self.search:
            found = found.annotate(number=Cast("pk", CharField())).filter(
                Q(subject__icontains=self.search) | Q(number__startswith=self.search.lower())
            )
        return found


# Paging: the next page begins after the last row of this one, whatever has come and gone meanwhile.


def _cursor(run: Run, tab: desk.Tab) -> str:
    first = None if tab.name == "closed" else run.answer_by
    key = [at.isoformat() if at else None for at in (first, run.stopped_at)]
    return urlsafe_b64encode(json.dumps([*key, str(run.pk)]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[datetime | None, datetime | None, uuid.UUID]:
    try:
        first, second, number = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        times = [None if text is None else _instant(text) for text in (first, second)]
        return times[0], times[1], uuid.UUID(number)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise BadRequest(_("The address of this page is damaged. Start at the first page.")) from None


def _instant(text: str) -> datetime:
    """An instant in UTC. Raises ValueError for what is none, or lies outside the calendar."""
    at = parse_datetime(text)
    if at is None or at.tzinfo is None:
        raise ValueError(text)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError(text) from None


def _behind(field: str, value: datetime | None) -> Q:
    """What sorts after `value`, where an empty one sorts last."""
    return Q(**{f"{field}__gt": value}) | Q(**{f"{field}__isnull": True}) if value else Q(pk__in=[])


def _at(field: str, value: datetime | None) -> Q:
    return Q(**{field: value}) if value else Q(**{f"{field}__isnull": True})


def _page(place: Place, person: User) -> tuple[list[Run], str]:
    """One page of rows, and where the next one begins (empty: nowhere)."""
    found = place.runs(person).select_related("holder")
    if place.tab.name == "closed":
        found = found.order_by("-stopped_at", "-pk")
        if place.after:
            _first, stopped, number = _read_cursor(place.after)
            if stopped is None:
                raise BadRequest(_("The address of this page is damaged. Start at the first page."))
            found = found.filter(Q(stopped_at__lt=stopped) | Q(stopped_at=stopped, pk__lt=number))
    else:
        found = found.most_urgent_first()
        if place.after:
            due, stopped, number = _read_cursor(place.after)
            same_due = _at("answer_by", due)
            found = found.filter(
                _behind("answer_by", due)
                | same_due & _behind("stopped_at", stopped)
                | same_due & _at("stopped_at", stopped) & Q(pk__gt=number)
            )
    rows = list(found[: PAGE + 1])
    return rows[:PAGE], _cursor(rows[PAGE - 1], place.tab) if len(rows) > PAGE else ""


# Rows


@dataclass(frozen=True)
class Row:
    """One run as the queue shows it."""

    run: Run
    title: str
    writes: str  # what may have happened outside, in words
    mark: str
    holder: str  # empty: nobody has it now
    mine: bool
    is_new: bool
    moved_on: bool  # no longer part of the pile in which it is shown

    @property
    def stamp(self) -> str:
        """Changes whenever something that this row shows changes."""
        run = self.run
        due = words.spell_due(run.answer_by - timezone.now()) if run.answer_by else ""
        shown = [run.state, run.outcome, run.stop_reason, run.error_count, run.question, run.effects_at_risk]
        text = repr([*shown, run.holder_id, self.holder, run.stopped_at, self.writes, self.moved_on, due])
        return blake2s(text.encode(), digest_size=6).hexdigest()


def _writes(counted: dict[str, int]) -> tuple[str, str]:
    """The state of a run's writes in a few words, the worst first, and its mark. What undid another shows in that."""

    def number(*states: EffectState) -> int:
        return sum(counted.get(state, 0) for state in states)

    if n := number(EffectState.UNKNOWN, EffectState.SENT):
        return ngettext("%d write unknown", "%d writes unknown", n) % n, "unknown"
    if n := number(EffectState.ACKNOWLEDGED):
        return ngettext("%d write pending", "%d writes pending", n) % n, "pending"
    if n := number(EffectState.REJECTED):
        return ngettext("%d refused", "%d refused", n) % n, "unmet"
    if n := number(EffectState.CONFIRMED):
        return ngettext("%d confirmed", "%d confirmed", n) % n, "met"
    if n := number(EffectState.COMPENSATED):
        return ngettext("%d undone", "%d undone", n) % n, "none"
    if n := number(EffectState.ABSENT):
        return ngettext("%d never arrived", "%d never arrived", n) % n, "none"
    if n := number(EffectState.PLANNED, EffectState.APPROVED):
        return ngettext("%d proposed", "%d proposed", n) % n, "none"
    return _("none sent"), "none"


def _effects_of(runs: list[Run]) -> dict[uuid.UUID, dict[str, int]]:
    counted: dict[uuid.UUID, dict[str, int]] = {run.pk: {} for run in runs}
    undid = Q(state=EffectState.CONFIRMED) & ~Q(undoes="")
    wanted = Effect.objects.filter(run__in=list(counted)).exclude(undid).order_by()
    found = wanted.values_list("run", "state").annotate(n=Count("pk"))
    for run_id, state, number in found:
        counted[run_id][state] = number
    return counted


def rows(
    runs: list[Run], person: User, since: datetime | None = None, still: set[uuid.UUID] | None = None
) -> list[Row]:
    """`runs` as rows. `since`: what stopped later is new; `still`: what has not left the pile."""
    effects = _effects_of(runs)
    made = []
    for run in runs:
        writes, mark = _writes(effects[run.pk])
        holder = run.holder if run.is_held() else None
        made.append(
            Row(
                run=run,
                title=case.title(run),
                writes=writes,
                mark=mark,
                holder=desk.name_of(holder),
                mine=holder == person,
                is_new=bool(since and run.stopped_at and run.stopped_at > since),
                moved_on=still is not None and run.pk not in still,
            )
        )
    return made


# The screen and its fragments


def _since(request: HttpRequest) -> datetime | None:
    try:
        return _instant(request.GET.get("since", ""))
    except ValueError:
        return None


def _context(request: HttpRequest, person: User, since: datetime | None = None) -> dict[str, Any]:
    place = Place.of(request.GET)
    asked_at = timezone.now()
    runs, next_page = _page(place, person)
    open_workflows = Run.objects.unfinished().order_by("workflow").values_list("workflow", flat=True).distinct()
    return {
        "place": place,
        "tabs": [(tab, place.address(tab=name)) for name, tab in desk.TABS.items()],
        "workflows": [
            (name, place.address(workflow=name)) for name in sorted({*open_workflows, place.workflow} - {""})
        ],
        "rows": rows(runs, person, since),
        "elsewhere": place.elsewhere(person),
        "next_page": place.address(after=next_page) if next_page else "",
        "asked_at": asked_at.isoformat(),
        "list_query": place.query(after=place.after),
    }


@require_safe
@never_cache
def queue(request: HttpRequest) -> HttpResponse:
    person = desk.visitor(request)
    return render(request, "queue.html", _context(request, person))


@require_safe
@never_cache
def queue_list(request: HttpRequest) -> HttpResponse:
    """The list alone, for a search while it is typed and for the pill that brings new cases in."""
    person = desk.visitor(request)
    context = _context(request, person, _since(request))
    answer = render(request, "queue.html#list", context)
    answer["HX-Replace-Url"] = context["place"].here()
    return answer


@require_safe
@never_cache
def queue_news(request: HttpRequest) -> HttpResponse:
    """What has changed since the list was made: how many came, and the shown rows that are no longer as shown."""
    person = desk.visitor(request)
    place, since = Place.of(request.GET), _since(request)
    shown = _shown(request)
    part = place.runs(person)
    came = 0
    if since and not place.after:
        came = part.filter(stopped_at__gt=since).exclude(pk__in=list(shown))[: NEWS_UP_TO + 1].count()
    still = set(part.filter(pk__in=list(shown)).values_list("pk", flat=True))
    runs = list(Run.objects.filter(pk__in=list(shown)).select_related("holder"))
    changed = [row for row in rows(runs, person, still=still) if row.stamp != shown[row.run.pk]]
    context = {"place": place, "came": came, "since": since, "changed": changed, "list_query": place.query()}
    return render(request, "queue.html#news", context)


def _shown(request: HttpRequest) -> dict[uuid.UUID, str]:
    """The rows on the page, each with the stamp of what it shows."""
    shown = {}
    for item in request.GET.getlist("shown")[:MOST_SHOWN]:
        number, _dot, stamp = item.partition(".")
        try:
            shown[uuid.UUID(number)] = stamp
        except ValueError:
            raise BadRequest(_("This is not the number of a run.")) from None
    return shown


@require_safe
@never_cache
def desk_counts(request: HttpRequest) -> HttpResponse:
    """The counters of the frame, and on the queue those of its tabs."""
    desk.visitor(request)
    return render(request, "_counts.html", {"tabs": desk.TABS.values() if "tabs" in request.GET else ()})


@require_POST
@desk.refusals_as_pages
def take_next(request: HttpRequest) -> HttpResponse:
    place = Place.of(request.POST)
    run = claims.take_next(desk.person(request), place.tab.outcome)
    if run is None:
        messages.info(request, _("Nothing here waits for somebody: every case is in somebody's hands."))
        return redirect(place.address())
    return redirect("case", run_id=run.pk)


@require_POST
def claim_row(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Claim without leaving the queue: answers with the row as it is now, lost race included."""
    person, _run = desk.case_for(request, run_id)
    refusal, status = "", 200
    try:
        claims.claim(run_id, person)
    except Refused as no:
        refusal, status = no.message, no.status
    row = rows([Run.objects.select_related("holder").get(pk=run_id)], person)[0]
    return render(request, "_row.html", {"row": row, "refusal": refusal}, status=status)
