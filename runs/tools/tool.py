"""How a step touches the world: one shape for every tool, whatever it speaks.

A tool takes a `Call` and returns a `Result` or raises `ToolFailed`; there is no third way out. What it says is data.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from runs.domain.budget import Charge
from runs.domain.effects import Answer
from runs.domain.errors import Failure
from runs.domain.states import StepKind


@dataclass(frozen=True)
class Call:
    operation: str
    params: Mapping[str, Any]
    operation_key: str = ""
    may_still_arrive: bool = False  # for a look-up: whether "not there" is not yet proof of absence


@dataclass(frozen=True)
class Result:
    """What came back. For writes and look-ups `answer` says what it means for the effect."""

    data: Mapping[str, Any]
    says: str  # one sentence for people
    reference: str = ""
    answer: Answer | None = None
    receipt: Mapping[str, Any] | None = None
    reason: str = ""  # why the service refused, or what does not fit
    used: Charge | None = None  # what it really cost, where that is known and less certain than one call


class ToolFailed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Service(Protocol):
    """The connection that most tools are handed (`folder.Folder` is the other): address, credential, pooling, total
    deadline and byte cap are its business.

    `until` is the monotonic instant by which the whole call is over; from then on nothing is sent any more.
    """

    def request(
        self,
        method: str,
        path: str,
        *,
        until: float,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, Any]]: ...


@dataclass(frozen=True)
class Tool:
    name: str
    label: str  # for people: "Submit refund request"
    source: str  # who answers: "refund service"
    service: str  # which configured service it calls
    kind: StepKind
    perform: Callable[[Any, Call, float], Result]  # with the connection that its service is configured to be
    deadline: float = 5.0  # seconds in total, from first byte out to last byte in
    look_up: str = ""  # for a write: the tool that asks what became of it
    in_flight_grace: timedelta = field(default=timedelta(seconds=10))  # how long a sent request may still arrive
    key_kept_for: timedelta | None = None  # how long the service knows an operation key; None: for good

    def __post_init__(self) -> None:
        if self.kind is StepKind.WRITE and not self.look_up:
            raise ValueError(f"Write tool {self.name!r} declares no look-up; its outcome could never be verified.")
