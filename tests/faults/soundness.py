"""What must be true of every run once nobody is at work, whatever went wrong before. Each wrong thing is a sentence.

The back office's own ledger is the oracle for what happened outside. That service knows a key again and does nothing
twice; to send again what had already taken effect counts as a duplicate all the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import Count

from runs.domain.budget import Dimension
from runs.domain.effects import EffectState
from runs.domain.states import FINAL, TRANSITIONS, Move, State
from runs.models import Effect, Event, InboxEvent, Run, Step


def wrongs(ledger: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with the runs in the database, held against the back office's `/control/ledger`."""
    found = [*duplicates(ledger), *_disagreements(ledger)]
    for run in Run.objects.all():
        found += [f"{run.subject}, run {run.pk}: {wrong}" for wrong in wrongs_of(run)]
    return found


def duplicates(ledger: Mapping[str, Any]) -> list[str]:
    """Orders with two effects, and writes that were sent again although they had taken effect."""
    per_order = Counter(effect["order_id"] for effect in ledger["effects"] if effect["state"] != "cancelled")
    took_effect = {effect["operation_key"]: effect["at"] for effect in ledger["effects"]}
    again = Counter(
        call["operation_key"]
        for call in ledger["calls"]
        if call["kind"] == "submit" and call["at"] > took_effect.get(call["operation_key"], "9")
    )
    return [
        *(f"order {order} has {count} effects" for order, count in per_order.items() if count > 1),
        *(f"{key} was sent again {count} times after it had taken effect" for key, count in again.items()),
    ]


def _disagreements(ledger: Mapping[str, Any]) -> Iterator[str]:
    """What a run believes, and what is in the books."""
    happened = {effect["operation_key"]: effect for effect in ledger["effects"]}
    submitted = Counter(call["operation_key"] for call in ledger["calls"] if call["kind"] == "submit")
    # A write that undoes another one is in the books as a change of that one.
    known = {effect.operation_key: effect for effect in Effect.objects.filter(undoes="")}
    for key in {*happened, *submitted} - {*known}:
        yield f"{key} is in the books and nobody intended it"
    for key, effect in known.items():
        if effect.state == EffectState.CONFIRMED and key not in happened:
            yield f"{key} is called confirmed and did not happen"
        if effect.state in {EffectState.REJECTED, EffectState.ABSENT, EffectState.PLANNED} and key in happened:
            yield f"{key} is called {effect.state} and happened"
        if submitted[key] > effect.times_sent:
            yield f"{key} was sent {submitted[key]} times, on record are {effect.times_sent}"


def wrongs_of(run: Run) -> Iterator[str]:
    """What is wrong with one run by itself."""
    steps = list(Step.objects.filter(run=run).order_by("seq"))
    if [step.seq for step in steps] != list(range(1, run.steps + 1)):
        yield f"its steps are {[step.seq for step in steps]}, counted are {run.steps}"
    tokens = [step.token for step in steps]
    if tokens != sorted(tokens) or max(tokens, default=0) > run.token:
        yield f"its steps were taken under the tokens {tokens}, its own is {run.token}"
    if run.owner:
        yield "somebody still holds it"
    if run.is_final and (run.due_at or not run.outcome):
        yield f"it has ended ({run.state}, {run.outcome or 'no outcome'}) and is due at {run.due_at}"
    open_writes = run.effects.filter(state__in=["sent", "acknowledged", "unknown"]).count()
    if run.effects_at_risk != open_writes:
        yield f"{open_writes} writes are open, counted are {run.effects_at_risk}"
    yield from _budget(run, steps)
    yield from _record(run)


def _budget(run: Run, steps: list[Step]) -> Iterator[str]:
    charged: Counter[str] = Counter()
    for step in steps:
        charged.update(step.charge)
    for name, (limit, _, spent, reserved) in run.budget.items():
        if name == Dimension.WALL_TIME:
            continue
        if spent != charged[name]:
            yield f"{spent} {name} are spent, its steps add up to {charged[name]}"
        if reserved or spent > limit:
            yield f"of {limit} {name}, {spent} are spent and {reserved} reserved"


def _record(run: Run) -> Iterator[str]:
    state = State.RECEIVED
    for event in Event.objects.filter(run=run, kind="transition").select_related("text_row").order_by("id"):
        said = event.text_row.content()
        if said["before"] != state or TRANSITIONS.get((state, Move(said["move"]))) != said["after"]:
            yield f"{said['move']} led from {said['before']} to {said['after']} while it was {state}"
        state = State(said["after"])
    if state != run.state:
        yield f"its record ends at {state}, it is {run.state}"
    if Event.objects.filter(run=run, kind="stopped").count() > 1 and state in FINAL:
        ends = [e.text_row.content() for e in run.events.filter(kind="transition").select_related("text_row")]
        if sum(end["after"] in FINAL for end in ends) > 1:
            yield "it ended more than once"
    settled = dict(
        Event.objects.filter(run=run, kind__in=["event_applied", "event_refused"])
        .values_list("kind")
        .annotate(Count("pk"))
    )
    own = InboxEvent.objects.filter(run=run, result__in=["applied", "refused"]).exclude(settled_at=None)
    confirmed = own.filter(pk__in=InboxEvent.objects.filter(run=run).exclude(seconds=None).values("seconds"))
    read = own.count() - confirmed.count()
    if sum(settled.values()) > read:
        yield f"{sum(settled.values())} events were carried out or refused, in the inbox are {read}"
