from itertools import product

import pytest

from runs.domain.states import FINAL, OUTCOME_OF, TRANSITIONS, Move, State, StopReason, TransitionRefused, transition


@pytest.mark.parametrize(("state", "move"), list(product(State, Move)))
def test_every_pair_is_in_the_table_or_refused(state: State, move: Move) -> None:
    if (state, move) in TRANSITIONS:
        assert transition(state, move) in State
    else:
        with pytest.raises(TransitionRefused) as refused:
            transition(state, move)
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
