"""What happened to a run, told as sentences."""

from collections.abc import Mapping
from typing import Any

from runs.case import opening_reads
from runs.domain.effects import Answer
from runs.domain.interventions import CATALOGUE, EventKind
from runs.domain.states import Move, StepStatus, StopReason
from runs.models import Event, Run, Step
from runs.workflows import registry

TIMELINE_SHOWN = 120
CODES = frozenset({"dimension", "scope"})  # of what is filled in, what was chosen from a list of codes
TONE_OF_ANSWER: dict[str, str] = {Answer.ACCEPTED: "good", Answer.REJECTED: "bad", Answer.CONTRADICTORY: "bad"}
# Lines that may hold something of the subject's record, as they are told of somebody who turns out not to be entitled.
ABOUT_THE_SUBJECT = {
    "stopped": "Stopped.",
    "approval_asked": "Put up for approval.",
    "plan_replaced": "The plan was replaced.",
    "proposal_refused": "What the agent proposed was not considered.",
    "handed_over": "The task was handed over.",
    "effect_compensated": "Undone.",
}
# Ends for which the rules have nothing to add.
ENDED: dict[str, tuple[str, str]] = {
    StopReason.CONTRACT_MET: ("Completed: every assertion is met.", "good"),
    StopReason.CANCELLED_UNSENT: ("Cancelled: nothing had been sent.", "stop"),
    StopReason.CANCELLED_ABSENT: ("Cancelled: what was sent did not take effect.", "stop"),
    StopReason.CANCELLED_COMPENSATED: ("Cancelled: what had taken effect was undone.", "stop"),
}


def timeline(run: Run) -> list[dict[str, Any]]:
    """What happened, newest first, as sentences. `quote` is text that somebody else wrote and nobody vouches for."""
    steps, withheld = run.step_rows.order_by("-seq"), run.stop_reason == StopReason.NOT_AUTHORISED
    if withheld:
        steps = steps.filter(operation__in=opening_reads(registry.find(run.workflow, run.workflow_version)))
    lines = [_step_line(step) for step in steps[:TIMELINE_SHOWN]]
    events = run.events.select_related("actor", "text_row").order_by("-id")[:TIMELINE_SHOWN]
    told = [(event, line) for event in events if (line := _event_line(event))]
    lines += [_withheld(event, line) if withheld else line for event, line in told]
    return sorted(lines, key=lambda line: (line["at"], line["order"]), reverse=True)


def _step_line(step: Step) -> dict[str, Any]:
    tones = {StepStatus.DONE: TONE_OF_ANSWER.get(step.code, "plain"), StepStatus.INTENT: "plain"}
    says = step.summary or f"{step.operation.replace('_', ' ').capitalize()}: under way"
    return {
        "at": step.settled_at or step.started_at,
        "order": step.seq * 10,
        "actor": "",
        "kind": step.kind,
        "says": says,
        "tone": tones.get(StepStatus(step.status), "bad"),
        "quote": "",
        "quote_by": "",
    }


def _event_line(event: Event) -> dict[str, Any] | None:
    content = event.text_row.content() if hasattr(event, "text_row") else {}
    actor = event.actor.get_username() if event.actor else ""
    quote, quote_by, tone = "", "", "plain"
    match event.kind:
        case "started":
            says = f"{actor} asked for it."
        case "stopped":
            says, tone = ENDED.get(content.get("reason", ""), (f"Stopped: {content.get('says', '')}", "stop"))
        case "write_sent":
            says = f"Intent saved, then sent under key {content.get('operation_key')}."
        case "effect_compensated":
            says, tone = f"Undone: the write under key {content.get('operation_key')}.", "good"
            if not content.get("by"):
                says = f"Undone by somebody else, as its service shows: {content.get('says')}."
        case "claimed_completion":
            says, tone = "The agent said that it was finished. The contract does not bear it out.", "bad"
            quote, quote_by = str(content.get("says", "")), "The agent wrote (not evidence)"
        case "proposal_refused":
            says, tone = f"What the agent proposed was not considered: {content.get('why')}", "bad"
        case "handed_over":
            says = f"{content.get('giver')} handed the task to {content.get('taker')}."
            quote, quote_by = str(content.get("task", "")), "The agent wrote (not evidence)"
        case "approval_asked":
            says = f"Put up for approval: {content.get('rule', '')}"
        case "plan_replaced":
            says, tone = f"The plan was replaced: {content.get('changed', '')}", "bad"
        case "event_received" if content.get("name") == Move.CALLBACK_RECEIVED:
            payload = content.get("payload") or {}
            source = content.get("source", "service")
            says = f"The {source} called back about {payload.get('operation_key')}. That is no evidence."
            quote = str(payload.get("reference", ""))
            quote_by = f"The {source} wrote" if quote else ""
        case "event_refused" if content.get("name") == Move.CALLBACK_RECEIVED:
            says = f"The callback moved nothing. {content.get('why')}"
        case "event_received":
            payload = content.get("payload") or {}
            says = f"{actor}: {_label(content.get('name'))}."
            quote = _typed(content.get("name"), payload)
            quote_by = f"{actor} wrote" if quote else ""
        case "event_proposed":
            payload = content.get("payload") or {}
            kind = _kind(content.get("name"))
            second = "Whoever asked for the run" if kind and kind.confirmed_by_requester else "A second person"
            says = f"{actor} proposed: {_label(content.get('name'))}. {second} has to confirm it."
            quote, quote_by = _typed(content.get("name"), payload), f"{actor} wrote"
        case "closed_unresolved":
            says, tone = "Closed, and nobody knows what became of a write.", "bad"
        case "event_refused" if content.get("name") != Move.LATE_RESULT:
            says, tone = f"{_label(content.get('name'))} was not carried out: {content.get('why')}", "bad"
        case "case_claimed":
            says = f"{actor} took the case."
        case "case_released":
            says = f"{actor} gave the case back."
        case "case_assigned":
            says = f"{actor} gave the case to {content.get('to')}."
            if content.get("had_it"):
                says = f"{actor} gave the case to {content.get('to')}; {content.get('had_it')} had it."
        case "soft_limit_crossed":
            says = (
                f"Soft limit crossed: {content.get('spent')} {str(content.get('dimension')).replace('_', ' ')} spent."
            )
        case "step_interrupted":
            says, tone = f"The worker was lost during step {content.get('seq')}.", "bad"
        case _:
            return None
    if not hasattr(event, "text_row"):
        says, quote = f"{event.kind.replace('_', ' ').capitalize()}; the text is not kept any more.", ""
    return {
        "at": event.at,
        "order": event.pk,
        "actor": actor,
        "kind": event.kind,
        "says": says,
        "tone": tone,
        "quote": quote,
        "quote_by": quote_by,
    }


def _withheld(event: Event, line: dict[str, Any]) -> dict[str, Any]:
    """The line without what may have been taken from the subject's record."""
    content = event.text_row.content() if hasattr(event, "text_row") else {}
    says_who_may_not = event.kind == "stopped" and content.get("reason") == StopReason.NOT_AUTHORISED
    says = line["says"] if says_who_may_not else ABOUT_THE_SUBJECT.get(event.kind, line["says"])
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
    return kind.label if kind else str(name)


def _kind(name: Any) -> EventKind | None:
    """The event of that name; None for what another version of the product recorded, or whose text is not kept."""
    return CATALOGUE.get(Move(name)) if name in set(Move) else None
