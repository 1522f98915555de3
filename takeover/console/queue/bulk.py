"""The same action on many cases, each on its own: every one goes through the same door as a single one, in its own
transaction, and is answered for by itself. Decisions about writes are not among these."""

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.http import require_POST

from runs import case
from runs.domain.states import Move
from runs.interventions import claims, sending
from runs.interventions.possible import stop_of
from runs.interventions.refusals import Refused, get_run
from runs.models import Run
from takeover.console import desk
from takeover.console.queue.screen import stamps
from takeover.console.queue.taking import assigned, somebody

MOST = 100
STOP = re.compile(r"-([0-9]{1,9})\Z")  # with which the stamp of a row ends

Action = Callable[[Run, User], str]  # says what was done; raises Refused


@dataclass(frozen=True)
class Result:
    run_id: uuid.UUID
    title: str  # empty: there is no such run
    done: bool
    says: str


def _claim(run: Run, by: User) -> str:
    claims.claim(run.pk, by)
    return _("You have it.")


def _release(run: Run, by: User) -> str:
    claims.release(run.pk, by)
    return _("Given back.")


def _assign(run: Run, by: User, to: User) -> str:
    return assigned(to, claims.assign(run.pk, by, to))


def _ask_again(run: Run, by: User, stretches: dict[uuid.UUID, int]) -> str:
    # Asked about the stop that was shown: the same form sent twice does not ask twice.
    seen = stop_of(run, stretches.get(run.pk, run.stretch))
    sending.send(run.pk, Move.RECONCILE_REQUESTED, by, {}, seen=seen)
    return _("The service is being asked again.")


TITLES = {
    "claim": lazy("Claim"),
    "release": lazy("Give back"),
    "assign": lazy("Assign"),
    "reconcile": lazy("Ask the service again"),
}


@require_POST
@desk.refusals_as_pages
def bulk(request: HttpRequest) -> HttpResponse:
    person = desk.visitor(request)
    shown = stamps(request.POST.getlist("shown"))
    picked = shown if request.POST.get("all") == "yes" else stamps(request.POST.getlist("run"))
    name = request.POST.get("do", "")
    if name not in TITLES:
        raise BadRequest(_("Choose what to do with the selected cases: claim, give back, assign or ask again."))
    if not picked:
        raise Refused("invalid", _("Select at least one case, and then what to do with it."), "run", 422)
    if len(picked) > MOST:
        says = _("%(n)d cases are selected; at most %(most)d are done at once. Nothing was done.")
        raise Refused("invalid", says % {"n": len(picked), "most": MOST}, "run", 422)
    action = _action(name, request, shown)
    results = [_done(action, run_id, person) for run_id in picked]
    context: dict[str, Any] = {
        "action": TITLES[name],
        "results": results,
        "done": sum(result.done for result in results),
        "back": desk.back(request),
    }
    return render(request, "bulk.html", context)


def _action(name: str, request: HttpRequest, shown: dict[uuid.UUID, str]) -> Action:
    if name == "assign":
        return partial(_assign, to=somebody(request))
    if name == "reconcile":
        ends = {run_id: STOP.search(stamp) for run_id, stamp in shown.items()}
        return partial(_ask_again, stretches={run_id: int(end[1]) for run_id, end in ends.items() if end})
    return {"claim": _claim, "release": _release}[name]


def _done(action: Action, run_id: uuid.UUID, by: User) -> Result:
    title = ""
    try:
        run = get_run(run_id)
        title = case.title(run)
        return Result(run_id, title, True, action(run, by))
    except Refused as no:
        return Result(run_id, title, False, no.message)
