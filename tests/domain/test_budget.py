import pytest

from runs.domain.budget import BudgetError, BudgetExceeded, Dimension, Ledger

STEPS, WRITES = Dimension.STEPS, Dimension.EXTERNAL_WRITES


def test_what_is_reserved_is_not_available() -> None:
    ledger = Ledger.of({STEPS: 2, WRITES: 1}).reserve({STEPS: 1, WRITES: 1})
    assert ledger.left(STEPS) == 1
    assert ledger.short_of({WRITES: 1}) is WRITES
    with pytest.raises(BudgetExceeded) as exceeded:
        ledger.reserve({STEPS: 1, WRITES: 1})
    assert exceeded.value.dimension is WRITES


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


def test_extensions_together_at_most_double_what_was_planned() -> None:
    ledger = Ledger.of({STEPS: 3}).extend(STEPS, 2, planned=3)
    with pytest.raises(BudgetError, match="at most 1 more"):
        ledger.extend(STEPS, 2, planned=3)
    with pytest.raises(BudgetError, match="no further extension"):
        ledger.extend(STEPS, 1, planned=3).extend(STEPS, 1, planned=3)


def test_wall_time_is_spent_by_itself() -> None:
    ledger = Ledger.of({Dimension.WALL_TIME: 60})
    assert ledger.at(20).left(Dimension.WALL_TIME) == 40
    assert ledger.at(90).left(Dimension.WALL_TIME) == 0


def test_the_soft_mark_is_crossed_before_the_limit() -> None:
    ledger = Ledger.of({STEPS: (1, 2)}).reserve({STEPS: 1}).settle({STEPS: 1})
    assert ledger.crossed_soft() == (STEPS,)
    assert ledger.left(STEPS) == 1


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3", float("nan"), (3, 2), (-1, 2)])
def test_a_limit_that_makes_no_sense_is_refused(limit: object) -> None:
    with pytest.raises(BudgetError) as refused:
        Ledger.of({STEPS: limit})  # type: ignore[dict-item]
    assert "steps" in str(refused.value)


@pytest.mark.parametrize("amount", [-1, True, 0.5, None])
def test_a_charge_that_makes_no_sense_is_refused(amount: object) -> None:
    with pytest.raises(BudgetError):
        Ledger.of({STEPS: 3}).reserve({STEPS: amount})  # type: ignore[dict-item]


def test_a_dimension_without_a_budget_cannot_be_extended() -> None:
    with pytest.raises(BudgetError):
        Ledger.of({STEPS: 3}).extend(WRITES, 1, planned=1)
