"""The plainest run there is: read observations one after the other until there is a reason to stop (docs/rules.md, 4).

It has no order of its own. Success before limit, limit before repetition, and exhausted sources last: that is the order
of the fifteen rules. It has no other path to try either, so the first repetition ends it.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from runs.domain.budget import BudgetError, Charge, Dimension, Ledger
from runs.domain.contract import Value
from runs.domain.decision import FactsState, Kind, NextStep, Situation, decide
from runs.domain.errors import quoted
from runs.domain.progress import Progress
from runs.domain.states import Outcome, StopReason

ONE_STEP: Charge = {Dimension.STEPS: 1}


@dataclass(frozen=True)
class Observed:
    """How it stopped, why, and how many observations were consumed."""

    outcome: Outcome
    reason: StopReason
    steps: int


def is_refund_period(text: str) -> bool:
    """Whether `text` has the form of the worked example: a refund period in days, in Chinese."""
    return re.fullmatch("退款期限.*天", text, re.DOTALL) is not None


def observe(
    observations: Iterable[object], max_steps: int = 3, is_evidence: Callable[[str], bool] = is_refund_period
) -> Observed:
    """Consume `observations` until they are evidence, repeat themselves, run out, or `max_steps` are taken.

    Only text is evidence. An iterator is advanced no further than what is consumed. Raises BudgetError with the field
    `max_steps` for a limit that is not a whole number from 1.
    """
    if type(max_steps) is not int or max_steps < 1:
        raise BudgetError(
            f"max_steps must be a whole number of at least 1, not {quoted(max_steps)}.", field="max_steps"
        )
    source = iter(observations)
    ledger = Ledger.of({Dimension.STEPS: max_steps})
    latest: object = None
    # An attempt is told by the step at which its observation first came: observations are compared as they are, since
    # not all of them are text. Before the first there is nothing, and an observation of nothing repeats that.
    first_seen, progress = "step 0", Progress().observed("step 0")
    situation = Situation(
        contract=Value.UNKNOWN,
        authorised=Value.MET,
        facts=FactsState.COMPLETE,
        eligible=Value.MET,
        next_step=NextStep.READ,
    )
    steps = 0
    while (verdict := decide(situation)).kind is Kind.ACT:
        try:
            observation = next(source)
        except StopIteration:
            situation = replace(situation, next_step=NextStep.EXHAUSTED)
            continue
        ledger = ledger.reserve(ONE_STEP).settle(ONE_STEP)
        steps = ledger.lines[Dimension.STEPS].spent
        if observation != latest:
            latest, first_seen = observation, f"step {steps}"
        progress = progress.observed(first_seen)
        found = isinstance(observation, str) and is_evidence(observation)
        situation = replace(
            situation,
            contract=Value.MET if found else Value.UNKNOWN,
            short_of=ledger.short_of(ONE_STEP),
            repeats=progress.repeats,
        )
    assert verdict.reason
    return Observed(verdict.reason.outcome, verdict.reason, steps)
