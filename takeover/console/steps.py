"""One step of a run, opened."""

import uuid
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import case as cases
from runs.domain.states import StopReason
from runs.steps import opened
from takeover.console import desk


@require_safe
@never_cache
def step(request: HttpRequest, run_id: uuid.UUID, seq: int) -> HttpResponse:
    return render(request, "step.html", _context(request, run_id, seq))


@require_safe
@never_cache
def step_opened(request: HttpRequest, run_id: uuid.UUID, seq: int) -> HttpResponse:
    """What is in it, alone: for the timeline, when somebody opens it there."""
    return render(request, "step.html#opened", _context(request, run_id, seq))


def _context(request: HttpRequest, run_id: uuid.UUID, seq: int) -> dict[str, Any]:
    _person, run = desk.case_for(request, run_id)
    found = run.step_rows.select_related("payload").filter(seq=seq).first()
    if found is None:
        raise Http404(_("This run has no step of this number."))
    withheld = run.stop_reason == StopReason.NOT_AUTHORISED
    return {
        "run": run,
        "title": cases.title(run),
        "seq": seq,
        "withheld": withheld,
        "opened": None if withheld else opened(run, found),
    }
