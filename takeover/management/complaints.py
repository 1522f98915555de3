"""What is wrong with a workflow, in sentences: one function a subject, and a table of them.

Declarations that contradict themselves are refused when they are made (`Workflow`, `Tool`, `Wording`). Here is what
only shows when the workflow's functions are tried, on made-up requests and answers (`madeup`). What raises on a made-up
answer may be right on a real one: then it is said that it could not be looked at, and that is no complaint.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

from runs.agents.schemas import strict
from runs.domain.budget import FIRST_WRITE, READ, SCHEDULED_LOOK_UP, BudgetExceeded, Charge, Dimension, Ledger
from runs.domain.effects import EffectState, WritePlan
from runs.domain.errors import DomainError
from runs.domain.money import Money
from runs.domain.proposals import Act, Proposal
from runs.domain.states import OUTCOME_OF, SAID_BY_THE_POLICY, SHORT, StepKind, StopReason
from runs.workflows.definition import Reading, Workflow, Writing
from takeover.management import madeup
from takeover.management.madeup import NoExample

LONGEST_KEY, LONGEST_SUBJECT, LONGEST_QUESTION = 100, 120, 400  # characters
NAMED_TO_MODELS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SAYS_NOTHING = {"", "-", "–", "?"}
# Questions that are put about a write, and what it is by then; all others may be put before anything was read.
ABOUT_A_WRITE: Mapping[StopReason, EffectState] = {
    StopReason.EFFECT_PENDING: EffectState.ACKNOWLEDGED,
    StopReason.EFFECT_UNKNOWN: EffectState.UNKNOWN,
    StopReason.CANCELLATION_UNVERIFIED: EffectState.UNKNOWN,
    StopReason.OUTCOME_UNCONFIRMED: EffectState.UNKNOWN,
    StopReason.LIMIT_STATUS_CHECKS: EffectState.ACKNOWLEDGED,
    StopReason.RECEIPTS_CONTRADICT: EffectState.UNKNOWN,
    StopReason.APPROVAL_REQUIRED: EffectState.PLANNED,
    StopReason.APPROVAL_REJECTED: EffectState.PLANNED,
    StopReason.APPROVAL_EXPIRED: EffectState.PLANNED,
    StopReason.HALF_DONE: EffectState.CONFIRMED,
    StopReason.CANCELLED_TOO_LATE: EffectState.CONFIRMED,
    StopReason.NOT_REVERSIBLE: EffectState.CONFIRMED,
}
MAKES_NO_CHECKS = next(field.default for field in fields(Workflow) if field.name == "checks")


@dataclass
class Looked:
    """One workflow on the table, with what was made up for it and what could not be looked at."""

    workflow: Workflow
    workflows: Collection[str]  # names of all that are registered
    services: Collection[str]
    given: Mapping[str, Any]
    acts_for: str
    unseen: list[str] = field(default_factory=list)
    plans: dict[str, WritePlan] = field(default_factory=dict)  # by operation, as far as they could be made

    @property
    def writings(self) -> dict[str, Writing]:
        return {name: made for name, made in self.workflow.operations.items() if isinstance(made, Writing)}

    def try_on_anything(self, what: str, function: Callable[..., Any], *given: Any) -> Any:
        """What a function returns for made-up answers; None where it fails on them, which proves nothing."""
        try:
            return function(*given)
        except Exception as problem:
            self.unseen.append(f"{what} could not be tried on made-up answers ({_told(problem)}).")
            return None


def look(workflow: Workflow, workflows: Collection[str], services: Collection[str]) -> tuple[list[str], list[str]]:
    """What is wrong with a workflow, and what could not be looked at, as sentences.

    `workflows` and `services` are the names that are registered here.
    """
    try:
        given = madeup.example(workflow.input_schema)
    except NoExample as field:
        return [
            f"No input could be made up that fits its schema, for want of {str(field)!r}: give that `examples`."
        ], []
    try:
        acts_for = workflow.acts_for(given, "somebody")
    except Exception as problem:
        return [f"Whom a run acts for could not be said for {_json(given)}: {_told(problem)}."], []
    looked = Looked(workflow, workflows, services, given, acts_for)
    wrong: list[str] = []
    for subject in SUBJECTS:
        try:
            wrong += subject(looked)
        except Exception as problem:  # a function of somebody else's that returns what its type does not say
            what = subject.__name__.replace("_", " ")
            wrong.append(f"Looking at its {what} failed, for something is of another type: {_told(problem)}.")
    return wrong, looked.unseen


# The request


def request(looked: Looked) -> Iterator[str]:
    workflow, given = looked.workflow, looked.given
    if not looked.acts_for.strip():
        yield f"It acts for nobody for the input {_json(given)}: return the person whose entitlement counts."
    for what, function in (("subject", workflow.subject), ("headline", workflow.headline), ("goal", workflow.goal)):
        try:
            said = function(given)
        except Exception as problem:
            yield f"Its {what} fails for the input {_json(given)}: {_told(problem)}."
            continue
        if not names(said, _texts(given)):
            yield f"Its {what} names nothing of what was asked for ({_cut(said)}): put a field of the input in."
        elif what == "subject" and len(said) > LONGEST_SUBJECT:
            yield f"Its subject is {len(said)} characters long: {LONGEST_SUBJECT} are kept."


def check_at_start(looked: Looked) -> Iterator[str]:
    workflow = looked.workflow
    try:
        name, _params, blamed = workflow.exists(looked.given, looked.acts_for)
    except Exception as problem:
        yield f"What asks whether the subject exists fails for the input {_json(looked.given)}: {_told(problem)}."
        return
    tool = workflow.tools.get(name)
    if tool is None or tool.kind is not StepKind.READ:
        yield f"Whether the subject exists is asked by {name!r}, and it has no read tool of that name."
    if blamed not in workflow.input_schema.get("properties", {}):
        yield f"An unknown subject is blamed on {blamed!r}, which is no field of the input."


# Writes


def writes(looked: Looked) -> Iterator[str]:
    about = looked.workflow.customer_says.subject
    context = madeup.context(looked.given, looked.acts_for, read=True)
    another_run = replace(context, run_id=madeup.RUN_ID.replace("0", "1"))
    for name, writing in looked.writings.items():
        try:
            arguments = madeup.example(writing.arguments)
        except NoExample:
            continue  # said under `schemas`
        key, other = (
            looked.try_on_anything(f"The key of {name!r}", writing.key, run, arguments)
            for run in (context, another_run)
        )
        if key is not None and (not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY):
            yield f"The key of {name!r} is {_cut(key)}: it has to be text of 1 to {LONGEST_KEY} characters."
        elif key is not None and key == other:
            yield f"The key of {name!r} is the same in two runs ({_cut(key)}): make it of the run's id."
        plan = looked.try_on_anything(f"The plan of {name!r}", writing.plan, context, arguments)
        if plan is None:
            continue
        if not isinstance(plan, WritePlan):
            yield f"The plan of {name!r} is a {type(plan).__name__}, and has to be a WritePlan."
            continue
        looked.plans[name] = plan
        together = looked.try_on_anything(f"Whether {name!r} goes together with others", writing.together, plan)
        if together is not None and not isinstance(together, bool):
            yield f"Whether {name!r} may be approved together with others is {_cut(together)}: say True or False."
        if plan.operation != name:
            yield f"The plan of {name!r} is for {plan.operation!r}: its operation has to be the tool's name."
        told = {"what is written to": plan.target, "what is expected": plan.expected, "a risk": plan.risk}
        for what, said in told.items():
            if said.strip() in SAYS_NOTHING:
                yield f"The plan of {name!r} does not name {what}, and a person approves on it."
        if not plan.difference:
            yield f"The plan of {name!r} shows no difference, and a person approves on it."
        if plan.undo.strip() in SAYS_NOTHING:
            yield f"The plan of {name!r} does not say how it is undone: say how, or that it cannot be (`undo`)."
        if about not in plan.params:
            yield f"Customers are told about {about!r}, which {name!r} does not send: its number could not be quoted."


def undoing(looked: Looked) -> Iterator[str]:
    tools = looked.workflow.tools
    for name, undo in looked.workflow.undo.items():
        if not (done := looked.plans.get(name)):
            continue
        effect = madeup.effect(done, EffectState.CONFIRMED)
        fact = madeup.Facts()["standing"]
        plan = looked.try_on_anything(f"What undoes {name!r}", undo.plan, effect, fact)
        tool = tools.get(plan.operation) if plan else None
        if plan:
            looked.plans[f"undoing {name}"] = plan
            if tool is None or tool.kind is not StepKind.WRITE:
                yield f"{name!r} is undone by {plan.operation!r}, and it has no write tool of that name."


def waits(looked: Looked) -> Iterator[str]:
    """Events that nobody may send, because there is no time for them or nothing to pay them from."""
    workflow, budgets = looked.workflow, looked.workflow.budgets
    for name in ("approval_within", "approval_lasts", "answer_within", "follow_up_after"):
        if getattr(workflow, name) <= timedelta():
            yield f"{name} leaves no time, so what it is for comes too late: nobody could ever send it."
    if not looked.writings:
        return
    if Dimension.FOLLOW_UP_CHECKS not in budgets:
        yield "It writes and has no budget of follow_up_checks, so nobody could ever have the service asked again."
    if Dimension.STATUS_CHECKS not in budgets:
        yield "It writes and has no budget of status_checks, so a lost answer would be asked for without end."
    if any(wait <= timedelta() for wait in workflow.look_up_after) or not workflow.look_up_after:
        yield "look_up_after needs waits, each above nothing."


def scopes(looked: Looked) -> Iterator[str]:
    seen: dict[frozenset[str], str] = {}
    for name, scope in looked.workflow.scopes.items():
        if first := seen.get(scope.drops):
            yield f"The scopes {first!r} and {name!r} leave out the same: nobody could narrow one to the other."
        seen.setdefault(scope.drops, name)


def budgets(looked: Looked) -> Iterator[str]:
    workflow = looked.workflow
    try:
        ledger = Ledger.of({**workflow.turns, **workflow.budgets})
    except DomainError as problem:
        yield f"Its budgets make no sense: {problem}"
        return
    plan: list[Charge] = [READ] * len(workflow.reads)
    what = "reading 1 precondition" if len(workflow.reads) == 1 else f"reading {len(workflow.reads)} preconditions"
    if looked.writings:
        plan += [FIRST_WRITE, SCHEDULED_LOOK_UP]
        what += ", one write and one look-up of it"
    elif workflow.operations:
        plan.append(READ)
        what += " and one more read"
    try:
        for charge in plan:
            ledger = ledger.reserve(charge)
    except BudgetExceeded as short:
        limit = workflow.planned(short.dimension)
        yield f"The budget of {_words(short.dimension)}, {limit}, can never pay for the plan: {what}."
    for name, context in (("was just started", False), ("has read everything", True)):
        made = madeup.context(looked.given, looked.acts_for, read=context)
        try:
            left = workflow.remaining(made)
        except Exception as problem:
            if not context:
                yield f"What remains to be done cannot be said of a run that {name}: {_told(problem)}."
            continue
        if short_of := Ledger.of({**workflow.turns, **workflow.budgets}).short_of(left):
            yield f"What it says remains of a run that {name} is more than its budget of {_words(short_of)}."


# What a policy may do


def schemas(looked: Looked) -> Iterator[str]:
    for name, operation in looked.workflow.operations.items():
        if not operation.says.strip():
            yield f"{name!r} says nothing of what it is for: people and models choose by that."
        if not NAMED_TO_MODELS.fullmatch(name):
            yield f"No model can be offered {name!r}: letters, digits, _ and - are taken, up to 64."
        try:
            arguments = madeup.example(operation.arguments)
        except NoExample as problem:
            yield (
                f"No model could fill in the arguments of {name!r}: nothing could be made up for {str(problem)!r}. "
                "Correct its schema, or give it `examples`."
            )
            continue
        shown = strict(operation.arguments)["properties"]
        for argument, part in shown.items():
            if not part.keys() & {"type", "enum", "const", "anyOf"}:
                yield f"The argument {argument!r} of {name!r} has no type, so a model is held to nothing."
        if isinstance(operation, Reading):
            context = madeup.context(looked.given, looked.acts_for, read=True)
            called = looked.try_on_anything(f"The name of what {name!r} reads", operation.fact, context, arguments)
            if called is not None and (not isinstance(called, str) or not called.strip()):
                yield f"What {name!r} reads is kept under no name ({_cut(called)})."


def kinds(looked: Looked) -> Iterator[str]:
    limits, seen = looked.workflow.fruitless, set()
    for name, operation in looked.workflow.operations.items():
        if not isinstance(operation, Reading):
            continue
        try:
            found = {operation.kind(arguments) for arguments in madeup.examples(operation.arguments)}
        except NoExample:
            continue  # said under `schemas`
        except Exception as problem:
            yield f"The kind of {name!r} cannot be said of arguments that fit its schema: {_told(problem)}."
            continue
        seen |= found
        for kind in sorted(found - {""} - set(limits)):
            yield f"{name!r} is of the kind {kind!r}, which `fruitless` does not limit."
    for kind in sorted(limits.keys() - seen):
        yield f"`fruitless` limits the kind {kind!r}, which no reading has."
    for kind, limit in limits.items():
        if type(limit) is not int or limit < 1:
            yield f"`fruitless` limits {kind!r} to {limit!r}: a whole number from 1."


def script(looked: Looked) -> Iterator[str]:
    context = madeup.context(looked.given, looked.acts_for, read=True)
    proposed = looked.try_on_anything("The script", looked.workflow.script, context)
    if proposed is None:
        return
    if not isinstance(proposed, Proposal):
        yield f"Its script proposes {_cut(proposed)}, which is no proposal (runs.domain.proposals)."
    elif isinstance(proposed, Act):
        operation = looked.workflow.operations.get(proposed.operation)
        if operation is None:
            yield f"Its script proposes {proposed.operation!r}, which is none of its operations."


def tools(looked: Looked) -> Iterator[str]:
    workflow = looked.workflow
    for tool in workflow.tools.values():
        if tool.service not in looked.services:
            cure = f"add it to SERVICES, with {tool.service.upper()}_URL and {tool.service.upper()}_TOKEN"
            yield f"The tool {tool.name!r} calls the service {tool.service!r}, which is not configured: {cure}."
    used = _used(looked)
    for tool in workflow.tools.values():
        if used is not None and tool.name not in used:
            yield f"The tool {tool.name!r} is used by no read, check, operation or undo: leave it out."


def _used(looked: Looked) -> set[str] | None:
    """Names of the tools that something uses; None where that cannot be seen."""
    workflow = looked.workflow
    used = {read.tool for read in workflow.reads} | set(workflow.operations)
    used |= {undo.read for undo in workflow.undo.values()} | {plan.operation for plan in looked.plans.values()}
    try:
        used.add(workflow.exists(looked.given, looked.acts_for)[0])
    except Exception:
        return None  # said under `check_at_start`
    if len(looked.plans) < len(looked.writings) + len(workflow.undo):
        return None
    checked: set[str] = set()
    for effects in ((), tuple(madeup.effect(plan, EffectState.CONFIRMED) for plan in looked.plans.values())):
        for read in (False, True):
            context = madeup.context(looked.given, looked.acts_for, read=read, effects=effects)
            try:
                checked |= {check.tool for check in workflow.checks(context)}
            except Exception:
                return None
    if not checked and workflow.checks is not MAKES_NO_CHECKS:
        return None  # it makes some, and not on made-up answers
    used |= checked
    return used | {tool.look_up for tool in workflow.tools.values() if tool.name in used}


def follow_ups(looked: Looked) -> Iterator[str]:
    for name, follow_up in looked.workflow.follow_ups.items():
        if follow_up.workflow not in looked.workflows:
            cure = "name its module in WORKFLOWS"
            yield f"The follow-up {name!r} starts {follow_up.workflow!r}, which is not registered: {cure}."


def stake(looked: Looked) -> Iterator[str]:
    workflow = looked.workflow
    just_started = madeup.context(looked.given, looked.acts_for, read=False)
    try:
        found: list[Any] = [workflow.stake(just_started)]
    except Exception as problem:
        yield f"What is at stake cannot be said of a run that was just started ({_told(problem)}): None, if not known."
        return
    has_read = madeup.context(looked.given, looked.acts_for, read=True)
    found.append(looked.try_on_anything("What is at stake", workflow.stake, has_read))
    wrong = next((said for said in found if said is not None and not isinstance(said, Money)), None)
    if wrong is not None:
        yield f"What is at stake is {_cut(wrong)}: return Money (runs.domain.money), or None where it is not known."


# What people are told


def questions(looked: Looked) -> Iterator[str]:
    workflow = looked.workflow
    subject = str(looked.try_on_anything("The subject", workflow.subject, looked.given) or "")
    found = "The rules found something."  # and say there which tool or service it was about
    wanted = [*_texts(looked.given), subject, found]
    plan = next(iter(looked.plans.values()), None) or _some_plan(looked, subject)
    wrong: dict[str, list[StopReason]] = {}
    for reason in (reason for reason, outcome in OUTCOME_OF.items() if outcome in SHORT):
        if reason in ABOUT_A_WRITE and not looked.writings:
            continue
        says = f"What about {subject}?" if reason in SAID_BY_THE_POLICY else found
        effects = (madeup.effect(plan, ABOUT_A_WRITE[reason]),) if reason in ABOUT_A_WRITE else ()
        context = madeup.context(looked.given, looked.acts_for, read=reason in ABOUT_A_WRITE, effects=effects)
        try:
            asked = workflow.question(context, reason, says)
        except Exception as problem:
            if reason in ABOUT_A_WRITE:
                looked.unseen.append(
                    f"The question for {reason} could not be tried on made-up answers ({_told(problem)})."
                )
            else:
                wrong.setdefault(f"fails ({_told(problem)})", []).append(reason)
            continue
        if not asked.strip():
            wrong.setdefault("is empty", []).append(reason)
        elif len(asked) > LONGEST_QUESTION:
            wrong.setdefault(f"is longer than {LONGEST_QUESTION} characters", []).append(reason)
        elif not names(asked, wanted):
            wrong.setdefault(f"names nothing of the run ({_cut(asked)})", []).append(reason)
    for what, reasons in wrong.items():
        more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
        yield f"The question for {', '.join(reasons[:3])}{more} {what}."


def _some_plan(looked: Looked, subject: str) -> WritePlan:
    operation = next(iter(looked.writings), "")
    return WritePlan(operation, subject, dict(looked.given), (("field", "now", "then"),), "1", "done", "none", "none")


SUBJECTS: Sequence[Callable[[Looked], Iterator[str]]] = (
    request,
    check_at_start,
    schemas,
    kinds,
    writes,
    undoing,
    waits,
    scopes,
    budgets,
    script,
    tools,
    follow_ups,
    stake,
    questions,
)


def names(said: object, wanted: Collection[str]) -> bool:
    """Whether a text names any of the others."""
    return isinstance(said, str) and any(text in said for text in wanted if text)


def _texts(given: object) -> list[str]:
    """Every text and number in an input."""
    if isinstance(given, Mapping):
        return [text for value in given.values() for text in _texts(value)]
    if isinstance(given, list):
        return [text for value in given for text in _texts(value)]
    return [str(given)] if isinstance(given, str | int | float) and not isinstance(given, bool) else []


def _told(problem: Exception) -> str:
    said = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {said[:120]}" if said else type(problem).__name__


def _json(given: object) -> str:
    return json.dumps(given, ensure_ascii=False, default=str)


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _words(dimension: Dimension) -> str:
    return dimension.value.replace("_", " ")
