"""What a policy may propose. It proposes; the control layer decides.

A proposal to act names an operation and its arguments and nothing else: what exactly would be written, whether a person
has to approve it and under which key it goes out, the workflow says and not who proposes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runs.domain.budget import Charge


@dataclass(frozen=True)
class Act:
    """One of the operations that the workflow declares."""

    operation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """The policy says that it is finished. That is text, not evidence."""

    says: str


@dataclass(frozen=True)
class Ask:
    """The policy cannot go on without an answer from a person."""

    question: str


@dataclass(frozen=True)
class Exhausted:
    """Every source was asked."""

    question: str


@dataclass(frozen=True)
class Wait:
    """What was begun elsewhere takes its time, and nothing is to be done meanwhile: look again later."""

    says: str


@dataclass(frozen=True)
class HandOver:
    """One agent of this run passes a task to another. Going round is no progress."""

    task: str
    giver: str
    taker: str


@dataclass(frozen=True)
class Consult:
    """A model has to be asked first: a step of its own, whose answer is the next proposal."""

    tool: str
    params: Mapping[str, Any]
    charge: Charge  # an upper bound, set aside before the call


Proposal = Act | Claim | Ask | Exhausted | Wait | HandOver | Consult
