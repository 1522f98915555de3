"""What happened to a run, told as sentences."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from runs.case import opening_reads
from runs.domain.effects import Answer
from runs.domain.interventions import CATALOGUE, EventKind
from runs.domain.states import Move, StepKind, StepStatus, StopReason
from runs.models import Event, Run, Step
from runs.workflows import registry

TIMELINE_SHOWN = 120
CODES = frozenset({"dimension", "scope"})  # of what is filled in, what was chosen from a list of codes
TONE_OF_ANSWER: dict[str, str] = {Answer.ACCEPTED: "good", Answer.REJECTED: "bad", Answer.CONTRADICTORY: "bad"}
# What is said of an event whose text is not kept any more, or not shown.
WITHOUT_TEXT = {
    "stopped": gettext_noop("Stopped."),
    "noted": gettext_noop("A note was made."),
    "write_sent": gettext_noop("A write was sent."),
    "effect_compensated": gettext_noop("Undone."),
    "claimed_completion": gettext_noop("The agent said that it was finished."),
    "proposal_refused": gettext_noop("What the agent proposed was not considered."),
    "handed_over": gettext_noop("The task was handed over."),
    "approval_asked": gettext_noop("Put up for approval."),
    "plan_replaced": gettext_noop("The plan was replaced."),
    "event_received": gettext_noop("An event came in."),
    "event_refused": gettext_noop("An event was not carried out."),
    "event_proposed": gettext_noop("An event was proposed."),
    "soft_limit_crossed": gettext_noop("A soft limit was crossed."),
    "step_interrupted": gettext_noop("The worker was lost during a step."),
    "case_assigned": gettext_noop("The case was given to somebody."),
}
# Lines that may hold something of the subject's record, as they are told of somebody who turns out not to be entitled.
ABOUT_THE_SUBJECT = {
    "stopped",
    "approval_asked",
    "plan_replaced",
    "proposal_refused",
    "handed_over",
    "effect_compensated",
}
# Ends for which the rules have nothing to add.
ENDED: dict[str, tuple[str, str]] = {
    StopReason.CONTRACT_MET: (gettext_noop("Completed: every assertion is met."), "good"),
    StopReason.CANCELLED_UNSENT: (gettext_noop("Cancelled: nothing had been sent."), "stop"),
    StopReason.CANCELLED_ABSENT: (gettext_noop("Cancelled: what was sent did not take effect."), "stop"),
    StopReason.CANCELLED_COMPENSATED: (gettext_noop("Cancelled: what had taken effect was undone."), "stop"),
}


# What of the story is told: all of it, or one part.
SHOWN = ("all", "people", "writes", "reads", "stops")
STEPS_OF = {"all": Q(), "writes": Q(kind=StepKind.WRITE), "reads": Q(kind__in=[StepKind.READ, StepKind.LOOK_UP])}
EVENTS_OF = {
    "all": Q(),
    "people": Q(actor__isnull=False),
    "writes": Q(kind__in=["approval_asked", "plan_replaced", "write_sent", "effect_compensated", "closed_unresolved"]),
    "stops": Q(kind__in=["stopped", "closed_unresolved"]),
}


# Of what is recorded with an event, the sentences of the rules; an agent's own words are shown as a quotation.
SENTENCES = ("says", "why", "rule", "changed", "source")
OF_AN_AGENT = ("claimed_completion", "handed_over")


def latest_steps(run: Run) -> list[Step]:
    """As many as the whole story tells, newest first."""
    return list(run.step_rows.order_by("-seq")[:TIMELINE_SHOWN])


def latest_events(run: Run) -> list[Event]:
    """As many as the whole story tells, newest first; fewer are all that there are."""
    return list(_events(run, "all"))


def _events(run: Run, shown: str) -> Iterable[Event]:
    events = run.events.select_related("actor", "text_row").filter(EVENTS_OF[shown])
    return events.order_by("-id")[:TIMELINE_SHOWN]


def timeline(
    run: Run,
    shown: str = "all",
    name_of: Callable[[User], str] = User.get_username,
    in_words: Callable[[str], str] = str,
    latest: Iterable[Step] | None = None,
    events: Iterable[Event] | None = None,
) -> list[dict[str, Any]]:
    """What happened, newest first, as sentences. `quote` is text that somebody else wrote and nobody vouches for.

    `in_words` puts a sentence of the record into the language of whoever reads; `latest` are the `latest_steps` and
    `events` the `latest_events`, from whoever has read them already.
    """
    withheld = run.stop_reason == StopReason.NOT_AUTHORISED
    workflow = registry.find(run.workflow, run.workflow_version)
    labels = {name: in_words(tool.label) for name, tool in workflow.tools.items()} if workflow else {}
    if latest is None or shown != "all" or withheld:
        latest = _steps(run, shown, withheld)
    lines = [_step_line(step, withheld, labels) for step in latest]
    if shown in EVENTS_OF:
        if events is None or shown != "all":
            events = _events(run, shown)
        told = [(event, line) for event in events if (line := _event_line(event, name_of, in_words))]
        lines += [_withheld(event, line) if withheld else line for event, line in told]
    return sorted(lines, key=lambda line: (line["at"], line["order"]), reverse=True)


def _steps(run: Run, shown: str, withheld: bool) -> Iterable[Step]:
    if shown not in STEPS_OF:
        return ()
    steps = run.step_rows.filter(STEPS_OF[shown]).order_by("-seq")
    if withheld:
        steps = steps.filter(operation__in=opening_reads(registry.find(run.workflow, run.workflow_version)))
    return steps[:TIMELINE_SHOWN]


def _step_line(step: Step, withheld: bool, labels: Mapping[str, str]) -> dict[str, Any]:
    tones = {StepStatus.DONE: TONE_OF_ANSWER.get(step.code, "plain"), StepStatus.INTENT: "plain"}
    operation = labels.get(step.operation) or step.operation.replace("_", " ").capitalize()
    return {
        "at": step.settled_at or step.started_at,
        "order": step.seq * 10,
        "seq": 0 if withheld else step.seq,  # under which it is opened
        "settled": step.settled_at is not None,
        "actor": "",
        "kind": step.kind,
        "says": step.summary or _("%(operation)s: under way") % {"operation": operation},
        "tone": tones.get(StepStatus(step.status), "bad"),
        "quote": "",
        "quote_by": "",
    }


def _event_line(event: Event, name_of: Callable[[User], str], in_words: Callable[[str], str]) -> dict[str, Any] | None:
    content = event.text_row.content() if hasattr(event, "text_row") else {}
    if event.kind not in OF_AN_AGENT:
        content |= {name: in_words(str(content[name])) for name in SENTENCES if name in content}
    actor = name_of(event.actor) if event.actor else ""
    quote, quote_by, tone = "", "", "plain"
    told = {"actor": actor, "event": _label(content.get("name")), "key": content.get("operation_key")}
    match event.kind:
        case "started":
            says = _("%(actor)s asked for it.") % told
        case "stopped":
            says, tone = _ended(content)
        case "noted":
            says = _("%(actor)s made a note.") % told
            quote, quote_by = str(content.get("text", "")), _("%(actor)s wrote") % told
        case "write_sent":
            says = _("Intent saved, then sent under key %(key)s.") % told
        case "effect_compensated":
            says, tone = _("Undone: the write under key %(key)s.") % told, "good"
            if not content.get("by"):
                says = _("Undone by somebody else, as its service shows: %(says)s.") % {"says": content.get("says")}
        case "claimed_completion":
            says, tone = _("The agent said that it was finished. The contract does not bear it out."), "bad"
            quote, quote_by = str(content.get("says", "")), _("The agent wrote (not evidence)")
        case "proposal_refused":
            says, tone = _("What the agent proposed was not considered: %(why)s") % {"why": content.get("why")}, "bad"
        case "handed_over":
            says = _("%(giver)s handed the task to %(taker)s.") % {
                "giver": content.get("giver"),
                "taker": content.get("taker"),
            }
            quote, quote_by = str(content.get("task", "")), _("The agent wrote (not evidence)")
        case "approval_asked":
            says = _("Put up for approval: %(rule)s") % {"rule": content.get("rule", "")}
        case "plan_replaced":
            says, tone = _("The plan was replaced: %(changed)s") % {"changed": content.get("changed", "")}, "bad"
        case "event_received" if content.get("name") == Move.CALLBACK_RECEIVED:
            payload = content.get("payload") or {}
            about = {"source": content.get("source", "service"), "key": payload.get("operation_key")}
            says = _("The %(source)s called back about %(key)s. That is no evidence.") % about
            quote = str(payload.get("reference", ""))
            quote_by = _("The %(source)s wrote") % about if quote else ""
        case "event_refused" if content.get("name") == Move.CALLBACK_RECEIVED:
            says = _("The callback moved nothing. %(why)s") % {"why": content.get("why")}
        case "event_received":
            says = _("%(actor)s: %(event)s.") % told
            quote = _typed(content.get("name"), content.get("payload") or {})
            quote_by = _("%(actor)s wrote") % told if quote else ""
        case "event_proposed":
            kind = _kind(content.get("name"))
            if kind and kind.confirmed_by_requester:
                says = _("%(actor)s proposed: %(event)s. Whoever asked for the run has to confirm it.") % told
            else:
                says = _("%(actor)s proposed: %(event)s. A second person has to confirm it.") % told
            quote, quote_by = _typed(content.get("name"), content.get("payload") or {}), _("%(actor)s wrote") % told
        case "closed_unresolved":
            says, tone = _("Closed, and nobody knows what became of a write."), "bad"
        case "event_refused" if content.get("name") != Move.LATE_RESULT:
            says = _("%(event)s was not carried out: %(why)s") % {**told, "why": content.get("why")}
            tone = "bad"
        case "case_claimed":
            says = _("%(actor)s took the case.") % told
        case "case_released":
            says = _("%(actor)s gave the case back.") % told
        case "case_assigned":
            given = {**told, "to": content.get("to"), "had_it": content.get("had_it")}
            says = _("%(actor)s gave the case to %(to)s.") % given
            if content.get("had_it"):
                says = _("%(actor)s gave the case to %(to)s; %(had_it)s had it.") % given
        case "soft_limit_crossed":
            says = _("Soft limit crossed: %(spent)s %(dimension)s spent.") % {
                "spent": content.get("spent"),
                "dimension": in_words(str(content.get("dimension")).replace("_", " ")),
            }
        case "step_interrupted":
            says, tone = _("The worker was lost during step %(seq)s.") % {"seq": content.get("seq")}, "bad"
        case _:
            return None
    if not hasattr(event, "text_row") and event.kind in WITHOUT_TEXT:
        says, quote = _("%(what)s The text is not kept any more.") % {"what": _(WITHOUT_TEXT[event.kind])}, ""
    return {
        "at": event.at,
        "order": event.pk,
        "seq": 0,
        "settled": True,
        "actor": actor,
        "kind": event.kind,
        "says": says,
        "tone": tone,
        "quote": quote,
        "quote_by": quote_by,
    }


def _ended(content: Mapping[str, Any]) -> tuple[str, str]:
    """What is said of a stop, and its tone."""
    reason = content.get("reason", "")
    if reason in ENDED:
        says, tone = ENDED[reason]
        return _(says), tone
    return _("Stopped: %(says)s") % {"says": content.get("says", "")}, "stop"


def _withheld(event: Event, line: dict[str, Any]) -> dict[str, Any]:
    """The line without what may have been taken from the subject's record."""
    content = event.text_row.content() if hasattr(event, "text_row") else {}
    says_who_may_not = event.kind == "stopped" and content.get("reason") == StopReason.NOT_AUTHORISED
    is_about_the_subject = event.kind in ABOUT_THE_SUBJECT and not says_who_may_not
    says = _(WITHOUT_TEXT[event.kind]) if is_about_the_subject else line["says"]
    return {**line, "says": says, "quote": "", "quote_by": ""}


def _typed(name: Any, payload: Mapping[str, Any]) -> str:
    """What a person filled in, in the order of the form; where that is several fields, each behind its title."""
    kind = _kind(name)
    fields = kind.payload.get("properties", {}) if kind else {}
    names = [*(field for field in fields if field in payload), *(field for field in payload if field not in fields)]
    said = {field: str(payload[field]) for field in names}
    said |= {code: said[code].replace("_", " ") for code in CODES & said.keys()}
    if len(said) < 2:
        return "".join(said.values())
    return "; ".join(f"{fields.get(field, {}).get('title', field)}: {text}" for field, text in said.items())


def _label(name: Any) -> str:
    kind = _kind(name)
    return _(kind.label) if kind else str(name)


def _kind(name: Any) -> EventKind | None:
    """The event of that name; None for what another version of the product recorded, or whose text is not kept."""
    return CATALOGUE.get(Move(name)) if name in set(Move) else None
