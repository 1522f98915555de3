"""`manage.py rules`: the tables of the control core, from the data that decides. docs/tables.md is its output."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from itertools import combinations, product
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_type_hints

from django.core.management.base import BaseCommand

from runs.domain.budget import STOP_REASON, Dimension
from runs.domain.contract import Value
from runs.domain.decision import RULES, FactsState, NextStep, OpenEffect, Rule, Situation, Verdict, decide
from runs.domain.effects import LIFE, MEANING, Answer, EffectState, what_a_failure_means
from runs.domain.errors import CLASS_OF_CODE, ErrorClass, Failure
from runs.domain.interventions import CATALOGUE, EventKind, Sender
from runs.domain.states import OUTCOME_OF, TRANSITIONS, Move, Outcome, State
from runs.domain.telling import MAY_SAY, MAY_SAY_FOR, MAY_SAY_WHEN_CLOSED

REFUSED = "–"
UNIT = {Dimension.WALL_TIME: "seconds", Dimension.COST: "millionths of the currency"}  # the others are counted
CALM = Situation(Value.UNKNOWN, Value.MET, FactsState.COMPLETE, Value.MET, NextStep.READ)
SAMPLES: dict[Any, list[Any]] = {  # of the types of a situation: enough that every branch of a rule is reached
    NoneType: [None],
    bool: [False, True],
    int: [0, 1, 2],
    Failure: [Failure(code, "", executed) for code in (*CLASS_OF_CODE, "") for executed in (None, False)],
    OpenEffect: [OpenEffect(*some) for some in product(EffectState, (False, True), (False, True))],
    frozenset[EffectState]: [frozenset(some) for size in range(3) for some in combinations(EffectState, size)],
}


class Command(BaseCommand):
    help = "Prints the tables of the rules as Markdown, from the code. docs/tables.md is its output."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write("\n\n".join(page()))


def page() -> Iterator[str]:
    yield "# Tables of the control core"
    yield "`manage.py rules` prints this page from `runs/domain/`; the law behind it is in [rules.md](rules.md)."
    yield f"## States and events\n\nThe state that an event leads to. {REFUSED} is refused and changes nothing."
    yield table(["event", *State], ([move, *(TRANSITIONS.get((s, move), REFUSED) for s in State)] for move in Move))
    yield "## Stop reasons\n\nEach belongs to exactly one outcome."
    yield table(["outcome", "stop reasons"], ([o, [r for r in OUTCOME_OF if OUTCOME_OF[r] is o]] for o in Outcome))
    yield "## The fifteen rules\n\nIn this order: the first that gives a verdict decides."
    yield table(["rule", "says", "verdicts"], ([str(rule.number), rule.says, verdicts(rule)] for rule in RULES))
    yield f"## The life of a write\n\nWhat a write is once an answer is in. {REFUSED} is an answer out of turn."
    yield table(["state", *Answer], ([s, *(LIFE.get((s, a), REFUSED) for a in Answer)] for s in EffectState))
    yield table(["answer", "means"], ([answer, MEANING[answer]] for answer in Answer))
    yield "## Errors\n\nWhat follows from a failed call. A service that declines a write has answered, though."
    yield table(
        ["class", "codes", "a read", "a read, attempts used up", "a look-up", "a write is then"],
        map(_error, ErrorClass),
    )
    yield "## Budgets\n\nOf each run; counted over pauses and resumes."
    yield table(["dimension", "unit", "at its limit"], ([d, UNIT.get(d, "count"), STOP_REASON[d]] for d in Dimension))
    yield "## Events\n\nWhere each leads stands in the first table. Nothing under “after” means any stop reason."
    yield table(
        ["event", "label", "who", "from", "after", "needs", "payload", "checked again"],
        map(_event, CATALOGUE.values()),
    )
    yield "## What the customer may be told\n\nThe first statement whose facts are on record; the last one needs none."
    lines = [*((outcome or "under way", MAY_SAY[outcome]) for outcome in MAY_SAY), *MAY_SAY_FOR.items()]
    yield table(["stopped as or for", "statements"], [*lines, ("closed with a write open", MAY_SAY_WHEN_CLOSED)])


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table. Members of an enum are set as code, lists are joined, and the rest is text."""
    head = [str(name) for name in header]
    lines = [head, ["---"] * len(head), *(map(_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Any) -> str:
    if isinstance(cell, Enum):
        return f"`{cell.value}`"
    return cell.replace("|", r"\|") if isinstance(cell, str) else ", ".join(map(_cell, cell))


def _error(error_class: ErrorClass) -> list[Any]:
    codes = [code for code, known in CLASS_OF_CODE.items() if known is error_class]
    failure = Failure(codes[0], "")
    once = replace(CALM, failure=failure)
    open_effect = OpenEffect(EffectState.UNKNOWN, look_up_due=True, can_pay=True)
    return [
        error_class,
        [f"`{code}`" for code in codes] + (["any other"] if error_class is ErrorClass.UNKNOWN else []),
        _spell([decide(once)]),
        _spell([decide(replace(once, attempts_left=False))]),
        _spell([decide(replace(once, open_effect=open_effect))]),
        LIFE[EffectState.SENT, what_a_failure_means(failure, looking=False)],
    ]


def _event(kind: EventKind) -> list[Any]:
    who = str(kind.sender) + f" with `{kind.permission}`" * (kind.sender is Sender.PERSON)
    if kind.confirmed_by_requester:
        who += "; whoever asked for the run confirms it"
    if kind.seconded_by:
        who += f", then somebody else with `{kind.seconded_by}`"
    if kind.not_by_requester:
        who += ", not who asked for the run"
    needs = ["an open write"] * kind.needs_unresolved_effect + ["the plan as shown"] * kind.answers_plan
    if kind.needs:
        needs.append(f"{kind.needs} in the workflow")
    fields = [
        f"`{name}`" + " (optional)" * (name not in kind.payload["required"]) for name in kind.payload["properties"]
    ]
    states = [state for state in State if state in kind.states]
    return [kind.move, kind.label, who, states, sorted(kind.reasons), needs, fields, kind.checked_again]


class Unread(Exception):
    """A rule looks at a field of the situation that has no value yet."""


class Probe:
    """A situation of which only some fields are known."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        raise Unread(name)


def verdicts(rule: Rule) -> str:
    """All verdicts that a rule can give. It is asked about every situation that differs in what it looks at."""
    hints, found = get_type_hints(Situation), set()
    left: list[dict[str, Any]] = [{}]
    while left:
        known = left.pop()
        try:
            found.add(rule.apply(cast(Situation, Probe(known))))
        except Unread as unread:
            left += [{**known, str(unread): value} for value in _values(hints[str(unread)])]
    return _spell(verdict for verdict in found if verdict)


def _values(hint: Any) -> list[Any]:
    if isinstance(hint, UnionType):
        return [value for part in get_args(hint) for value in _values(part)]
    return SAMPLES[hint] if hint in SAMPLES else list(hint)


def _spell(given: Iterable[Verdict]) -> str:
    """Verdicts by outcome, after those that stop nothing."""
    found = set(given)
    going_on = sorted(f"`{verdict.kind}`" for verdict in found if not verdict.reason)
    reasons = {verdict.reason for verdict in found}
    stops = {o: [f"`{r}`" for r in OUTCOME_OF if r in reasons and OUTCOME_OF[r] is o] for o in Outcome}
    return "; ".join([*going_on, *(f"{outcome}: {', '.join(codes)}" for outcome, codes in stops.items() if codes)])
