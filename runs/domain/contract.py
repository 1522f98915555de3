"""What must be true for a run to be complete, in three values (docs/rules.md, 3).

UNMET goes before UNKNOWN and UNKNOWN before MET: a known violation is not "only awaiting confirmation", and what nobody
could read is never taken for true. Every assertion keeps its own value and evidence beside the combined one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from runs.domain.errors import DomainError


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
    """A contract that cannot be judged: empty, or with a value that is none of the three."""


@dataclass(frozen=True)
class Evidence:
    """A fact as it was read: what was said, by which source, when, and under which reference it can be found again."""

    says: str
    source: str = ""
    at: datetime | None = None
    reference: str = ""


@dataclass(frozen=True)
class Judgement:
    """The value of one question with what it rests on."""

    value: Value
    evidence: Evidence


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
    return Judgement(Value.UNMET, evidence)


def unknown(says: str) -> Judgement:
    """Nobody could look, or nobody has looked yet; `says` is the reason."""
    return Judgement(Value.UNKNOWN, Evidence(says))


def combine(values: Mapping[str, Value]) -> Value:
    """The value of the whole contract. Raises ContractError for an empty one or a value that is not a `Value`."""
    if not values:
        raise ContractError("A contract needs at least one assertion.", field="contract")
    for name, value in values.items():
        if not isinstance(value, Value):
            raise ContractError(f"Assertion {name!r} is {value!r}; it must be MET, UNMET or UNKNOWN.", field=name)
    present = set(values.values())
    return next(value for value in (Value.UNMET, Value.UNKNOWN, Value.MET) if value in present)
