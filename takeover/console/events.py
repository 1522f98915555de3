"""Events: one form for each, made from its schema. Sending one is the only way in which a person moves a run."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import resolve, reverse
from django.urls.exceptions import Resolver404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from runs import case as cases
from runs.domain.compensation import standing
from runs.domain.interventions import FROM_PEOPLE, EventKind
from runs.domain.states import TRANSITIONS, Move, State
from runs.interventions import amending, sending
from runs.interventions.possible import possible_events, proposal, standing_of
from runs.interventions.refusals import Refused
from runs.models import InboxEvent, Run
from runs.timeline import timeline
from takeover.console import approvals, desk, kept, recorded, words
from takeover.console.actions import says
from takeover.console.event_fields import fields, filled_in, listed, payload
from takeover.console.glance import looked_at, undecided

NOT_PAYLOAD = {"csrfmiddlewaretoken", "answers", "seen", "back", "preview", kept.BY}
GOES_TO = {
    State.PLANNING: lazy("a worker reads again what it rests on, and plans anew"),
    State.EXECUTING: lazy("a worker carries it out"),
    State.VALIDATING: lazy("a worker finds out how things stand, and goes on from there"),
    State.NEEDS_REVISION: lazy("a worker looks for another way"),
    State.BLOCKED: lazy("it stands still, until a person lets it go on"),
    State.FAILED: lazy("it ends here"),
    State.CANCELLED: lazy("it ends here"),
}


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@desk.refusals_as_pages
def event(request: HttpRequest, run_id: uuid.UUID, name: str) -> HttpResponse:
    """The form as a page, with what the person needs to know beside it."""
    return _event(request, "event.html", run_id, name) or redirect(desk.back(request, run_id))


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@desk.refusals_as_pages
def event_form(request: HttpRequest, run_id: uuid.UUID, name: str) -> HttpResponse:
    """The form alone, for a page to open in its place."""
    return _event(request, "event.html#form", run_id, name) or _sent(request, run_id)


def _sent(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Among the approvals the card says what was recorded; from everywhere else one gets to the case."""
    back = desk.back(request, run_id)
    card = approvals.card(request, run_id, back) if _leads_to_approvals(back) else None
    return card or HttpResponse(headers={"HX-Redirect": back})


def _leads_to_approvals(address: str) -> bool:
    try:
        return resolve(address.partition("?")[0]).url_name == "approvals"
    except Resolver404:
        return False


def _event(request: HttpRequest, template: str, run_id: uuid.UUID, name: str) -> HttpResponse | None:
    """The form, empty or with why what it sent was refused; nothing when the event was accepted."""
    kind = FROM_PEOPLE.get(Move(name)) if name in set(Move) else None
    refusal = None
    if request.method == "POST" and "preview" not in request.POST:
        refusal = _send(request, run_id, name, kind)
        if refusal is None:
            kept.forget(request)
            return None
        if kind is None or refusal.code == "unknown_run" or not desk.may_look(desk.person(request)):
            raise refusal
    person, run = desk.case_for(request, run_id)
    if kind is None:
        raise Http404(_("There is no event of this name."))
    return _form(request, template, person, run, kind, refusal)


def _send(request: HttpRequest, run_id: uuid.UUID, name: str, kind: EventKind | None) -> Refused | None:
    """Hand to the door what was typed, whatever it is. The refusal, if it was refused."""
    typed, answers, seen = _typed(request), "", ""
    if kind and desk.may(desk.person(request), kind.permission):
        desk.visitor(request)  # nobody decides about what they may not see
    if kind and (kind.answers_plan or kind.takes_two):
        answers = request.POST.get("answers", "")
    if kind and not kind.answers_plan and kind.payload.get("required"):
        # What somebody took the time to write is about the run as they saw it. A plan says so itself, by its digest.
        seen = request.POST.get("seen", "")
    try:
        content = payload(kind, typed) if kind else typed
        sending.send(run_id, name, desk.person(request), content, answers=answers, seen=seen)
    except Refused as refusal:
        return refusal
    return None


def _typed(request: HttpRequest) -> dict[str, str]:
    return {name: str(text) for name, text in request.POST.items() if name not in NOT_PAYLOAD}


def _as_seen(seen: str) -> str:
    """How the run stood, in the words of the page that the form was on."""
    state, outcome, reason = (*words.visible(seen).split("/"), "", "", "")[:3]
    if not outcome:
        return words.word(state, words.STATE)
    return f"{words.word(outcome, words.OUTCOME)} ({words.word(reason, words.REASON)})"


def _form(
    request: HttpRequest,
    template: str,
    person: User,
    run: Run,
    kind: EventKind,
    refusal: Refused | None,
) -> HttpResponse:
    case = cases.read(run)
    possible = {event.kind.move: event.why_not for event in possible_events(run, person)}
    plan = undecided(case) if kind.answers_plan else None
    before, after = State(run.state), TRANSITIONS.get((State(run.state), kind.move))
    proposed = proposal(kind, run)
    unsent = kept.look(request, reverse("event", args=[run.pk, kind.move])) if request.method != "POST" else None
    typed, sent = _in_the_form(request, run, kind, proposed, unsent)
    seen, answered, now = sent.get("seen", ""), sent.get("answers", ""), standing_of(run)
    made = fields(kind, run, typed, refusal)
    back = desk.back(request, run.pk)
    to_approvals = _leads_to_approvals(back)
    context = {
        "run": run,
        "case": case,
        "kind": kind,
        "name": kind.move.value,
        "label": _(kind.label),
        "says": says(kind, run),
        "checked_again": _(kind.checked_again),
        "permission": words.word(kind.permission, words.PERMISSION),
        "seconded_by": words.word(kind.seconded_by, words.PERMISSION) if kind.seconded_by else "",
        "fields": made,
        "names_a_field": any(field.error for field in made),
        "before": before,
        "after": after,
        "goes_to": GOES_TO.get(after, "") if after and after != before else "",
        "why_not": possible.get(kind.move, ""),
        "plan": plan,
        "glance": looked_at(run, plan),
        "plan_changed": bool(plan and answered and answered != plan["plan_digest"]),
        "refusal": refusal,
        "conflict": refusal is not None and refusal.status == 409,
        "unsent": unsent,
        "changed": bool(seen) and seen != now,
        "was": _as_seen(seen),
        "is_now": _as_seen(now),
        "latest": timeline(run, name_of=desk.name_of, in_words=recorded.in_words)[:3] if refusal else [],
        "seen": now,
        "answers": plan["plan_digest"] if plan else proposed.pk if proposed else "",
        "proposal": proposed,
        "holder": desk.name_of(run.holder) if run.is_held() else "",
        "mine": run.holder_id == person.pk,
        "back": back,
        "to_approvals": to_approvals,
        "in_card": to_approvals and template.endswith("#form"),
        **_about(kind, run, case, typed, previews="preview" in request.POST),
    }
    status = 200 if refusal is None else 422 if refusal.code == "invalid" else refusal.status
    return render(request, template, context, status=status)


def _in_the_form(
    request: HttpRequest, run: Run, kind: EventKind, proposed: InboxEvent | None, unsent: kept.Kept | None
) -> tuple[dict[str, str], Mapping[str, str]]:
    """What stands in the fields, and what the form said of itself when it was sent: by now, or before a sign-in."""
    if request.method == "POST":
        return _typed(request), {name: request.POST.get(name, "") for name in kept.CARRIED}
    if unsent:
        typed = {name: text for name, text in unsent.typed.items() if name not in NOT_PAYLOAD}
        return typed, {name: unsent.first(name) for name in kept.CARRIED}
    return filled_in(kind, run, {name: str(text) for name, text in request.GET.items()}, proposed), {}


def _about(
    kind: EventKind, run: Run, case: Mapping[str, Any], typed: Mapping[str, str], *, previews: bool
) -> dict[str, Any]:
    """What an event is about, where that is more than the run: what a change comes to, or what would be undone."""
    if kind.move is Move.PLAN_AMENDED and case["state"] == State.AWAITING_APPROVAL:
        found = amending.preview(run, typed.get("field", ""), typed.get("value", "")) if previews else None
        return {"arguments": listed(run), "previews": previews, "amended": found}
    if kind.move is Move.COMPENSATION_APPROVED:
        shown = {effect["operation_key"]: effect for effect in case["effects"] if "plan" in effect}
        latest_first = reversed(standing(row.value() for row in run.effects.all()))
        return {"undone": [shown[effect.key] for effect in latest_first if effect.key in shown]}
    return {}
