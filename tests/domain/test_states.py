from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.states import (
    FINAL,
    OUTCOME_OF,
    TRANSITIONS,
    Move,
    Recovery,
    State,
    StopReason,
    TransitionRefused,
    recovery,
    transition,
)


@pytest.mark.parametrize(("state", "move"), list(product(State, Move)))
def test_every_pair_is_in_the_table_or_refused(state: State, move: Move) -> None:
    if (state, move) in TRANSITIONS:
        assert transition(state, move) in State
    else:
        with pytest.raises(TransitionRefused) as refused:
            transition(state, move)
        assert str(refused.value) == f"{move.value} is not possible while a run is {state.value}."
        assert refused.value.field == "event"


def test_final_states_have_no_way_out() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] in FINAL]


def test_only_the_contract_completes_a_run_and_only_by_way_of_validating() -> None:
    assert [pair for pair, to in TRANSITIONS.items() if to is State.COMPLETED] == [
        (State.VALIDATING, Move.CONTRACT_MET)
    ]


def test_planning_cannot_skip_to_completed() -> None:
    with pytest.raises(TransitionRefused):
        transition(State.PLANNING, Move.CONTRACT_MET)


def test_every_stop_reason_belongs_to_exactly_one_outcome() -> None:
    assert set(OUTCOME_OF) == set(StopReason)


@given(st.lists(st.sampled_from(Move), max_size=40))
def test_no_sequence_of_events_leaves_the_table_or_comes_back_from_an_end(moves: list[Move]) -> None:
    state, ended = State.RECEIVED, False
    for move in moves:
        try:
            after = transition(state, move)
        except TransitionRefused:
            assert (state, move) not in TRANSITIONS
            continue
        assert not ended
        assert after is not State.COMPLETED or (state, move) == (State.VALIDATING, Move.CONTRACT_MET)
        state, ended = after, after in FINAL


S = State
ENDS_AND_STOPS = {S.BLOCKED, S.AWAITING_APPROVAL, S.FAILED, S.CANCELLED}
LEADS_TO = {  # the law's own lines, written down by hand
    S.RECEIVED: {S.PLANNING, S.BLOCKED, S.FAILED, S.CANCELLED},
    S.PLANNING: {S.EXECUTING, S.VALIDATING, *ENDS_AND_STOPS},
    S.EXECUTING: {S.VALIDATING, *ENDS_AND_STOPS},
    S.VALIDATING: {S.COMPLETED, S.NEEDS_REVISION, S.BLOCKED, S.FAILED, S.CANCELLED},
    S.NEEDS_REVISION: {S.EXECUTING, S.BLOCKED, S.FAILED, S.CANCELLED},
    S.AWAITING_APPROVAL: {S.EXECUTING, S.PLANNING, S.BLOCKED, S.FAILED, S.CANCELLED},
    S.BLOCKED: {S.VALIDATING, S.PLANNING, S.EXECUTING, S.FAILED, S.CANCELLED},
    S.COMPLETED: set(),
    S.FAILED: set(),
    S.CANCELLED: set(),
}


@pytest.mark.parametrize("state", State)
def test_a_state_leads_where_the_law_says_and_nowhere_else(state: State) -> None:
    assert {after for (before, _), after in TRANSITIONS.items() if before is state} - {state} == LEADS_TO[state]


def test_every_state_can_be_reached_and_every_open_one_left() -> None:
    reached = {State.RECEIVED}
    while new := {after for (before, _), after in TRANSITIONS.items() if before in reached} - reached:
        reached |= new
    assert reached == set(State)
    for state in set(State) - FINAL:
        assert {after for (before, _), after in TRANSITIONS.items() if before is state} & FINAL


@pytest.mark.parametrize("reason", StopReason)
def test_what_is_to_be_done_about_effects_follows_from_how_a_run_stopped(reason: StopReason) -> None:
    assert recovery(reason, effect_open=True, undoing=True) is Recovery.RECONCILE
    assert recovery(reason, effect_open=True, undoing=False, ended=True) is Recovery.MANUAL
    assert recovery(reason, effect_open=False, undoing=True) is Recovery.COMPENSATE
    by_hand = reason in {StopReason.HALF_DONE, StopReason.CANCELLED_TOO_LATE, StopReason.NOT_REVERSIBLE}
    assert recovery(reason, effect_open=False, undoing=False) is (Recovery.MANUAL if by_hand else Recovery.NONE)
