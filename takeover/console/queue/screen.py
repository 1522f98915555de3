"""The queue as a page, and its fragments."""

import uuid
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs.domain.interventions import Permission
from runs.models import Run
from takeover.console import desk
from takeover.console.queue import saved, search
from takeover.console.queue.paging import instant
from takeover.console.queue.place import Place
from takeover.console.queue.rows import drawn, rows

MOST_SHOWN = 200
NEWS_UP_TO = 99


@require_safe
@never_cache
def queue(request: HttpRequest) -> HttpResponse:
    person = desk.visitor(request)
    place = Place.of(request.GET)
    # Only where the search was sent off: while it is typed, the list under it is all that changes.
    if "go" in request.GET and (run := search.the_run(place.search)):
        return redirect("case", run_id=run.pk)
    return as_page(request, place, person)


def as_page(
    request: HttpRequest, place: Place, person: User, status: int = 200, typed: dict[str, Any] | None = None
) -> HttpResponse:
    """The whole page; `typed` is what a form on it held that was not taken."""
    return render(request, "queue.html", _context(place, person) | {"typed": typed}, status=status)


@require_safe
@never_cache
def queue_list(request: HttpRequest) -> HttpResponse:
    """The list alone, for a search while it is typed and for the pill that brings new cases in."""
    person = desk.visitor(request)
    place = Place.of(request.GET)
    answer = render(request, "queue.html#list", _context(place, person, _since(request)))
    answer["HX-Replace-Url"] = place.here()
    return answer


@require_safe
@never_cache
def queue_news(request: HttpRequest) -> HttpResponse:
    """What has changed since the list was made: how many came, and the shown rows that are no longer as shown."""
    person = desk.visitor(request)
    place, since = Place.of(request.GET), _since(request)
    shown = stamps(request.GET.getlist("shown")[:MOST_SHOWN])
    part = place.runs(person)
    came = 0
    if since and not place.after:
        came = part.filter(stopped_at__gt=since).exclude(pk__in=list(shown))[: NEWS_UP_TO + 1].count()
    still = set(part.filter(pk__in=list(shown)).values_list("pk", flat=True))
    runs = list(Run.objects.filter(pk__in=list(shown)).select_related("holder"))
    changed = [row for row in rows(runs, person, still=still) if row.stamp != shown[row.run_id]]
    news = {
        "place": place,
        "came": came,
        "since": since,
        "changed": changed,
        "list_query": place.query(),
    }
    return render(request, "queue.html#news", news)


@require_safe
@never_cache
def desk_counts(request: HttpRequest) -> HttpResponse:
    """The counters of the frame, and on the queue those of its tabs."""
    person = desk.visitor(request)
    of_tabs = {"tabs": desk.TABS.values(), "desk": desk.counts(person)} if "tabs" in request.GET else {}
    return render(request, "_counts.html", of_tabs)


def _context(place: Place, person: User, since: datetime | None = None) -> dict[str, Any]:
    asked_at = timezone.now()
    runs, next_page = place.page(person)
    fields, operates = place.fields(), desk.may(person, Permission.OPERATE)
    return {
        "place": place,
        "back": place.here(),
        "desk": desk.counts(person),
        "tabs": [(tab, place.address(tab=name, sort="")) for name, tab in desk.TABS.items()],
        "fields": fields,
        "chips": place.chips(fields),
        "views": saved.shown(person, place),
        "colleagues": desk.colleagues() if operates else (),
        "rows": drawn(rows(runs, person, since), operates),
        "elsewhere": place.elsewhere(person),
        "next_page": place.address(after=next_page) if next_page else "",
        "asked_at": asked_at.isoformat(),
        "list_query": place.query(after=place.after),
    }


def stamps(items: list[str]) -> dict[uuid.UUID, str]:
    """The rows on the page, each with the stamp of what it shows."""
    shown = {}
    for item in items:
        number, _dot, stamp = item.partition(".")
        try:
            shown[uuid.UUID(number)] = stamp
        except ValueError:
            raise BadRequest(_("This is not the number of a run.")) from None
    return shown


def _since(request: HttpRequest) -> datetime | None:
    try:
        return instant(request.GET.get("since", ""))
    except ValueError:
        return None
