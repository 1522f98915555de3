from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.budget import (
    ASKED_LOOK_UP,
    SCHEDULED_LOOK_UP,
    BudgetError,
    BudgetExceeded,
    Charge,
    Dimension,
    Ledger,
    Line,
)

STEPS, WRITES = Dimension.STEPS, Dimension.EXTERNAL_WRITES
CHECKS, FOLLOW_UPS, CALLBACKS = Dimension.STATUS_CHECKS, Dimension.FOLLOW_UP_CHECKS, Dimension.CALLBACK_CHECKS


def test_what_is_reserved_is_not_available() -> None:
    ledger = Ledger.of({STEPS: 2, WRITES: 1}).reserve({STEPS: 1, WRITES: 1})
    assert ledger.left(STEPS) == 1
    assert ledger.short_of({WRITES: 1}) is WRITES
    with pytest.raises(BudgetExceeded) as exceeded:
        ledger.reserve({STEPS: 1, WRITES: 1})
    assert exceeded.value.dimension is WRITES
    assert exceeded.value.field == WRITES
    assert str(exceeded.value) == "The budget for external writes is used up."


def test_a_refused_reservation_sets_nothing_aside() -> None:
    ledger = Ledger.of({STEPS: 5, WRITES: 1}).reserve({WRITES: 1})
    with pytest.raises(BudgetExceeded):
        ledger.reserve({STEPS: 1, WRITES: 1})
    assert ledger.left(STEPS) == 5


def test_a_settled_reservation_is_spent_and_stays_spent() -> None:
    ledger = Ledger.of({STEPS: 3}).reserve({STEPS: 1}).settle({STEPS: 1})
    assert (ledger.lines[STEPS].spent, ledger.lines[STEPS].reserved) == (1, 0)
    assert ledger.extend(STEPS, 2, planned=3).lines[STEPS].spent == 1
    assert ledger.extend(STEPS, 2, planned=3).left(STEPS) == 4


def test_what_was_used_is_spent_and_the_remainder_released() -> None:
    ledger = Ledger.of({STEPS: 9, WRITES: 9}).reserve({STEPS: 3, WRITES: 3})
    # In full, also where it was more than reserved; and what is not known counts as all of it.
    for used, spent in (({STEPS: 1}, 1), ({STEPS: 5}, 5), ({STEPS: 0}, 0), ({}, 3), ({WRITES: 0}, 3)):
        settled = ledger.settle({STEPS: 3}, used)
        assert (settled.lines[STEPS].spent, settled.lines[STEPS].reserved) == (spent, 0)
        assert settled.lines[WRITES] == ledger.lines[WRITES]


def test_a_metered_call_pays_for_its_step_too() -> None:
    tokens = Dimension.OUTPUT_TOKENS
    call = {STEPS: 1, tokens: 500}
    ledger = Ledger.of({STEPS: 5, tokens: 1000}).reserve(call).settle(call, {tokens: 120})
    assert (ledger.lines[STEPS].spent, ledger.lines[tokens].spent) == (1, 120)
    assert (ledger.left(STEPS), ledger.left(tokens)) == (4, 880)


def test_what_was_never_reserved_is_spent_all_the_same() -> None:
    ledger = Ledger.of({STEPS: 9}).settle({STEPS: 1})
    assert (ledger.lines[STEPS].spent, ledger.lines[STEPS].reserved) == (1, 0)


def test_extensions_together_at_most_double_what_was_planned() -> None:
    ledger = Ledger.of({STEPS: 3}).extend(STEPS, 2, planned=3)
    with pytest.raises(BudgetError, match=": at most 1 more") as refused:
        ledger.extend(STEPS, 2, planned=3)
    assert refused.value.field == "by"
    with pytest.raises(BudgetError, match=": no further extension"):
        ledger.extend(STEPS, 1, planned=3).extend(STEPS, 1, planned=3)


@pytest.mark.parametrize("by", [0, -1, True, 0.5, None])
def test_an_extension_that_makes_no_sense_is_refused(by: object) -> None:
    with pytest.raises(BudgetError, match="at least 1") as refused:
        Ledger.of({STEPS: 3}).extend(STEPS, by, planned=3)  # type: ignore[arg-type]
    assert refused.value.field == "by"


def test_wall_time_is_spent_by_itself() -> None:
    ledger = Ledger.of({Dimension.WALL_TIME: 60})
    assert ledger.at(20).left(Dimension.WALL_TIME) == 40
    assert ledger.at(90).left(Dimension.WALL_TIME) == 0


def test_a_run_without_a_limit_of_time_is_never_late() -> None:
    ledger = Ledger.of({STEPS: 3})
    assert ledger.at(10**9) == ledger


def test_the_soft_mark_is_crossed_before_the_limit() -> None:
    ledger = Ledger.of({STEPS: (1, 2)})
    assert ledger.crossed_soft() == ()
    ledger = ledger.reserve({STEPS: 1}).settle({STEPS: 1})
    assert ledger.crossed_soft() == (STEPS,)
    assert ledger.left(STEPS) == 1


def test_a_limit_alone_has_no_soft_mark_to_cross() -> None:
    assert Ledger.of({STEPS: 1}).reserve({STEPS: 1}).settle({STEPS: 1}).crossed_soft() == ()


def test_the_soft_mark_may_be_the_limit_itself() -> None:
    assert Ledger.of({STEPS: (2, 2)}).left(STEPS) == 2


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        *((limit, "steps limit") for limit in (0, -1, True, 1.5, "3", float("nan"))),
        *((limit, "steps soft mark") for limit in ((-1, 2), (True, 2), (0.5, 2))),
        ((3, 2), "steps"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(limit: object, field: str) -> None:
    with pytest.raises(BudgetError, match=r"^steps") as refused:
        Ledger.of({STEPS: limit})  # type: ignore[dict-item]
    assert refused.value.field == field


@pytest.mark.parametrize("amount", [-1, True, 0.5, None])
def test_a_charge_that_makes_no_sense_is_refused(amount: object) -> None:
    for charge in (Ledger.of({STEPS: 3}).reserve, Ledger.of({STEPS: 3}).settle):
        with pytest.raises(BudgetError) as refused:
            charge({STEPS: amount})  # type: ignore[dict-item]
        assert refused.value.field == STEPS


def test_a_dimension_without_a_budget_is_not_limited_and_cannot_be_extended() -> None:
    ledger = Ledger.of({STEPS: 3})
    assert ledger.left(WRITES) is None
    assert ledger.short_of({WRITES: 10**9}) is None
    with pytest.raises(BudgetError, match="no budget for external_writes") as refused:
        ledger.extend(WRITES, 1, planned=1)
    assert refused.value.field == "dimension"


@pytest.mark.parametrize(
    ("checks", "follow_ups", "asked", "paid_from"),
    [
        (1, 1, None, SCHEDULED_LOOK_UP),
        (1, 1, FOLLOW_UPS, ASKED_LOOK_UP),
        (1, 1, CALLBACKS, {CALLBACKS: 1}),
        (0, 0, CALLBACKS, {CALLBACKS: 1}),  # a callback's has an allowance of its own
        (1, 0, FOLLOW_UPS, SCHEDULED_LOOK_UP),  # people's look-ups go on while there are any
        (0, 1, None, ASKED_LOOK_UP),  # what follows up after the scheduled ones
        (0, 0, None, ASKED_LOOK_UP),
    ],
)
def test_a_look_up_is_paid_from_what_there_is(
    checks: int, follow_ups: int, asked: Dimension | None, paid_from: Charge
) -> None:
    spent = {CHECKS: 1 - checks, FOLLOW_UPS: 1 - follow_ups}
    assert Ledger.of({CHECKS: 1, FOLLOW_UPS: 1, CALLBACKS: 1}).settle(spent).look_up(asked) == paid_from


AMOUNTS = st.dictionaries(st.sampled_from(Dimension), st.integers(0, 5), max_size=3)
LIMITS = st.dictionaries(st.sampled_from(Dimension), st.integers(1, 12), min_size=1)
OPERATIONS = st.one_of(
    st.tuples(st.just("reserve"), AMOUNTS),
    st.tuples(st.just("settle"), AMOUNTS),
    st.tuples(st.just("crash"), AMOUNTS),
    st.tuples(st.just("extend"), st.sampled_from(Dimension), st.integers(1, 20)),
)


@given(LIMITS, st.lists(OPERATIONS, max_size=30))
def test_whatever_happens_spent_never_falls_and_no_reservation_goes_beyond_a_limit(
    limits: dict[Dimension, int], operations: list[tuple[Any, ...]]
) -> None:
    ledger = Ledger.of(limits)
    open_calls: list[Charge] = []
    for operation, *arguments in operations:
        before = ledger
        try:
            match operation, *arguments:
                case "reserve", charge:
                    ledger = ledger.reserve(charge)
                    open_calls.append(charge)
                case "settle", used if open_calls:
                    charge = open_calls.pop()
                    ledger = ledger.settle(charge, {d: min(n, charge.get(d, 0)) for d, n in used.items()})
                case "crash", _ if open_calls:
                    ledger = ledger.settle(open_calls.pop())
                case "extend", dimension, by:
                    ledger = ledger.extend(dimension, by, limits.get(dimension, 1))
        except (BudgetError, BudgetExceeded):
            assert ledger == before
        for dimension, line in ledger.lines.items():
            assert line.spent >= before.lines[dimension].spent
            assert line.limit >= before.lines[dimension].limit
            assert line.limit <= 2 * limits[dimension]
            assert line.reserved == sum(charge.get(dimension, 0) for charge in open_calls)
            assert line.spent + line.reserved + line.available == line.limit


@given(LIMITS, AMOUNTS)
def test_what_cannot_be_paid_in_full_is_not_paid_in_part(limits: dict[Dimension, int], charge: Charge) -> None:
    ledger = Ledger.of(limits)
    unpayable = [dimension for dimension, amount in charge.items() if amount > limits.get(dimension, amount)]
    assert ledger.short_of(charge) == (unpayable[0] if unpayable else None)
    if unpayable:
        with pytest.raises(BudgetExceeded):
            ledger.reserve(charge)
    else:
        paid = ledger.reserve(charge)
        assert all(line.reserved == charge.get(dimension, 0) for dimension, line in paid.lines.items())


@pytest.mark.parametrize(
    ("attempt", "field", "says"),
    [
        (lambda ledger: ledger.at(-1), "elapsed", "elapsed must be a whole number of at least 0, not -1."),
        (lambda ledger: ledger.at(True), "elapsed", "elapsed must be a whole number of at least 0, not True."),
        (lambda ledger: ledger.extend(STEPS, 1, 0), "planned", "planned must be a whole number of at least 1, not 0."),
    ],
)
def test_a_figure_that_makes_no_sense_is_named(attempt: Callable[[Ledger], object], field: str, says: str) -> None:
    with pytest.raises(BudgetError) as refused:
        attempt(Ledger.of({STEPS: 2, Dimension.WALL_TIME: 60}))
    assert (refused.value.field, str(refused.value)) == (field, says)


def test_what_was_planned_once_can_be_doubled_once() -> None:
    assert Ledger.of({STEPS: 1}).extend(STEPS, 1, 1).lines[STEPS].limit == 2


# Look-ups are counted for each write


@pytest.mark.parametrize(
    ("limit", "spent", "then"),
    [
        pytest.param(3, 3, 6, id="the first write used all: the next finds as many"),
        pytest.param(3, 1, 4, id="what was left over is not added"),
        pytest.param(3, 0, 3, id="nothing was used: nothing is added"),
        pytest.param(5, 1, 5, id="an extension stays"),
    ],
)
def test_another_write_finds_as_many_look_ups_as_were_planned(limit: int, spent: int, then: int) -> None:
    ledger = Ledger({Dimension.STATUS_CHECKS: Line(limit, spent=spent), Dimension.STEPS: Line(20, spent=7)})
    after = ledger.for_another_write(3)
    assert after.lines[Dimension.STATUS_CHECKS] == Line(then, spent=spent)
    assert after.lines[Dimension.STEPS] == ledger.lines[Dimension.STEPS]
    assert (after.left(Dimension.STATUS_CHECKS) or 0) >= 3


def test_a_look_up_under_way_is_none_that_another_write_finds() -> None:
    ledger = Ledger({Dimension.STATUS_CHECKS: Line(3, spent=1, reserved=1)})
    assert ledger.for_another_write(3).lines[Dimension.STATUS_CHECKS] == Line(5, spent=1, reserved=1)


def test_where_look_ups_are_not_limited_another_write_changes_nothing() -> None:
    ledger = Ledger.of({Dimension.STEPS: 20})
    assert ledger.for_another_write(3) == ledger


def test_the_room_of_a_limit_is_what_it_can_be_extended_by_and_no_more() -> None:
    ledger = Ledger.of({STEPS: 3})
    assert ledger.room(STEPS, planned=3) == 3
    extended = ledger.extend(STEPS, 2, planned=3)
    assert extended.room(STEPS, planned=3) == 1
    assert extended.extend(STEPS, 1, planned=3).room(STEPS, planned=3) == 0
    assert extended.room(STEPS, planned=1) == 0
