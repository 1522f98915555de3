"""What a run may spend, has spent, and has set aside (spec section 6).

Available = limit - spent - reserved. A reservation is committed before the call it pays for; settling turns it into
spending. Spent never falls, and a resume never starts from zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from runs.domain.errors import DomainError
from runs.domain.states import StopReason


class Dimension(StrEnum):
    STEPS = "steps"
    MODEL_TURNS = "model_turns"
    TOOL_ATTEMPTS = "tool_attempts"
    EXTERNAL_WRITES = "external_writes"
    STATUS_CHECKS = "status_checks"
    FOLLOW_UP_CHECKS = "follow_up_checks"  # after the automatic ones; shared by people's reconciles
    WALL_TIME = "wall_time"  # seconds from start, waiting included
    COST = "cost"  # millionths of the workflow's currency


STOP_REASON = {
    Dimension.STEPS: StopReason.LIMIT_STEPS,
    Dimension.MODEL_TURNS: StopReason.LIMIT_MODEL_TURNS,
    Dimension.TOOL_ATTEMPTS: StopReason.LIMIT_TOOL_ATTEMPTS,
    Dimension.EXTERNAL_WRITES: StopReason.LIMIT_EXTERNAL_WRITES,
    Dimension.STATUS_CHECKS: StopReason.LIMIT_STATUS_CHECKS,
    Dimension.FOLLOW_UP_CHECKS: StopReason.LIMIT_STATUS_CHECKS,
    Dimension.WALL_TIME: StopReason.LIMIT_WALL_TIME,
    Dimension.COST: StopReason.LIMIT_COST,
}

Charge = Mapping[Dimension, int]


class BudgetError(DomainError):
    """A budget that makes no sense: a limit, soft mark or charge that is not a whole number in range."""


class BudgetExceeded(DomainError):
    """What is left cannot pay for the next step; nothing was reserved."""

    def __init__(self, dimension: Dimension) -> None:
        super().__init__(f"The budget for {dimension.value.replace('_', ' ')} is used up.", field=dimension)
        self.dimension = dimension


def _whole(value: object, field: str, low: int = 0) -> int:
    if type(value) is not int or value < low:
        raise BudgetError(f"{field} must be a whole number of at least {low}, not {value!r}.", field=field)
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

    def settle(self, charge: Charge) -> "Ledger":
        """Turn a reservation into spending, whatever became of the call."""
        return self._change(
            {
                d: replace(line, reserved=max(0, line.reserved - a), spent=line.spent + a)
                for d, a, line in self._touched(charge)
            }
        )

    def spend(self, dimension: Dimension, total: int) -> "Ledger":
        """Record a total that only grows by itself, as wall time does."""
        line = self.lines.get(dimension)
        if not line:
            return self
        return self._change({dimension: replace(line, spent=max(line.spent, total))})

    def extend(self, dimension: Dimension, by: int) -> "Ledger":
        """Raise a limit by `by`. Raises BudgetError for a dimension this run does not have."""
        if dimension not in self.lines:
            raise BudgetError(f"This run has no budget for {dimension.value}.", field="dimension")
        line = self.lines[dimension]
        return self._change({dimension: replace(line, limit=line.limit + _whole(by, "by", low=1))})

    def crossed_soft(self) -> tuple[Dimension, ...]:
        return tuple(d for d, line in self.lines.items() if line.soft and line.spent >= line.soft)

    def left(self, dimension: Dimension) -> int | None:
        line = self.lines.get(dimension)
        return line.available if line else None

    def _touched(self, charge: Charge) -> list[tuple[Dimension, int, Line]]:
        return [(d, _whole(a, d), self.lines[d]) for d, a in charge.items() if d in self.lines]

    def _change(self, lines: Mapping[Dimension, Line]) -> "Ledger":
        return Ledger({**self.lines, **lines})
