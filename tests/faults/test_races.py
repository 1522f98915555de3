"""Two at the same instant, workers and people: one wins where only one may, and the other is told who was first."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from itertools import product
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from runs.engine import calls, commit, sweep
from runs.engine.advance import advance
from runs.engine.calls import Planned
from runs.engine.commit import Lease
from runs.engine.held import Held
from runs.engine.sweep import Sweeper
from runs.interventions import claims, sending, starting, waking
from runs.interventions.possible import possible_events
from runs.interventions.refusals import Refused
from runs.models import InboxEvent, Refusal, Run, Step
from tests.engine.conftest import Engine
from tests.faults.hands import MOST, PATIENCE, Hands, attempt
from tests.faults.invariants import violations
from tests.people import person
from tests.states import without_guards

pytestmark = pytest.mark.usefixtures("no_broker")

PAST = "2000-01-01T00:00Z"
EXPENSIVE, CHEAP = "D586", "B456"


def the_lease_runs_out(run: UUID) -> None:
    """As time would do it; or the timer that the run waits for goes off."""
    Run.objects.filter(pk=run, due_at__isnull=False).update(due_at=PAST)


def fresh(run: Run) -> Run:
    run.refresh_from_db()
    return run


def row(run: Run) -> dict[str, Any]:
    return dict(Run.objects.values().get(pk=run.pk))


def stopped_as(run: Run) -> tuple[str, str]:
    return fresh(run).outcome, run.stop_reason


def assert_sound(engine: Engine) -> None:
    ledger = engine.back_office.client.get("/control/ledger").raise_for_status().json()
    found = violations(Run.objects.values_list("pk", flat=True), ledger)
    assert not found, "\n".join(found)


# Workers


@pytest.mark.parametrize("workers", [2, MOST])
def test_of_many_workers_who_claim_a_run_one_gets_it(engine: Engine, hands: Hands, workers: int) -> None:
    run = engine.start(CHEAP)

    leases = hands.all_at_once([lambda: commit.claim(run.pk, 30)] * workers)

    assert sum(isinstance(lease, Lease) for lease in leases) == 1
    assert leases.count(None) == workers - 1
    assert fresh(run).token == 1


@pytest.mark.parametrize("workers", [2, MOST])
def test_of_many_workers_who_are_woken_for_a_run_one_carries_it(engine: Engine, hands: Hands, workers: int) -> None:
    run = engine.start(CHEAP)

    said = hands.all_at_once([lambda: advance(run.pk)] * workers)

    assert said == [False] * workers
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert run.token == 1
    assert len(engine.calls(CHEAP, "submit")) == 1
    assert_sound(engine)


def test_who_claims_behind_another_s_back_waits_and_gets_nothing(engine: Engine, hands: Hands) -> None:
    run = engine.start(CHEAP)
    second = hands.while_inside(commit, "claim", lambda: commit.claim(run.pk, 30))

    assert commit.claim(run.pk, 30)

    assert second.result(PATIENCE) is None
    assert fresh(run).token == 1


def test_who_claims_behind_the_back_of_one_who_dies_gets_the_run(engine: Engine, hands: Hands) -> None:
    run = engine.start(CHEAP)
    second = hands.while_inside(commit, "claim", lambda: commit.claim(run.pk, 30))

    with transaction.atomic():
        commit.claim(run.pk, 30)
        transaction.set_rollback(True)

    lease = second.result(PATIENCE)
    assert isinstance(lease, Lease)
    assert lease.token == 1


# A worker stands still past its lease; another takes over and finishes; the first one wakes


def of_kind(kind: str) -> Callable[..., bool]:
    return lambda held, planned, until: planned.tool.kind == kind


def taken_over(run: Run) -> Callable[[], bool]:
    def take_over() -> bool:
        the_lease_runs_out(run.pk)
        return advance(run.pk)

    return take_over


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_worker_that_wakes_before_its_call_after_another_has_taken_over_sends_nothing(
    engine: Engine, hands: Hands, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    run = engine.start(CHEAP)
    hands.before(calls, "_perform", taken_over(run), only=of_kind(kind))
    perform, late = calls._perform, [True]

    def performed(held: Held, planned: Planned, until: float) -> Any:
        """Whoever stood still so long wakes with the instant behind it by which the call had to be over."""
        if late and planned.tool.kind == kind:
            late.clear()
            until = 0.0
        return perform(held, planned, until)

    monkeypatch.setattr(calls, "_perform", performed)

    advance(run.pk)

    if kind == "write":  # the second one cannot know that; it asks until absence is proven
        assert stopped_as(run) == ("WAITING", "effect_unknown")
        assert engine.calls(CHEAP, "submit") == []
        run = engine.later(run)
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls(CHEAP, "submit")) == 1
    assert_sound(engine)


@pytest.mark.parametrize("kind", ["read", "write", "look_up"])
def test_a_worker_that_wakes_with_an_answer_after_another_has_finished_changes_nothing(
    engine: Engine, hands: Hands, kind: str
) -> None:
    if kind == "look_up":
        engine.back_office.fault(CHEAP, "answer_lost")
    run = engine.start(CHEAP)
    after: dict[str, Any] = {}

    def another_finishes() -> None:
        taken_over(run)()
        after.update(row(run))

    hands.before(calls, "_settle", another_finishes, only=lambda held, planned, *rest: planned.tool.kind == kind)

    advance(run.pk)

    assert after["state"] == "completed"
    now = row(run)
    assert {name for name in now if now[name] != after[name]} == {"inbox_seq"}
    late = run.inbox.get(name="late_result")
    assert (late.result, late.result_reason) == ("refused", "The run had ended; kept as evidence.")
    assert len(engine.calls(CHEAP, "submit")) == 1
    assert_sound(engine)


# The sweeper


def ending(lease: Lease, run: Run, *what: Any, **how: Any) -> bool:
    return run.is_final


def test_a_run_that_ends_while_the_sweeper_reaches_for_it_stays_ended(engine: Engine, hands: Hands) -> None:
    run = engine.start(CHEAP)

    # The sweeper's pass began when the lease had just run out and the end was not committed yet.
    hands.before(commit, "commit", lambda: the_lease_runs_out(run.pk), only=ending)
    swept = hands.while_inside(commit, "commit", lambda: Sweeper().carry_on(run.pk), only=ending)

    advance(run.pk)

    assert swept.result(PATIENCE) is None
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert (run.token, run.due_at) == (1, None)
    assert_sound(engine)


def test_a_worker_that_comes_to_the_end_while_the_sweeper_takes_its_run_ends_nothing(
    engine: Engine, hands: Hands
) -> None:
    run = engine.start(CHEAP)
    worker, goes_on = standing_at(hands, run, ending)
    the_lease_runs_out(run.pk)
    # The sweeper's claim is not committed yet: the worker's commit waits for it, and finds the token raised.
    lost = hands.while_inside(commit, "claim", lambda: (goes_on(), worker.result(PATIENCE))[1])

    Sweeper().carry_on(run.pk)

    assert lost.result(PATIENCE) is False
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert run.token == 2
    assert run.events.filter(kind="stopped").count() == 1
    assert len(engine.calls(CHEAP, "submit")) == 1
    assert_sound(engine)


def standing_at(
    hands: Hands, run: Run, which: Callable[..., bool]
) -> tuple["Future[bool | Exception]", Callable[[], None]]:
    """A worker that has come to a commit and stands still before it, and what lets it go on."""
    arrived, go = Event(), Event()

    def stand() -> None:
        arrived.set()
        assert go.wait(PATIENCE)

    hands.before(commit, "commit", stand, only=which)
    worker = hands.do(lambda: advance(run.pk))
    assert arrived.wait(PATIENCE)
    return worker, go.set


def test_two_sweepers_without_a_broker_carry_a_run_once(
    engine: Engine, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "wake", lambda run: False)
    runs = [engine.start(order) for order in (CHEAP, "C881", "D014")]

    hands.all_at_once([Sweeper().sweep, Sweeper().sweep])

    for run in runs:
        assert stopped_as(run) == ("COMPLETED", "contract_met")
        assert run.token == 1
    assert_sound(engine)


# A person's word between a worker's last look into the inbox and its giving back


def giving_back(lease: Lease, run: Run, *what: Any, hold_for: float | None = None, **how: Any) -> bool:
    return hold_for is None


@pytest.fixture
def pending(engine: Engine) -> Run:
    """The service received the write and has not decided; the next look-up is due."""
    engine.back_office.fault(CHEAP, "pending")
    run = engine.run(CHEAP)
    assert stopped_as(run) == ("WAITING", "effect_pending")
    run.effects.update(next_look_at=PAST)
    the_lease_runs_out(run.pk)
    return run


EVIDENCE = {"statement": "The customer called.", "reference": "ticket 1"}


def sends(run: Run, event: str, who: str, payload: Any, answers: str = "") -> Callable[[], InboxEvent]:
    by = person(who)
    return lambda: sending.send(run.pk, event, by, payload, answers)


def assert_heard_at_once(run: Run, event: str) -> None:
    """The run is due now, not at its timer, and the event is carried out once."""
    assert Run.objects.due().filter(pk=run.pk).exists()
    assert run.inbox.get(name=event).result == ""
    advance(run.pk)
    assert run.inbox.get(name=event).result == "applied"
    assert run.events.filter(kind="event_applied").count() == 1


def test_what_is_said_while_a_worker_is_about_to_give_back_is_heard_at_once(
    engine: Engine, hands: Hands, pending: Run
) -> None:
    worker, goes_on = standing_at(hands, pending, giving_back)
    waits = hands.while_inside(sending, "_deliver", lambda: (goes_on(), worker.result(PATIENCE))[1])

    sends(pending, "evidence_supplied", "alice", EVIDENCE)()

    assert waits.result(PATIENCE) is True  # it wants to be woken again
    assert_heard_at_once(pending, "evidence_supplied")
    assert_sound(engine)


def test_what_is_said_while_a_worker_gives_back_is_heard_at_once(engine: Engine, hands: Hands, pending: Run) -> None:
    said = hands.while_inside(
        commit, "commit", sends(pending, "evidence_supplied", "alice", EVIDENCE), only=giving_back
    )

    advance(pending.pk)

    assert isinstance(said.result(PATIENCE), InboxEvent)
    assert_heard_at_once(pending, "evidence_supplied")
    assert_sound(engine)


def test_what_is_said_just_before_the_end_is_told_that_it_came_too_late(engine: Engine, hands: Hands) -> None:
    engine.back_office.fault(CHEAP, "answer_lost")
    run = engine.start(CHEAP)
    worker, goes_on = standing_at(hands, run, ending)
    hands.while_inside(sending, "_deliver", lambda: (goes_on(), worker.result(PATIENCE))[1])

    sends(run, "evidence_supplied", "alice", EVIDENCE)()

    assert worker.result(PATIENCE) is False
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    event = run.inbox.get()
    assert (event.result, event.result_reason) == ("refused", commit.ENDED)
    assert_sound(engine)


def test_what_is_said_while_the_end_is_committed_is_told_that_it_has_ended(engine: Engine, hands: Hands) -> None:
    engine.back_office.fault(CHEAP, "answer_lost")
    run = engine.start(CHEAP)
    said = hands.while_inside(commit, "commit", sends(run, "evidence_supplied", "alice", EVIDENCE), only=ending)

    advance(run.pk)

    refused = said.result(PATIENCE)
    assert isinstance(refused, Refused)
    assert refused.message == "The run has ended (completed)."
    assert not run.inbox.exists()


# A budget is extended as it runs out


@pytest.fixture
def nearly_spent(engine: Engine) -> Run:
    """Two of the four steps that this run takes are left to it."""
    run = engine.start(CHEAP)
    Run.objects.update(budget={**run.budget, "steps": [2, 0, 0, 0]})
    return run


EXTENSION = {"dimension": "steps", "by": 5, "reason": "It was planned too short."}


def assert_went_on(engine: Engine, run: Run) -> None:
    assert fresh(run).budget["steps"][0] == 2 + 5
    assert run.inbox.get().result == "applied"
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls(CHEAP, "submit")) == 1
    assert_sound(engine)


def test_a_budget_extended_just_before_it_stops_the_run_counts(engine: Engine, hands: Hands, nearly_spent: Run) -> None:
    worker, goes_on = standing_at(hands, nearly_spent, giving_back)
    hands.while_inside(sending, "_deliver", lambda: (goes_on(), worker.result(PATIENCE))[1])

    sends(nearly_spent, "budget_extended", "bob", EXTENSION)()

    assert worker.result(PATIENCE) in {True, False}
    assert stopped_as(nearly_spent) == ("LIMIT_REACHED", "limit_steps")
    assert advance(nearly_spent.pk) is False
    assert_went_on(engine, nearly_spent)


def test_a_budget_extended_just_after_it_stopped_the_run_counts(
    engine: Engine, hands: Hands, nearly_spent: Run
) -> None:
    said = hands.while_inside(
        commit, "commit", sends(nearly_spent, "budget_extended", "bob", EXTENSION), only=giving_back
    )
    advance(nearly_spent.pk)

    assert isinstance(said.result(PATIENCE), InboxEvent)
    assert advance(nearly_spent.pk) is False
    assert_went_on(engine, nearly_spent)


# A cancellation between an intent and its call


@pytest.mark.parametrize(
    ("kind", "stops", "submits"),
    [("read", ("CANCELLED", "cancelled_unsent"), 0), ("write", ("NEEDS_HUMAN", "cancelled_too_late"), 1)],
)
def test_a_cancellation_between_intent_and_call_is_held_against_what_became_of_it(
    engine: Engine, hands: Hands, kind: str, stops: tuple[str, str], submits: int
) -> None:
    run = engine.start(CHEAP)
    reason = {"reason": "The customer withdrew."}
    said = hands.before(calls, "_perform", sends(run, "cancel_requested", "alice", reason), only=of_kind(kind))

    assert advance(run.pk) is False

    assert isinstance(said.result(PATIENCE), InboxEvent)
    assert stopped_as(run) == ("", "")  # taken from its worker, whose next commit found that out
    assert run.owner == ""
    advance(run.pk)
    assert stopped_as(run) == stops
    assert run.inbox.get(name="cancel_requested").result == "applied"
    assert len(engine.calls(CHEAP, "submit")) == submits
    assert_sound(engine)


# People: cases and starts


def test_two_who_take_the_next_case_get_two_cases(engine: Engine, hands: Hands) -> None:
    for order in (CHEAP, "C881"):
        engine.back_office.fault(order, "policy_conflict")
        engine.run(order)
    ann = person("ann")
    second = hands.while_inside(waking, "nudge_after_commit", lambda: claims.take_next(ann))

    first = claims.take_next(person("alice"))

    other = second.result(PATIENCE)
    assert first
    assert isinstance(other, Run)
    assert first.pk != other.pk


def test_two_who_take_the_last_case_are_not_both_given_it(engine: Engine, hands: Hands) -> None:
    engine.back_office.fault(CHEAP, "policy_conflict")
    run = engine.run(CHEAP)
    ann = person("ann")
    second = hands.while_inside(waking, "nudge_after_commit", lambda: claims.take_next(ann))

    assert claims.take_next(person("alice")) == run

    assert second.result(PATIENCE) is None
    assert fresh(run).holder == person("alice")


def test_six_who_take_the_next_of_four_cases_get_four(engine: Engine, hands: Hands) -> None:
    for order in (CHEAP, "C881", "D014", "D041"):
        engine.back_office.fault(order, "policy_conflict")
        engine.run(order)
    desk = [person(name) for name in ("alice", "ann", "bob", "supervisor", "support")]

    taken = hands.all_at_once([partial(claims.take_next, by) for by in [*desk, desk[0]]])

    got = [case.pk for case in taken if isinstance(case, Run)]
    assert len(got) == len(set(got)) == 4
    assert taken.count(None) == 2


def test_of_two_who_claim_a_case_the_second_is_told_who_holds_it(engine: Engine, hands: Hands) -> None:
    engine.back_office.fault(CHEAP, "policy_conflict")
    run = engine.run(CHEAP)
    ann = person("ann")
    second = hands.while_inside(waking, "nudge_after_commit", lambda: claims.claim(run.pk, ann))

    claims.claim(run.pk, person("alice"))

    refused = second.result(PATIENCE)
    assert isinstance(refused, Refused)
    assert refused.message.startswith("Alice holds this case until ")
    assert fresh(run).holder == person("alice")


@pytest.mark.parametrize("who", ["support", "ann"])
def test_a_start_behind_another_start_finds_the_same_run(engine: Engine, hands: Hands, who: str) -> None:
    given, by = {"order_id": CHEAP, "customer_id": "U-88"}, person(who)
    second = hands.while_inside(waking, "wake_after_commit", lambda: starting.start("refund_request", given, by))

    run, is_new = starting.start("refund_request", given, person("support"))

    assert is_new
    assert second.result(PATIENCE) == (run, False)
    assert Run.objects.count() == 1


def test_a_start_for_somebody_else_behind_another_start_is_told_that_it_is_being_worked_on(
    engine: Engine, hands: Hands
) -> None:
    given, by = {"order_id": CHEAP, "customer_id": "U-90"}, person("ann")
    second = hands.while_inside(waking, "wake_after_commit", lambda: starting.start("refund_request", given, by))

    engine.start(CHEAP)

    refused = second.result(PATIENCE)
    assert isinstance(refused, Refused)
    assert refused.message == "order B456 is already being worked on, at the request of somebody else."
    assert Run.objects.count() == 1


def test_a_start_behind_one_that_fails_starts_the_run(
    engine: Engine, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = partial(starting.start, "refund_request", {"order_id": CHEAP}, person("support"))
    wake = waking.wake_after_commit

    def fails(run: UUID) -> None:
        monkeypatch.setattr(waking, "wake_after_commit", wake)
        raise RuntimeError("The connection ended.")

    monkeypatch.setattr(waking, "wake_after_commit", fails)
    second = hands.while_inside(Run.objects, "bulk_create", starts)
    with pytest.raises(RuntimeError):
        starts()

    started = second.result(PATIENCE)
    assert started == (Run.objects.get(), True)


# Two people: every ordered pair of what may be said about a run, where it stands


Told = InboxEvent | Exception
Act = Callable[[], InboxEvent]
WITHDRAWN = "cancel_requested"
SAID: dict[str, dict[str, Any]] = {
    "approval_granted": {},
    "approval_rejected": {"reason": "Too much."},
    "approval_revoked": {"reason": "The wrong order."},
    "cancel_requested": {"reason": "The customer withdrew."},
    "paused": {"reason": "Wait."},
    "unpaused": {},
    "resumed_after_review": {"reason": "Looked at."},
    "budget_extended": {"dimension": "follow_up_checks", "by": 1, "reason": "It takes longer."},
    "reconcile_requested": {},
}
DECISIONS = {"approval_granted", "approval_rejected"}
SENDS_NOTHING = {"approval_rejected", "approval_revoked", "cancel_requested", "paused"}


def put_up(engine: Engine) -> Run:
    return engine.run(EXPENSIVE)


def approved_and_unseen(engine: Engine) -> Run:
    run = engine.run(EXPENSIVE)
    sends(run, "approval_granted", "bob", {}, run.effects.get().plan_digest)()
    return run


def approved_and_at_work(engine: Engine) -> Run:
    run = approved_and_unseen(engine)
    engine.back_office.fault(EXPENSIVE, "unavailable", where="policies", times=1)
    return engine.carry_on(run, until=lambda run: not run.inbox.filter(result="").exists())


def approved_and_held_up(engine: Engine) -> Run:
    run = approved_and_unseen(engine)
    engine.back_office.fault(EXPENSIVE, "policy_conflict")
    run = engine.carry_on(run)
    engine.back_office.clear(EXPENSIVE)
    return run


def looked_up_by_itself(engine: Engine) -> Run:
    engine.back_office.fault(CHEAP, "pending")
    return engine.run(CHEAP)


def followed_up(engine: Engine) -> Run:
    run = looked_up_by_itself(engine)
    for _ in range(3):
        run = engine.later(run)
    return run


def paused(engine: Engine) -> Run:
    run = approved_and_at_work(engine)
    sends(run, "paused", "bob", SAID["paused"])()
    return engine.carry_on(run, until=lambda run: bool(run.outcome))


def out_of_time(engine: Engine) -> Run:
    run = engine.start(CHEAP)
    Run.objects.update(created_at=timezone.now() - timedelta(hours=25))
    return engine.carry_on(run)


STANDS: dict[Callable[[Engine], Run], tuple[tuple[str, str], set[str]]] = {
    put_up: (("awaiting_approval", "approval_required"), DECISIONS | {WITHDRAWN}),
    approved_and_unseen: (("awaiting_approval", "approval_required"), {"approval_revoked", WITHDRAWN}),
    approved_and_at_work: (("executing", ""), {"approval_revoked", "cancel_requested", "paused"}),
    approved_and_held_up: (
        ("blocked", "facts_in_conflict"),
        {"approval_revoked", "cancel_requested", "resumed_after_review", "budget_extended"},
    ),
    looked_up_by_itself: (
        ("blocked", "effect_pending"),
        {"cancel_requested", "reconcile_requested", "budget_extended"},
    ),
    followed_up: (
        ("blocked", "limit_status_checks"),
        {"cancel_requested", "reconcile_requested", "budget_extended"},
    ),
    paused: (("blocked", "paused"), {"unpaused", "approval_revoked", "cancel_requested", "budget_extended"}),
    out_of_time: (
        ("blocked", "limit_wall_time"),
        {"resumed_after_review", "cancel_requested", "budget_extended"},
    ),
}


class Kept:
    """The rows of one moment, to begin from there again and again."""

    tables = [model._meta.db_table for model in apps.get_app_config("runs").get_models()]

    def __init__(self) -> None:
        self.writes = Step.objects.filter(kind="write").count()
        with connection.cursor() as cursor:
            for table in self.tables:
                cursor.execute(f"CREATE TEMP TABLE kept_{table} AS TABLE {table}")

    def put_back(self) -> None:
        with without_guards(*self.tables), transaction.atomic(), connection.cursor() as cursor:
            for table in self.tables:
                cursor.execute(f"DELETE FROM {table}; INSERT INTO {table} TABLE kept_{table}")  # noqa: S608

    def drop(self) -> None:
        with connection.cursor() as cursor:
            for table in self.tables:
                cursor.execute(f"DROP TABLE kept_{table}")


@pytest.fixture
def kept() -> Iterator[Callable[[], Kept]]:
    made: list[Kept] = []

    def keep() -> Kept:
        made.append(Kept())
        return made[-1]

    yield keep
    for one in made:
        one.drop()


def waiting_at_the_row(hands: Hands, run: Run, first: Act, second: Act) -> list[Told]:
    """The first has the run's row when the second comes, and lets go of it when that one stands there and waits."""
    later = hands.while_inside(sending, "_deliver", second)
    return [attempt(first), later.result(PATIENCE)]


def having_looked_before(hands: Hands, run: Run, first: Act, second: Act) -> list[Told]:
    """The second has looked at the run already when the first comes and is through."""
    earlier = hands.before(sending, "check", first)
    told = attempt(second)
    return [earlier.result(PATIENCE), told]


def after_a_worker(hands: Hands, run: Run, first: Act, second: Act) -> list[Told]:
    """The second has looked at the run already when the first comes, and a worker carries that one out."""

    def first_and_its_worker() -> InboxEvent:
        accepted = first()
        advance(run.pk)
        return accepted

    return having_looked_before(hands, run, first_and_its_worker, second)


MEETINGS = [
    *product(STANDS, (waiting_at_the_row, having_looked_before)),
    *product((put_up, approved_and_at_work, looked_up_by_itself), (after_a_worker,)),
]


@pytest.mark.parametrize(("stands", "meeting"), MEETINGS, ids=lambda given: given.__name__)
def test_of_two_things_said_at_once_each_is_carried_out_once_or_told_why_not(
    engine: Engine,
    hands: Hands,
    kept: Callable[[], Kept],
    stands: Callable[[Engine], Run],
    meeting: Callable[[Hands, Run, Act, Act], list[Told]],
) -> None:
    people = {name: person(name) for name in ("bob", "supervisor")}
    run, (wanted, possible) = stands(engine), STANDS[stands]
    assert (run.state, run.stop_reason) == wanted
    offered = {event.kind.move for event in possible_events(run, people["bob"]) if not event.why_not}
    decided = run.inbox.filter(result="", name__in=DECISIONS).exists()
    assert offered & set(SAID) - (DECISIONS if decided else set()) == possible  # so that no pair is left out
    digest = run.effects.get().plan_digest if run.effects.exists() else ""
    order = run.subject.removeprefix("order ")
    before, sent, moment = len(engine.calls(order, "submit")), 0, kept()
    for first, second in product(sorted(possible), repeat=2):
        # With oneself one can only collide: a double click, a second tab.
        alone = meeting is waiting_at_the_row and (first == second or {first, second} == DECISIONS)
        for other in ("supervisor", "bob") if alone else ("supervisor",):
            moment.put_back()
            acts = [says(run, event, people[who], digest) for event, who in ((first, "bob"), (second, other))]
            told = meeting(hands, run, *acts)
            come_to_rest(run)
            problems = [*violations([run.pk], None), *one_wins(run, first, second, told, meeting is not after_a_worker)]
            assert not problems, f"bob: {first}, {other}: {second}, {told}: {'; '.join(problems)}"
            sent += sent_meanwhile(run, {event.name for event in told if isinstance(event, InboxEvent)}, moment)
    assert len(engine.calls(order, "submit")) - before == sent


def says(run: Run, event: str, by: User, digest: str) -> Act:
    return lambda: sending.send(run.pk, event, by, SAID[event], digest if event in DECISIONS else "")


def come_to_rest(run: Run) -> None:
    """Workers carry it on until it stops and has read everything."""
    for _ in range(5):
        if fresh(run).outcome and not run.inbox.filter(result="").exists():
            return
        the_lease_runs_out(run.pk)
        advance(run.pk)
    raise AssertionError(f"It does not come to rest: {stopped_as(run)}")


def one_wins(run: Run, first: str, second: str, told: list[Told], unseen: bool) -> Iterator[str]:
    """`unseen`: no worker has looked in between."""
    accepted = [event for event in told if isinstance(event, InboxEvent)]
    refused = [no for no in told if isinstance(no, Refused)]
    if len(accepted) + len(refused) != 2 or not accepted or accepted[0] is not told[0]:
        yield "the first was not taken, or the second neither taken nor refused"
        return
    for event in accepted:
        event.refresh_from_db()
        if event.result not in {"applied", "refused"} or (event.result == "refused") != bool(event.result_reason):
            yield f"{event.name} is {event.result or 'open'}, because “{event.result_reason}”"
    if accepted[0].result != "applied":
        yield "the first was not carried out"
    if run.events.filter(kind__in=["event_applied", "event_refused"]).count() != run.inbox.count():
        yield "not each was carried out or refused exactly once"
    if sum(refusal.count for refusal in Refusal.objects.filter(run=run)) != len(refused):
        yield "the refused attempt is not on record"
    of_one_kind = first == second or {first, second} == DECISIONS or (first == WITHDRAWN and second in DECISIONS)
    if of_one_kind and (unseen or {first, second} <= DECISIONS):
        if not refused or "Bob" not in refused[0].message:
            yield f"the second was not told who was first, but “{refused[0].message if refused else 'nothing'}”"
    elif unseen and refused:
        yield f"both may stand, and the second was told “{refused[0].message}”"
    if any(not no.message.endswith(".") or no.status != 409 for no in refused):
        yield "the refusal is no sentence"
    if WITHDRAWN in {event.name for event in accepted} and not run.cancel_requested:
        yield "the cancellation was forgotten"


def sent_meanwhile(run: Run, accepted: set[str], moment: Kept) -> int:
    """How often the write went out; never after somebody had forbidden it, as no worker held the run."""
    sent = run.step_rows.filter(kind="write").count() - moment.writes
    assert 0 <= sent <= (0 if accepted & SENDS_NOTHING else 1), f"sent {sent} times after {accepted}"
    return sent
