"""Why an event is not possible now, in the words that a person reads."""

from dataclasses import replace
from itertools import product

import pytest

from runs.domain.budget import Dimension
from runs.domain.interventions import (
    CATALOGUE,
    FROM_PEOPLE,
    ROLES,
    UNDECLARED,
    Declared,
    EventKind,
    Permission,
    Sender,
    Standing,
    why_not,
)
from runs.domain.states import FINAL, OPEN, TRANSITIONS, Move, Outcome, State, StopReason

ASKS = (Move.RECONCILE_REQUESTED, Move.EFFECT_CONFIRMED, Move.EFFECT_REFUTED)
STOPPED = Standing(
    state=State.BLOCKED,
    outcome=Outcome.NEEDS_HUMAN,
    stop_reason=StopReason.FACTS_MISSING,
    effect_unresolved=False,
    cancel_requested=False,
    paused=False,
    follow_up_checks_left=6,
)
UNRESOLVED = replace(STOPPED, stop_reason=StopReason.OUTCOME_UNCONFIRMED, effect_unresolved=True)
AT_WORK = replace(STOPPED, state=State.PLANNING, outcome=None, stop_reason=None)


def why(move: Move, run: Standing) -> str:
    return why_not(CATALOGUE[move], run)


@pytest.mark.parametrize(("move", "state"), list(product(CATALOGUE, sorted(FINAL))))
def test_a_run_that_has_ended_takes_no_event(move: Move, state: State) -> None:
    assert why(move, replace(STOPPED, state=state)) == f"The run has ended ({state.value})."


@pytest.mark.parametrize(("move", "state"), list(product(CATALOGUE, sorted(OPEN))))
def test_an_event_that_leads_nowhere_from_a_state_says_where_it_would(move: Move, state: State) -> None:
    says = why(move, replace(STOPPED, state=state))
    wrong_state = says.endswith(f"; this one's is {state.value.replace('_', ' ')}.")
    assert wrong_state == (state not in CATALOGUE[move].states)


@pytest.mark.parametrize(
    ("move", "run", "sentence"),
    [
        (Move.APPROVAL_GRANTED, STOPPED, "Possible while a run's state is awaiting approval; this one's is blocked."),
        (Move.UNPAUSED, AT_WORK, "Possible while a run's state is blocked; this one's is planning."),
        (
            Move.PLAN_AMENDED,
            replace(AT_WORK, state=State.NEEDS_REVISION),
            "Possible while a run's state is awaiting approval or blocked; this one's is needs revision.",
        ),
        (Move.PAUSED, STOPPED, "Possible while it runs; this one's is blocked."),
        (Move.CREDENTIAL_REPLACED, STOPPED, "Answers a run that stopped for credential refused."),
        (
            Move.POLICY_CONFIRMED,
            UNRESOLVED,
            "Answers a run that stopped for facts in conflict or facts missing.",
        ),
        (Move.RECONCILE_REQUESTED, STOPPED, "No write of this run has an open outcome."),
        (Move.EFFECT_CONFIRMED, STOPPED, "No write of this run has an open outcome."),
        (
            Move.CANCEL_REQUESTED,
            replace(UNRESOLVED, cancel_requested=True),
            "A cancellation is already being verified.",
        ),
        (Move.UNPAUSED, STOPPED, "The run is not paused."),
        (Move.PAUSED, replace(AT_WORK, paused=True), "The run is paused already."),
        (Move.RESUMED_AFTER_REVIEW, replace(STOPPED, paused=True), "The run is paused: let it go on."),
        (
            Move.RESUMED_AFTER_REVIEW,
            replace(UNRESOLVED, outcome=Outcome.WAITING, stop_reason=StopReason.EFFECT_PENDING),
            "The run goes on by itself when its next look-up is due.",
        ),
        (Move.RESUMED_AFTER_REVIEW, UNRESOLVED, "A write has an open outcome: ask the service first."),
    ],
)
def test_what_stands_in_the_way_is_said_in_a_sentence(move: Move, run: Standing, sentence: str) -> None:
    assert why(move, run) == sentence


NEEDS = [kind for kind in CATALOGUE.values() if kind.needs]


@pytest.mark.parametrize("kind", NEEDS, ids=lambda kind: kind.move)
def test_what_a_workflow_does_not_declare_means_nothing_to_its_runs(kind: EventKind) -> None:
    assert kind.needs
    for state in kind.states:
        run = replace(STOPPED, state=state, stop_reason=next(iter(kind.reasons), StopReason.QUESTION_ASKED))
        assert why_not(kind, run) == UNDECLARED[kind.needs]
        assert why_not(kind, replace(run, declared=frozenset(Declared))) == ""


def test_an_approval_is_taken_back_only_while_one_is_unused() -> None:
    assert why(Move.APPROVAL_REVOKED, STOPPED) == "No approval is waiting to be used."
    assert why(Move.APPROVAL_REVOKED, replace(STOPPED, approved_unsent=True)) == ""


def test_an_input_is_corrected_only_while_nothing_was_sent_for_it() -> None:
    run = replace(STOPPED, stop_reason=StopReason.INPUT_INVALID)
    assert why(Move.INPUT_CORRECTED, run) == ""
    says = "Something was sent for this input already; a corrected one is another run."
    assert why(Move.INPUT_CORRECTED, replace(run, anything_sent=True)) == says


def test_a_run_is_closed_unresolved_only_once_nothing_asks_any_more() -> None:
    assert why(Move.CLOSED_UNRESOLVED, UNRESOLVED) == ""
    assert why(Move.CLOSED_UNRESOLVED, STOPPED) == "No write of this run has an open outcome."
    waits = replace(UNRESOLVED, outcome=Outcome.WAITING)
    assert why(Move.CLOSED_UNRESOLVED, waits) == "The service is still asked about the write by itself."
    limit = replace(UNRESOLVED, outcome=Outcome.LIMIT_REACHED, follow_up_checks_left=1)
    assert why(Move.CLOSED_UNRESOLVED, limit) == "The service is still asked about the write by itself."
    assert why(Move.CLOSED_UNRESOLVED, replace(limit, follow_up_checks_left=0)) == ""


def test_closing_unresolved_takes_two_people_and_is_the_only_event_that_ends_a_run() -> None:
    assert CATALOGUE[Move.CLOSED_UNRESOLVED].seconded_by is Permission.APPROVE
    ending = {move for (_, move), after in TRANSITIONS.items() if after in FINAL}
    assert ending & set(CATALOGUE) == {Move.CLOSED_UNRESOLVED}
    assert State.COMPLETED not in {TRANSITIONS[at] for at in TRANSITIONS if at[1] in CATALOGUE}


NAMED_BY_THE_RULES = """approval_granted approval_rejected plan_amended approval_revoked credential_replaced
    access_granted input_corrected evidence_supplied policy_confirmed reconcile_requested effect_confirmed
    effect_refuted callback_received budget_extended scope_narrowed compensation_approved cancel_requested paused
    unpaused retry_scheduled resumed_after_review closed_unresolved"""


def test_the_catalogue_is_complete() -> None:
    assert {str(move) for move in CATALOGUE} == set(NAMED_BY_THE_RULES.split())


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.move)
def test_an_entry_says_everything_that_its_form_and_its_help_need(kind: EventKind) -> None:
    assert kind.label
    assert kind.says.endswith(".")
    assert kind.checked_again.endswith(".")
    assert kind.states
    assert kind.payload["additionalProperties"] is False
    assert set(kind.payload["required"]) <= set(kind.payload["properties"])
    assert all(schema["title"] for schema in kind.payload["properties"].values())
    holders = {role for role, (_, permissions) in ROLES.items() if kind.permission in permissions}
    assert holders
    assert (kind.move in FROM_PEOPLE) == (kind.sender is Sender.PERSON)


def test_who_decides_about_money_did_not_ask_for_it() -> None:
    decides = (Move.APPROVAL_GRANTED, Move.COMPENSATION_APPROVED, Move.BUDGET_EXTENDED)
    assert {move for move, kind in CATALOGUE.items() if kind.not_by_requester} == set(decides)


@pytest.mark.parametrize("move", ASKS)
def test_asking_again_ends_with_the_follow_ups(move: Move) -> None:
    assert why(move, replace(UNRESOLVED, follow_up_checks_left=1)) == ""
    used_up = why(move, replace(UNRESOLVED, follow_up_checks_left=0))
    assert used_up == "The follow-up look-ups are used up; somebody entitled may extend them."


def test_evidence_and_a_cancellation_are_taken_without_any_look_up_left() -> None:
    used_up = replace(UNRESOLVED, follow_up_checks_left=0)
    assert why(Move.EVIDENCE_SUPPLIED, used_up) == ""
    assert why(Move.CANCEL_REQUESTED, used_up) == ""


def test_a_paused_run_may_go_on_be_withdrawn_and_be_asked_about() -> None:
    paused = replace(UNRESOLVED, outcome=Outcome.WAITING, paused=True)
    for move in (Move.UNPAUSED, Move.CANCEL_REQUESTED, Move.RECONCILE_REQUESTED):
        assert why(move, paused) == ""


def test_a_decision_is_possible_only_while_one_is_waited_for() -> None:
    waiting = replace(STOPPED, state=State.AWAITING_APPROVAL, stop_reason=StopReason.APPROVAL_REQUIRED)
    possible = {move for move in CATALOGUE if why(move, waiting) == ""}
    assert possible == {Move.APPROVAL_GRANTED, Move.APPROVAL_REJECTED, Move.CANCEL_REQUESTED}


@pytest.mark.parametrize("move", CATALOGUE)
def test_an_event_waits_for_a_second_person_where_it_names_one_or_the_requester(move: Move) -> None:
    kind = CATALOGUE[move]
    assert kind.takes_two is (move in {Move.CLOSED_UNRESOLVED, Move.SCOPE_NARROWED})


@pytest.mark.parametrize("move", CATALOGUE)
def test_what_a_service_leads_to_is_never_paid_from_what_people_have(move: Move) -> None:
    kind = CATALOGUE[move]
    theirs = Dimension.CALLBACK_CHECKS if move is Move.CALLBACK_RECEIVED else Dimension.FOLLOW_UP_CHECKS
    assert kind.paid_from is theirs
