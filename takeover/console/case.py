"""The case: the question first, what may be done about it beside it, and what is known one glance below."""

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import prefetch_related_objects
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from runs import case as cases
from runs.domain.budget import STOP_REASON, Dimension, Line
from runs.domain.interventions import Permission
from runs.domain.states import Outcome, State
from runs.interventions import claims, starting
from runs.interventions import notes as writing_notes
from runs.interventions.possible import possible_follow_ups, proposals, standing_of
from runs.interventions.refusals import Refused
from runs.models import Event, InboxEvent, Run, Seal
from runs.timeline import SHOWN, TIMELINE_SHOWN, latest_events, latest_steps, timeline
from takeover.console import aftermath, desk, notes, recorded
from takeover.console.actions import actions
from takeover.console.glance import looked_at, undecided
from takeover.console.related import related
from takeover.console.stretches import stretches

REFUSED_AFTERWARDS = InboxEvent.Result.REFUSED
PROPOSED = InboxEvent.Result.PROPOSED
LATEST = 20  # of what was said to a run, read for its page
PARTS = {  # of the story that is told
    "all": lazy("Everything"),
    "people": lazy("People"),
    "writes": lazy("Writes"),
    "reads": lazy("Reads"),
    "stops": lazy("Stops"),
}
LANGUAGES = {"en": ("en", "English"), "zh": ("zh-Hans", "中文")}  # of what the customer is told: tag and own name


def _effects(case: dict[str, Any], run: Run) -> list[dict[str, Any]]:
    """Each write with who approved it, and the look-ups that were made about it, the newest first."""
    approvers = {row.operation_key: desk.name_of(row.approved_by) for row in run.effects.all()}
    looks: dict[str, list[dict[str, Any]]] = {}
    for step in reversed(case["steps"]):
        if step["kind"] == "look_up":
            looks.setdefault(step["operation_key"], []).append(step)
    return [
        effect | {"looks": looks.get(key, []), "approver": approvers.get(key, "")}
        for effect in case["effects"]
        if (key := effect["operation_key"])
    ]


def _told(case: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the customer may be told: language, its name, text; the reader's own language first."""
    mine = (get_language() or "en")[:2]
    texts = [(tag, name, case["customer_says"][code], code != mine) for code, (tag, name) in LANGUAGES.items()]
    return [text[:3] for text in sorted(texts, key=lambda text: text[3]) if text[2]]


def _budgets(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Each line with how loud it is. One that is used up is bad news only where the run stopped for it."""

    def level(line: dict[str, Any]) -> str:
        if line["left"] <= 0 and case["stop_reason"] == STOP_REASON[Dimension(line["dimension"])]:
            return "out"
        return "soft" if Line(line["limit"], line["soft"], line["spent"]).past_soft else ""

    return [line | {"level": level(line), "used_up": line["spent"] >= line["limit"]} for line in case["budgets"]]


def _resumes(run: Run, record: list[Event] | None) -> int:
    """How often it went on after a stop; `record` is all of its events, where they were read already."""
    if run.stretch < 2:
        return 0
    found = run.events.filter(kind="stopped") if record is None else record
    return max(0, sum(event.kind == "stopped" for event in found) - 1)


def context(run: Run, person: User, part: str = "all") -> dict[str, Any]:
    """Everything that the body of the page shows, with one `part` of the story."""
    prefetch_related_objects([run], "facts")
    part = part if part in SHOWN else "all"
    steps = latest_steps(run)
    events = latest_events(run) if part == "all" else None
    inbox = list(run.inbox.order_by("-id").select_related("actor")[:LATEST])
    # Where these few are all that there are, nobody below has to ask again.
    said = inbox if len(inbox) < LATEST else None
    record = events if events is not None and len(events) < TIMELINE_SHOWN else None
    case = cases.read(run, steps, said)
    pending = [event for event in inbox if not event.result]
    # What a service said too late is on record, and nobody here was waiting for it.
    last = next((event for event in inbox if event.actor_id and event.result not in {"", PROPOSED}), None)
    not_done = last if last and last.result == REFUSED_AFTERWARDS and last.settled_at else None
    proposed = proposals(run, said)
    everything = actions(case, run, person, proposed, pending if said is not None else None)
    forbidden = [action for action in everything if action.why_not and action.near]
    follow_ups = possible_follow_ups(run) if desk.may(person, Permission.START) else []
    waiting, effects = undecided(case), _effects(case, run)
    return {
        "run": run,
        "case": case,
        "pending": pending,
        "proposed": proposed.values(),
        "not_carried_out": not_done if not pending else None,
        "aftermath": aftermath.of(run, last, person) if not pending else None,
        "offered": [action for action in everything if not action.why_not],
        "forbidden": forbidden,
        "explained": [action for action in forbidden if not action.only_held],
        "far_off": [action for action in everything if action.why_not and not action.near],
        "undecided": waiting,
        "glance": looked_at(run, waiting),
        "effects": effects,
        "budgets": _budgets(case),
        "unresolved": [effect for effect in effects if effect["unresolved"]],
        "next_look_at": None if run.owner else case["next_look_at"],  # a worker that is at it answers sooner
        "resumes": _resumes(run, record),
        "stretches": stretches(run, case["budgets"]),
        "timeline": timeline(run, part, desk.name_of, recorded.in_words, steps, events),
        "part": part,
        "parts": PARTS,
        "notes": notes.shown(run, record),
        "note": notes.form(),
        "may_note": notes.may_write(run, person),
        "told": _told(case),
        "sealed_up_to": Seal.objects.order_by("number").values_list("up_to", flat=True).last(),
        "seen": standing_of(run),
        "requester": desk.name_of(run.requester),
        "acts_for": run.acts_for if run.acts_for != run.requester.get_username() else "",
        "holder": desk.name_of(run.holder) if run.is_held() else "",
        "mine": run.is_held() and run.holder_id == person.pk,
        "tab": _tab(run),
        "may_operate": desk.may(person, Permission.OPERATE),
        "colleagues": _others(run) if claims.may_assign(run, person) else (),
        "follow_ups": follow_ups,
        "no_follow_ups": [follow_up for follow_up in follow_ups if follow_up.why_not],
        "related": related(run),
    }


def _others(run: Run) -> list[tuple[int, str]]:
    """Everybody who may be given the case and does not have it."""
    holder = run.holder_id if run.is_held() else None
    return [(number, name) for number, name in desk.colleagues() if number != holder]


def _tab(run: Run) -> desk.Tab:
    """The pile in which this run lies."""
    if run.is_final:
        return desk.TABS["closed"]
    if run.state == State.AWAITING_APPROVAL:
        return desk.TABS["approval"]
    by_outcome = {Outcome.NEEDS_HUMAN: "human", Outcome.WAITING: "waiting", Outcome.LIMIT_REACHED: "limit"}
    return desk.TABS[by_outcome.get(Outcome(run.outcome), "open") if run.outcome else "open"]


@require_safe
@never_cache
def case(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    person, run = desk.case_for(request, run_id)
    return render(request, "case.html", context(run, person, request.GET.get("show", "all")))


@require_safe
@never_cache
def case_body(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The same, without the frame: asked for again whenever the run changed."""
    person, run = desk.case_for(request, run_id)
    return render(request, "case.html#body", context(run, person, request.GET.get("show", "all")))


@require_safe
@never_cache
def package(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The handoff package as it was written with the stop; for a run that has none, what is recorded now."""
    _person, run = desk.case_for(request, run_id)
    written = run.handoffs.filter(version=run.stretch).last() if run.outcome else None
    answer = JsonResponse(
        written.package if written else cases.read(run), json_dumps_params={"indent": 2, "ensure_ascii": False}
    )
    answer["Content-Disposition"] = f'attachment; filename="{run.workflow}-{run.pk}.json"'
    return answer


@require_POST
@desk.refusals_as_pages
def claim(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    claims.claim(run_id, desk.person(request))
    return redirect(desk.back(request, run_id))


@require_POST
@desk.refusals_as_pages
def release(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    claims.release(run_id, desk.person(request))
    return redirect(desk.back(request, run_id))


@require_POST
@desk.refusals_as_pages
def follow_up(request: HttpRequest, run_id: uuid.UUID, name: str) -> HttpResponse:
    """Start the run that comes out of this one, and go there; also where it was started before."""
    run, made = starting.follow_up(run_id, name, desk.person(request))
    if not made:
        messages.info(request, _("This run was under way already; nothing new was started."))
    return redirect("case", run_id=run.pk)


@require_POST
@desk.refusals_as_pages
def note(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Put a note on record; or the case with what was typed still there, and what is wrong with it."""
    typed = request.POST.dict()
    try:
        writing_notes.write(run_id, desk.person(request), typed.get("text", ""), typed.get("once", ""))
    except Refused as no:
        if no.field != "text":
            raise
        person, run = desk.case_for(request, run_id)
        return render(request, "case.html", context(run, person) | {"note": notes.form(typed, no)}, status=422)
    messages.success(request, _("The note is on record."))
    return redirect(f"{reverse('case', args=[run_id])}#notes")
