"""Agents, faults, timers and people in any order, and no law broken.

Hypothesis draws what happens next: somebody starts a run, a worker looks at it or is never heard of again, time passes,
somebody sends an event, the service makes up its mind. Within every call of the product it draws what becomes of the
call, and what happens meanwhile. After each step, and at the moment at which something leaves, the laws are held
against the product's rows and against the books of an authority that the product cannot influence (`authority.py`).

Nobody waits: workers, Django and the database go by one clock, and only this test lets it pass. FUZZ_EXAMPLES=5000 goes
on for longer, and makes what it finds as short as it can; the same examples come in the same order each time.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.db.models import Sum
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytest_django.fixtures import Settings

from runs import case
from runs.agents.policies import POLICIES
from runs.domain.budget import Dimension, Ledger
from runs.domain.decision import RULES, Kind, Rule, Verdict
from runs.domain.effects import LIFE, SENDABLE, UNRESOLVED, Answer, EffectState
from runs.domain.interventions import CATALOGUE, EventKind, Permission, Sender
from runs.domain.states import FINAL, TOO_LATE, TRANSITIONS, Move, Outcome, State, StopReason
from runs.engine import commit
from runs.engine.advance import advance
from runs.engine.held import Held
from runs.interventions import callbacks, claims, sending, starting
from runs.interventions.possible import possible_events, proposal, standing_of
from runs.interventions.refusals import Refused
from runs.models import Effect, Event, Handoff, InboxEvent, Refusal, Run, Step
from runs.tools.http import HttpService
from runs.workflows import registry
from runs.workflows.definition import FACTS_LAST, Context
from tests.engine.authority import BEGINNING, GOES_ON_TO, IN_FORCE, WRITES, Authority, Call, Clock, Fate, Refund
from tests.engine.conftest import assert_sound
from tests.engine.dying import Died
from tests.people import ROLE_OF, person

HUNT = os.environ.get("FUZZ_EXAMPLES", "")
TOGETHER = 10  # examples under one seed; from the eleventh on Hypothesis mostly varies those it has
WORKFLOW = "refund_request"
LOOK_UPS_PAID_FROM = (Dimension.STATUS_CHECKS, Dimension.FOLLOW_UP_CHECKS, Dimension.CALLBACK_CHECKS)
SUCCESS = r"accepted|approved|refunded|under number|受理|\bR\d{3}"
TIME = """
CREATE SCHEMA simulated;
CREATE FUNCTION simulated.clock_timestamp() RETURNS timestamptz LANGUAGE sql
    AS 'SELECT current_setting(''simulated.now'')::timestamptz';
CREATE FUNCTION simulated.statement_timestamp() RETURNS timestamptz LANGUAGE sql
    AS 'SELECT current_setting(''simulated.now'')::timestamptz';
SET search_path = simulated, pg_catalog, public;
"""
# Everything that the laws look at in one question. A handoff that is written again lies in another place.
ROWS = """
SELECT to_jsonb(run),
       (SELECT jsonb_object_agg(operation_key, effect) FROM runs_effect effect WHERE run_id = run.id),
       (SELECT jsonb_object_agg(event.id, event) FROM runs_inboxevent event WHERE run_id = run.id),
       (SELECT jsonb_object_agg(version, handoff.ctid) FROM runs_handoff handoff WHERE run_id = run.id)
  FROM runs_run run
"""
REAL_TIME = "SET search_path = DEFAULT; DROP SCHEMA IF EXISTS simulated CASCADE"
OPERATORS = ["alice", "supervisor", "bob", "support"]
OFTEN = {"cancel_requested": 1, "paused": 1, "approval_granted": 12}  # among what is offered; the others: 4
AGENTS = st.sampled_from(["scripted", "scripted", "scripted", "scripted", *POLICIES])
T = TypeVar("T")
Row = dict[str, Any]


@pytest.fixture
def world(transactional_db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everybody that the examples share; what an example writes is rolled back with it."""
    settings.SERVICES = {"back_office": {"url": "in memory", "token": "demo-key"}}
    settings.ENGINE_PACE = 1.0
    AnyOrder.people = {name: person(name) for name in ROLE_OF}
    monkeypatch.setattr(
        HttpService, "request", lambda self, *call, **how: AnyOrder.current.authority.request(*call, **how)
    )
    monkeypatch.setattr("django.utils.timezone.now", lambda: AnyOrder.current.clock.now)
    commits = commit.commit
    monkeypatch.setattr(commit, "commit", lambda *what, **how: AnyOrder.current.committed(commits, *what, **how))
    for module in ("advance", "calls", "commit"):
        monkeypatch.setattr(f"runs.engine.{module}.monotonic", lambda: AnyOrder.current.clock.monotonic())
    with connection.cursor() as cursor:
        cursor.execute(REAL_TIME + ";" + TIME)
        yield
        cursor.execute(REAL_TIME)


# What may become of a call

TRUTH = Fate()
READS = [
    Fate(hears) for hears in ("nothing", "503", "429", "no JSON", "an empty object", "no connection", "401", "403")
]
SUBMITS = [
    *[Fate("nothing"), Fate("nothing", lands=None), Fate("nothing", lands=9.9), Fate(ruling="pending")] * 4,
    *[Fate("503", lands=9.9), Fate("503", lands=None), Fate("429, not executed", lands=None)] * 2,
    *[Fate("another order's"), Fate("another order's", lands=None)] * 2,
    Fate(ruling="refused"),
    Fate("500"),
    Fate("429"),
    Fate("429", lands=None),
    Fate("no connection", lands=None),
    Fate("401", lands=None),
    Fate("403", lands=None),
    Fate("404", lands=None),
    Fate("422", lands=None),
    Fate("only that it is queued", ruling="pending"),
    Fate("another key's"),
    Fate("another amount"),
    Fate("no number"),
    Fate("a state nobody knows", ruling="pending"),
    Fate("no JSON"),
    Fate("an empty object", lands=None),
]
CANCELS = [fate for fate in SUBMITS if fate.ruling == "accepted" and fate.hears not in {"another amount", "no number"}]
LOOK_UPS = [
    Fate(hears)
    for hears in (
        "the index, which lags",
        "503",
        "nothing",
        "two records that differ",
        "another order's",
        "another key's",
        "no number",
        "no JSON",
        "an empty object",
        "404",
        "429",
        "401",
        "403",
    )
]
AROUND_A_COMMIT = ["the worker dies before it", "the worker dies after it", "the worker stands still after it"]
BEFORE_IT_IS_SENT = ["the worker dies", "somebody sends something", "the worker stands still"]
BEFORE_IT_IS_HEARD = [
    "the worker dies",
    "somebody sends something",
    "the answer is slow",
    "the worker is taken for dead",
]


# What people may write

WORDS = st.sampled_from(["as agreed", "ticket 17", "R789", "", " ", "x" * 2001])
VALUES = {
    "dimension": st.sampled_from(list(Dimension)),
    "field": st.sampled_from(["order_id", "customer_id", "nonsense"]),
    "value": st.sampled_from(["U-88", "bob", "B456", ""]),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["reason", "by", "comment"]), inner, max_size=2)
    ),
    max_leaves=3,
)


def payload_of(kind: EventKind) -> st.SearchStrategy[Row]:
    """What fits the event's schema, as far as a schema can tell."""
    fields = {name: VALUES.get(name, _fitting(schema)) for name, schema in kind.payload["properties"].items()}
    needed = {name: fields.pop(name) for name in kind.payload["required"]}
    return st.fixed_dictionaries(needed, optional=fields)


def _fitting(schema: Row) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "integer":
            return st.integers(schema.get("minimum", 0), schema.get("minimum", 0) + 5)
        case "boolean":
            return st.booleans()
        case "string":
            return st.sampled_from(["as agreed", "ticket 17"])
    return JSON


# The laws


@dataclass(frozen=True)
class Seen:
    """One run's rows after a step."""

    run: Row
    effects: dict[str, Row]  # by operation key
    inbox: dict[str, Row]
    packages: dict[str, str]  # by version: where it lies

    @property
    def closed_unresolved(self) -> bool:
        """Two people ended it although a write was open: the one way out of several laws."""
        return any(
            event["name"] == "closed_unresolved" and event["result"] == "applied" for event in self.inbox.values()
        )


Law = Callable[["AnyOrder", Seen, Seen | None], None]
LAWS: list[Law] = []


def law(function: Law) -> Law:
    LAWS.append(function)
    return function


@law
def a_run_is_complete_only_if_its_contract_and_the_books_say_so(
    world: "AnyOrder", now: Seen, before: Seen | None
) -> None:
    if now.run["state"] != State.COMPLETED:
        return
    happened = world.happened(now)
    assert len(happened) == 1, f"complete, and the books have {happened}"
    (confirmed,) = (row for row in now.effects.values() if row["state"] == EffectState.CONFIRMED)
    assert confirmed["receipt"]["request_id"] == happened[0].number
    assert confirmed["receipt"]["order_id"] == now.run["input"]["order_id"]
    assert confirmed["operation_key"] == happened[0].key
    if before and before.run["state"] != State.COMPLETED:
        contract = case.read(Run.objects.get(pk=now.run["id"]))["contract"]
        assert {row["value"] for row in contract} == {"MET"}, f"complete with {contract}"


@law
def one_run_has_one_effect_at_most(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    assert len(world.happened(now)) <= 1, f"more than one effect: {world.happened(now)}"


@law
def what_a_run_believes_of_a_write_is_in_the_books(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    for key, row in now.effects.items():
        found = world.authority.of(key)
        if row["undoes"]:
            undone = world.authority.cancelled.get(key)
            known = row["state"] in {EffectState.CONFIRMED, EffectState.REJECTED, *SENDABLE}
            assert not known or (undone is not None) == (row["state"] == EffectState.CONFIRMED), (
                f"undoing is {row['state']}, in the books: {undone}"
            )
            assert row["state"] not in SENDABLE or not world.authority.is_on_its_way(key), "it may still arrive"
            assert not undone or undone.key == row["undoes"], f"undone was {undone}"
            continue
        match row["state"]:
            case EffectState.COMPENSATED:
                assert [refund.state for refund in found if refund.happened] == ["cancelled"], f"in the books: {found}"
            case EffectState.CONFIRMED:
                numbers = [refund.number for refund in found if refund.happened]
                assert row["receipt"]["request_id"] in numbers, f"confirmed as {row['receipt']}, in the books: {found}"
                named = row["receipt"]["order_id"], row["receipt"]["operation_key"]
                assert named == (now.run["input"]["order_id"], key), f"confirmed by a receipt that names {named}"
            case EffectState.REJECTED:
                assert found, "rejected, and the books know nothing of it"
                assert not any(refund.happened for refund in found), f"rejected, in the books: {found}"
            case EffectState.ABSENT | EffectState.PLANNED | EffectState.APPROVED:
                assert not any(refund.happened for refund in found), f"{row['state']}, in the books: {found}"
                assert not world.authority.is_on_its_way(key), f"{row['state']}, and it may still arrive"


@law
def what_is_settled_stays_settled(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    if not before:
        return
    for key, row in before.effects.items():
        if row["state"] in {EffectState.CONFIRMED, EffectState.REJECTED}:
            assert now.effects[key]["state"] in {row["state"], "compensated"}
    if before.run["state"] in FINAL:
        assert now.run["state"] == before.run["state"]
    for number, event in before.inbox.items():
        if event["result"] not in {"", "proposed"}:
            assert now.inbox[number] == event, "an event was answered twice"


@law
def nothing_ends_while_a_write_is_open(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    if now.run["state"] not in FINAL or now.closed_unresolved:
        return
    open_ones = {key: row["state"] for key, row in now.effects.items() if row["state"] in UNRESOLVED}
    assert not open_ones, f"{now.run['state']} with {open_ones}"
    assert now.run["effects_at_risk"] == 0
    if now.run["state"] != State.COMPLETED:
        standing = [refund for refund in world.happened(now) if refund.stands]
        assert not standing, f"{now.run['stop_reason']}, and the books have {standing}"


@law
def spent_never_falls_and_never_exceeds_the_limit(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    workflow = registry.workflows()[WORKFLOW]
    extended = any(event["name"] == "budget_extended" and event["result"] == "applied" for event in now.inbox.values())
    for name, (limit, _, spent, reserved) in now.run["budget"].items():
        planned = workflow.planned(Dimension(name))
        assert spent + reserved <= limit or name == Dimension.WALL_TIME, f"{name}: {spent} + {reserved} of {limit}"
        # Look-ups are counted for each write.
        writes = (
            sum(effect["times_sent"] > 0 for effect in now.effects.values()) if name == Dimension.STATUS_CHECKS else 1
        )
        most = planned * max(1, writes) + (planned if extended else 0)
        assert planned <= limit <= most, f"{name}: {limit} of {planned} planned"
        if before:
            was_limit, _, was_spent, _ = before.run["budget"][name]
            assert spent >= was_spent, f"{name}: spent fell from {was_spent} to {spent}"
            assert limit >= was_limit, f"{name}: the limit fell from {was_limit} to {limit}"


@law
def every_call_was_paid_for(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    calls = [call for call in world.authority.calls if call.caller == now.run["id"]]
    # Whether a write can be undone is read in the same place as what became of it, and paid for like every read.
    look_ups = (
        sum(call.kind == "lookup" for call in calls)
        - Step.objects.filter(run=now.run["id"], operation="read_refund").count()
    )

    def paid(*names: Dimension) -> int:
        return sum(sum(now.run["budget"][name][2:]) for name in names)

    keys = {call.key for call in calls if call.kind == "submit"}
    assert len(calls) - look_ups <= paid(Dimension.TOOL_ATTEMPTS), "a call was not paid for"
    assert look_ups <= paid(*LOOK_UPS_PAID_FROM), "a look-up was not paid for"
    assert len(keys) <= paid(Dimension.EXTERNAL_WRITES), "a write was not paid for"
    undone = {call.key for call in calls if call.kind == "cancel"}
    assert undone <= {f"undo:{key}" for key in keys}, f"{undone} undo what was never written"


@law
def a_run_that_does_not_move_is_somebodys(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    run = now.run
    if run["state"] in FINAL:
        assert run["due_at"] is None
        assert not run["owner"]
        return
    if any(event["result"] == "" for event in now.inbox.values()) or not run["outcome"]:
        assert run["due_at"], "nobody will ever look at it"
    if run["outcome"] == Outcome.WAITING:
        assert run["due_at"], "it waits for nothing"
    if run["outcome"] and not run["due_at"]:
        assert run["question"], "no machine and no question"
        assert run["role"] or run["holder_id"], "nobody's"
        assert run["answer_by"], "no time by which somebody must answer"


@law
def a_stop_says_one_thing(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    run = now.run
    if run["stop_reason"]:
        assert StopReason(run["stop_reason"]).outcome == run["outcome"]
    ends = {Outcome.COMPLETED: State.COMPLETED, Outcome.DECLINED: State.FAILED, Outcome.CANCELLED: State.CANCELLED}
    if run["outcome"] and not now.closed_unresolved:
        assert run["state"] == ends.get(run["outcome"], run["state"])
        assert (run["state"] in FINAL) == (run["outcome"] in ends), f"{run['state']} with {run['outcome']}"
    assert run["stop_reason"] != StopReason.UNFORESEEN_ERROR, "the product met its own defect"
    if run["acceptance"] == "succeeded":
        assert any(row["state"] == EffectState.CONFIRMED for row in now.effects.values())


@law
def nobody_decides_alone_on_their_own_request(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    run = now.run
    asked = {user.pk for name, user in world.people.items() if name in {run["acts_for"], *run["asked_by"]}}
    asked |= {run["requester_id"]}
    assert not asked & {row["approved_by_id"] for row in now.effects.values()}, "approved by who asked for it"
    deciding = {move for move, kind in CATALOGUE.items() if kind.not_by_requester}
    deciders = {event["actor_id"] for event in now.inbox.values() if event["name"] in deciding}
    assert not asked & deciders, "decided by who asked for it"
    for event in now.inbox.values():
        kind = CATALOGUE.get(Move(event["name"]))
        if kind and kind.sender is Sender.SERVICE:
            assert event["actor_id"] is None
        elif kind:
            (by,) = (user for user in world.people.values() if user.pk == event["actor_id"])
            assert by.has_perm(f"runs.{kind.permission}"), f"{by} sent {event['name']}"
    closing = [event for event in now.inbox.values() if event["name"] == "closed_unresolved"]
    if now.closed_unresolved:
        assert len({event["actor_id"] for event in closing if event["result"] == "applied"}) == 2, (
            f"closed by {closing}"
        )


@law
def what_counts_only_rises(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    for name in ("token", "stretch", "steps", "inbox_seq"):
        assert not before or now.run[name] >= before.run[name], f"{name} fell"


@law
def every_stop_leaves_a_package_that_nobody_changes(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    run, earlier = now.run, before.packages if before else {}
    assert {version: now.packages.get(version) for version in earlier} == earlier
    if run["outcome"] in {"", Outcome.COMPLETED, Outcome.CANCELLED}:
        return
    version = str(run["stretch"])
    assert version in now.packages, f"no package for stop {version}"
    if version not in earlier:
        package = Handoff.objects.get(run=run["id"], version=version).package
        for name in ("state", "outcome", "stop_reason", "question", "role"):
            assert package[name] == run[name], f"the package says {name} {package[name]!r}, the run {run[name]!r}"
        assert {effect["operation_key"]: effect["state"] for effect in package["effects"]} == {
            key: row["state"] for key, row in now.effects.items()
        }
        world.may_be_said(now, package["customer_says"])
        assert_sound(package)


@law
def the_customer_hears_of_success_only_when_it_is_one(world: "AnyOrder", now: Seen, before: Seen | None) -> None:
    if before and now.run["outcome"] != before.run["outcome"] and now.packages == before.packages:
        world.may_be_said(now, case.read(Run.objects.get(pk=now.run["id"]))["customer_says"])


# What happens


class AnyOrder(RuleBasedStateMachine):
    current: "AnyOrder"
    people: dict[str, User]
    cases = Bundle("cases")

    def __init__(self) -> None:
        super().__init__()
        AnyOrder.current = self
        self.clock = Clock()
        self.authority = Authority(self.clock)
        self.authority.fate = self._fate
        self.authority.meanwhile = self._not_lost()(self._meanwhile)
        self.authority.leaving = self._not_lost()(self._may_leave)
        self.clock.passed.append(self._tell_the_database)
        self.draw: Callable[..., Any] | None = None  # None: nothing goes wrong
        self.rough = {"submit": 1, "lookup": 1}  # how often the truth is put among the faults, by kind of call
        self.depth = 0
        self.step = 0
        self.seen: dict[str, Seen] = {}
        self.broken: list[AssertionError] = []  # laws broken where the product would have caught the exception
        self.example = transaction.atomic()
        self.example.__enter__()
        self._tell_the_database()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.example.__exit__(None, None, None)

    def _tell_the_database(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('simulated.now', %s, false)", [self.clock.now.isoformat()])

    # Steps

    @initialize(
        target=cases,
        reads=st.sampled_from([400, 40]),
        submits=st.sampled_from([20, 3]),
        look_ups=st.sampled_from([20, 3]),
        order=st.sampled_from(["B456", "D041", "C204"]),
        policy=AGENTS,
        behind=st.sampled_from(["", "U-88", "bob"]),
        data=st.data(),
    )
    def it_begins(
        self, reads: int, submits: int, look_ups: int, order: str, policy: str, behind: str, data: st.DataObject
    ) -> UUID | MultipleResults[UUID]:
        reading, writing = ("authority", "orders", "policies"), ("submit", "cancel")
        self.rough = {**dict.fromkeys(reading, reads), **dict.fromkeys(writing, submits), "lookup": look_ups}
        return self.somebody_starts_a_run(order, "support", behind, policy, data)

    @rule(
        target=cases,
        order=st.sampled_from(["B456", "D041", "C204", "A123"]),
        by=st.sampled_from(["support", "bob", "charlie"]),
        behind=st.sampled_from(["", "U-88", "bob", "U-99"]),  # the last one may not
        policy=AGENTS,
        data=st.data(),
    )
    def somebody_starts_a_run(
        self, order: str, by: str, behind: str, policy: str, data: st.DataObject
    ) -> UUID | MultipleResults[UUID]:
        given = {"order_id": order} | ({"customer_id": behind} if behind else {})
        try:
            run, new = starting.start(WORKFLOW, given, self.people[by], policy=policy)
        except Refused:
            return multiple()
        if not new:
            return multiple()
        # The columns' defaults are the one clock that a test cannot set.
        Run.objects.filter(pk=run.pk).update(created_at=self.clock.now, due_at=self.clock.now)
        self._wake(run.pk, data.draw)
        return run.pk

    @rule(run=cases, data=st.data())
    def a_worker_looks(self, run: UUID, data: st.DataObject) -> None:
        self._work(run, data.draw)

    @rule(run=cases, data=st.data())
    def its_time_comes(self, run: UUID, data: st.DataObject) -> None:
        self._until(Run.objects.get(pk=run).due_at)
        self._work(run, data.draw)

    @rule(run=cases)
    def a_worker_takes_it_and_is_never_heard_of_again(self, run: UUID) -> None:
        commit.claim(run, 30)

    @rule(seconds=st.sampled_from([1, 6, 11, 21, 31, 6 * 60, 16 * 60, 31 * 60, 4 * 3600, 25 * 3600]), data=st.data())
    def time_passes(self, seconds: int, data: st.DataObject) -> None:
        self.clock.passes(seconds)
        for run in Run.objects.due().order_by("created_at").values_list("pk", flat=True):
            self._wake(run, data.draw)

    @rule(run=cases, who=st.sampled_from(OPERATORS), data=st.data(), twice=st.booleans())
    def somebody_does_what_is_offered(self, run: UUID, who: str, data: st.DataObject, twice: bool) -> None:
        sent = self._do_what_is_offered(run, who, data.draw)
        if sent and twice:
            kind, payload, answers = sent
            again = self._attempt(run, lambda: sending.send(run, kind.move, self.people[who], payload, answers))
            assert isinstance(again, Refused), f"{kind.move} was accepted twice"
        if sent:
            self._wake(run, data.draw)

    @precondition(lambda self: self._awaiting_approval())
    @rule(who=st.sampled_from(["supervisor", "bob"]), grants=st.sampled_from([True, True, True, False]), data=st.data())
    def somebody_decides(self, who: str, grants: bool, data: st.DataObject) -> None:
        run = UUID(data.draw(st.sampled_from(self._awaiting_approval()), "on"))
        event, payload = (Move.APPROVAL_GRANTED, {}) if grants else (Move.APPROVAL_REJECTED, {"reason": "too dear"})
        answers = self._digests(run)[-1]
        self._attempt(run, lambda: sending.send(run, event, self.people[who], payload, answers))
        self._wake(run, data.draw)

    @precondition(lambda self: self._that_stand(lambda run: run["effects_at_risk"] and not run["cancel_requested"]))
    @rule(data=st.data())
    def it_is_withdrawn_while_it_is_accepted(self, data: st.DataObject) -> None:
        """What makes undoing necessary, and is rare by chance."""
        run = self._that_stand(lambda run: run["effects_at_risk"] and not run["cancel_requested"])[0]
        said = {"reason": "the customer keeps it"}
        self._attempt(run, lambda: sending.send(run, Move.CANCEL_REQUESTED, self.people["alice"], said, ""))
        for refund in self.authority.books:
            if refund.state == "pending":
                self.authority.decide(refund, "accepted")
        self._wake(run, data.draw)

    @precondition(lambda self: self._that_stand(lambda run: run["stop_reason"] in TOO_LATE))
    @rule(who=st.sampled_from(["supervisor", "bob"]), data=st.data())
    def it_is_undone(self, who: str, data: st.DataObject) -> None:
        run = self._that_stand(lambda run: run["stop_reason"] in TOO_LATE)[0]
        said = {"reason": "as agreed"}
        self._attempt(run, lambda: sending.send(run, Move.COMPENSATION_APPROVED, self.people[who], said, ""))
        self._wake(run, data.draw)

    @rule(
        run=cases,
        who=st.sampled_from(list(ROLE_OF)),
        event=st.sampled_from([*Move, "nonsense"]),
        answers=st.sampled_from(["this plan", "an earlier plan", "0" * 64, ""]),
        seen=st.sampled_from(["", "as it is", "executing//"]),
        data=st.data(),
    )
    def somebody_tries_something(
        self, run: UUID, who: str, event: str, answers: str, seen: str, data: st.DataObject
    ) -> None:
        kind = CATALOGUE.get(Move(event)) if event in list(Move) else None
        payload: Any = data.draw(payload_of(kind) | JSON if kind else JSON, "payload")
        plans = self._digests(run)
        answers = {"this plan": plans[-1], "an earlier plan": plans[0]}.get(answers, answers)
        seen = standing_of(Run.objects.get(pk=run)) if seen == "as it is" else seen
        self._attempt(run, lambda: sending.send(run, event, self.people[who], payload, answers, seen))

    @rule(run=cases, who=st.sampled_from(list(ROLE_OF)), what=st.sampled_from(["claim", "give back", "take the next"]))
    def somebody_goes_through_the_cases(self, run: UUID, who: str, what: str) -> None:
        by = self.people[who]
        held = Run.objects.filter(holder__isnull=False, held_until__gt=self.clock.now).exclude(holder=by)
        by_others = set(held.values_list("pk", flat=True))
        got: Run | Refused | None = None
        match what:
            case "claim":
                got = self._attempt(run, lambda: claims.claim(run, by))
            case "take the next":
                got = self._attempt(run, lambda: claims.take_next(by))
            case _:
                self._attempt(run, lambda: claims.release(run, by))
        assert not isinstance(got, Run) or got.pk not in by_others, "taken from somebody who held it"

    @rule(data=st.data())
    def the_world_changes(self, data: st.DataObject) -> None:
        authority = self.authority
        undecided = [refund for refund in authority.books if refund.state in GOES_ON_TO]
        what = ["the policies", "an order", "somebody's authority"] + ["a refund"] * 6 * len(undecided)
        match data.draw(st.sampled_from(what), "what changes"):
            case "a refund":
                refund = data.draw(st.sampled_from(undecided), "which")
                authority.decide(refund, data.draw(st.sampled_from(GOES_ON_TO[refund.state]), "to"))
            case "the policies":
                authority.policies = data.draw(st.sampled_from([*["in force"] * 3, *IN_FORCE]), "to")
            case "an order":
                order = authority.orders[data.draw(st.sampled_from(list(authority.orders)), "which")]
                order.amount_minor = data.draw(st.sampled_from([59_00, 99_00, 249_00]), "amount")
                order.opened = data.draw(st.sampled_from([False, False, True]), "opened")
                order.version += 1
            case _:
                authority.withdrawn ^= {data.draw(st.sampled_from(["U-88", "support", "bob"]), "whose")}

    @precondition(lambda self: self.authority.sent)
    @rule(number=st.integers(0, 3), data=st.data())
    def the_service_calls_back(self, number: int, data: st.DataObject) -> None:
        """About any write that ever left for it: with news or without, early, late, and more than once."""
        about = data.draw(st.sampled_from(self.authority.sent), "about").call
        self._is_called_back(about, f"msg_{number}")
        self._wake(UUID(about.caller), data.draw)

    @precondition(lambda self: self.step > 10)
    @rule()
    def two_quiet_days(self) -> None:
        """Nothing goes wrong any more, and nobody does anything: everything comes to rest where it can be found."""
        end = self.clock.now + timedelta(days=2)
        for _ in range(100):
            run = Run.objects.filter(due_at__lte=end).order_by("due_at").first()
            if run is None:
                break
            self._until(run.due_at)
            self._work(run.pk)
        else:
            raise AssertionError("Two quiet days, and it never comes to rest.")
        self._until(end)
        self._a_law_was_broken()  # says more than what the product made of it
        for run in Run.objects.unfinished():
            assert run.due_at is None, f"{run} still waits for a timer: {standing_of(run)}"
        assert not InboxEvent.objects.filter(result="").exists(), "an accepted event was never answered"
        for run in Run.objects.all():
            self._steps_and_transitions_follow(run)

    # How the product is driven

    def _wake(self, run: UUID, draw: Callable[..., Any]) -> None:
        """A worker looks, unless the message that should wake it was lost."""
        if draw(st.sampled_from([True, True, True, False]), "a worker is woken"):
            self._work(run, draw)

    def _work(self, run: UUID, draw: Callable[..., Any] | None = None) -> None:
        """A worker carries the run on for as long as it is asked to come back at once."""
        outer = self.authority.caller, self.draw
        self.authority.caller, self.draw, self.depth = str(run), draw, self.depth + 1
        try:
            for _ in range(40):
                if not advance(run):
                    return
        except Died:
            return
        finally:
            self.authority.caller, self.draw = outer
            self.depth -= 1
        raise AssertionError("A worker is asked to come back for ever.")

    def _until(self, moment: Any) -> None:
        if moment:
            self.clock.until(moment)

    def _fate(self, call: Call) -> Fate:
        if not self.draw or not call.caller:
            return TRUTH
        faults = {"submit": SUBMITS, "cancel": CANCELS, "lookup": LOOK_UPS}.get(call.kind, READS)
        fates = {str(fate): fate for fate in [TRUTH, *faults]}
        names = [str(fate) for fate in [TRUTH] * self.rough[call.kind] + faults]
        return fates[self.draw(st.sampled_from(names), f"{call.kind} hears")]

    def _meanwhile(self, call: Call, moment: str) -> None:
        if not self.draw or not call.caller or self.depth > 2 or (moment.endswith("sent") and call.kind not in WRITES):
            return
        events = BEFORE_IT_IS_SENT if moment.endswith("sent") else BEFORE_IT_IS_HEARD
        if call.key and not moment.endswith("sent"):
            events = [*events, "the service calls back"]
        often = {"submit": 8, "cancel": 8, "lookup": 12}.get(call.kind, 30)
        match self.draw(st.sampled_from(["nothing"] * often + events), f"{call.kind}, {moment}"):
            case "the worker dies":
                raise Died
            case "the worker stands still" | "the answer is slow":
                self.clock.passes(4.9)
            case "somebody sends something":
                who = self.draw(st.sampled_from(["alice", "supervisor"]), "who")
                self._do_what_is_offered(UUID(call.caller), who, self.draw)
                if self.draw(st.booleans(), "another worker looks"):
                    self._work(UUID(call.caller), self.draw)
            case "the service calls back":
                self._is_called_back(call, f"msg_{len(self.authority.calls)}")
            case "the worker is taken for dead":
                self._others_take(UUID(call.caller))

    def _is_called_back(self, about: Call, message_id: str) -> None:
        before = self._row(UUID(about.caller))
        try:
            callbacks.call_back("back_office", message_id, {"operation_key": about.key})
        except Refused as refused:
            if refused.code != "too_many":
                raise
        after = self._row(UUID(about.caller))
        changed = {name for name in before if before[name] != after[name]}
        assert changed <= {"inbox_seq", "due_at"}, f"a callback changed {changed}"

    def committed(self, commits: Callable[..., int], *what: Any, **how: Any) -> int:
        """A commit, and what may befall its worker just then."""
        if not self.draw or self.depth > 2:
            return commits(*what, **how)
        often = 10 if any(intent["kind"] == "write" for intent in what[2].intents) else 60
        befalls = self.draw(st.sampled_from(["nothing"] * often + AROUND_A_COMMIT), "at a commit")
        if befalls == "the worker dies before it":
            raise Died
        arrived = commits(*what, **how)
        if befalls == "the worker dies after it":
            raise Died
        if befalls == "the worker stands still after it":
            self._others_take(what[0].run)
        return arrived

    def _others_take(self, run: UUID) -> None:
        """Its worker stood still for so long that another one carries it on."""
        assert self.draw
        with self._not_lost():
            self._until(Run.objects.get(pk=run).due_at)
            self._work(run, self.draw)

    def _do_what_is_offered(self, run: UUID, who: str, draw: Callable[..., Any]) -> tuple[EventKind, Row, str] | None:
        by, row = self.people[who], Run.objects.select_related("holder", "requester").get(pk=run)
        offered = {str(event.kind.move): event.kind for event in possible_events(row, by) if not event.why_not}
        if not offered:
            return None
        proposed = set(InboxEvent.objects.filter(run=run, result="proposed").values_list("name", flat=True))
        choices = [name for name in sorted(offered) for _ in range(12 if name in proposed else OFTEN.get(name, 4))]
        kind = offered[draw(st.sampled_from(choices), "event")]
        first = proposal(kind, row)
        payload, answers = draw(payload_of(kind), "payload"), str(first.pk) if first else self._digests(run)[-1]
        sent = self._attempt(run, lambda: sending.send(run, kind.move, by, payload, answers))
        if isinstance(sent, Refused):
            expected = {"already_sent", "decided", "expired", "invalid", "withdrawn"}
            assert sent.code in expected, f"{kind.move} was offered, and refused: {sent}"
            return None
        return kind, payload, answers

    def _attempt(self, run: UUID, what: Callable[[], T]) -> T | Refused:
        """Try it. What is refused changes nothing of the run, and is on record."""
        before, refusals = self._row(run), self._refusals()
        try:
            return what()
        except Refused as no:
            refused = no
        assert self._row(run) == before, f"a refused attempt changed the run: {refused}"
        assert self._refusals() == refusals + 1, f"a refused attempt is not on record: {refused}"
        return refused

    def _row(self, run: UUID) -> Row:
        return dict(Run.objects.values().get(pk=run))

    def _refusals(self) -> int:
        counted: int = Refusal.objects.aggregate(sum=Sum("count"))["sum"] or 0
        return counted

    def _that_stand(self, so: Callable[[Row], Any]) -> list[UUID]:
        return [UUID(run) for run, now in self.seen.items() if so(now.run)]

    def _awaiting_approval(self) -> list[str]:
        return [run for run, now in self.seen.items() if now.run["state"] == State.AWAITING_APPROVAL]

    def _digests(self, run: UUID) -> list[str]:
        """Of the plans that were put up, the current one last."""
        return ["", *Effect.objects.filter(run=run).order_by("planned_at", "pk").values_list("plan_digest", flat=True)]

    # What the laws are held against

    @invariant()
    def no_law_is_broken(self) -> None:
        self._a_law_was_broken()
        self.step += 1
        seen = self._look()
        keys = {key for now in seen.values() for key in now.effects}
        assert all(refund.key in keys for refund in self.authority.books), "something happened that no run knows of"
        for run, now in seen.items():
            for holds in LAWS:
                holds(self, now, self.seen.get(run))
        self.seen = seen

    def _look(self) -> dict[str, Seen]:
        with connection.cursor() as cursor:
            cursor.execute(ROWS)
            found = [[json.loads(value) if value else {} for value in row] for row in cursor.fetchall()]
        return {run["id"]: Seen(run, effects, inbox, packages) for run, effects, inbox, packages in found}

    def happened(self, now: Seen) -> list[Refund]:
        return [refund for key in now.effects for refund in self.authority.of(key) if refund.happened]

    def may_be_said(self, now: Seen, says: dict[str, str]) -> None:
        """To the customer, in whichever language."""
        for text in says.values():
            if now.run["state"] != State.COMPLETED:
                assert not re.search(SUCCESS, text), f"the customer hears: {text}"
            if re.search("not submitted|没有提交", text):
                assert not any(sent.call.caller == now.run["id"] for sent in self.authority.sent), text
            if re.search("did not take effect|undone|没有生效|已撤销", text):
                assert not any(refund.stands for refund in self.happened(now)), text

    def _a_law_was_broken(self) -> None:
        if self.broken:
            raise self.broken[0]

    @contextmanager
    def _not_lost(self) -> Iterator[None]:
        """Within the product's own work a broken law would be taken for a defect that it survives."""
        try:
            yield
        except AssertionError as broken:
            self.broken.append(broken)
            raise

    def _may_leave(self, call: Call, body: Any) -> None:
        """The laws of the moment at which a write leaves."""
        run = Run.objects.select_related("requester").get(pk=call.caller)
        effect = Effect.objects.select_related("approved_by").get(operation_key=call.key)
        assert effect.run_id == run.pk
        assert effect.state == EffectState.SENT, f"sent while the record says {effect.state}"
        assert Step.objects.filter(run=run, operation_key=call.key, kind="write", status="intent").exists()
        of_its_kind = [sent for sent in self.authority.sent if sent.call.caller == call.caller]
        for earlier in (sent for sent in of_its_kind if sent.call.kind == call.kind):
            assert earlier.undone or earlier.absent, "sent again, and nobody had said that it was not there"
        if call.kind == "cancel":
            self._may_be_undone(run, effect)
            return
        waiting = run.inbox.filter(name__in=["cancel_requested", "paused"], result="").exists()
        assert not any([run.paused, run.cancel_requested, waiting]), "sent although somebody had stopped it"
        self._was_permitted(run, call, body)
        policy = self.authority.heard[call.caller, "policies"].data["policies"][0]
        left_open = Effect.objects.filter(run__subject=run.subject, state__in=UNRESOLVED).exclude(run=run).exists()
        if body["amount_minor"] > policy["approval_above_minor"] or left_open:
            self._was_approved(run, effect)

    def _may_be_undone(self, run: Run, effect: Effect) -> None:
        first = Effect.objects.get(operation_key=effect.undoes)
        assert first.state == EffectState.CONFIRMED, f"undone although it was {first.state}"
        approvals = run.inbox.filter(name="compensation_approved", result="applied")
        assert approvals.exists(), "undone, and nobody had decided that"
        assert not run.paused, "undone although somebody had stopped it"
        read = Step.objects.filter(run=run, operation="read_refund", status="done").latest("seq")
        sent_before = max(
            (sent.at for sent in self.authority.sent if sent.call.key == effect.operation_key), default=None
        )
        assert read.settled_at
        assert read.settled_at >= max(self.clock.now - FACTS_LAST, sent_before or BEGINNING), "undone on an old reading"

    def _was_permitted(self, run: Run, call: Call, body: Any) -> None:
        heard = {kind: self.authority.heard.get((call.caller, kind)) for kind in ("authority", "orders", "policies")}
        stop = Handoff.objects.filter(run=run).order_by("-version").first()
        since = max(
            [stop.made_at if stop else BEGINNING, self.clock.now - FACTS_LAST]
            + [sent.at for sent in self.authority.sent if sent.call.caller == call.caller]
        )
        for kind, said in heard.items():
            assert said, f"sent without ever asking for {kind}"
            assert said.at >= since, f"sent on {kind} that was read {self.clock.now - said.at} ago"
        authority, order, policies = (said.data for said in heard.values() if said)
        assert authority["user"] == run.acts_for, "sent on the authority of somebody else"
        assert authority["allowed"], "sent for somebody who may not"
        (policy,) = policies["policies"]
        assert policy["window_days"] >= 3, "sent for an order that is too old"
        assert not order["opened"], "sent for an order that was opened"
        wanted = {name: order[name] for name in ("order_id", "amount_minor", "currency")}
        assert body == wanted, f"sent {body} for {wanted}"

    def _was_approved(self, run: Run, effect: Effect) -> None:
        by = effect.approved_by
        assert by, "sent without approval"
        assert by.has_perm(f"runs.{Permission.APPROVE}")
        assert by.get_username() not in {run.requester.get_username(), run.acts_for}
        assert effect.approved_digest == effect.plan_digest, "sent on the approval of another plan"
        assert effect.approval_expires_at
        assert effect.approval_expires_at > self.clock.now - timedelta(seconds=1), "sent on an approval that had lapsed"
        decisions = run.inbox.filter(name="approval_granted", answers=effect.plan_digest, result="applied", actor=by)
        assert decisions.exists(), "approved, and nobody did"

    def _steps_and_transitions_follow(self, run: Run) -> None:
        numbers = list(Step.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
        assert numbers == list(range(1, run.steps + 1)), f"steps {numbers} of {run.steps}"
        assert not Step.objects.filter(run=run, code="unforeseen").exists(), "the product met its own defect"
        state = State.RECEIVED
        for event in Event.objects.filter(run=run, kind="transition").select_related("text_row").order_by("id"):
            said = event.text_row.content()
            assert said["before"] == state, f"{said} after {state}"
            assert TRANSITIONS.get((state, Move(said["move"]))) == said["after"], f"{said} is not in the table"
            state = State(said["after"])
        assert state == run.state


FIRST_FOUND = settings(
    max_examples=TOGETHER,
    stateful_step_count=25,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
SHORTEST = settings(FIRST_FOUND, phases=[Phase.generate, Phase.shrink])  # for up to five minutes


def play(seeds: range, how: settings = FIRST_FOUND) -> None:
    for number in seeds:
        run_state_machine_as_test(seed(number)(AnyOrder), settings=how)


@pytest.mark.parametrize("number", range(int(HUNT or 20) // TOGETHER))
def test_no_order_of_events_breaks_a_law(world: None, number: int) -> None:
    play(range(number, number + 1), SHORTEST if HUNT else FIRST_FOUND)


# The test of the test: each of these defects is found


def it_sends_again_what_it_does_not_know(patch: pytest.MonkeyPatch) -> None:
    for state in (EffectState.SENT, EffectState.UNKNOWN):
        patch.setitem(LIFE, (state, Answer.UNREACHABLE), EffectState.ABSENT)


def it_takes_not_found_for_absent_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("runs.engine.calls.absence_is_proof", lambda *whatever: True)


def it_starts_from_zero_when_it_resumes(patch: pytest.MonkeyPatch) -> None:
    resume = Held.resume

    def resumed(held: Held) -> None:
        resume(held)
        assert held.workflow
        held.ledger = Ledger.of(held.workflow.budgets)

    patch.setattr(Held, "resume", resumed)


def it_accepts_anybodys_receipt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("runs.tools.receipts.stranger", lambda record, call: "")


def it_goes_by_what_it_read_before_the_stop(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "fresh", lambda context, name: context.facts.get(name))


def it_sends_without_approval(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("runs.engine.outlook.approval_is_valid", lambda *whatever: True)


def it_lets_requesters_decide(patch: pytest.MonkeyPatch) -> None:
    def may(kind: EventKind, run: Run, by: User) -> str:
        return "" if by.has_perm(f"runs.{kind.permission}") else "Not you."

    patch.setattr("runs.interventions.possible._not_by", may)


def it_overlooks_what_arrives_while_it_works(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "COMMIT", commit.COMMIT.replace("inbox_seq > %(inbox_seen)s", "false"))


def it_cancels_without_asking(patch: pytest.MonkeyPatch) -> None:
    rule = Rule(2, "", lambda s: Verdict(Kind.STOP, StopReason.CANCELLED_ABSENT) if s.cancel_requested else None)
    patch.setattr("runs.domain.decision.RULES", (rule, *RULES))


def it_sends_after_it_stood_still(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("runs.engine.calls.monotonic", lambda: 0.0)


def it_sets_no_timer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("runs.engine.stops.next_due", lambda held: None)


SOON = [
    (it_sends_again_what_it_does_not_know, "sent again|absent, "),
    (it_starts_from_zero_when_it_resumes, "spent fell|not paid for"),
    (it_sends_without_approval, "sent without approval"),
]
IN_A_HUNT = [
    (it_accepts_anybodys_receipt, "confirmed by a receipt that names|confirmed as"),
    (it_sets_no_timer, "it waits for nothing"),
    (it_goes_by_what_it_read_before_the_stop, "that was read .* ago"),
    (it_takes_not_found_for_absent_at_once, "sent again|absent, "),
    (it_sends_after_it_stood_still, "sent "),
    (it_lets_requesters_decide, "by who asked for it"),
    (it_overlooks_what_arrives_while_it_works, "nobody will ever look at it"),
    (it_cancels_without_asking, "cancelled with|cancelled_absent, and the books have"),
]


@pytest.mark.parametrize("defect", [defect for defect, _ in IN_A_HUNT])
def test_a_defect_that_only_a_hunt_looks_for_can_still_be_made(
    monkeypatch: pytest.MonkeyPatch, defect: Callable[[pytest.MonkeyPatch], None]
) -> None:
    committing = commit.COMMIT
    defect(monkeypatch)
    assert (committing != commit.COMMIT) == (defect is it_overlooks_what_arrives_while_it_works)


@pytest.mark.parametrize(("defect", "law"), SOON + (IN_A_HUNT if HUNT else []))
def test_a_defect_is_found(
    world: None, monkeypatch: pytest.MonkeyPatch, defect: Callable[[pytest.MonkeyPatch], None], law: str
) -> None:
    defect(monkeypatch)
    with pytest.raises((AssertionError, IntegrityError), match=law):
        play(range(60))
