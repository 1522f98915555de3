"""Whether a run is getting anywhere (docs/rules.md, 5).

An attempt's fingerprint is source, operation, canonical parameters and result digest: the same call with a new result,
or another source with the same empty result, is not a repetition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runs.domain.effects import fingerprint
from runs.domain.errors import ErrorClass


def attempt_fingerprint(source: str, operation: str, params: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    return fingerprint({"source": source, "operation": operation, "params": params, "result": fingerprint(result)})


@dataclass(frozen=True)
class Progress:
    """The memory the next decision needs, and no more: its size does not grow with the run's history."""

    last_attempt: str = ""  # fingerprint of the latest observation
    repeats: int = 0  # how often it came back in a row without new evidence
    error_class: ErrorClass | None = None  # of the latest failure, while it lasts
    error_operation: str = ""
    errors_in_a_row: int = 0  # same class, same operation
    failures: Mapping[str, int] = field(default_factory=dict)  # operation -> failed attempts since it last worked
    claims: int = 0  # completions claimed and not borne out
    grace_until: str = ""  # ISO instant until which a decision made in time may be carried out

    def observed(self, attempt: str) -> "Progress":
        """A call came back with something; `attempt` is its fingerprint."""
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
        same = error_class == self.error_class and operation == self.error_operation
        return replace(
            self,
            error_class=error_class,
            error_operation=operation,
            errors_in_a_row=self.errors_in_a_row + 1 if same else 1,
            failures={**self.failures, operation: self.failures.get(operation, 0) + 1},
        )
