"""The database keeps the rules by itself: what is tried here is plain SQL, as by a program that knows none of them."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from runs.domain.effects import LIFE, UNSENT, EffectError, EffectState, KeyTerms, compensated, may_send
from runs.domain.money import MOST_MINOR
from runs.domain.states import FINAL, OPEN, TRANSITIONS, Move, Outcome, State, StepStatus, StopReason
from runs.engine import commit
from runs.engine.commit import Pending
from runs.models import Effect, Run, Step, privileges
from tests.console import rows
from tests.people import person
from tests.states import bring, bring_write

ENDED = {State.COMPLETED: {"outcome": "COMPLETED", "stop_reason": "contract_met", "acceptance": "succeeded"}}
AT_WORK = {"outcome": "", "stop_reason": "", "acceptance": "unknown"}


@pytest.fixture
def alice(db: None) -> User:
    return person("alice")


@pytest.fixture
def run(alice: User) -> Run:
    return rows.run("B456", alice, state=State.RECEIVED, due_at=None)


@pytest.fixture
def effect(run: Run) -> Effect:
    return rows.write(run)


def refused_by(statement: str, *parameters: Any) -> str:
    """The guard or constraint that refuses `statement`; empty where it is done. What it did is undone."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            assert cursor.rowcount == 1, "the statement is about no row"
            transaction.set_rollback(True)
    except IntegrityError as problem:
        return str(getattr(problem.__cause__, "diag").constraint_name)  # noqa: B009 - psycopg's, untyped here
    return ""


def move(run: Run, moves: list[str], to: str) -> str:
    """What refuses the update that takes `run` to `to` and says that it made `moves`."""
    fields = ENDED.get(State(to), AT_WORK)
    return refused_by(
        "UPDATE runs_run SET state = %s, moves = %s, outcome = %s, stop_reason = %s, acceptance = %s WHERE id = %s",
        to,
        moves,
        *fields.values(),
        run.pk,
    )


@pytest.mark.parametrize(
    ("minor", "currency"),
    [
        *((59_00, currency) for currency in (None, "", "eur", "EU", "€UR", "EU\n", "<b>")),
        *((minor, "EUR") for minor in (None, -1, MOST_MINOR + 1)),
    ],
)
def test_what_is_at_stake_is_an_amount_with_its_currency_or_not_known(
    minor: int | None, currency: str | None, run: Run
) -> None:
    statement = "UPDATE runs_run SET stake_minor = %s, stake_currency = %s WHERE id = %s"
    assert refused_by(statement, minor, currency, run.pk) == "stake_is_an_amount_of_money"
    for fits in ((None, None), (0, "EUR"), (MOST_MINOR, "JPY")):
        assert refused_by(statement, *fits, run.pk) == ""


# The data


def select(columns: str, table: str) -> set[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {table}")  # noqa: S608 - our own names
        return set(cursor.fetchall())


def test_the_database_knows_the_transitions_that_the_rules_know(db: None) -> None:
    by_the_rules = {(state.value, move.value, to.value) for (state, move), to in TRANSITIONS.items()}
    in_the_database = select("state, move, leads_to", "runs_transition")
    assert in_the_database == by_the_rules, "a change of TRANSITIONS needs a migration of runs_transition"


def test_the_database_knows_the_reasons_that_the_rules_know(db: None) -> None:
    by_the_rules = {(reason.value, reason.outcome.value) for reason in StopReason}
    assert select("reason, outcome", "runs_stopreason") == by_the_rules, "a new reason needs a migration too"


def test_the_database_knows_what_a_write_may_become_by_the_rules(db: None, effect: Effect) -> None:
    def is_allowed(rule: Any, *arguments: Any) -> bool:
        try:
            rule(*arguments)
        except EffectError:
            return False
        return True

    terms = KeyTerms(in_flight=timedelta())
    values = {state: Effect(**{**plain(effect), "state": state}).value() for state in EffectState}
    undoing = Effect(**{**plain(effect), "state": "confirmed", "undoes": effect.operation_key}).value()
    by_the_rules = {
        *((before, after) for (before, _), after in LIFE.items()),
        *product(UNSENT, UNSENT),  # approved, and put up again
        *((s, EffectState.SENT) for s, v in values.items() if is_allowed(may_send, v, terms, timezone.now())),
        *((s, EffectState.COMPENSATED) for s, v in values.items() if is_allowed(compensated, v, undoing)),
    }
    changes = {(before.value, after.value) for before, after in by_the_rules if before is not after}
    assert select("before, after", "runs_effectchange") == changes, "the rules of a write need a migration"


def plain(effect: Effect) -> dict[str, Any]:
    return {field.attname: getattr(effect, field.attname) for field in Effect._meta.concrete_fields}


# Runs


@pytest.mark.parametrize("state", State)
def test_from_each_state_each_move_leads_where_the_rules_say_and_nowhere_else(state: State, run: Run) -> None:
    bring(run, state, **ENDED.get(state, AT_WORK))
    possible = {(taken, to) for taken, to in product(Move, State) if not move(run, [taken.value], to.value)}
    assert possible == {(taken, to) for (before, taken), to in TRANSITIONS.items() if before is state}


@pytest.mark.parametrize("state", State)
def test_without_a_move_no_state_changes(state: State, run: Run) -> None:
    bring(run, state, **ENDED.get(state, AT_WORK))
    for to in set(State) - {state}:
        assert move(run, [], to.value) == "a_run_moves"
    assert not refused_by("UPDATE runs_run SET token = token + 1 WHERE id = %s", run.pk)


def test_several_moves_of_one_commit_are_walked_in_their_order(run: Run) -> None:
    assert not move(run, ["started", "validation_due", "contract_not_met", "revision_begun"], "executing")
    assert move(run, ["validation_due", "started"], "validating") == "a_run_moves"
    assert move(run, ["started", "validation_due", "contract_met", "started"], "planning") == "a_run_moves"
    assert move(run, ["started", "was_promised"], "planning") == "a_run_moves"


def test_moves_are_put_away_so_that_no_later_update_leans_on_them(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state="planning", moves=["started"])
    run.refresh_from_db()
    assert run.moves == []
    Run.objects.filter(pk=run.pk).update(moves=["retry_scheduled"])  # stays where it is, and is a move all the same
    run.refresh_from_db()
    assert run.moves == []


def test_a_move_that_leaves_a_run_where_it_is_must_be_possible_too(run: Run) -> None:
    bring(run, State.BLOCKED)
    assert refused_by("UPDATE runs_run SET moves = '{retry_scheduled}' WHERE id = %s", run.pk) == "a_run_moves"


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_run_that_has_ended_stays_ended(state: State, run: Run) -> None:
    bring(run, state, **ENDED.get(state, AT_WORK))
    for taken, to in product(Move, OPEN):
        assert move(run, [taken.value], to.value) == "a_run_moves"


def copy_of(table: str, pk: Any, **changed: Any) -> str:
    """What refuses a new row like the one with this key, with other values in the columns named."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND column_name <> 'id'", [table]
        )
        columns = [name for (name,) in cursor.fetchall()]
    new = changed if table != "runs_run" else {"id": "00000000-0000-0000-0000-000000000007", **changed}
    kept = [name for name in columns if name not in new]
    names, values = ", ".join([*kept, *new]), ", ".join([*kept, *(["%s"] * len(new))])
    return refused_by(
        f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} WHERE id = %s",  # noqa: S608 - our own names
        *new.values(),
        pk,
    )


@pytest.mark.parametrize("state", State)
def test_a_run_begins_as_received(state: State, run: Run) -> None:
    fields = ENDED.get(state, AT_WORK)
    refusal = copy_of("runs_run", run.pk, subject="order A123", state=state.value, **fields)
    assert refusal == ("" if state is State.RECEIVED else "a_run_begins")


def test_a_run_begins_with_nothing_done(run: Run) -> None:
    for early in ({"moves": ["started"]}, {"outcome": "WAITING"}, {"stop_reason": "paused"}):
        assert copy_of("runs_run", run.pk, subject="order A123", **early) == "a_run_begins"


@pytest.mark.parametrize("outcome", ["", *Outcome])
def test_an_outcome_has_a_reason_of_its_own(outcome: str, run: Run) -> None:
    if outcome == Outcome.COMPLETED:
        bring(run, State.COMPLETED, **ENDED[State.COMPLETED])
    update = "UPDATE runs_run SET outcome = %s, stop_reason = %s WHERE id = %s"
    possible = {str(reason) for reason in ["", *StopReason] if not refused_by(update, outcome, reason, run.pk)}
    assert possible == ({reason.value for reason in StopReason if reason.outcome == outcome} or {""})
    assert refused_by(update, outcome, "was_promised", run.pk) == "a_run_stops"
    assert refused_by(update, "DONE", "", run.pk) == "a_run_stops"


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": "", "stop_reason": "", "acceptance": "succeeded"},
        {"outcome": "NEEDS_HUMAN", "stop_reason": "no_progress", "acceptance": "succeeded"},
        {"outcome": "COMPLETED", "stop_reason": "contract_met", "acceptance": "unknown"},
        {"outcome": "COMPLETED", "stop_reason": "contract_met", "acceptance": "failed"},
    ],
)
def test_a_run_is_completed_by_its_contract_alone(fields: dict[str, str], run: Run) -> None:
    bring(run, State.VALIDATING)
    refusal = refused_by(
        "UPDATE runs_run SET state = 'completed', moves = '{contract_met}', outcome = %s, stop_reason = %s, "
        "acceptance = %s WHERE id = %s",
        *fields.values(),
        run.pk,
    )
    assert refusal == "completed_is_by_contract"


@pytest.mark.parametrize(
    ("table", "column", "constraint"),
    [
        ("runs_run", "state", "run_state_is_known"),
        ("runs_effect", "state", "effect_state_is_known"),
        ("runs_step", "status", "step_status_is_known"),
    ],
)
def test_what_no_rule_names_is_no_state(table: str, column: str, constraint: str, run: Run, effect: Effect) -> None:
    row: dict[str, tuple[Any, dict[str, Any]]] = {
        "runs_run": (run.pk, {"subject": "order A123"}),
        "runs_effect": (effect.pk, {"operation_key": "another"}),
        "runs_step": (rows.step(run, 1, "read", "read_order", "").pk, {"seq": 2}),
    }
    pk, others = row[table]
    assert copy_of(table, pk, **others, **{column: "promised"}) == constraint


def test_a_temporary_table_does_not_stand_in_for_the_law(run: Run, effect: Effect) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE runs_transition AS SELECT 'received' state, 'x' move, 'blocked' leads_to")
        cursor.execute("CREATE TEMP TABLE runs_effectchange AS SELECT 'planned' before, 'confirmed' after")
    assert move(run, ["x"], "blocked") == "a_run_moves"
    assert refused_by("UPDATE runs_effect SET state = 'confirmed' WHERE id = %s", effect.pk) == "a_write_changes"


def test_a_commit_whose_moves_do_not_lead_to_its_state_changes_nothing(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(due_at=timezone.now())
    lease = commit.claim(run.pk, 30)
    assert lease
    run.refresh_from_db()
    run.state, run.steps = State.PLANNING, 77
    event = {"kind": "transition", "actor_id": None, "digest": "", "text": "{}"}

    refusal = "lead a run from received to received, and not to planning"
    with pytest.raises(IntegrityError, match=refusal), transaction.atomic():
        commit.commit(lease, run, Pending(events=[event]), inbox_seen=0, hold_for=5)

    run.refresh_from_db()
    assert (run.state, run.steps) == ("received", 6)
    assert not run.events.exists()


# Writes


@pytest.mark.parametrize("before", EffectState)
def test_a_write_becomes_what_the_rules_allow_and_nothing_else(before: EffectState, effect: Effect) -> None:
    bring_write(effect, before)
    changes = select("before, after", "runs_effectchange")
    for after in set(EffectState) - {before}:
        refusal = refused_by("UPDATE runs_effect SET state = %s WHERE id = %s", after.value, effect.pk)
        assert refusal == ("" if (before.value, after.value) in changes else "a_write_changes"), (before, after)


def test_what_is_settled_for_good_stays_so(db: None) -> None:
    changes = select("before, after", "runs_effectchange")
    assert {after for before, after in changes if before == "confirmed"} == {"compensated"}
    assert not {before for before, _ in changes} & {"rejected", "compensated"}


def test_no_answer_comes_before_the_intent_is_on_record(db: None) -> None:
    changes = select("before, after", "runs_effectchange")
    assert {after for before, after in changes if before in UNSENT} == {"planned", "approved", "sent"}


@pytest.mark.parametrize("state", EffectState)
def test_a_write_begins_before_its_answer(state: EffectState, effect: Effect) -> None:
    refusal = copy_of("runs_effect", effect.pk, operation_key="another", state=state.value)
    assert refusal == ("" if state in {"planned", "approved", "sent"} else "a_write_begins")


def test_an_insert_that_turns_into_an_update_is_held_against_the_row_that_is_there(effect: Effect) -> None:
    upsert = """
        INSERT INTO runs_effect (run_id, operation_key, operation, undoes, binding, state, plan, plan_digest,
                                 planned_at, approved_digest, times_sent, look_ups, last_answer, reason)
        SELECT run_id, operation_key, operation, undoes, binding, 'confirmed', plan, plan_digest, planned_at,
               approved_digest, times_sent, look_ups, last_answer, reason FROM runs_effect WHERE id = %s
        ON CONFLICT (operation_key) DO UPDATE SET state = excluded.state
    """
    assert refused_by(upsert, effect.pk) == "a_write_changes"
    bring_write(effect, EffectState.SENT)
    assert not refused_by(upsert, effect.pk)


def test_a_write_keeps_its_operation_key_and_its_run(effect: Effect, alice: User) -> None:
    other = rows.run("A123", alice)
    by = "a_write_keeps_its_key"
    assert refused_by("UPDATE runs_effect SET operation_key = 'another' WHERE id = %s", effect.pk) == by
    assert refused_by("UPDATE runs_effect SET run_id = %s WHERE id = %s", other.pk, effect.pk) == by


# Steps


@pytest.fixture
def step(run: Run) -> Step:
    return rows.step(run, 1, "read", "read_order", "", status=StepStatus.INTENT, settled_at=None)


@pytest.mark.parametrize("status", sorted(set(StepStatus) - {StepStatus.INTENT}))
def test_a_step_is_settled_once(status: StepStatus, step: Step) -> None:
    Step.objects.filter(pk=step.pk).update(status=status, summary="The order is there.")
    for change in ("status = 'intent'", "summary = 'All went well.'", "fingerprint = 'f'", "settled_at = now()"):
        update = f"UPDATE runs_step SET {change} WHERE id = %s"  # noqa: S608 - our own words
        assert refused_by(update, step.pk) == "a_step_is_settled_once"


def test_a_step_keeps_its_number_and_its_run(step: Step, alice: User) -> None:
    other = rows.run("A123", alice)
    assert refused_by("UPDATE runs_step SET seq = 2 WHERE id = %s", step.pk) == "a_step_keeps_its_place"
    assert refused_by("UPDATE runs_step SET run_id = %s WHERE id = %s", other.pk, step.pk) == "a_step_keeps_its_place"


def test_every_guard_is_on_the_list_that_is_watched(db: None) -> None:
    on_our_tables = (
        "pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE NOT tgisinternal AND relname LIKE 'runs_%'"
    )
    assert select("tgname, relname", on_our_tables) == set(privileges.GUARDS.items())


# The record


@pytest.mark.parametrize("named", ["4611686018427387904", "pg_current_xact_id()::text::bigint - 1", "0", "-1"])
def test_an_event_names_the_transaction_that_writes_it_and_no_other(named: str, alice: User) -> None:
    by = "an_event_names_its_transaction"
    insert = f"INSERT INTO runs_event (kind, digest, transaction_id) VALUES ('forged', '', {named})"  # noqa: S608
    assert refused_by(insert) == by
    assert refused_by(insert.replace(f"{named})", "DEFAULT)")) == ""
