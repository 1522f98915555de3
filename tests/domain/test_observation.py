"""The plain observation loop: the second source document's results, out of the fifteen rules."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain import observation
from runs.domain.budget import BudgetError, Dimension
from runs.domain.contract import Value
from runs.domain.decision import FactsState, NextStep, Situation, Verdict, decide
from runs.domain.observation import Observed, is_refund_period, observe
from runs.domain.states import StopReason

EMPTY, PERIOD = "空", "退款期限7天"
FOUND, LIMIT = StopReason.CONTRACT_MET, StopReason.LIMIT_STEPS
REPEATED, EXHAUSTED = StopReason.NO_PROGRESS, StopReason.SOURCES_EXHAUSTED


@pytest.mark.parametrize(
    ("observations", "max_steps", "reason", "steps"),
    [
        # The three worked runs, and the two variations on them.
        ([EMPTY, PERIOD], 3, FOUND, 2),
        ([EMPTY, EMPTY, EMPTY], 2, LIMIT, 2),
        ([EMPTY, EMPTY, EMPTY], 1, LIMIT, 1),
        ([EMPTY, EMPTY, EMPTY], 5, REPEATED, 2),
        ([EMPTY, PERIOD], 2, FOUND, 2),
        ([EMPTY], 3, EXHAUSTED, 1),
        # Its test table, where that is not the same again.
        ([EMPTY, "未知", PERIOD], 2, LIMIT, 2),
        ([EMPTY, EMPTY], 2, LIMIT, 2),
        (["weather sunny"], 3, EXHAUSTED, 1),
        # The edges.
        ([], 3, EXHAUSTED, 0),
        ([], 1, EXHAUSTED, 0),
        ([PERIOD], 1, FOUND, 1),
        ([EMPTY, "未知", EMPTY, "未知"], 9, EXHAUSTED, 4),
        (["未知", EMPTY, EMPTY, PERIOD], 9, REPEATED, 3),
        ([EMPTY], 1, LIMIT, 1),
    ],
)
def test_how_a_loop_of_observations_stops(
    observations: list[object], max_steps: int, reason: StopReason, steps: int
) -> None:
    assert observe(observations, max_steps) == Observed(reason.outcome, reason, steps)


def test_three_steps_are_allowed_if_nobody_says_otherwise() -> None:
    assert observe(["a", "b", "c", PERIOD]) == Observed(LIMIT.outcome, LIMIT, 3)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [(FOUND, "COMPLETED"), (LIMIT, "LIMIT_REACHED"), (REPEATED, "NEEDS_HUMAN"), (EXHAUSTED, "NEEDS_HUMAN")],
)
def test_each_way_out_has_its_outcome(reason: StopReason, outcome: str) -> None:
    assert reason.outcome == outcome


@pytest.mark.parametrize("max_steps", [0, -1, True, False, 2.0, float("nan"), "3", None, (1, 3)])
def test_a_limit_that_is_not_a_positive_whole_number_is_refused_before_anything_is_read(max_steps: object) -> None:
    source = iter([PERIOD])
    with pytest.raises(BudgetError) as refused:
        observe(source, max_steps)  # type: ignore[arg-type]
    assert refused.value.field == "max_steps"
    assert str(refused.value) == f"max_steps must be a whole number of at least 1, not {max_steps!r}."
    assert next(source) == PERIOD


@pytest.mark.parametrize("max_steps", [1, 2, 5])
def test_nothing_is_read_beyond_the_limit(max_steps: int) -> None:
    read = []

    def source() -> Iterator[str]:
        for number in range(max_steps):
            read.append(number)
            yield f"observation {number}"
        raise AssertionError("read on")

    assert observe(source(), max_steps).reason is LIMIT
    assert len(read) == max_steps


@pytest.mark.parametrize("observations", [[EMPTY, PERIOD], [EMPTY, EMPTY]])
def test_nothing_is_read_after_evidence_or_a_repetition(observations: list[str]) -> None:
    source = iter([*observations, "left over"])
    observe(source, 9)
    assert next(source) == "left over"


@pytest.mark.parametrize("other", [7, True, ["退款期限7天"], {"text": PERIOD}, PERIOD.encode(), object()])
def test_what_is_not_text_is_no_evidence(other: object) -> None:
    assert observe([other], is_evidence=lambda text: True).reason is EXHAUSTED


def test_what_is_no_text_still_repeats_itself() -> None:
    assert observe([{"hits": []}, {"hits": []}], 9) == Observed(REPEATED.outcome, REPEATED, 2)
    assert observe([{"hits": []}, {"hits": [1]}], 9).reason is EXHAUSTED


def test_a_first_observation_of_nothing_repeats_the_nothing_before_it() -> None:
    assert observe([None], 9) == Observed(REPEATED.outcome, REPEATED, 1)


@pytest.mark.parametrize("text", ["退款期限天", "退款期限 7 天", "退款期限\n7天"])
def test_a_refund_period_is_known_by_both_ends(text: str) -> None:
    assert is_refund_period(text)


@pytest.mark.parametrize("text", ["", "退款期限", "7天", "退款期限7天。", "the 退款期限7天", "退款期限7天\n"])
def test_other_text_is_no_refund_period(text: str) -> None:
    assert not is_refund_period(text)


def test_what_counts_as_evidence_can_be_said() -> None:
    assert observe(["nothing", "receipt R789"], is_evidence=lambda text: "R789" in text).reason is FOUND


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Situation]:
    """The situations that the rules were asked about."""
    situations: list[Situation] = []

    def overheard(situation: Situation) -> Verdict:
        situations.append(situation)
        return decide(situation)

    monkeypatch.setattr(observation, "decide", overheard)
    return situations


def test_the_rules_are_asked_before_every_observation(asked: list[Situation]) -> None:
    read: list[int] = []

    def source() -> Iterator[str]:
        for text in ("a", "b"):
            read.append(len(asked))
            yield text

    observe(source(), 9)
    assert read == [1, 2]


UNTROUBLED = Situation(
    contract=Value.UNKNOWN,
    authorised=Value.MET,
    facts=FactsState.COMPLETE,
    eligible=Value.MET,
    next_step=NextStep.READ,
)


@pytest.mark.parametrize(
    ("observations", "max_steps", "told"),
    [
        ([PERIOD], 9, {"contract": Value.MET}),
        ([EMPTY], 1, {"short_of": Dimension.STEPS}),
        ([None], 9, {"repeats": 1}),
        ([], 9, {"next_step": NextStep.EXHAUSTED}),
    ],
)
def test_the_rules_are_told_of_the_reason_to_stop_and_of_no_other_trouble(
    asked: list[Situation], observations: list[object], max_steps: int, told: dict[str, object]
) -> None:
    observe(observations, max_steps)
    assert asked == [UNTROUBLED, replace(UNTROUBLED, **told)]  # type: ignore[arg-type]


def by_hand(observations: list[object], max_steps: int) -> tuple[StopReason, int]:
    """The same loop, with an order of its own."""
    for taken in range(1, len(observations) + 1):
        newest = observations[taken - 1]
        before = observations[taken - 2] if taken > 1 else None
        if isinstance(newest, str) and newest[:4] == "退款期限" and newest[-1:] == "天":
            return FOUND, taken
        if taken == max_steps:
            return LIMIT, taken
        if newest == before:
            return REPEATED, taken
    return EXHAUSTED, len(observations)


@given(
    st.lists(st.sampled_from([EMPTY, "未知", "", PERIOD, "退款期限", None, 0, 1, True, 1.0]), max_size=8),
    st.integers(1, 9),
)
def test_it_stops_like_the_loop_written_out_by_hand(observations: list[object], max_steps: int) -> None:
    expected, steps = by_hand(observations, max_steps)
    assert observe(observations, max_steps) == Observed(expected.outcome, expected, steps)
