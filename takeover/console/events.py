"""Events: one form for each, made from its schema. Sending one is the only way in which a person moves a run."""

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
from runs import interventions
from runs.domain.interventions import CATALOGUE, EventKind
from runs.domain.states import TRANSITIONS, Move, State
from runs.interventions import Refused
from runs.models import Run
from takeover.console import desk, words
from takeover.console.case import stamp, undecided

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
    least: int | None = None
    most: int | None = None
    error: str = ""


def fields(kind: EventKind, run: Run, typed: Mapping[str, str], refusal: Refused | None = None) -> list[Field]:
    required = kind.payload.get("required", [])
    return [
        _field(
            name,
            schema,
            run,
            required=name in required,
            typed=typed.get(name, ""),
            error=_error(schema, typed.get(name, ""), refusal) if refusal and refusal.field == name else "",
        )
        for name, schema in kind.payload.get("properties", {}).items()
    ]


def _field(name: str, schema: Mapping[str, Any], run: Run, *, required: bool, typed: str, error: str) -> Field:
    title, control = _(schema.get("title", name)), "line"
    choices: tuple[tuple[str, str], ...] = ()
    if name == "dimension":
        choices = tuple((dimension, words.word(dimension, words.DIMENSION)) for dimension in run.budget)
    elif "enum" in schema:
        choices = tuple((str(value), str(value)) for value in schema["enum"])
    if choices:
        control = "choice"
    elif schema.get("type") == "integer":
        control = "number"
    elif schema.get("maxLength", 0) > LONG:
        control = "text"
    least, most = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    return Field(name, title, control, required, typed, choices, least, most, error)


def _error(schema: Mapping[str, Any], typed: str, refusal: Refused) -> str:
    """What is wrong with one field, in the words of a form."""
    if refusal.code != "invalid":
        return refusal.message
    if not typed.strip():
        return _("This is needed.")
    if schema.get("type") == "integer" and "maximum" in schema:
        limits = {"least": schema.get("minimum", 0), "most": schema["maximum"]}
        return _("It must be a whole number from %(least)d to %(most)d.") % limits
    if len(typed) > schema.get("maxLength", len(typed)):
        return _("It may have at most %(most)d characters.") % {"most": schema["maxLength"]}
    return refusal.message


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
    trimmed = text.strip()
    return int(trimmed) if trimmed.isascii() and trimmed.lstrip("-").isdigit() and len(trimmed) < 10 else text


@require_http_methods(["GET", "POST"])
@never_cache
@desk.refusals_as_pages
def event(request: HttpRequest, run_id: uuid.UUID, name: str) -> HttpResponse:
    """The form as a page, with what the person needs to know beside it."""
    if request.method == "GET":
        person, run = desk.case_for(request, run_id)
        return _form(request, "event.html", person, run, _kind(name))
    refusal = _send(request, run_id, name)
    if refusal is None:
        return redirect("case", run_id=run_id)
    return _refused(request, "event.html", run_id, name, refusal)


@require_http_methods(["GET", "POST"])
@never_cache
@desk.refusals_as_pages
def event_form(request: HttpRequest, run_id: uuid.UUID, name: str) -> HttpResponse:
    """The form alone, for the case page to open in its place."""
    if request.method == "GET":
        person, run = desk.case_for(request, run_id)
        return _form(request, "event.html#form", person, run, _kind(name))
    refusal = _send(request, run_id, name)
    if refusal is None:
        return HttpResponse(headers={"HX-Redirect": reverse("case", args=[run_id])})
    return _refused(request, "event.html#form", run_id, name, refusal)


def _kind(name: str) -> EventKind:
    try:
        return CATALOGUE[Move(name)]
    except (ValueError, KeyError):
        raise Http404(_("There is no event of this name.")) from None


def _typed(request: HttpRequest) -> dict[str, str]:
    return {name: str(text) for name, text in request.POST.items() if name not in NOT_PAYLOAD}


def _send(request: HttpRequest, run_id: uuid.UUID, name: str) -> Refused | None:
    """Send the event. The refusal, if it was refused."""
    person, kind = desk.person(request), _kind(name)
    answers = request.POST.get("answers", "") if kind.answers_plan else ""
    try:
        if kind.payload.get("required") and not kind.answers_plan:
            _check_that_nothing_moved(run_id, request.POST.get("seen", ""))
        interventions.send(run_id, name, person, payload(kind, _typed(request)), answers)
    except Refused as refusal:
        if not desk.may_look(person) or not Run.objects.filter(pk=run_id).exists():
            raise
        return refusal
    return None


def _check_that_nothing_moved(run_id: uuid.UUID, seen: str) -> None:
    """What somebody took the time to write is about the run as they saw it. A plan says so itself, by its digest."""
    run = Run.objects.filter(pk=run_id).first()
    if seen and run and seen != stamp(run):
        raise Refused("stale", _("The case moved on while you were writing."), "seen", 409)


def _refused(request: HttpRequest, template: str, run_id: uuid.UUID, name: str, refusal: Refused) -> HttpResponse:
    """The form once more, with what was typed, why it was refused, and how the run stands now."""
    person, run = desk.case_for(request, run_id)
    status = 422 if refusal.code == "invalid" else refusal.status
    return _form(request, template, person, run, _kind(name), refusal, status)


def _form(
    request: HttpRequest,
    template: str,
    person: User,
    run: Run,
    kind: EventKind,
    refusal: Refused | None = None,
    status: int = 200,
) -> HttpResponse:
    case = cases.read(run)
    possible = {event.kind.move: event.why_not for event in interventions.possible_events(run, person)}
    plan = undecided(case) if kind.answers_plan else None
    before, after = State(run.state), TRANSITIONS.get((State(run.state), kind.move))
    seen = request.POST.get("seen", "")
    made = fields(kind, run, _typed(request), refusal)
    context = {
        "run": run,
        "case": case,
        "kind": kind,
        "name": kind.move.value,
        "label": _(kind.label),
        "says": _(kind.says),
        "checked_again": _(kind.checked_again),
        "permission": words.word(kind.permission, words.PERMISSION),
        "fields": made,
        "names_a_field": any(field.error for field in made),
        "before": before,
        "after": after,
        "why_not": possible.get(kind.move, ""),
        "plan": plan,
        "plan_changed": bool(plan and request.POST.get("answers") and request.POST["answers"] != plan["plan_digest"]),
        "refusal": refusal,
        "conflict": refusal is not None and refusal.status == 409,
        "changed": bool(seen) and seen != stamp(run),
        "was": dict(zip(("state", "outcome", "reason"), seen.split(".")[:3], strict=False)) if seen else {},
        "latest": cases.timeline(run)[:3] if refusal else [],
        "seen": stamp(run),
        "answers": plan["plan_digest"] if plan else "",
        "holder": desk.name_of(run.holder) if run.is_held() else "",
        "mine": run.holder_id == person.pk,
    }
    return render(request, template, context, status=status)
