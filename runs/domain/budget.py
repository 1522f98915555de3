"""What a run may spend, has spent, and has set aside (docs/rules.md, 6).

Available = limit - spent - reserved. A reservation is committed before the call it pays for; settling turns it into
spending. Spent never falls, and a resume never starts from zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from runs.domain.errors import DomainError, quoted
from runs.domain.states import StopReason


class Dimension(StrEnum):
    STEPS = "steps"
    MODEL_TURNS = "model_turns"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    TOOL_ATTEMPTS = "tool_attempts"
    EXTERNAL_WRITES = "external_writes"
    STATUS_CHECKS = "status_checks"
    FOLLOW_UP_CHECKS = "follow_up_checks"  # after the automatic ones; shared by people's reconciles
    CALLBACK_CHECKS = "callback_checks"  # that services' callbacks lead to; nothing else pays for those
    WALL_TIME = "wall_time"  # seconds from start, waiting included
    COST = "cost"  # millionths of the workflow's currency


STOP_REASON = {
    Dimension.STEPS: StopReason.LIMIT_STEPS,
    Dimension.MODEL_TURNS: StopReason.LIMIT_MODEL_TURNS,
    Dimension.INPUT_TOKENS: StopReason.LIMIT_TOKENS,
    Dimension.OUTPUT_TOKENS: StopReason.LIMIT_TOKENS,
    Dimension.TOOL_ATTEMPTS: StopReason.LIMIT_TOOL_ATTEMPTS,
    Dimension.EXTERNAL_WRITES: StopReason.LIMIT_EXTERNAL_WRITES,
    Dimension.STATUS_CHECKS: StopReason.LIMIT_STATUS_CHECKS,
    Dimension.FOLLOW_UP_CHECKS: StopReason.LIMIT_STATUS_CHECKS,
    Dimension.CALLBACK_CHECKS: StopReason.LIMIT_STATUS_CHECKS,
    Dimension.WALL_TIME: StopReason.LIMIT_WALL_TIME,
    Dimension.COST: StopReason.LIMIT_COST,
}

Charge = Mapping[Dimension, int]

READ: Charge = {Dimension.STEPS: 1, Dimension.TOOL_ATTEMPTS: 1}
FIRST_WRITE: Charge = {Dimension.STEPS: 1, Dimension.TOOL_ATTEMPTS: 1, Dimension.EXTERNAL_WRITES: 1}
RESEND: Charge = {Dimension.STEPS: 1, Dimension.TOOL_ATTEMPTS: 1}  # another attempt, not another write
UNDO: Charge = {Dimension.STEPS: 1, Dimension.TOOL_ATTEMPTS: 1}  # as many as there were writes, and no more
CLAIM: Charge = {Dimension.STEPS: 1}
SCHEDULED_LOOK_UP: Charge = {Dimension.STATUS_CHECKS: 1}
ASKED_LOOK_UP: Charge = {Dimension.FOLLOW_UP_CHECKS: 1}


class BudgetError(DomainError):
    """A budget that makes no sense: a limit, soft mark or charge that is not a whole number in range."""


class BudgetExceeded(DomainError):
    """What is left cannot pay for the next step; nothing was reserved."""

    def __init__(self, dimension: Dimension) -> None:
        super().__init__(f"The budget for {dimension.value.replace('_', ' ')} is used up.", field=dimension)
        self.dimension = dimension


def _whole(value: object, field: str, low: int = 0) -> int:
    if type(value) is not int or value < low:
        raise BudgetError(f"{field} must be a whole number of at least {low}, not {quoted(value)}.", field=field)
    return value


@dataclass(frozen=True)
class Line:
    """One dimension: hard limit, soft mark (0: none), spent, and reserved for the call under way."""

    limit: int
    soft: int = 0
    spent: int = 0
    reserved: int = 0

    @property
    def available(self) -> int:
        return max(0, self.limit - self.spent - self.reserved)

    @property
    def past_soft(self) -> bool:
        return self.soft > 0 and self.spent >= self.soft


@dataclass(frozen=True)
class Ledger:
    """Every dimension of one run. Immutable: each operation returns the ledger that follows."""

    lines: Mapping[Dimension, Line]

    @classmethod
    def of(cls, limits: Mapping[Dimension, int | tuple[int, int]]) -> "Ledger":
        """From `{dimension: limit}` or `{dimension: (soft, limit)}`, all positive whole numbers."""
        lines = {}
        for dimension, given in limits.items():
            soft, limit = given if isinstance(given, tuple) else (0, given)
            _whole(limit, f"{dimension.value} limit", low=1)
            if _whole(soft, f"{dimension.value} soft mark") > limit:
                raise BudgetError(f"{dimension.value}: the soft mark {soft} is above the limit {limit}.", dimension)
            lines[dimension] = Line(limit, soft)
        return cls(lines)

    def short_of(self, charge: Charge) -> Dimension | None:
        """The first dimension that cannot pay `charge`, or None. A dimension without a line is not limited."""
        for dimension, amount in charge.items():
            line = self.lines.get(dimension)
            if line and _whole(amount, dimension) > line.available:
                return dimension
        return None

    def reserve(self, charge: Charge) -> "Ledger":
        """Set `charge` aside. Raises BudgetExceeded naming the first dimension that cannot pay."""
        if dimension := self.short_of(charge):
            raise BudgetExceeded(dimension)
        return self._change({d: replace(line, reserved=line.reserved + a) for d, a, line in self._touched(charge)})

    def settle(self, charge: Charge, used: Charge | None = None) -> "Ledger":
        """Turn the reservation of `charge` into spending: `used` where it is known, which releases the remainder.

        Where it is not, in this or that dimension or because the call failed, all of it counts as spent. What was used
        counts in full, also where that was more than had been set aside.
        """
        released = self._change(
            {d: replace(line, reserved=max(0, line.reserved - a)) for d, a, line in self._touched(charge)}
        )
        spent = {**charge, **(used or {})}
        return released._change({d: replace(line, spent=line.spent + a) for d, a, line in released._touched(spent)})

    def at(self, elapsed: int) -> "Ledger":
        """The ledger `elapsed` seconds after the start: wall time is the one dimension that is spent by itself."""
        line = self.lines.get(Dimension.WALL_TIME)
        return self._change({Dimension.WALL_TIME: replace(line, spent=_whole(elapsed, "elapsed"))}) if line else self

    def extend(self, dimension: Dimension, by: int, planned: int) -> "Ledger":
        """Raise a limit by `by`, of which the workflow `planned` so much.

        Raises BudgetError for more than there is `room` for, or for a dimension that this run does not have.
        """
        if dimension not in self.lines:
            raise BudgetError(f"This run has no budget for {dimension.value}.", field="dimension")
        line, most = self.lines[dimension], self.room(dimension, planned)
        if _whole(by, "by", low=1) > most:
            said = f"at most {most} more" if most else "no further extension"
            raise BudgetError(f"{dimension.value} was planned as {planned} and can be doubled: {said}.", field="by")
        return self._change({dimension: replace(line, limit=line.limit + by)})

    def room(self, dimension: Dimension, planned: int) -> int:
        """By how much the limit may still be raised: all extensions together can at most double what was planned."""
        return max(0, 2 * _whole(planned, "planned", low=1) - self.lines[dimension].limit)

    def for_another_write(self, planned: int) -> "Ledger":
        """Look-ups are counted for each write: one that is sent finds at least `planned` of them."""
        line = self.lines.get(Dimension.STATUS_CHECKS)
        if line is None:
            return self
        limit = max(line.limit, line.spent + line.reserved + planned)
        return self._change({Dimension.STATUS_CHECKS: replace(line, limit=limit)})

    def crossed_soft(self) -> tuple[Dimension, ...]:
        return tuple(d for d, line in self.lines.items() if line.past_soft)

    def look_up(self, asked: Dimension | None = None) -> Charge:
        """What the next look-up is paid from: people's, and those after the scheduled ones, share an allowance.

        `asked`: the allowance of who wants it now, a person's or a callback's; None: it is due by itself.
        """
        if asked and self.left(asked):
            return {asked: 1}
        return SCHEDULED_LOOK_UP if self.left(Dimension.STATUS_CHECKS) else ASKED_LOOK_UP

    def left(self, dimension: Dimension) -> int | None:
        line = self.lines.get(dimension)
        return line.available if line else None

    def _touched(self, charge: Charge) -> list[tuple[Dimension, int, Line]]:
        return [(d, _whole(a, d), self.lines[d]) for d, a in charge.items() if d in self.lines]

    def _change(self, lines: Mapping[Dimension, Line]) -> "Ledger":
        return Ledger({**self.lines, **lines})
