"""What a workflow declares. Everything else about a run follows from the rules; a workflow adds no rule of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from runs.domain.budget import Dimension
from runs.domain.contract import Fact, Judgement
from runs.domain.decision import FactsState
from runs.domain.effects import Effect
from runs.domain.proposals import Proposal
from runs.domain.states import Outcome, StopReason
from runs.tools.tool import Tool


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
        """A fact that was read since the last stop. Older ones no longer permit anything."""
        fact = self.facts.get(name)
        return fact if fact and fact.stretch == self.stretch else None

    @property
    def effect(self) -> Effect | None:
        return self.effects[-1] if self.effects else None


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
    question: Callable[[Context, StopReason, str], str]  # the last argument: what the rules found, as a sentence
    customer_says: Callable[[Context, Outcome | None, StopReason | None], str]
    retries: int = 3  # attempts of one read
    max_same_error: int = 2
    retry_after: timedelta = timedelta(seconds=1)  # doubled at each retry, with jitter
    look_up_after: tuple[timedelta, ...] = (timedelta(seconds=30), timedelta(minutes=10), timedelta(hours=2))
    follow_up_after: timedelta = timedelta(minutes=30)
    approval_within: timedelta = timedelta(hours=4)  # how long a request for approval stands
    approval_lasts: timedelta = timedelta(minutes=15)  # how long a given one may be used
    answer_within: timedelta = timedelta(hours=2)
    grace_after_decision: timedelta = timedelta(minutes=15)  # wall time granted to carry out a decision in time

    def judge(self, context: Context) -> dict[str, Judgement]:
        return {assertion.name: assertion.judge(context) for assertion in self.contract}
