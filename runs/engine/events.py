"""What the worker that holds a run does with what people and services told it (docs/rules.md, 10).

An event was validated and authorised when it was accepted; here it is held against the run as it stands now, applied
once, and marked. One that is no longer possible is refused with its reason and changes nothing.
"""

import logging
from dataclasses import replace
from datetime import timedelta

from django.db import DatabaseError, InterfaceError

from runs import case
from runs.domain.budget import BudgetError, Dimension
from runs.domain.contract import Fact
from runs.domain.effects import (
    SENDABLE,
    UNSENT,
    Answer,
    Effect,
    EffectState,
    Undecidable,
    first_key,
    put_up,
    still_answers,
    undecidable,
)
from runs.domain.errors import DomainError
from runs.domain.interventions import CATALOGUE, EventKind, Sender, why_not
from runs.domain.progress import Gain
from runs.domain.states import FINAL, TOO_LATE, Move, Recovery
from runs.engine.calls import settle_effect
from runs.engine.commit import ENDED
from runs.engine.held import Held
from runs.models import InboxEvent
from runs.workflows.definition import amended_value, amendment_of

log = logging.getLogger(__name__)
TOO_LATE_TO_DECIDE = {
    Undecidable.NOTHING_WAITS: "Nothing was waiting for a decision any more.",
    Undecidable.ANOTHER_PLAN: "The plan was replaced after this decision.",
    Undecidable.TOO_LATE: "The time for a decision had run out.",
}


class NotPossible(Exception):
    """The event came too late, or is about something that is not so any more."""


def read_inbox(held: Held) -> None:
    held.inbox_seen = held.arrived
    for event in held.open_inbox():
        refusal, before = "", held.as_it_is()
        try:
            if event.name == Move.LATE_RESULT:
                _take_late_result(held, event)
            else:
                _apply(held, event)
        except NotPossible as reason:
            refusal = str(reason)
        except (DatabaseError, InterfaceError):
            raise
        except Exception as problem:
            # No worker would ever get past it, to what was sent after it.
            log.exception("Run %s could not take in the event %s", held.lease.run, event.name)
            refusal = f"It could not be carried out: an unforeseen error ({type(problem).__name__}) is in the log."
        if refusal:
            held.go_back_to(before)
        result = InboxEvent.Result.REFUSED if refusal else InboxEvent.Result.APPLIED
        held.pending.inbox += [
            {"id": number, "result": result, "result_reason": refusal}
            for number in (event.pk, event.seconds_id)
            if number
        ]
        held.record("event_refused" if refusal else "event_applied", event.actor_id, name=event.name, why=refusal)
        held.woken = held.woken or not refusal
    held.more_inbox = False


def _apply(held: Held, event: InboxEvent) -> None:
    move = Move(event.name)
    kind = CATALOGUE[move]
    if refusal := why_not(kind, case.standing(held.bring_up_to_date(), held.effects)):
        raise NotPossible(refusal)
    if event.seconds and event.seconds.stretch != held.run.stretch:
        raise NotPossible("The run has moved on since this was proposed.")
    if held.workflow is None and move not in {Move.CANCEL_REQUESTED, Move.CLOSED_UNRESOLVED}:
        raise NotPossible("The run's workflow is not installed; nothing can be carried out for it.")
    match move:
        case Move.APPROVAL_GRANTED:
            _approve(held, event)
        case Move.APPROVAL_REJECTED:
            _decided(held, event)
        case Move.BUDGET_EXTENDED:
            _extend(held, event)
        case Move.INPUT_CORRECTED:
            _correct(held, event)
        case Move.PLAN_AMENDED:
            _amend(held, event)
        case Move.SCOPE_NARROWED:
            _narrow(held, event)
        case Move.CANCEL_REQUESTED:
            held.run.cancel_requested = True
        case Move.PAUSED:
            held.run.paused, held.paused_by = True, event
        case Move.UNPAUSED:
            held.run.paused = False
        case Move.CALLBACK_RECEIVED:
            _called_back(held, event)
        case Move.EVIDENCE_SUPPLIED:
            held.progress = held.progress.reviewed()  # there is something new to look at
        case Move.COMPENSATION_APPROVED:
            # Whoever has it undone does not want it any more, whatever it had stopped for.
            held.run.undoing, held.run.recovery, held.run.cancel_requested = True, Recovery.COMPENSATE, True
            held.progress = held.progress.reviewed()
            _grant_grace(held)  # however late: what must not stand has to be undone
        case Move.RESUMED_AFTER_REVIEW:
            if held.run.stop_reason in TOO_LATE:
                held.run.cancel_requested = False  # a person looked, and keeps what was done
            # An undoing that stopped short is decided about again: else nobody could ever keep what it cannot undo.
            held.run.undoing, held.run.recovery = False, Recovery.NONE
            # Only who looked at it lets what was rejected be put up again.
            held.progress = replace(held.progress.reviewed(), rejected={})
    if kind.asks_authority:
        held.asked = _who_pays(held, kind)
    if kind.puts_up_again:
        _forget_approvals(held)
    if move is Move.APPROVAL_REJECTED:
        # Not exactly this: the policy may have another way.
        held.rejected = True
        held.progress = held.progress.reject(event.answers, event.payload["reason"])
        held.take_up()
    if move is not Move.PAUSED:  # the stop that follows takes that transition, and says whose it was
        held.move(move, event.actor_id, payload=event.payload)


def _decided(held: Held, event: InboxEvent) -> Effect:
    waiting = put_up(held.effects)
    if why_not := undecidable(waiting, event.answers, event.received_at):
        raise NotPossible(TOO_LATE_TO_DECIDE[why_not])
    assert waiting
    return waiting


def _approve(held: Held, event: InboxEvent) -> None:
    effect, now = _decided(held, event), held.now()
    assert held.workflow
    held.put(
        replace(
            effect,
            state=EffectState.APPROVED if effect.state in UNSENT else effect.state,
            approved_digest=event.answers,
            approved_by=event.actor_id,
            approved_at=event.received_at,
            approval_expires_at=now + held.workflow.approval_lasts,
        )
    )
    limit = held.ledger.lines.get(Dimension.WALL_TIME)
    if limit and event.received_at < held.run.created_at + timedelta(seconds=limit.limit):
        _grant_grace(held)


def _grant_grace(held: Held) -> None:
    """Wall time to carry out what a person decided."""
    assert held.workflow
    grace_until = held.now() + held.workflow.grace_after_decision
    held.progress = replace(held.progress, grace_until=grace_until.isoformat())


def _extend(held: Held, event: InboxEvent) -> None:
    assert held.workflow
    try:
        dimension = Dimension(event.payload["dimension"])
        sent = sum(effect.times_sent > 0 for effect in held.effects)
        held.ledger = held.ledger.extend(dimension, event.payload["by"], held.workflow.planned(dimension, sent))
    except (BudgetError, KeyError, ValueError) as problem:
        raise NotPossible(str(problem)) from None


def _correct(held: Held, event: InboxEvent) -> None:
    assert held.workflow
    run = held.run
    held.changes += 1
    run.input = {**run.input, event.payload["field"]: event.payload["value"]}
    run.acts_for = held.workflow.acts_for(run.input, run.requester.get_username())
    # Whoever changes what is asked for asks for it, and whom it was asked for before does not become a stranger.
    corrector = event.actor.get_username() if event.actor else ""
    run.asked_by = list(dict.fromkeys([*run.asked_by, corrector, run.acts_for]))


def _amend(held: Held, event: InboxEvent) -> None:
    """Change one argument of the write that waits, from the next time it is planned on."""
    assert held.workflow
    effect = _decided(held, event)
    name, field = amendment_of(first_key(effect.key)), event.payload["field"]
    by = event.actor.get_username() if event.actor else ""
    schema = held.workflow.operations[effect.plan.operation].arguments["properties"][field]
    before = held.facts[name].data["changes"] if name in held.facts else {}
    changes = {**before, field: amended_value(schema, event.payload["value"])}
    held.learn(Fact(name, {"changes": changes, "by": by}, f"a person ({by})", held.now(), stretch=held.run.stretch))
    held.run.asked_by = list(dict.fromkeys([*held.run.asked_by, by]))


def _narrow(held: Held, event: InboxEvent) -> None:
    """From here on a narrower contract counts: a version of its own. The one before stays on record."""
    assert held.workflow
    scope = event.payload["scope"]
    if scope not in held.workflow.narrower(held.run.scope):
        raise NotPossible("The scope was narrowed already.")
    before = [assertion.name for assertion in held.workflow.in_scope(held.run.scope)]
    held.run.scope, held.run.contract_version = scope, held.run.contract_version + 1
    after = [assertion.name for assertion in held.workflow.in_scope(scope)]
    held.record("scope_narrowed", event.actor_id, version=held.run.contract_version, before=before, after=after)
    held.progress = held.progress.reviewed().gained(Gain(narrowed=True))


def _called_back(held: Held, event: InboxEvent) -> None:
    """A hint: it may bring a look-up forward, and nothing else. What it says of the write is not even read.

    It pays for that look-up from an allowance of its own, so that no number of callbacks uses up what timers and people
    ask by; and one that finds a look-up coming already adds none.
    """
    effect = held.open_effect
    if effect is None or effect.key != event.payload["operation_key"]:
        raise NotPossible("Nothing was open about this write any more; kept as evidence.")
    if held.asked is None and not held.ledger.left(Dimension.CALLBACK_CHECKS):
        raise NotPossible("Callbacks have led to as many look-ups as they may; the service is asked when that is due.")


def _who_pays(held: Held, kind: EventKind) -> Dimension | None:
    """The allowance for the look-up that an event leads to. A callback adds none to one that is coming already."""
    if held.open_effect is None:
        return None
    return held.asked if held.asked and kind.sender is Sender.SERVICE else kind.paid_from


def _forget_approvals(held: Held) -> None:
    """An approval that lapsed or was refused does not come back to life: the plan is put up again."""
    for effect in held.effects:
        if effect.state in SENDABLE:
            state = EffectState.PLANNED if effect.state in UNSENT else effect.state
            held.put(replace(effect, state=state, approved_digest="", approval_expires_at=None))


def _take_late_result(held: Held, event: InboxEvent) -> None:
    """A result whose worker had lost the run: evidence, applied only where it still answers something."""
    if held.state in FINAL:
        raise NotPossible(ENDED)
    found = event.payload
    effect = held.effect(found.get("operation_key", ""))
    try:
        answer = Answer(found["answer"])
        if effect is None or not still_answers(effect, answer, found.get("attempt", 0)):
            raise NotPossible("Kept as evidence; nothing was waiting for it any more.")
        settle_effect(held, effect, answer, found.get("receipt"), found.get("reason", ""))
        held.move(Move.LATE_RESULT, operation_key=effect.key, answer=answer)
    except (DomainError, KeyError, ValueError):
        raise NotPossible("Kept as evidence; it does not fit what is known by now.") from None
