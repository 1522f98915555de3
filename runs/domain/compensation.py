"""What to do about writes that have happened and are not wanted any more (docs/rules.md, 8).

Undoing is not trying again: what is unknown is looked up before anything is touched, what cannot be undone goes to a
person before anything is touched, and only then is the rest undone, the latest first, because later actions may rest on
earlier ones. What comes of it is a state that people can live with. The history stays as it was.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runs.domain.effects import UNRESOLVED, UNSENT, Effect, EffectState
from runs.domain.errors import DomainError, quoted
from runs.domain.states import Recovery

UNDO = "undo:"  # begins the key of every compensation, and of nothing else
LONGEST_KEY = 120  # characters; what the record of an effect holds


class Status(StrEnum):
    COMMITTED = "committed"  # it happened, and stands
    UNKNOWN = "unknown"  # it may have happened
    ABSENT = "absent"  # nothing of it is left to undo


STATUS_OF: dict[EffectState, Status] = {
    EffectState.CONFIRMED: Status.COMMITTED,
    **dict.fromkeys(UNRESOLVED, Status.UNKNOWN),
    **dict.fromkeys(UNSENT, Status.ABSENT),
    EffectState.REJECTED: Status.ABSENT,
    EffectState.ABSENT: Status.ABSENT,
    EffectState.COMPENSATED: Status.ABSENT,
}


class CompensationError(DomainError):
    """Actions that no plan can be made from, or a compensation that must not exist."""


@dataclass(frozen=True)
class Action:
    """One action as it stands, and whether it can be undone now.

    `reversible` is a judgement of this moment (has somebody come to rely on it? is it still kept? is undoing it what is
    wanted?), not a property of the operation. Raises CompensationError with the field `id`, `status` or `reversible`.
    """

    id: str
    status: Status
    reversible: bool

    def __post_init__(self) -> None:
        _refuse_no_key(self.id, "id")
        if not isinstance(self.status, Status):
            known = ", ".join(Status)
            raise CompensationError(f"The status of action {quoted(self.id)} must be one of: {known}.", "status")
        if type(self.reversible) is not bool:
            raise CompensationError(
                f"Action {quoted(self.id)} must say true or false to being reversible.", "reversible"
            )


@dataclass(frozen=True)
class Plan:
    """What comes next, and for which actions: those to look up, in order of execution, or those to undo, in this order.

    MANUAL names none: a person decides about all of them together.
    """

    mode: Recovery
    actions: tuple[str, ...]

    @property
    def nothing_to_undo(self) -> bool:
        """Whether everything is known and nothing of it stands: recovery is over, and nobody need be asked."""
        return self.mode is Recovery.COMPENSATE and not self.actions


def parse(given: object) -> tuple[Action, ...]:
    """The actions in a list of `{"id", "status", "reversible"}` from outside, in order of execution.

    Raises CompensationError with the field `actions`, `id`, `status` or `reversible`; what is not stated is
    not assumed, and further fields are left alone.
    """
    if not isinstance(given, list | tuple) or not all(isinstance(one, Mapping) for one in given):
        raise CompensationError("actions must be a list of objects with id, status and reversible.", "actions")
    actions = tuple(Action(one.get("id"), _status(one.get("status")), one.get("reversible")) for one in given)
    _refuse_duplicates(actions)
    return actions


def action_of(effect: Effect, reversible: bool | None) -> Action:
    """An effect as an action. `reversible` was judged on evidence just now; None (no evidence) counts as False."""
    status = STATUS_OF[effect.state]
    if effect.undoes and status is Status.COMMITTED:
        status = Status.ABSENT  # a compensation that worked is not undone in its turn; one in doubt is looked up
    return Action(effect.key, status, False if reversible is None else reversible)


def in_order(effects: Iterable[Effect]) -> list[Effect]:
    """In order of execution."""
    return sorted(effects, key=lambda effect: effect.sent_at or effect.planned_at)


def standing(effects: Iterable[Effect]) -> list[Effect]:
    """What happened and is not undone, in order of execution. What undid another is none of it."""
    return [effect for effect in in_order(effects) if effect.state is EffectState.CONFIRMED and not effect.undoes]


def plan(actions: Sequence[Action]) -> Plan:
    """What to do about `actions`, given in order of execution. Raises CompensationError for an id that comes twice."""
    _refuse_duplicates(actions)
    if unknown := tuple(action.id for action in actions if action.status is Status.UNKNOWN):
        return Plan(Recovery.RECONCILE, unknown)
    committed = [action for action in actions if action.status is Status.COMMITTED]
    if not all(action.reversible for action in committed):
        return Plan(Recovery.MANUAL, ())
    return Plan(Recovery.COMPENSATE, tuple(action.id for action in reversed(committed)))


def compensation_key(operation_key: str) -> str:
    """The operation key of the write that undoes the one under `operation_key`: always the same one, and no other's.

    Raises CompensationError for the key of a compensation, an empty one, and one too long to derive another from.
    """
    _refuse_no_key(operation_key, "operation_key")
    if operation_key.startswith(UNDO):
        raise CompensationError("A compensation is not compensated in its turn.", "operation_key")
    if len(operation_key) > (most := LONGEST_KEY - len(UNDO)):
        raise CompensationError(f"Past {most} characters a key leaves no room for its compensation's.", "operation_key")
    return UNDO + operation_key


def _status(given: object) -> Any:
    """The status of that name; anything else as it came, for Action to refuse."""
    return next((status for status in Status if status == given), given)


def _refuse_no_key(given: object, field: str) -> None:
    if not isinstance(given, str) or not given:
        raise CompensationError(f"{field} must be a string that is not empty.", field)


def _refuse_duplicates(actions: Sequence[Action]) -> None:
    repeated = [name for name, times in Counter(action.id for action in actions).items() if times > 1]
    if repeated:
        raise CompensationError(f"Action {quoted(repeated[0])} comes more than once.", "id")
