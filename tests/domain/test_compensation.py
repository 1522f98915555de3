"""What is done about writes that happened and are not wanted: look up, undo in reverse, or leave it to a person."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.domain.compensation import (
    LONGEST_KEY,
    UNDO,
    Action,
    CompensationError,
    Plan,
    Status,
    action_of,
    compensation_key,
    parse,
    plan,
    standing,
)
from runs.domain.effects import UNRESOLVED, Effect, EffectState, WritePlan
from runs.domain.states import Recovery

COMMITTED, UNKNOWN, ABSENT = Status.COMMITTED, Status.UNKNOWN, Status.ABSENT
DRAFT, INDEX = Action("draft", COMMITTED, True), Action("index", COMMITTED, True)
NOW = datetime(2026, 9, 25, 10, tzinfo=UTC)


def effect(state: EffectState, key: str = "index-1", undoes: str = "") -> Effect:
    what = WritePlan("write_index", "index.json", {}, (), "v1", "an entry", "remove the entry", "little")
    return Effect(key, state, what, NOW, undoes=undoes)


# The worked example of the fourth source document, and what it says about it.


def test_the_index_is_undone_before_the_draft_that_it_refers_to() -> None:
    assert plan([DRAFT, INDEX]) == Plan(Recovery.COMPENSATE, ("index", "draft"))


def test_an_index_write_of_unknown_outcome_is_looked_up_before_the_draft_is_touched() -> None:
    assert plan([DRAFT, Action("index", UNKNOWN, True)]) == Plan(Recovery.RECONCILE, ("index",))


def test_what_is_unknown_is_looked_up_in_the_order_it_was_done() -> None:
    actions = [Action("b", UNKNOWN, True), DRAFT, Action("a", UNKNOWN, False)]
    assert plan(actions) == Plan(Recovery.RECONCILE, ("b", "a"))


def test_a_delivery_that_cannot_be_taken_back_leaves_everything_to_a_person() -> None:
    assert plan([DRAFT, INDEX, Action("deliver", COMMITTED, False)]) == Plan(Recovery.MANUAL, ())


def test_what_is_unknown_goes_before_what_cannot_be_undone() -> None:
    actions = [Action("deliver", COMMITTED, False), Action("index", UNKNOWN, True)]
    assert plan(actions) == Plan(Recovery.RECONCILE, ("index",))


def test_what_is_not_there_needs_nothing_and_stands_in_nobodys_way() -> None:
    actions = [DRAFT, Action("index", ABSENT, True), Action("deliver", ABSENT, False)]
    assert plan(actions) == Plan(Recovery.COMPENSATE, ("draft",))


@pytest.mark.parametrize("actions", [[], [Action("index", ABSENT, True), Action("deliver", ABSENT, False)]])
def test_where_nothing_was_committed_there_is_nothing_to_undo(actions: list[Action]) -> None:
    assert plan(actions) == Plan(Recovery.COMPENSATE, ())
    assert plan(actions).nothing_to_undo


@pytest.mark.parametrize("action", [INDEX, Action("a", UNKNOWN, True), Action("a", COMMITTED, False)])
def test_where_something_is_left_to_do_nobody_says_there_is_nothing_to_undo(action: Action) -> None:
    assert not plan([action]).nothing_to_undo


# What is refused.


def refusal(refused: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(CompensationError) as caught:
        refused()
    return str(caught.value), caught.value.field


def test_an_action_listed_twice_is_refused() -> None:
    twice = [DRAFT, INDEX, Action("index", ABSENT, False)]
    assert refusal(lambda: plan(twice)) == ("Action 'index' comes more than once.", "id")


def test_a_status_that_is_only_spelt_like_one_is_not_taken_for_absent() -> None:
    says = "The status of action 'index' must be one of: committed, unknown, absent."
    assert refusal(lambda: Action("index", "committed", True)) == (says, "status")  # type: ignore[arg-type]


def test_an_action_without_a_judgement_is_refused() -> None:
    says = "Action 'index' must say true or false to being reversible."
    assert refusal(lambda: Action("index", COMMITTED, None)) == (says, "reversible")  # type: ignore[arg-type]


def outside(**changed: Any) -> dict[str, Any]:
    return {"id": "index", "status": "committed", "reversible": True, **changed}


def test_actions_from_outside_keep_their_order() -> None:
    given = [outside(id="draft"), outside(), outside(id="deliver", status="absent", reversible=False)]
    assert parse(given) == (DRAFT, INDEX, Action("deliver", ABSENT, False))
    assert parse([]) == ()


def deep() -> object:
    bottom: list[object] = []
    for _ in range(100_000):
        bottom = [bottom]
    return bottom


ODD = [None, 1, float("nan"), "", b"index", ["index"], {}, deep()]


@pytest.mark.parametrize("value", [*ODD, True], ids=lambda value: type(value).__name__)
def test_an_id_from_outside_must_be_a_string_that_is_not_empty(value: object) -> None:
    actions = [outside(id="draft"), outside(id=value)]
    assert refusal(lambda: parse(actions)) == ("id must be a string that is not empty.", "id")


@pytest.mark.parametrize(
    "value", [*ODD, True, "done", "COMMITTED", "committed ", "compensated"], ids=lambda value: type(value).__name__
)
def test_a_status_from_outside_must_be_one_of_the_three(value: object) -> None:
    assert refused_field([outside(status=value)]) == "status"


@pytest.mark.parametrize("value", [*ODD, 0, "true", "false", 1.0], ids=lambda value: type(value).__name__)
def test_reversibility_from_outside_must_be_true_or_false(value: object) -> None:
    assert refused_field([outside(reversible=value)]) == "reversible"


@pytest.mark.parametrize("field", ["id", "status", "reversible"])
def test_what_is_not_stated_is_not_assumed(field: str) -> None:
    stated = outside()
    del stated[field]
    assert refused_field([stated]) == field


def test_an_action_that_comes_twice_from_outside_is_refused() -> None:
    assert refused_field([outside(), outside(id="draft"), outside(status="absent")]) == "id"


@pytest.mark.parametrize(
    "given", [None, "index", 7, True, {}, outside(), {"index"}, ["index"], [outside(), None], [[("id", "index")]]]
)
def test_what_is_no_list_of_actions_is_refused(given: object) -> None:
    says = "actions must be a list of objects with id, status and reversible."
    assert refusal(lambda: parse(given)) == (says, "actions")


def refused_field(given: object) -> str:
    return refusal(lambda: parse(given))[1]


# Effects as actions.


@pytest.mark.parametrize("state", EffectState)
def test_only_a_confirmed_effect_is_committed_and_only_an_unresolved_one_unknown(state: EffectState) -> None:
    status = COMMITTED if state is EffectState.CONFIRMED else UNKNOWN if state in UNRESOLVED else ABSENT
    assert action_of(effect(state), True) == Action("index-1", status, True)


def test_without_evidence_that_it_can_be_undone_a_person_decides() -> None:
    assert action_of(effect(EffectState.CONFIRMED), None) == Action("index-1", COMMITTED, False)
    assert plan([DRAFT, action_of(effect(EffectState.CONFIRMED), None)]).mode is Recovery.MANUAL


@pytest.mark.parametrize("judged", [1, 0, "yes", float("nan")])
def test_a_judgement_that_is_neither_true_nor_false_is_refused(judged: object) -> None:
    says = "Action 'index-1' must say true or false to being reversible."
    confirmed = effect(EffectState.CONFIRMED)
    assert refusal(lambda: action_of(confirmed, judged)) == (says, "reversible")  # type: ignore[arg-type]


def test_a_compensation_in_doubt_is_looked_up_like_any_write() -> None:
    done = effect(EffectState.CONFIRMED)
    undoing = effect(EffectState.UNKNOWN, compensation_key("index-1"), undoes="index-1")
    assert plan([DRAFT, action_of(done, True), action_of(undoing, None)]) == Plan(Recovery.RECONCILE, (undoing.key,))


def test_after_a_compensation_that_worked_only_the_rest_is_undone() -> None:
    undone = effect(EffectState.COMPENSATED)
    undoing = effect(EffectState.CONFIRMED, compensation_key("index-1"), undoes="index-1")
    assert plan([DRAFT, action_of(undone, None), action_of(undoing, None)]) == Plan(Recovery.COMPENSATE, ("draft",))


@pytest.mark.parametrize("state", [EffectState.REJECTED, EffectState.ABSENT, EffectState.PLANNED])
def test_a_compensation_that_did_not_happen_leaves_its_action_to_be_undone(state: EffectState) -> None:
    undoing = effect(state, compensation_key("index-1"), undoes="index-1")
    actions = [action_of(effect(EffectState.CONFIRMED), True), action_of(undoing, None)]
    assert plan(actions) == Plan(Recovery.COMPENSATE, ("index-1",))


# Keys.


def test_a_compensation_has_a_key_of_its_own_that_is_always_the_same() -> None:
    assert compensation_key("refund-B456") == compensation_key("refund-B456")
    assert len({"refund-B456", "refund-A123", *map(compensation_key, ["refund-B456", "refund-A123"])}) == 4


def test_a_compensation_is_not_compensated() -> None:
    undoing = compensation_key("refund-B456")
    says = "A compensation is not compensated in its turn."
    assert refusal(lambda: compensation_key(undoing)) == (says, "operation_key")


@pytest.mark.parametrize("key", ["", None, 7, True, b"refund-B456", ["refund-B456"]])
def test_what_is_no_key_has_no_compensation(key: object) -> None:
    says = "operation_key must be a string that is not empty."
    assert refusal(lambda: compensation_key(key)) == (says, "operation_key")  # type: ignore[arg-type]


def test_a_derived_key_still_fits_where_keys_are_kept() -> None:
    longest = "k" * (LONGEST_KEY - len(UNDO))
    assert len(compensation_key(longest)) == LONGEST_KEY
    says = "Past 115 characters a key leaves no room for its compensation's."
    assert refusal(lambda: compensation_key(longest + "k")) == (says, "operation_key")


# Any actions.

some = settings(max_examples=60)
names = st.text("abcé文", min_size=1, max_size=3)
anything = st.lists(
    st.builds(Action, names, st.sampled_from(Status), st.booleans()),
    unique_by=lambda action: action.id,
    max_size=8,
)
undoable = st.lists(
    st.builds(Action, names, st.sampled_from([COMMITTED, ABSENT]), st.just(True)),
    unique_by=lambda action: action.id,
    max_size=8,
)


@some
@given(undoable)
def test_compensation_undoes_exactly_what_was_committed_the_latest_first(actions: list[Action]) -> None:
    found = plan(actions)
    assert found.mode is Recovery.COMPENSATE
    assert list(reversed(found.actions)) == [action.id for action in actions if action.status is COMMITTED]


@some
@given(anything)
def test_nothing_committed_is_touched_in_any_other_mode(actions: list[Action]) -> None:
    found = plan(actions)
    committed = {action.id for action in actions if action.status is COMMITTED}
    match found.mode:
        case Recovery.RECONCILE:
            assert list(found.actions) == [action.id for action in actions if action.status is UNKNOWN] != []
        case Recovery.MANUAL:
            assert found.actions == ()
            assert any(action.status is COMMITTED and not action.reversible for action in actions)
        case _:
            assert found.mode is Recovery.COMPENSATE
            assert set(found.actions) == committed


@some
@given(anything)
def test_what_was_parsed_leads_to_the_same_plan(actions: list[Action]) -> None:
    given = [{"id": one.id, "status": str(one.status), "reversible": one.reversible} for one in actions]
    assert plan(parse(given)) == plan(actions)


def test_what_stands_is_told_in_the_order_it_was_done_and_without_what_undid_another() -> None:
    def at(second: int, **of: Any) -> Effect:
        return replace(effect(**of), sent_at=NOW + timedelta(seconds=second))

    confirmed = EffectState.CONFIRMED
    draft, index = at(1, state=confirmed, key="draft"), at(2, state=confirmed, key="index")
    undid = at(3, state=confirmed, key="undo:other", undoes="other")
    others = [at(0, state=state, key=state.value) for state in EffectState if state is not confirmed]
    assert standing([index, undid, *others, draft]) == [draft, index]
