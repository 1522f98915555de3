"""Whether a run is getting anywhere (docs/rules.md, 5).

An attempt's fingerprint is source, operation, canonical parameters and result digest: the same call with a new result,
or another source with the same empty result, is not a repetition. What a step gained is told apart from what it did:
asking once more, or handing the task to somebody else, gains nothing by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runs.domain.contract import Value, is_text
from runs.domain.effects import EffectState, fingerprint
from runs.domain.errors import DomainError, ErrorClass, quoted
from runs.domain.states import Closed

MOST_REMEMBERED = 64  # hypotheses excluded, holders of tasks, ways closed, plans rejected
LONGEST_NAME = 200  # characters

# Only an answer of the authority leads to these. A request that left, or got lost, is no news of anything.
SAID_BY_THE_AUTHORITY = frozenset(
    {
        EffectState.ACKNOWLEDGED,
        EffectState.CONFIRMED,
        EffectState.REJECTED,
        EffectState.ABSENT,
        EffectState.COMPENSATED,
    }
)


class ProgressError(DomainError):
    """Something that cannot be progress, or be remembered as such: a name that is none, a limit out of range."""


def way_of(operation: str, arguments: Mapping[str, Any] | None = None) -> str:
    """What is closed when it fails for good: the whole operation, or the one call with these arguments."""
    return operation if arguments is None else f"{operation} {fingerprint(arguments)[:16]}"


def attempt_fingerprint(source: str, operation: str, params: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    return fingerprint({"source": source, "operation": operation, "params": params, "result": fingerprint(result)})


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[Value, Value]]:
    """The assertions whose value is not the same, each with both values, in the order of `after`.

    One that is on one side only belongs to another contract and has not changed. Raises ProgressError, with the field
    named after the assertion, for a value that is none of the three.
    """
    both = {name: (_value(before[name], name), _value(now, name)) for name, now in after.items() if name in before}
    return {name: (was, now) for name, (was, now) in both.items() if was is not now}


@dataclass(frozen=True)
class Gain:
    """What one step brought. Raises ProgressError naming the field.

    A step that wrote says so by `effect`, its state before and after. For it nothing else counts: assertions and
    evidence follow from what the authority confirmed, and another request confirms nothing.
    """

    changed: Mapping[str, tuple[Value, Value]] = field(default_factory=dict)  # assertion -> before, after
    evidence: Sequence[str] = ()  # references of what was not known before
    obstacle: str = ""  # that is out of the way now
    hypothesis: str = ""  # that is excluded now
    narrowed: bool = False  # the scope
    expected: str = ""  # written down beforehand
    came: str = ""
    effect: tuple[EffectState, EffectState] | None = None

    def __post_init__(self) -> None:
        for name, pair in self.changed.items():
            if [type(value) for value in pair] != [Value, Value]:
                raise ProgressError(f"Assertion {quoted(name)} needs its value before and after.", field="changed")
        # A text would pass for the sequence of its letters.
        if isinstance(self.evidence, str) or not all(is_text(one) for one in self.evidence):
            raise ProgressError("evidence must hold references, none of them empty.", field="evidence")
        for given, what in ((self.obstacle, "obstacle"), (self.hypothesis, "hypothesis")):
            if given != "":
                _name(given, what)
        if type(self.narrowed) is not bool:
            raise ProgressError(f"narrowed must be true or false, not {quoted(self.narrowed)}.", field="narrowed")
        if self.effect is not None and [type(state) for state in self.effect] != [EffectState, EffectState]:
            raise ProgressError("A write needs its state before and after.", field="effect")

    @property
    def any(self) -> bool:
        """Whether the step was progress. An assertion that became UNKNOWN changed, and nothing was gained by it."""
        if self.effect:
            before, after = self.effect
            return after is not before and after in SAID_BY_THE_AUTHORITY
        learned = any(now is not Value.UNKNOWN and now is not was for was, now in self.changed.values())
        return bool(learned or self.evidence or self.obstacle or self.hypothesis or self.narrowed)


@dataclass(frozen=True)
class Progress:
    """The memory the next decision needs, and no more: its size does not grow with the run's history.

    Kept as JSON with the run: every field is text, a whole number, or a dict or list of such.
    """

    last_attempt: str = ""  # fingerprint of the latest observation
    repeats: int = 0  # how often it came back in a row without new evidence
    error_class: ErrorClass | None = None  # of the latest failure, while it lasts
    error_operation: str = ""
    errors_in_a_row: int = 0  # same class, same operation
    failures: Mapping[str, int] = field(default_factory=dict)  # tool -> failed attempts since it last worked
    claims: int = 0  # completions claimed and not borne out
    grace_until: str = ""  # ISO instant until which a decision made in time may be carried out
    excluded: Sequence[str] = field(default_factory=list)  # hypotheses, in the order in which they fell
    fruitless: Mapping[str, int] = field(default_factory=dict)  # kind -> attempts in a row that gained nothing
    holders: Mapping[str, Sequence[str]] = field(default_factory=dict)  # task -> who had it since the last gain
    handed_back: int = 0  # hand-overs since then to somebody who had that task already
    closed: Mapping[str, str] = field(default_factory=dict)  # way -> what it failed of (states.Closed)
    rejected: Mapping[str, str] = field(default_factory=dict)  # digest of a plan -> why a person rejected it
    refused: str = ""  # why a proposal of a model was not even considered: of the latest that was not
    soft_marks: Sequence[str] = field(default_factory=list)  # dimensions whose soft mark was crossed, and said so
    waits: int = 0  # times that the policy chose to look again later
    look_again_at: str = ""  # ISO instant, while it waits so
    taken_up: int = 0  # the step of the latest model turn whose proposal was dealt with

    def observed(self, attempt: str) -> "Progress":
        """A call came back with something; `attempt` is its fingerprint."""
        _name(attempt, "attempt")  # an empty one would repeat the nothing before the first
        return replace(self, last_attempt=attempt, repeats=self.repeats + 1 if attempt == self.last_attempt else 0)

    def succeeded(self, operation: str) -> "Progress":
        return replace(
            self,
            error_class=None,
            error_operation="",
            errors_in_a_row=0,
            failures={name: n for name, n in self.failures.items() if name != operation},
        )

    def failed(self, operation: str, error_class: ErrorClass) -> "Progress":
        _name(operation, "operation")
        same = error_class == self.error_class and operation == self.error_operation
        return replace(
            self,
            error_class=error_class,
            error_operation=operation,
            errors_in_a_row=self.errors_in_a_row + 1 if same else 1,
            failures={**self.failures, operation: self.failures.get(operation, 0) + 1},
        )

    def news(self, gain: Gain) -> Gain:
        """`gain` without a hypothesis that was excluded before, or that there is no room to remember.

        What cannot be recognised again must not count: a run could go round its hypotheses for ever.
        """
        known = gain.hypothesis in self.excluded or len(self.excluded) >= MOST_REMEMBERED
        return replace(gain, hypothesis="") if known else gain

    def gained(self, gain: Gain, kind: str | None = None, limits: Mapping[str, int] | None = None) -> "Progress":
        """A step is over, and this is what it brought. `observed` comes first where the step was a call.

        `kind` is the kind of attempt that it was, if it was of one that is limited, and `limits` says of each kind how
        many may be fruitless in a row. A closed kind stays closed, whatever still comes of it. Raises ProgressError
        with the field `kind` or `limits`.
        """
        new = self.news(gain)
        counted = self if kind is None else self._counted(new.any, kind, limits or {})
        if not new.any:
            return counted
        excluded = [*self.excluded, new.hypothesis] if new.hypothesis else self.excluded
        return replace(counted, excluded=excluded, repeats=0, holders={}, handed_back=0)

    def open_kinds(self, limits: Mapping[str, int]) -> tuple[str, ...]:
        """The kinds of attempt that may still be made, in the order of `limits`."""
        _check_limits(limits)
        return tuple(kind for kind, limit in limits.items() if self.fruitless.get(kind, 0) < limit)

    def kinds_closed(self, limits: Mapping[str, int]) -> bool:
        """Whether every kind of attempt there is was fruitless up to its limit: no progress."""
        return bool(limits) and not self.open_kinds(limits)

    def handed_over(self, task: str, giver: str, taker: str) -> "Progress":
        """`giver` passed the task with the fingerprint `task` to `taker`. Raises ProgressError naming the argument.

        A task that comes back to somebody who had it is going round, until something is gained. So is one more pair of
        hands when there is no room to remember it: so many without a gain between them are no progress either.
        """
        for given, argument in ((task, "task"), (giver, "giver"), (taker, "taker")):
            _name(given, argument)
        had = self.holders.get(task, [])
        now = [*had, *(agent for agent in dict.fromkeys((giver, taker)) if agent not in had)]
        room = MOST_REMEMBERED - sum(len(agents) for agents in self.holders.values())
        if taker in had or taker == giver or len(now) - len(had) > room:
            return replace(self, handed_back=self.handed_back + 1)
        return replace(self, holders={**self.holders, task: now})

    def read_again(self) -> "Progress":
        """What was read before counts no more: the same call once more is no repetition."""
        return replace(self, last_attempt="", repeats=0)

    def close(self, way: str, of: Closed) -> "Progress":
        """`way` failed for good and is not taken again. The oldest is forgotten where there is no room."""
        kept = dict([*self.closed.items()][-MOST_REMEMBERED + 1 :])
        return replace(self, closed={**kept, _name(way, "way"): of.value})

    def reject(self, digest: str, why: str) -> "Progress":
        """A person rejected the plan with this digest."""
        kept = dict([*self.rejected.items()][-MOST_REMEMBERED + 1 :])
        return replace(self, rejected={**kept, _name(digest, "digest"): why})

    def reviewed(self) -> "Progress":
        """A person looked at it and lets it go on: what held it up counts from here. What was excluded stays so."""
        return replace(self, repeats=0, fruitless={}, holders={}, handed_back=0, closed={})

    def _counted(self, fruitful: bool, kind: str, limits: Mapping[str, int]) -> "Progress":
        _check_limits(limits)
        if _name(kind, "kind") not in limits:
            raise ProgressError(f"There is no kind of attempt named {quoted(kind)}.", field="kind")
        # Kinds that are not declared any more are forgotten: what is remembered is no longer than `limits`.
        counts = {name: n for name, n in self.fruitless.items() if name in limits}
        count = counts.get(kind, 0)
        if count < limits[kind]:
            counts[kind] = 0 if fruitful else count + 1
        return replace(self, fruitless={name: n for name, n in counts.items() if n})


def _value(given: str, name: str) -> Value:
    try:
        return Value(given)
    except ValueError:
        raise ProgressError(
            f"Assertion {quoted(name)} is {quoted(given)}; it must be MET, UNMET or UNKNOWN.", name
        ) from None


def _name(given: object, field: str) -> str:
    # What cannot be printed cannot be stored either: NUL and half a surrogate pair are refused by the database.
    if not isinstance(given, str) or not given.strip() or not given.isprintable() or len(given) > LONGEST_NAME:
        raise ProgressError(f"{field} must be printable text of 1 to {LONGEST_NAME} characters.", field=field)
    return given


def _check_limits(limits: Mapping[str, int]) -> None:
    for kind, limit in limits.items():
        _name(kind, "limits")
        if type(limit) is not int or limit < 1:
            raise ProgressError(
                f"The limit of {quoted(kind)} must be a whole number from 1, not {quoted(limit)}.", field="limits"
            )
