"""Events: one form for each, made from its schema. Sending one is the only way in which a person moves a run."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from runs import case as cases
from runs.domain.interventions import FROM_PEOPLE, EventKind
from runs.domain.states import TRANSITIONS, Move, State
from runs.interventions import sending
from runs.interventions.possible import possible_events, proposal, standing_of
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.timeline import timeline
from takeover.console import desk, words
from takeover.console.actions import says
from takeover.console.glance import looked_at, undecided

NOT_PAYLOAD = {"csrfmiddlewaretoken", "answers", "seen"}
LONG = 200  # texts that may be longer than this get room to write


@dataclass(frozen=True)
class Field:
    """One property of a payload as a control of a form."""

    name: str
    title: str
    control: str  # line, text, number, choice
    required: bool
    typed: str
    choices: tuple[tuple[str, str], ...] = ()
    most: int | None = None  # characters
    error: str = ""


def fields(kind: EventKind, run: Run, typed: Mapping[str, str], refusal: Refused | None = None) -> list[Field]:
    required = kind.payload.get("required", [])
    return [
        _field(
            name,
            schema,
            _choices(name, kind, run),
            required=name in required,
            typed=typed.get(name, ""),
            error=_error(schema, typed.get(name, ""), refusal) if refusal and refusal.field == name else "",
        )
        for name, schema in kind.payload.get("properties", {}).items()
    ]


def _choices(name: str, kind: EventKind, run: Run) -> tuple[tuple[str, str], ...]:
    """What one property may be, where that depends on the run; value and label."""
    match name:
        case "dimension":
            return tuple((dimension, words.word(dimension, words.DIMENSION)) for dimension in run.budget)
        case "field" if kind.move is Move.PLAN_AMENDED:
            return words.argument_fields(run)
        case "field":
            return words.input_fields(run)
        case "scope":
            return words.scopes(run)
    return ()


def _field(
    name: str,
    schema: Mapping[str, Any],
    choices: tuple[tuple[str, str], ...],
    *,
    required: bool,
    typed: str,
    error: str,
) -> Field:
    title, control = _(schema.get("title", name)), "line"
    choices = choices or tuple((str(value), str(value)) for value in schema.get("enum", ()))
    if choices:
        control = "choice"
    elif schema.get("type") == "integer":
        control = "number"
    elif schema.get("maxLength", 0) > LONG:
        control = "text"
    return Field(name, title, control, required, typed, choices, schema.get("maxLength"), error)


def _error(schema: Mapping[str, Any], typed: str, refusal: Refused) -> str:
    """What is wrong with one field, in the words of a form, which stands below it and need not name it."""
    message = refusal.message.removeprefix(f"{refusal.field}: ")
    if refusal.code != "invalid":
        return message
    if not typed.strip():
        return _("This is needed.")
    if schema.get("type") == "integer":
        number, least, most = _number(typed), schema["minimum"], schema["maximum"]
        if not isinstance(number, int) or not least <= number <= most:
            return _("It must be a whole number from %(least)d to %(most)d.") % {"least": least, "most": most}
    if len(typed) > schema.get("maxLength", len(typed)):
        return _("It may have at most %(most)d characters.") % {"most": schema["maxLength"]}
    return message


def payload(kind: EventKind, typed: Mapping[str, str]) -> dict[str, Any]:
    """What was typed, as the schema's types. What does not fit stays as it is, for the schema to refuse by name."""
    properties, required = kind.payload.get("properties", {}), kind.payload.get("required", [])
    given: dict[str, Any] = {}
    for name, text in typed.items():
        if not text.strip() and name not in required and name in properties:
            continue  # an optional field left empty
        given[name] = _number(text) if properties.get(name, {}).get("type") == "integer" else text
    return given


def _number(text: str) -> int | str:
    return int(text) if re.fullmatch(r"\s*-?[0-9]{1,9}\s*", text) else text


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@desk.refusals_as_pages
def event(request: HttpRequest, run_id: uuid.UUID, name: str) -> HttpResponse:
    """The form as a page, with what the person needs to know beside it."""
    return _event(request, "event.html", run_id, name) or redirect("case", run_id=run_id)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@desk.refusals_as_pages
def event_form(request: HttpRequest, run_id: uuid.UUID, name: str) -> HttpResponse:
    """The form alone, for the case page to open in its place."""
    sent = HttpResponse(headers={"HX-Redirect": reverse("case", args=[run_id])})
    return _event(request, "event.html#form", run_id, name) or sent


def _event(request: HttpRequest, template: str, run_id: uuid.UUID, name: str) -> HttpResponse | None:
    """The form, empty or with why what it sent was refused; nothing when the event was accepted."""
    kind = FROM_PEOPLE.get(Move(name)) if name in set(Move) else None
    refusal = None
    if request.method == "POST":
        refusal = _send(request, run_id, name, kind)
        if refusal is None:
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
    state, outcome, reason = (*seen.split("/"), "", "", "")[:3]
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
    seen, now = request.POST.get("seen", ""), standing_of(run)
    made = fields(kind, run, _typed(request), refusal)
    proposed = proposal(kind, run)
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
        "why_not": possible.get(kind.move, ""),
        "plan": plan,
        "glance": looked_at(run, plan),
        "plan_changed": bool(plan and request.POST.get("answers") and request.POST["answers"] != plan["plan_digest"]),
        "refusal": refusal,
        "conflict": refusal is not None and refusal.status == 409,
        "changed": bool(seen) and seen != now,
        "was": _as_seen(seen),
        "is_now": _as_seen(now),
        "latest": timeline(run, name_of=desk.name_of)[:3] if refusal else [],
        "seen": now,
        "answers": plan["plan_digest"] if plan else proposed.pk if proposed else "",
        "proposal": proposed,
        "holder": desk.name_of(run.holder) if run.is_held() else "",
        "mine": run.holder_id == person.pk,
    }
    status = 200 if refusal is None else 422 if refusal.code == "invalid" else refusal.status
    return render(request, template, context, status=status)
