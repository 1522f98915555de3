"""Why an event is not possible now, in the words that a person reads."""

from dataclasses import replace
from itertools import product

import pytest

from runs.domain.interventions import CATALOGUE, Standing, why_not
from runs.domain.states import FINAL, OPEN, Move, Outcome, State, StopReason

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
    wrong_state = says.endswith(f"; this one is {state.value.replace('_', ' ')}.")
    assert wrong_state == (state not in CATALOGUE[move].states)


@pytest.mark.parametrize(
    ("move", "run", "sentence"),
    [
        (Move.APPROVAL_GRANTED, STOPPED, "Possible while a run is awaiting approval; this one is blocked."),
        (Move.UNPAUSED, AT_WORK, "Possible while a run is blocked; this one is planning."),
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
