"""What a policy may propose. It proposes; the control layer decides."""

from dataclasses import dataclass

from runs.domain.effects import WritePlan


@dataclass(frozen=True)
class Write:
    plan: WritePlan


@dataclass(frozen=True)
class Claim:
    """The policy says that it is finished. That is text, not evidence."""

    says: str


@dataclass(frozen=True)
class Ask:
    """The policy cannot go on without an answer from a person."""

    question: str


Proposal = Write | Claim | Ask
