"""What can go wrong, and what is done about it (docs/rules.md, 7).

DomainError                    the caller gave the rules something they refuse
  every rule's own refusal     TransitionRefused, BudgetExceeded, ...

ErrorClass                     what a tool's failure means, from its stable code alone
  transient                    network, rate limit, server fault
  authentication               the product's own credential was refused
  permission                   the product's own access was refused
  invalid_input                the request was malformed or its values were refused
  not_found                    the authority says definitely: there is no such thing
  tool_missing                 the capability does not exist or does not fit
  invalid_output               the answer fails its schema
  refused                      a declared business refusal
  unknown                      everything that is not in the table
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import isfinite


class DomainError(Exception):
    """A refusal by the rules. `field` names what was refused, so that a message can point at it."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


LONGEST_QUOTE = 80  # characters


def quoted(value: object) -> str:
    """What was refused, as a message can show it: short, whatever it is and whatever its own words would be."""
    try:
        text = repr(value)
    except Exception:  # nested too deeply, a number of too many digits, or a defect of its own
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


class ErrorClass(StrEnum):
    TRANSIENT = "transient"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    INVALID_INPUT = "invalid_input"
    NOT_FOUND = "not_found"
    TOOL_MISSING = "tool_missing"
    INVALID_OUTPUT = "invalid_output"
    REFUSED = "refused"
    UNKNOWN = "unknown"


CLASS_OF_CODE: dict[str, ErrorClass] = {
    "unreachable": ErrorClass.TRANSIENT,  # no connection could be made
    "no_answer": ErrorClass.TRANSIENT,  # connected, but the answer was lost or too late
    "unavailable": ErrorClass.TRANSIENT,
    "rate_limited": ErrorClass.TRANSIENT,
    "interrupted": ErrorClass.TRANSIENT,  # our own worker died during the call
    "credential_refused": ErrorClass.AUTHENTICATION,
    "access_denied": ErrorClass.PERMISSION,
    "invalid_input": ErrorClass.INVALID_INPUT,
    "key_reused": ErrorClass.UNKNOWN,  # something is out there under this key, with other parameters: look it up
    "not_found": ErrorClass.NOT_FOUND,
    "tool_missing": ErrorClass.TOOL_MISSING,
    "invalid_output": ErrorClass.INVALID_OUTPUT,
    "too_large": ErrorClass.INVALID_OUTPUT,
    "refused": ErrorClass.REFUSED,
}

# What the product itself says of a call. A service that names one of these is not believed, and speaks for itself.
IN_OUR_WORDS = frozenset(
    {"unreachable", "no_answer", "interrupted", "tool_missing", "invalid_output", "too_large", "unforeseen"}
)

# A write that failed this way was not carried out: the service decides these before it executes anything.
DEFINITELY_NOT_EXECUTED = frozenset(
    {
        ErrorClass.AUTHENTICATION,
        ErrorClass.PERMISSION,
        ErrorClass.INVALID_INPUT,
        ErrorClass.TOOL_MISSING,
    }
)
MOST_RETRY_AFTER = 3600.0  # seconds; a service that asks for more is asked again after this


def classify(code: str) -> ErrorClass:
    """The class of a tool's stable failure code. Total: an unmapped code is UNKNOWN, never a success."""
    return CLASS_OF_CODE.get(code, ErrorClass.UNKNOWN)


@dataclass(frozen=True)
class Failure:
    """One failed call: its stable code, a sentence for people, and what the service declared about it.

    `executed` is False only where the service itself says that it did nothing (a rate limit, say); `retry_after` is in
    seconds, as the service asked. `hearsay`: somebody between us and the service may have said it as well.
    """

    code: str
    message: str
    executed: bool | None = None
    retry_after: float | None = None
    hearsay: bool = False

    @property
    def did_nothing(self) -> bool:
        """Whether a write that failed this way was certainly not carried out. What is not certain is looked up."""
        implied = self.executed is None and not self.hearsay and self.error_class in DEFINITELY_NOT_EXECUTED
        return self.executed is False or implied

    @property
    def in_our_words(self) -> bool:
        """Whether `message` is the product's; otherwise it is the service's own text, and to be shown as such."""
        return self.code in IN_OUR_WORDS

    def asked_wait(self) -> timedelta:
        """How long the service asked to be left alone: nothing, or at most `MOST_RETRY_AFTER`."""
        wait = self.retry_after or 0.0
        return timedelta(seconds=min(max(wait, 0.0), MOST_RETRY_AFTER) if isfinite(wait) else 0.0)

    @property
    def error_class(self) -> ErrorClass:
        return classify(self.code)
