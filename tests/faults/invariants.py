"""What holds however often a process dies: ten invariants over the product's rows and the service's own books.

`violations(runs, ledger)` takes runs that have come to rest (no process works on them, all timers were let go off) and
what the back office says at `/control/ledger`, of their orders or of all. `resting=False` leaves out what only comes
true in the end, so that the same laws can be asked the moment after a death. Rows and books share one machine's clock.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db import connection

from runs.domain.budget import Dimension
from runs.domain.effects import UNRESOLVED, Answer, EffectState
from runs.domain.interventions import FROM_PEOPLE
from runs.domain.states import FINAL, SAID_BY_THE_POLICY, TRANSITIONS, Move, Outcome, State, StepKind, StepStatus
from runs.models import Effect, InboxEvent, Run, Step
from tests.processes import EVERYBODY_ELSE, wait_until

Row = Mapping[str, Any]
WRITES = {"submit", "cancel"}  # calls that take effect
AT_THE_DOOR = {"authority", "assignments"}  # asked as well before a run is there, and by no step
# Other calls, by the operation that makes them. Who may act is asked at the door as well, and by no step.
CALL_OF = {
    "read_order": "orders",
    "read_policies": "policies",
    "read_refund": "lookup",  # before it is undone
    "read_event": "events",
    "read_seat": "bookings",
    "read_booking": "bookings",
    "read_assignment": "assignments",
    "search_sources": "search",
    "read_draft": "drafts",
}
TOOK_PLACE = {EffectState.CONFIRMED, EffectState.COMPENSATED}
DID_NOT = {EffectState.PLANNED, EffectState.APPROVED, EffectState.ABSENT, EffectState.REJECTED}
DID_NOTHING = {401, 403, 404, 422, 429}  # statuses with which the service says that it did nothing


@dataclass(frozen=True)
class Seen:
    """One run: its rows, and what the service knows of its calls and its operation keys."""

    run: Run
    steps: list[Step]
    effects: list[Effect]
    inbox: list[InboxEvent]
    events: list[Row]  # kind, at, actor, and the content of each, in their order
    calls: list[Row]  # of its own, in the order in which they arrived
    happened: list[Row]  # effects under its keys
    resting: bool

    def of(self, *kinds: str) -> list[Row]:
        return [event for event in self.events if event["kind"] in kinds]

    def calls_under(self, key: str) -> list[Row]:
        return [call for call in self.calls if call["operation_key"] == key]

    @property
    def closed_unresolved(self) -> bool:
        """Two people ended it although a write was open."""
        return bool(self.of("closed_unresolved"))


def violations(runs: Iterable[UUID], ledger: Row | None, *, resting: bool = True) -> list[str]:
    """A line for each invariant that does not hold: its number, the run, and what is wrong; none where all hold.

    `ledger`: `{"calls": […], "effects": […]}`. None leaves out what is held against the books, for rows that were put
    back to an earlier moment while the books went on.
    """
    found = []
    if ledger:
        found += [f"I1: {says}" for says in duplicates(ledger)]
        found += [f"I2: {says}" for says in _writes_of_nobody(ledger)]
    if resting:
        found += [f"I10: {says}" for says in _forgotten_sessions()]
    for seen in _look(runs, ledger or {"calls": [], "effects": []}, resting):
        for number, invariant in INVARIANTS:
            if ledger or number not in AGAINST_THE_BOOKS:
                found += [f"{number}: run {seen.run.pk}: {says}" for says in invariant(seen)]
    return found


def _look(runs: Iterable[UUID], ledger: Row, resting: bool) -> Iterable[Seen]:
    rows = Run.objects.filter(pk__in=list(runs)).prefetch_related("step_rows", "effects", "inbox", "events__text_row")
    for run in rows:
        effects = list(run.effects.all())
        keys = {effect.operation_key for effect in effects}
        yield Seen(
            run=run,
            steps=list(run.step_rows.all()),
            effects=effects,
            inbox=list(run.inbox.all()),
            events=[
                {**json.loads(event.text_row.text), "kind": event.kind, "at": event.at, "actor": event.actor_id}
                for event in run.events.all()
            ],
            calls=[
                call
                for call in ledger["calls"]
                if (call["operation_key"] in keys if call["operation_key"] else _asks_for(run, call))
            ],
            happened=[effect for effect in ledger["effects"] if effect["operation_key"] in keys],
            resting=resting,
        )


def _asks_for(run: Run, call: Row) -> bool:
    """Whether a call without a key is this run's: about its order or event, of which one run at a time is open."""
    at, ended = datetime.fromisoformat(call["at"]), run.state in FINAL and run.stopped_at
    subject = next(run.input[name] for name in ("order_id", "event_id", "report_id") if name in run.input)
    return bool(call["order_id"] == subject and run.created_at <= at and (not ended or at <= ended))


def one_write_takes_effect_once(seen: Seen) -> Iterable[str]:
    """I1: at most one effect under a key: exactly one if it is confirmed, none if it was refused or never sent."""
    for effect in seen.effects:
        key, state = effect.operation_key, EffectState(effect.state)
        # The books know an undoing by what it undid, which is cancelled from then on; they do not say since when.
        undone = [one for one in seen.happened if one["operation_key"] == effect.undoes and one["state"] == "cancelled"]
        happened = undone if effect.undoes else [one for one in seen.happened if one["operation_key"] == key]
        if len(happened) > 1 or (state in TOOK_PLACE and not happened) or (state in DID_NOT and happened):
            yield f"{key} is {state.value} here, and the service's books have {len(happened)} of it"
        # This service carries a key out once only. Another would not have: what came again after the effect, or after
        # the refusal, is a second write that nobody stopped but the service.
        refused = False
        for call in seen.calls_under(key):
            if call["kind"] in WRITES:
                if refused or any(not effect.undoes and one["at"] < call["at"] for one in happened):
                    yield f"{key} was sent once more, at {call['at']}, when the service had decided it"
                refused = refused or call["status"] == 409
    # A section of a draft is revised beside the draft's own write.
    standing = Counter(one.get("revises", "") for one in seen.happened if one["state"] != "cancelled")
    for what, times in standing.items():
        if times > 1:
            yield f"it has {times} effects that stand{f' on {what}' if what else ''}"


def duplicates(ledger: Row) -> list[str]:
    """I1, of all orders together: two effects for one, and writes that were sent again after they had taken effect.

    An event has one for each participant, and a draft one for each section that was revised.
    """
    standing = Counter(
        " for ".join(filter(None, (effect["order_id"], effect.get("participant_id"), effect.get("revises"))))
        for effect in ledger["effects"]
        if effect["state"] != "cancelled"
    )
    took_effect = {effect["operation_key"]: effect["at"] for effect in ledger["effects"]}
    again = Counter(
        call["operation_key"]
        for call in ledger["calls"]
        if call["kind"] == "submit" and call["at"] > took_effect.get(call["operation_key"], "9")
    )
    return [
        *(f"order {order} has {count} effects" for order, count in standing.items() if count > 1),
        *(f"{key} was sent again {count} times after it had taken effect" for key, count in again.items()),
    ]


def no_write_without_an_earlier_intent(seen: Seen) -> Iterable[str]:
    """I2: for each write that arrived, as many intents had been committed by then as had arrived."""
    for effect in seen.effects:
        intents = [e["at"] for e in seen.of("write_sent") if e["operation_key"] == effect.operation_key]
        writes = [call for call in seen.calls_under(effect.operation_key) if call["kind"] in WRITES]
        for nth, call in enumerate(writes, 1):
            if sum(at <= datetime.fromisoformat(call["at"]) for at in intents) < nth:
                yield f"write {nth} of {effect.operation_key} left before its intent was committed"


def _writes_of_nobody(ledger: Row) -> Iterable[str]:
    keys = {call["operation_key"] for call in ledger["calls"] if call["kind"] in WRITES and call["operation_key"]}
    for key in sorted(
        keys - set(Effect.objects.filter(operation_key__in=keys).values_list("operation_key", flat=True))
    ):
        yield f"the service was sent {key}, and no intent of that is on record"


def every_run_is_somebodys(seen: Seen) -> Iterable[str]:
    """I3: ended, with a person who is asked something, or waiting for an instant to come; and begun once."""
    run = seen.run
    if (started := len(seen.of("started"))) != 1:
        yield f"its start is on record {started} times"
    if run.state in FINAL:
        if run.due_at or run.owner:
            yield f"it is {run.state}, and a worker is to look at it all the same"
        return
    unread = [event.name for event in seen.inbox if not event.result]
    if (unread or not run.outcome) and run.due_at is None:
        yield f"it is {run.state} with {unread or 'work'} before it, and nobody will ever look"
    if not seen.resting:
        return
    if not run.outcome:
        yield f"it is {run.state}, not stopped, and nobody works on it"
    elif run.outcome == Outcome.WAITING and run.due_at is None:
        yield "it waits, and for no instant"
    elif run.outcome != Outcome.WAITING and not (run.question and run.role and run.answer_by):
        yield f"it stopped as {run.stop_reason}, and nobody is asked anything, or not by any time"


def steps_are_numbered_without_a_gap(seen: Seen) -> Iterable[str]:
    """I4: 1, 2, 3…, one open at a time and only the last; the tokens they were taken under never fall.

    Two leases at once would show as a token that comes back after a later one.
    """
    numbers = [step.seq for step in seen.steps]
    if numbers != list(range(1, seen.run.steps + 1)):
        yield f"it counts {seen.run.steps} steps and has {numbers}"
    open_ones = [step.seq for step in seen.steps if step.status == StepStatus.INTENT]
    if open_ones and (seen.resting or open_ones != numbers[-1:]):
        yield f"steps {open_ones} were never settled"
    tokens = [step.token for step in seen.steps]
    if tokens != sorted(tokens) or (tokens and tokens[-1] > seen.run.token):
        yield f"its steps were taken under the tokens {tokens}, and it has {seen.run.token}"


def budgets_add_up(seen: Seen) -> Iterable[str]:
    """I5: spent is what the settled steps cost, reserved what the open one does, together within the limit; and no call
    arrived that no step had paid for. Steps are only ever added, so what they add up to never falls.
    """
    spent, reserved = Counter[str](), Counter[str]()
    for step in seen.steps:
        (reserved if step.status == StepStatus.INTENT else spent).update(step.charge)
    # Steps without a call: what a policy says that nobody has to be called for.
    asked = [event for event in seen.of("stopped") if event["reason"] in SAID_BY_THE_POLICY]
    spent[Dimension.STEPS] += len(asked) + len(seen.of("claimed_completion", "handed_over", "proposal_refused"))
    for name, (limit, _, is_spent, is_reserved) in seen.run.budget.items():
        if name == Dimension.WALL_TIME:  # the one that time spends
            continue
        if (is_spent, is_reserved) != (spent[name], reserved[name]):
            steps = f"its steps add up to {spent[name]} and {reserved[name]}"
            yield f"{name}: {is_spent} spent and {is_reserved} reserved, and {steps}"
        if is_spent + is_reserved > limit:
            yield f"{name}: {is_spent} spent and {is_reserved} reserved of {limit}"
    taken = Counter(_call_of(step) for step in seen.steps)
    arrived = Counter(call["operation_key"] if call["kind"] in WRITES else call["kind"] for call in seen.calls)
    for what, unpaid in (arrived - taken).items():
        if what not in AT_THE_DOOR:
            yield f"{unpaid} calls arrived that no step had paid for: {what}"


def _call_of(step: Step) -> str:
    if step.kind == StepKind.WRITE:
        return step.operation_key
    return "lookup" if step.kind == StepKind.LOOK_UP else CALL_OF.get(step.operation, "")


def what_people_say_counts_once(seen: Seen) -> Iterable[str]:
    """I6: an event is there in full or not at all, is carried out or refused once, and a plan is decided once.

    That the loser of two was told so is between them and the door: only who sends two at once can ask for it.
    """
    received = Counter((e["actor"], e["name"]) for e in seen.of("event_received"))
    # What the first of two people proposes is told to nobody before the second says it too.
    said = [event for event in seen.inbox if event.name in FROM_PEOPLE and not _is_proposal(seen.run, event)]
    if received != Counter((event.actor_id, event.name) for event in said):
        yield f"people sent {dict(received)}, and its inbox has {[event.name for event in said]}"
    if seen.run.inbox_seq < len(said):
        yield f"its inbox has {len(said)} events, and workers were told of {seen.run.inbox_seq}"
    answers = seen.of("event_applied", "event_refused")
    answered = Counter((e["actor"], e["name"]) for e in answers if e["name"] in FROM_PEOPLE)
    if answered != Counter((event.actor_id, event.name) for event in said if event.settled_at):
        yield f"on record as answered are {dict(answered)}, and its inbox says otherwise"
    if seen.resting and (unread := [event.name for event in seen.inbox if not event.result]):
        yield f"nobody answered {unread}"
    decided = Counter((event.answers, event.stretch) for event in said if event.answers and event.result != "refused")
    for (plan, _), times in decided.items():
        if times > 1:
            yield f"plan {plan[:12]} was decided {times} times"


def _is_proposal(run: Run, event: InboxEvent) -> bool:
    """Whether it waited for a second person, and was not the second one's own word."""
    kind = FROM_PEOPLE[Move(event.name)]
    alone = kind.confirmed_by_requester and event.actor_id == run.requester_id
    return kind.takes_two and event.seconds_id is None and not alone


def what_is_unknown_is_only_looked_up(seen: Seen) -> Iterable[str]:
    """I7: while a write is open nothing is sent, and only the authority's own word makes it absent; it is counted."""
    if seen.run.effects_at_risk != (count := sum(effect.state in UNRESOLVED for effect in seen.effects)):
        yield f"{count} of its writes are open, and it counts {seen.run.effects_at_risk}"
    open_key = ""
    for event in seen.of("write_sent", "effect_answered"):
        key = event["operation_key"]
        if event["kind"] == "write_sent":
            if open_key:
                yield f"{key} was sent while {open_key} was open"
            open_key = key
            continue
        if event["after"] == EffectState.ABSENT and event["answer"] not in {Answer.ABSENT, Answer.NOT_EXECUTED}:
            yield f"{key} was taken for absent on the answer {event['answer']}"
        if key == open_key and event["after"] not in UNRESOLVED:
            open_key = ""
    for effect in seen.effects:
        for before, call in pairwise(seen.calls_under(effect.operation_key)):
            if call["kind"] in WRITES and before["kind"] in WRITES and before["status"] not in DID_NOTHING:
                yield f"{effect.operation_key} was sent again without having been looked up"


def what_happened_is_known(seen: Seen) -> Iterable[str]:
    """I8: what the service accepted is confirmed here in the end, or still open and nobody says otherwise."""
    if not seen.resting:
        return
    of = {effect.operation_key: effect for effect in seen.effects}
    undoing_in_doubt = {effect.undoes for effect in seen.effects if effect.state in UNRESOLVED}
    for one in seen.happened:
        key, state = one["operation_key"], of[one["operation_key"]].state
        open_ended = state in UNRESOLVED and (seen.run.state not in FINAL or seen.closed_unresolved)
        if one["state"] != "pending" and state not in TOOK_PLACE and not open_ended:
            yield f"{key} was accepted, and here it is {state}"
        was_undone = one["state"] == "cancelled"
        if was_undone != (state == EffectState.COMPENSATED) and not open_ended and key not in undoing_in_doubt:
            yield f"{key} is {one['state']} in the service's books, and here it is {state}"
    standing = [one for one in seen.happened if one["state"] != "cancelled"]
    if seen.run.state == State.COMPLETED and not standing:
        yield "it is complete, and nothing happened that stands"
    if seen.run.state == State.CANCELLED and standing:
        yield "it is cancelled, and what happened stands"


def who_lost_the_run_changes_nothing(seen: Seen) -> Iterable[str]:
    """I9: each step is settled once, and its transitions are one unbroken chain up to the state it is in.

    A commit under an old token writes the run as it was: a transition from a state that it had left, or a step that was
    settled already.
    """
    settled = Counter(event["seq"] for event in seen.of("step_settled", "step_interrupted"))
    if twice := sorted(seq for seq, times in settled.items() if times > 1):
        yield f"steps {twice} were settled more than once"
    state: str = State.RECEIVED
    for event in seen.of("transition"):
        if event["before"] != state:
            yield f"it was {state}, and then {event['move']} took it from {event['before']} to {event['after']}"
        if TRANSITIONS.get((State(event["before"]), Move(event["move"]))) != event["after"]:
            yield f"{event['move']} does not lead from {event['before']} to {event['after']}"
        state = event["after"]
    if state != seen.run.state:
        yield f"its transitions end at {state}, and it is {seen.run.state}"


def nothing_is_left_behind(seen: Seen) -> Iterable[str]:
    """I10: no lease is held by nobody. (That wake-ups do not pile up is the broker's own side: see `Broker`.)"""
    if seen.resting and seen.run.owner:
        yield f"it is still held, by {seen.run.owner}"


def _forgotten_sessions() -> Iterable[str]:
    """Sessions that stay idle in a transaction. That of a process which has just died takes a moment to end."""
    with suppress(TimeoutError):
        wait_until(lambda: not _idle_in_a_transaction(), within=5)
    for pid, query in _idle_in_a_transaction():
        yield f"session {pid} is idle in a transaction, after: {query[:100]}"


def _idle_in_a_transaction() -> list[tuple[int, str]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pid, query {EVERYBODY_ELSE} AND state LIKE 'idle in transaction%'")
        return list(cursor.fetchall())


INVARIANTS: list[tuple[str, Callable[[Seen], Iterable[str]]]] = [
    ("I1", one_write_takes_effect_once),
    ("I2", no_write_without_an_earlier_intent),
    ("I3", every_run_is_somebodys),
    ("I4", steps_are_numbered_without_a_gap),
    ("I5", budgets_add_up),
    ("I6", what_people_say_counts_once),
    ("I7", what_is_unknown_is_only_looked_up),
    ("I8", what_happened_is_known),
    ("I9", who_lost_the_run_changes_nothing),
    ("I10", nothing_is_left_behind),
]
AGAINST_THE_BOOKS = {"I1", "I2", "I8"}
