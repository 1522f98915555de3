"""Taking a case, and handing it to somebody."""

import uuid

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from runs.interventions import claims
from runs.interventions.refusals import Refused
from runs.models import Run
from takeover.console import desk
from takeover.console.queue.place import Place
from takeover.console.queue.rows import rows

TAKEN_FROM = "taken_from"  # in the session


@require_POST
@desk.refusals_as_pages
def take_next(request: HttpRequest) -> HttpResponse:
    """From the part that is named; a case names none, and the next one is then of the part that was taken from last."""
    asked = request.POST.copy()
    asked.setdefault("tab", request.session.get(TAKEN_FROM, "human"))
    place = Place.of(asked)
    request.session[TAKEN_FROM] = place.tab.name
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
    shown = {"row": row, "refusal": refusal, "just_asked": True}
    return render(request, "_row.html", shown, status=status)


@require_POST
@desk.refusals_as_pages
def assign(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Hand one case to somebody. Whoever it was taken from is named."""
    person, to = desk.person(request), somebody(request)
    messages.success(request, assigned(to, claims.assign(run_id, person, to)))
    return redirect(desk.back(request, run_id))


def somebody(request: HttpRequest) -> User:
    """Whom the form names in `to`. Raises Refused where that is nobody."""
    number = request.POST.get("to", "")
    found = User.objects.filter(pk=int(number)).first() if number.isdecimal() and len(number) < 10 else None
    if found is None:
        raise Refused("invalid", _("Assign to: choose a person from the list."), "to", 422)
    return found


def assigned(to: User, had_it: str) -> str:
    said = {"to": desk.name_of(to), "before": had_it}
    return _("Given to %(to)s; %(before)s had it.") % said if had_it else _("Given to %(to)s.") % said
