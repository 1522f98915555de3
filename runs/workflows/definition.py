"""What a workflow declares. Everything else about a run follows from the rules; a workflow adds no rule of its own."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Evaluation, Fact, Judgement, evaluate, unknown
from runs.domain.decision import FactsState
from runs.domain.effects import Effect, WritePlan
from runs.domain.proposals import Proposal
from runs.domain.states import StepKind, StopReason
from runs.domain.telling import Wording
from runs.tools.tool import Tool

log = logging.getLogger(__name__)
FACTS_LAST = timedelta(minutes=5)  # a run that stood still for longer, for whatever reason, reads everything again


@dataclass(frozen=True)
class Context:
    """What a workflow's own functions may look at: the frozen request, what was read, and the writes so far."""

    run_id: str
    input: Mapping[str, Any]
    acts_for: str  # the person behind the request, as the authority knows them
    facts: Mapping[str, Fact]
    effects: tuple[Effect, ...]
    stretch: int
    now: datetime
    claims: int = 0  # completions claimed so far and not borne out

    def fresh(self, name: str) -> Fact | None:
        """A fact that was read since the last stop, and lately. Older ones no longer permit anything."""
        fact = self.facts.get(name)
        return fact if fact and fact.stretch == self.stretch and self.now - fact.at <= FACTS_LAST else None

    @property
    def effect(self) -> Effect | None:
        """The latest write, apart from those that undo others."""
        return next((effect for effect in reversed(self.effects) if not effect.undoes), None)


@dataclass(frozen=True)
class Read:
    """One precondition's source: which tool reads the fact, and whether what came back can be relied upon."""

    fact: str
    tool: str
    params: Callable[[Context], Mapping[str, Any]]
    check: Callable[[Fact], tuple[FactsState, str]]  # with the sentence that says what is missing or in conflict
    expects: str
    opens: bool = False  # answers whether the request is authorised: goes first, alone


@dataclass(frozen=True)
class Undo:
    """How what one write tool brought about is undone: by another write, if what is read just before permits it."""

    read: str  # the tool
    params: Callable[[Effect], Mapping[str, Any]]  # of the read
    reversible: Callable[[Effect, Fact], Judgement]
    plan: Callable[[Effect, Fact], WritePlan]


def standing_of(effect: Effect) -> str:
    """The name of the fact that is read of `effect` to judge whether it can be undone: how it stands at its service."""
    return f"standing of {effect.key}"


@dataclass(frozen=True)
class Assertion:
    """One named condition of success."""

    name: str
    label: str
    judge: Callable[[Context], Judgement]


@dataclass(frozen=True)
class Workflow:
    name: str
    version: int
    title: str  # of the kind of task
    role: str  # whose desk its runs land on
    input_schema: Mapping[str, Any]
    subject: Callable[[Mapping[str, Any]], str]
    headline: Callable[[Mapping[str, Any]], str]  # of one run
    goal: Callable[[Mapping[str, Any]], str]
    acts_for: Callable[[Mapping[str, Any], str], str]  # from input and the starting person's name
    # The read that is asked at start whether the subject exists: tool, parameters, and the input field to blame.
    exists: Callable[[Mapping[str, Any], str], tuple[str, Mapping[str, Any], str]]
    tools: Mapping[str, Tool]
    reads: tuple[Read, ...]
    authorised: Callable[[Context], Judgement]
    eligible: Callable[[Context], Judgement]
    contract: tuple[Assertion, ...]
    script: Callable[[Context], Proposal]
    operation_key: Callable[[Context], str]
    budgets: Mapping[Dimension, int | tuple[int, int]]
    remaining: Callable[[Context], Charge]  # what is left to do at the least, weighed once a soft mark is crossed
    question: Callable[[Context, StopReason, str], str]  # the last argument: what the rules found, as a sentence
    customer_says: Wording
    undo: Mapping[str, Undo] = field(default_factory=dict)  # by write tool; one that is not named cannot be undone
    retries: int = 3  # attempts of one read
    max_same_error: int = 2
    worth_it: Callable[[Context], bool] = lambda context: True  # past a soft mark: whether to go on at all
    retry_after: timedelta = timedelta(seconds=1)  # doubled at each retry, with jitter
    look_up_after: tuple[timedelta, ...] = (timedelta(seconds=30), timedelta(minutes=10), timedelta(hours=2))
    follow_up_after: timedelta = timedelta(minutes=30)
    approval_within: timedelta = timedelta(hours=4)  # how long a request for approval stands
    approval_lasts: timedelta = timedelta(minutes=15)  # how long a given one may be used
    answer_within: timedelta = timedelta(hours=2)
    grace_after_decision: timedelta = timedelta(minutes=15)  # wall time granted to carry out a decision in time

    def __post_init__(self) -> None:
        if not self.contract:
            raise ValueError(f"Workflow {self.name!r} has an empty contract: nothing could ever complete it.")
        about = self.customer_says.subject
        if about not in self.input_schema.get("required", ()):
            raise ValueError(f"Workflow {self.name!r} tells customers about {about!r}, which its input may leave out.")
        opens = [read.opens for read in self.reads]
        if opens != sorted(opens, reverse=True):
            # Whether somebody may see a record is asked before it is read.
            raise ValueError(f"Workflow {self.name!r}: the reads that open come first.")
        for what, name, kind in self._named_tools():
            tool = self.tools.get(name)
            if tool is None or tool.kind is not kind:
                raise ValueError(f"Workflow {self.name!r}: {what} by {name!r}, and it has no {kind} tool of that name.")

    def _named_tools(self) -> Iterator[tuple[str, str, StepKind]]:
        """Every tool that is named somewhere: for what, its name, and the kind that it has to be."""
        yield from ((f"{read.fact!r} is read", read.tool, StepKind.READ) for read in self.reads)
        for tool in self.tools.values():
            if tool.kind is StepKind.WRITE:
                yield f"{tool.name!r} is looked up", tool.look_up, StepKind.LOOK_UP
        for name, undo in self.undo.items():
            yield "what can be undone is written", name, StepKind.WRITE
            yield f"whether {name!r} can be undone is read", undo.read, StepKind.READ

    def judge(self, context: Context) -> Evaluation:
        """The contract with every assertion's value. One that cannot be judged is UNKNOWN, and says so."""
        names = [assertion.name for assertion in self.contract]
        return evaluate(names, {assertion.name: _judged(assertion, context) for assertion in self.contract})

    def planned(self, dimension: Dimension) -> int:
        """The limit of one dimension as the workflow planned it."""
        given = self.budgets[dimension]
        return given[1] if isinstance(given, tuple) else given


def _judged(assertion: Assertion, context: Context) -> Judgement:
    try:
        return assertion.judge(context)
    except Exception as problem:
        log.exception("Assertion %s could not be judged", assertion.name)
        return unknown(f"could not be judged ({type(problem).__name__})")
