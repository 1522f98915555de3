"""A run in a worker's hands: what was loaded, what has changed since, and how it is written back."""

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings

from runs.domain.budget import Dimension, Ledger
from runs.domain.contract import ACCEPTANCE_OF, Evaluation, Fact, Judgement, Value
from runs.domain.decision import too_often, way_closed
from runs.domain.effects import Effect
from runs.domain.errors import ErrorClass, Failure
from runs.domain.progress import Progress
from runs.domain.redaction import clean, digest, identifiers, redact, redact_text
from runs.domain.states import Closed, Move, State, transition
from runs.engine import commit
from runs.engine.commit import Lease, Pending
from runs.models import InboxEvent, Run
from runs.models.event import canonical
from runs.models.run import ledger_as_json
from runs.secrets import known_secrets
from runs.workflows import registry
from runs.workflows.definition import PROPOSAL, Context

if TYPE_CHECKING:
    from runs.engine.calls import Planned


A_MOMENT = timedelta(seconds=1)


def pace(wait: timedelta) -> timedelta:
    return wait * settings.ENGINE_PACE


class Held:
    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.run = Run.objects.get(pk=lease.run)
        self.workflow = registry.find(self.run.workflow, self.run.workflow_version)
        self.facts: dict[str, Fact] = {row.name: row.value() for row in self.run.facts.all()}
        self.effects: list[Effect] = [row.value() for row in self.run.effects.all()]
        self.ledger: Ledger = self.run.ledger
        self.progress = _progress(self.run.progress)
        self.arrived = self.inbox_seen = self.run.inbox_seq  # events there are, and those that were looked at
        self.pending = Pending()
        self.kept_until = lease.taken_at + timedelta(seconds=settings.ENGINE_LEASE)
        # Of this stay in a worker's hands only; a crash forgets them and the run is looked at afresh.
        self.failure: Failure | None = None
        self.failed_call: Planned | None = None
        self.asked: Dimension | None = None  # somebody wants the authority asked now: the allowance that pays for it
        self.rejected = False  # somebody rejected a plan just now
        self.paused_by: InboxEvent | None = None  # who asked for a pause just now, and why
        self.in_hand: dict[str, Any] | None = None  # the last answer, until it is committed
        self.more_inbox = True
        self.changes = 0  # of facts, writes and the input
        self._judged: tuple[object, datetime, Evaluation] | None = None  # on which changes, when
        self.woken = False  # an event or a timer gave it something to do

    @property
    def state(self) -> State:
        return State(self.run.state)

    def now(self) -> datetime:
        return self.lease.now()

    def elapsed(self) -> int:
        """Seconds since the start; none where the clock was set back behind it."""
        return max(0, int((self.now() - self.run.created_at).total_seconds()))

    def context(self) -> Context:
        return Context(
            run_id=str(self.run.pk),
            input=self.run.input,
            acts_for=self.run.acts_for,
            facts=self.facts,
            effects=tuple(self.effects),
            stretch=self.run.stretch,
            now=self.now(),
            scope=self.run.scope,
            claims=self.progress.claims,
            closed=self._closed(),
            rejected=self.progress.rejected,
            answer=self._answer(),
            refused=self.progress.refused,
            left={d.value: line.available for d, line in self.ledger.at(self.elapsed()).lines.items()},
        )

    def _closed(self) -> dict[str, str]:
        """The ways, and the kinds of attempt, that are not to be tried any more, and why."""
        limits = self.workflow.fruitless if self.workflow else {}
        kinds = limits.keys() - self.progress.open_kinds(limits)
        return {**self.progress.closed, **dict.fromkeys(kinds, Closed.NOTHING_NEW.value)}

    def _answer(self) -> Mapping[str, Any] | None:
        """What a model proposed and nobody has dealt with yet."""
        fact = self.facts.get(PROPOSAL)
        return fact.data if fact and fact.data.get("turn", 0) > self.progress.taken_up else None

    def take_up(self) -> None:
        """What a model proposed, if it did, is dealt with: the same answer leads to nothing a second time."""
        if answer := self._answer():
            self.progress = replace(self.progress, taken_up=answer["turn"])

    def identifiers(self) -> set[str]:
        """What names this run's things, and is no card's number whatever its digits add up to."""
        return identifiers(self.run.input, (effect.key for effect in self.effects))

    def readable(self, text: str) -> str:
        """Text as people may see it."""
        return redact_text(text, known_secrets(), self.identifiers())

    def open_inbox(self) -> list[InboxEvent]:
        return list(self.run.inbox.filter(result="").select_related("actor").order_by("id"))

    # What happened since the last commit

    def move(self, move: Move, actor: int | None = None, **evidence: Any) -> None:
        """Take one transition of the table, and record it with what it rests on."""
        before = self.state
        self.run.state = transition(before, move)
        self.pending.moves.append(move.value)
        self.record("transition", actor, move=move, before=before, after=self.run.state, **evidence)

    def record(self, kind: str, actor: int | None = None, **content: Any) -> None:
        text = canonical(redact(content, known_secrets(), self.identifiers()))
        self.pending.events.append({"kind": kind, "actor_id": actor, "digest": digest(text), "text": text})

    def learn(self, fact: Fact) -> None:
        self.changes += 1
        self.facts[fact.name] = fact
        self.pending.facts.append(
            {
                "name": fact.name,
                "data": fact.data,
                "source": fact.source,
                "reference": fact.reference[:200],
                "read_at": fact.at,
                "stretch": fact.stretch,
            }
        )

    def put(self, effect: Effect) -> None:
        """Take `effect` as the current version of the write with its key."""
        self.changes += 1
        others = [known for known in self.effects if known.key != effect.key]
        # In the order in which they are read back, whichever of them changed last.
        self.effects = sorted([*others, effect], key=lambda known: known.planned_at)
        plan = clean(asdict(effect.plan))
        self.pending.effects[effect.key] = {
            "operation_key": effect.key,
            "operation": effect.plan.operation,
            "undoes": effect.undoes,
            "binding": effect.binding,
            "state": effect.state,
            "plan": plan,
            "plan_digest": effect.digest,
            "planned_at": effect.planned_at,
            "approved_digest": effect.approved_digest,
            "approved_by_id": effect.approved_by,
            "approved_at": effect.approved_at,
            "approval_expires_at": effect.approval_expires_at,
            "sent_at": effect.sent_at,
            "times_sent": effect.times_sent,
            "look_ups": effect.look_ups,
            "last_answer": effect.last_answer or "",
            "answered_at": effect.answered_at,
            "next_look_at": effect.next_look_at,
            "receipt": effect.receipt,
            "reason": effect.reason,
        }

    def failed(self, call: "Planned", failure: Failure) -> None:
        """A call failed. Of a read that the policy chose, that may close a way; anything else the rules deal with."""
        assert self.workflow
        self.failure, self.failed_call = failure, call
        self.progress = self.progress.failed(call.tool.name, failure.error_class)
        attempts = self.progress.failures[call.tool.name]
        reason = way_closed(failure, attempts, self.workflow.retries)
        stops = too_often(self.progress.errors_in_a_row, self.workflow.max_same_error)
        if call.way and reason and not stops:
            way = call.way if reason is Closed.NOT_THERE else call.tool.name
            self.progress = self.progress.close(way, reason)
            self.failure = None
            self.take_up()

    def mark_soft(self) -> None:
        """Each soft mark that was crossed is put on record, once."""
        marked = self.progress.soft_marks
        if crossed := [d for d in self.ledger.at(self.elapsed()).crossed_soft() if d.value not in marked]:
            self.progress = replace(self.progress, soft_marks=[*marked, *(d.value for d in crossed)])
            for dimension in crossed:
                line = self.ledger.at(self.elapsed()).lines[dimension]
                self.record("soft_limit_crossed", dimension=dimension, spent=line.spent)

    def judgements(self) -> Mapping[str, Judgement]:
        return self._evaluated().assertions if self.workflow else {}

    def contract(self) -> Value:
        return self._evaluated().value if self.workflow else Value.UNKNOWN

    def _evaluated(self) -> Evaluation:
        """The contract on what is known now. One that was evaluated a moment ago on the same is not evaluated again."""
        assert self.workflow
        run, now, so_far = self.run, self.now(), self.progress
        known = (self.changes, run.stretch, run.scope, run.acts_for, so_far.claims, so_far.rejected, self._closed())
        if self._judged is None or self._judged[0] != known or now - self._judged[1] > A_MOMENT:
            self._judged = known, now, self.workflow.judge(self.context())
        return self._judged[2]

    def effect(self, key: str) -> Effect | None:
        return next((effect for effect in self.effects if effect.key == key), None)

    @property
    def open_effect(self) -> Effect | None:
        return next((effect for effect in self.effects if effect.unresolved), None)

    def resume(self) -> None:
        """Leave the stop: the run is working again."""
        run = self.run
        run.outcome = run.stop_reason = run.question = ""
        run.stopped_at = run.answer_by = None

    def as_it_is(self) -> dict[str, Any]:
        """What `go_back_to` needs to undo, here and nowhere else, whatever is done after this."""
        pending = Pending(**{name: copy(given) for name, given in vars(self.pending).items()})
        return {**vars(self), "run": copy(self.run), "facts": dict(self.facts), "pending": pending}

    def go_back_to(self, before: dict[str, Any]) -> None:
        vars(self).update(before)

    # Writing it back

    def keep(self, seconds: float) -> None:
        """Commit and keep the run for `seconds`."""
        self._commit(hold_for=seconds)

    def give_back(self, due_at: datetime | None) -> None:
        """Commit and let go of the run; it is looked at again at `due_at`, or when an event arrives."""
        self._commit(due_at=due_at)

    def bring_up_to_date(self) -> Run:
        """The run's row with everything that is derived from what this worker knows."""
        run = self.run
        run.budget = ledger_as_json(self.ledger)
        run.progress = {name: value for name, value in vars(self.progress).items() if value}
        run.error_class = self.progress.error_class or ""
        run.error_count = self.progress.errors_in_a_row
        run.effects_at_risk = sum(effect.unresolved for effect in self.effects)
        run.acceptance = ACCEPTANCE_OF[self.contract()]
        return run

    def _commit(self, *, hold_for: float | None = None, due_at: datetime | None = None) -> None:
        arrived = commit.commit(
            self.lease,
            self.bring_up_to_date(),
            self.pending,
            inbox_seen=self.inbox_seen,
            hold_for=hold_for,
            due_at=due_at,
        )
        if hold_for is not None:
            self.kept_until = self.now() + timedelta(seconds=hold_for)
        self.pending, self.in_hand = Pending(), None
        self.arrived = arrived
        self.more_inbox = arrived > self.inbox_seen


def _progress(stored: dict[str, Any]) -> Progress:
    # What another version of the product remembers besides is nothing that this one could go by.
    known = {name: value for name, value in stored.items() if name in Progress.__dataclass_fields__}
    if known.get("error_class"):
        known["error_class"] = ErrorClass(known["error_class"])
    return replace(Progress(), **known)
