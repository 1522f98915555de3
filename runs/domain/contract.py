"""What must be true for a run to be complete, in three values (docs/rules.md, 3).

UNMET goes before UNKNOWN and UNKNOWN before MET: a known violation is not "only awaiting confirmation", and what nobody
could read is never taken for true. MET and UNMET rest on something that was read; a check that could not look is
UNKNOWN and says what stopped it. Every assertion keeps its own value and evidence beside the combined one.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from runs.domain.errors import DomainError, quoted


class Value(StrEnum):
    MET = "MET"
    UNMET = "UNMET"
    UNKNOWN = "UNKNOWN"


class Acceptance(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


ACCEPTANCE_OF = {
    Value.MET: Acceptance.SUCCEEDED,
    Value.UNMET: Acceptance.FAILED,
    Value.UNKNOWN: Acceptance.UNKNOWN,
}


class ContractError(DomainError):
    """A contract that cannot be judged: empty, not the frozen one, or with a value that rests on nothing."""


@dataclass(frozen=True)
class Evidence:
    """A fact as it was read: what was said, by which source, when, and under which reference it can be found again."""

    says: str
    source: str = ""
    at: datetime | None = None
    reference: str = ""


@dataclass(frozen=True)
class Judgement:
    """The value of one question with what it rests on.

    Raises ContractError with the field `value`, `evidence`, `source` or `at` for MET or UNMET without a source that was
    read, or without the moment (with its zone) at which it was.
    """

    value: Value
    evidence: Evidence

    def __post_init__(self) -> None:
        if not isinstance(self.value, Value):
            raise ContractError(f"A judgement is MET, UNMET or UNKNOWN, not {quoted(self.value)}.", field="value")
        if not isinstance(self.evidence, Evidence):
            raise ContractError(f"{self.value} needs evidence.", field="evidence")
        if self.value is Value.UNKNOWN:
            return
        # Here and not only in `met` and `unmet`: no other way of making a judgement gets past it.
        source, at = self.evidence.source, self.evidence.at
        if not is_text(source):
            raise ContractError(f"{self.value} needs evidence that names its source.", field="source")
        if not isinstance(at, datetime) or at.utcoffset() is None:
            raise ContractError(f"{self.value} needs evidence that says when it was read.", field="at")


@dataclass(frozen=True)
class Fact:
    """What a read-only call brought back. `stretch` counts the stops before it: a resumed run tells old from new."""

    name: str
    data: Mapping[str, Any]
    source: str
    at: datetime
    reference: str = ""
    stretch: int = 0

    def evidence(self, says: str) -> Evidence:
        return Evidence(says, self.source, self.at, self.reference)


def met(evidence: Evidence) -> Judgement:
    return Judgement(Value.MET, evidence)


def unmet(evidence: Evidence) -> Judgement:
    """Read, and wrong. What could not be read is `unknown`, with the read's own error as its words."""
    return Judgement(Value.UNMET, evidence)


def unknown(says: str) -> Judgement:
    """Nobody could look, or nobody has looked yet; `says` is the reason."""
    return Judgement(Value.UNKNOWN, Evidence(says))


def scored(score: int | Decimal, threshold: int | Decimal, evidence: Evidence) -> Judgement:
    """MET from `threshold` upwards. A score that was not produced is `unknown`, not zero.

    Raises ContractError with the field `score` or `threshold` for what is not a whole number or a finite decimal.
    """
    enough = _number(score, "score") >= _number(threshold, "threshold")
    return met(evidence) if enough else unmet(evidence)


def judged_by(role: str, verdict: bool | None, evidence: Evidence | None = None) -> Judgement:
    """What somebody in `role` said; None: they have not judged, which any `evidence` given explains.

    Raises ContractError with the field `role` or `verdict`.
    """
    if not is_text(role):
        raise ContractError("An assertion that a person judges needs a role.", field="role")
    if verdict is not None and type(verdict) is not bool:
        raise ContractError(f"The {role} says true, false or nothing, not {quoted(verdict)}.", field="verdict")
    if verdict is None:
        return Judgement(Value.UNKNOWN, evidence or Evidence(f"not judged yet by the {role}"))
    if evidence is None:
        raise ContractError(f"What the {role} says needs evidence.", field="evidence")
    return met(evidence) if verdict else unmet(evidence)


def is_text(given: object) -> bool:
    return isinstance(given, str) and bool(given.strip())


def _number(given: object, field: str) -> int | Decimal:
    # Not float: a threshold of 0.3 that 0.1 + 0.2 reaches or misses by rounding is no threshold.
    if type(given) is int or (isinstance(given, Decimal) and given.is_finite()):
        return given
    raise ContractError(f"{field} must be a whole number or a finite decimal, not {quoted(given)}.", field=field)


def combine(values: Mapping[str, Value]) -> Value:
    """The value of the whole contract. Raises ContractError for an empty one or a value that is not a `Value`."""
    if not values:
        raise ContractError("A contract needs at least one assertion.", field="contract")
    for name, value in values.items():
        if not isinstance(value, Value):
            raise ContractError(
                f"Assertion {quoted(name)} is {quoted(value)}; it must be MET, UNMET or UNKNOWN.", field=name
            )
    present = set(values.values())
    return next(value for value in (Value.UNMET, Value.UNKNOWN, Value.MET) if value in present)


@dataclass(frozen=True)
class Evaluation:
    """A whole contract: the combined value, and every assertion with its own, in the frozen order."""

    value: Value
    assertions: Mapping[str, Judgement]

    @property
    def acceptance(self) -> Acceptance:
        return ACCEPTANCE_OF[self.value]


def evaluate(frozen: Collection[str], judgements: Mapping[str, Judgement]) -> Evaluation:
    """Hold `judgements` against the names that were frozen. An assertion that nobody judged is UNKNOWN.

    Raises ContractError with the field `contract` for names that are none, or the name of an assertion that was not
    frozen, was frozen twice, or was given something other than a judgement.
    """
    if isinstance(frozen, str) or not all(is_text(name) for name in frozen):
        raise ContractError("A contract is a collection of names, and none of them is empty.", field="contract")
    assertions = {name: judgements.get(name) or unknown("not judged") for name in frozen}
    if len(assertions) < len(frozen):
        twice = next(name for name, times in Counter(frozen).items() if times > 1)
        raise ContractError(f"Assertion {quoted(twice)} was frozen twice.", field=twice)
    for name, judgement in judgements.items():
        if name not in assertions:
            raise ContractError(f"Assertion {quoted(name)} is not in the frozen contract.", field=name)
        if not isinstance(judgement, Judgement):
            raise ContractError(f"Assertion {quoted(name)} was not judged but given {quoted(judgement)}.", field=name)
    return Evaluation(combine({name: judged.value for name, judged in assertions.items()}), assertions)
