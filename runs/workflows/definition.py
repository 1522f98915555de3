"""What a workflow declares. Everything else about a run follows from the rules; a workflow adds no rule of its own."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import jsonschema_rs

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Evaluation, Fact, Judgement, evaluate, unknown
from runs.domain.decision import FactsState
from runs.domain.effects import Effect, WritePlan, names_otherwise
from runs.domain.money import Money
from runs.domain.progress import way_of
from runs.domain.proposals import Proposal
from runs.domain.states import StepKind, StopReason
from runs.domain.telling import Wording
from runs.tools.tool import Tool

log = logging.getLogger(__name__)
# What a model may spend on one run unless the workflow says otherwise: test_a_refund_that_a_model_drives needs one turn
# and the tenth part of these tokens.
TURNS: Mapping[Dimension, int] = {
    Dimension.MODEL_TURNS: 12,
    Dimension.INPUT_TOKENS: 200_000,
    Dimension.OUTPUT_TOKENS: 60_000,
}
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
    scope: str = ""  # the narrower contract that was agreed upon; empty: the whole
    claims: int = 0  # completions claimed so far and not borne out
    closed: Mapping[str, str] = field(default_factory=dict)  # ways and kinds not to be tried any more, and why
    rejected: Mapping[str, str] = field(default_factory=dict)  # digest of a plan -> why a person rejected it
    answer: Mapping[str, Any] | None = None  # a model's, not dealt with yet
    refused: str = ""  # why a proposal of a model was not even considered: of the latest that was not
    left: Mapping[str, int] = field(default_factory=dict)  # of each budget

    def fresh(self, name: str) -> Fact | None:
        """A fact that was read since the last stop, and lately. Older ones no longer permit anything."""
        fact = self.facts.get(name)
        return fact if fact and fact.stretch == self.stretch and self.now - fact.at <= FACTS_LAST else None

    @property
    def effect(self) -> Effect | None:
        """The latest write, apart from those that undo others."""
        return next((effect for effect in reversed(self.effects) if not effect.undoes), None)

    def write(self, operation: str) -> Effect | None:
        """The latest write of one operation."""
        return next((effect for effect in reversed(self.effects) if effect.plan.operation == operation), None)

    def is_closed(self, operation: str, arguments: Mapping[str, Any]) -> str:
        """Why this call is not to be made any more: what it failed of; empty where it may."""
        return self.closed.get(operation) or self.closed.get(way_of(operation, arguments)) or ""


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
class Check:
    """A read that the contract rests on, made once the policy claims to be finished: never by what made the result."""

    fact: str
    tool: str
    params: Mapping[str, Any]
    expects: str


@dataclass(frozen=True)
class Undo:
    """How what one write tool brought about is undone: by another write, if what is read just before permits it."""

    read: str  # the tool
    params: Callable[[Effect], Mapping[str, Any]]  # of the read
    reversible: Callable[[Effect, Fact], Judgement]
    plan: Callable[[Effect, Fact], WritePlan]
    # MET where what is read shows that somebody undid it already. None: nothing that is read could show it.
    undone: Callable[[Effect, Fact], Judgement] | None = None


def standing_of(effect: Effect) -> str:
    """The name of the fact that is read of `effect` to judge whether it can be undone: how it stands at its service."""
    return f"standing of {effect.key}"


NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class Reading:
    """A read that the policy may choose; it stands in `Workflow.operations` under the name of its tool."""

    says: str  # what it is for, in one sentence, for people and for models
    fact: Callable[[Context, Mapping[str, Any]], str]  # the name under which the answer is kept
    # JSON Schema of what the policy fills in.
    arguments: Mapping[str, Any] = field(default_factory=lambda: NO_ARGUMENTS)
    params: Callable[[Context, Mapping[str, Any]], Mapping[str, Any]] = lambda context, given: given
    kind: Callable[[Mapping[str, Any]], str] = lambda given: ""  # of attempt, where `Workflow.fruitless` limits it


@dataclass(frozen=True)
class Writing:
    """A write that the policy may choose. What it comes to is planned here, on what was read, and not by the policy."""

    says: str
    plan: Callable[[Context, Mapping[str, Any]], WritePlan]
    key: Callable[[Context, Mapping[str, Any]], str]  # of this one logical write: the same whenever it is looked at
    arguments: Mapping[str, Any] = field(default_factory=lambda: NO_ARGUMENTS)
    undo: Undo | None = None  # without: cannot be undone by the product
    # What stands in its way as things are, as a sentence: it is not planned then, and a model is told.
    not_now: Callable[[Context, Mapping[str, Any]], str] = lambda context, given: ""
    amendable: tuple[str, ...] = ()  # the arguments that a person may change of one that waits for approval
    # Whether one that waits may be approved along with others that were shown; each is still sent by itself.
    together: Callable[[WritePlan], bool] = lambda plan: False


def amended_value(schema: Mapping[str, Any], typed: str) -> Any:
    """What a person typed for one argument, as the type that its schema says; what does not fit stays as it is."""
    whole = schema.get("type") == "integer" and re.fullmatch(r"\s*-?[0-9]{1,15}\s*", typed)
    return int(typed) if whole else typed


def amendment_of(key: str) -> str:
    """The name of the fact under which a person's change of the write with this operation key is kept."""
    return f"amendment of {key}"


PROPOSAL = "proposal"  # the fact that a model's answer is kept as, until it is dealt with


def is_the_engines_own(fact: str) -> bool:
    """Whether the engine keeps something of its own under such a name: what it goes by, no workflow reads."""
    return fact == PROPOSAL or fact.startswith(("amendment of ", "standing of "))


@dataclass(frozen=True)
class Scope:
    """A narrower contract: what is left out of it."""

    label: str
    drops: frozenset[str]  # names of assertions


@dataclass(frozen=True)
class FollowUp:
    """A new, linked run that a person may start from one that has ended."""

    label: str
    workflow: str
    input: Callable[[Context], Mapping[str, Any]]
    why_not: Callable[[Context], str] = lambda context: ""  # why there is none now, as a sentence; empty: there is


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
    budgets: Mapping[Dimension, int | tuple[int, int]]
    remaining: Callable[[Context], Charge]  # what is left to do at the least, weighed once a soft mark is crossed
    question: Callable[[Context, StopReason, str], str]  # the last argument: what the rules found, as a sentence
    customer_says: Wording
    operations: Mapping[str, Reading | Writing] = field(default_factory=dict)  # by tool: what a policy may choose
    checks: Callable[[Context], Sequence[Check]] = lambda context: ()  # still to be made, once completion is claimed
    # The references found so far; what a step adds to them is its gain. None: whatever is read for the first time.
    evidence: Callable[[Context], Collection[str]] | None = None
    fruitless: Mapping[str, int] = field(default_factory=dict)  # kind -> attempts in a row that may bring nothing
    # The money that hangs on the run, as far as it is known; kept with each stop.
    stake: Callable[[Context], Money | None] = lambda context: None
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    follow_ups: Mapping[str, FollowUp] = field(default_factory=dict)
    # What a model may spend that drives it.
    turns: Mapping[Dimension, int | tuple[int, int]] = field(default_factory=lambda: TURNS)
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
        try:
            jsonschema_rs.validator_for(dict(self.input_schema))
        except ValueError as problem:
            raise ValueError(f"Workflow {self.name!r}: the input has no valid schema: {problem}") from None
        about = self.customer_says.subject
        if about not in self.input_schema.get("required", ()):
            raise ValueError(f"Workflow {self.name!r} tells customers about {about!r}, which its input may leave out.")
        opens = [read.opens for read in self.reads]
        if opens != sorted(opens, reverse=True):
            # Whether somebody may see a record is asked before it is read.
            raise ValueError(f"Workflow {self.name!r}: the reads that open come first.")
        self._check_names()
        for name, tool in self.tools.items():
            if name != tool.name:
                raise ValueError(f"Workflow {self.name!r}: the tool {tool.name!r} stands under the name {name!r}.")
        for what, name, kind in self._named_tools():
            known = self.tools.get(name)
            if known is None or known.kind is not kind:
                raise ValueError(f"Workflow {self.name!r}: {what} by {name!r}, and it has no {kind} tool of that name.")

    def _check_names(self) -> None:
        facts, judged = [read.fact for read in self.reads], [assertion.name for assertion in self.contract]
        for what, given in (("reads the fact", facts), ("has the assertion", judged)):
            if twice := [name for name, times in Counter(given).items() if times > 1]:
                raise ValueError(f"Workflow {self.name!r} {what} {twice[0]!r} twice.")
        if taken := [fact for fact in facts if is_the_engines_own(fact)]:
            raise ValueError(
                f"Workflow {self.name!r} reads the fact {taken[0]!r}, which is a name of the engine's own."
            )
        assertions = set(judged)
        for name, scope in self.scopes.items():
            if unknown_ones := scope.drops - assertions:
                raise ValueError(
                    f"Workflow {self.name!r}: scope {name!r} drops {min(unknown_ones)!r}, which is no assertion."
                )
            if not scope.drops or scope.drops == assertions:
                raise ValueError(
                    f"Workflow {self.name!r}: scope {name!r} has to drop some assertions, and to keep some."
                )
        for name, operation in self.operations.items():
            schema, of = operation.arguments, f"Workflow {self.name!r}: the arguments of {name!r}"
            if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
                raise ValueError(f"{of} need a schema of an object that permits no other properties.")
            for name_of_one in operation.amendable if isinstance(operation, Writing) else ():
                if schema.get("properties", {}).get(name_of_one, {}).get("type") not in {"string", "integer"}:
                    raise ValueError(f"{of}: {name_of_one!r} is no text or whole number that a person could change.")
            try:
                jsonschema_rs.validator_for(dict(schema))
            except ValueError as problem:
                raise ValueError(f"{of} have no valid schema: {problem}") from None

    def _named_tools(self) -> Iterator[tuple[str, str, StepKind]]:
        """Every tool that is named somewhere: for what, its name, and the kind that it has to be."""
        yield from ((f"{read.fact!r} is read", read.tool, StepKind.READ) for read in self.reads)
        for tool in self.tools.values():
            if tool.kind is StepKind.WRITE:
                yield f"{tool.name!r} is looked up", tool.look_up, StepKind.LOOK_UP
        for name, operation in self.operations.items():
            kind = StepKind.WRITE if isinstance(operation, Writing) else StepKind.READ
            yield "what the policy may choose is done", name, kind
        for name, undo in self.undo.items():
            yield f"whether {name!r} can be undone is read", undo.read, StepKind.READ

    @cached_property
    def undo(self) -> Mapping[str, Undo]:
        """How writes are undone, by tool; one that is not there cannot be."""
        writes = {name: made for name, made in self.operations.items() if isinstance(made, Writing)}
        return {name: made.undo for name, made in writes.items() if made.undo}

    @cached_property
    def validators(self) -> Mapping[str, jsonschema_rs.Validator]:
        """For each operation what its arguments are held against."""
        return {name: jsonschema_rs.validator_for(dict(made.arguments)) for name, made in self.operations.items()}

    def in_scope(self, scope: str) -> tuple[Assertion, ...]:
        """The contract, or what a narrower scope leaves of it."""
        dropped = self.scopes[scope].drops if scope else frozenset()
        return tuple(assertion for assertion in self.contract if assertion.name not in dropped)

    def takes(self, operation: str, arguments: Mapping[str, Any], asked_for: Mapping[str, Any]) -> bool:
        """Whether the operation takes these arguments together, and none names another than the run was asked for."""
        return self.validators[operation].is_valid(arguments) and not names_otherwise(arguments, asked_for)

    def narrower(self, scope: str) -> tuple[str, ...]:
        """The scopes that leave out more than `scope` does."""
        dropped = self.scopes[scope].drops if scope else frozenset()
        return tuple(name for name, other in self.scopes.items() if other.drops > dropped)

    def judge(self, context: Context) -> Evaluation:
        """The contract with every assertion's value. One that cannot be judged is UNKNOWN, and says so."""
        contract = self.in_scope(context.scope)
        names = [assertion.name for assertion in contract]
        return evaluate(names, {assertion.name: _judged(assertion, context) for assertion in contract})

    def planned(self, dimension: Dimension, writes: int = 1) -> int:
        """The limit of one dimension as the workflow planned it, of look-ups for so many `writes` that were sent."""
        given = {**self.turns, **self.budgets}[dimension]
        limit = given[1] if isinstance(given, tuple) else given
        return limit * max(1, writes) if dimension is Dimension.STATUS_CHECKS else limit


def _judged(assertion: Assertion, context: Context) -> Judgement:
    try:
        judged: object = assertion.judge(context)
    except Exception as problem:
        log.exception("Assertion %s could not be judged", assertion.name)
        judged = problem
    return judged if isinstance(judged, Judgement) else unknown(f"could not be judged ({type(judged).__name__})")
