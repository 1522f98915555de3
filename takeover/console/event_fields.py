"""The payload of an event as the fields of a form, filled in as far as the run itself says what is likely."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from runs.domain.budget import STOP_REASON, Dimension
from runs.domain.interventions import EventKind
from runs.domain.states import Move
from runs.interventions import amending
from runs.interventions.refusals import Refused
from runs.models import InboxEvent, Run
from runs.workflows import registry
from takeover.console import words

LONG = 200  # texts that may be longer than this get room to write


@dataclass(frozen=True)
class Field:
    """One property of a payload as a control of a form."""

    name: str
    title: str
    control: str  # line, text, number, choice
    required: bool
    typed: str
    choices: tuple[tuple[str, str], ...] = ()
    most: int | None = None  # characters
    error: str = ""


def fields(kind: EventKind, run: Run, typed: Mapping[str, str], refusal: Refused | None = None) -> list[Field]:
    required = kind.payload.get("required", [])
    return [
        _field(
            name,
            schema,
            _choices(name, kind, run),
            required=name in required,
            typed=typed.get(name, ""),
            error=_error(schema, typed.get(name, ""), refusal) if refusal and refusal.field == name else "",
        )
        for name, schema in kind.payload.get("properties", {}).items()
    ]


def _choices(name: str, kind: EventKind, run: Run) -> tuple[tuple[str, str], ...]:
    """What one property may be, where that depends on the run; value and label."""
    match name:
        case "dimension":
            return tuple((line.dimension, _line_in_words(line)) for line in _lines(run))
        case "field" if kind.move is Move.PLAN_AMENDED:
            return words.argument_fields(run)
        case "field":
            return words.input_fields(run)
        case "scope":
            return words.scopes(run)
    return ()


def _field(
    name: str,
    schema: Mapping[str, Any],
    choices: tuple[tuple[str, str], ...],
    *,
    required: bool,
    typed: str,
    error: str,
) -> Field:
    title, control = _(schema.get("title", name)), "line"
    choices = choices or tuple((str(value), str(value)) for value in schema.get("enum", ()))
    if choices:
        control = "choice"
    elif schema.get("type") == "integer":
        control = "number"
    elif schema.get("maxLength", 0) > LONG:
        control = "text"
    return Field(name, title, control, required, typed, choices, schema.get("maxLength"), error)


def _error(schema: Mapping[str, Any], typed: str, refusal: Refused) -> str:
    """What is wrong with one field, in the words of a form, which stands below it and need not name it."""
    message = refusal.message.removeprefix(f"{refusal.field}: ")
    if refusal.code != "invalid":
        return message
    if not typed.strip():
        return _("This is needed.")
    if schema.get("type") == "integer":
        number, least, most = _number(typed), schema["minimum"], schema["maximum"]
        if not isinstance(number, int) or not least <= number <= most:
            return _("It must be a whole number from %(least)d to %(most)d.") % {"least": least, "most": most}
    if len(typed) > schema.get("maxLength", len(typed)):
        return _("It may have at most %(most)d characters.") % {"most": schema["maxLength"]}
    return message


def payload(kind: EventKind, typed: Mapping[str, str]) -> dict[str, Any]:
    """What was typed, as the schema's types. What does not fit stays as it is, for the schema to refuse by name."""
    properties, required = kind.payload.get("properties", {}), kind.payload.get("required", [])
    given: dict[str, Any] = {}
    for name, text in typed.items():
        if not text.strip() and name not in required and name in properties:
            continue  # an optional field left empty
        given[name] = _number(text) if properties.get(name, {}).get("type") == "integer" else text
    return given


def _number(text: str) -> int | str:
    return int(text) if re.fullmatch(r"\s*-?[0-9]{1,9}\s*", text) else text


# What stands in a form before anybody typed


@dataclass(frozen=True)
class BudgetLine:
    dimension: Dimension
    limit: int
    spent: int
    planned: int
    most: int  # by which it may still be raised
    is_used_up: bool


def _lines(run: Run) -> list[BudgetLine]:
    workflow = registry.find(run.workflow, run.workflow_version)
    sent = sum(row.times_sent > 0 for row in run.effects.all())
    found = []
    for dimension, line in run.ledger.lines.items():
        planned = workflow.planned(dimension, sent) if workflow else line.limit
        room = run.ledger.room(dimension, planned)
        found.append(BudgetLine(dimension, line.limit, line.spent, planned, room, not line.available))
    return found


def _line_in_words(line: BudgetLine) -> str:
    named = {"budget": words.word(line.dimension, words.DIMENSION), "spent": line.spent, "limit": line.limit}
    if not line.most:
        return _("%(budget)s: %(spent)d of %(limit)d spent, cannot be raised any further") % named
    return _("%(budget)s: %(spent)d of %(limit)d spent, may be raised by %(most)d") % {**named, "most": line.most}


def filled_in(kind: EventKind, run: Run, asked: Mapping[str, str], proposed: InboxEvent | None) -> dict[str, str]:
    """What is likely, for a person to look at and change; `asked` is what the address of the form asks for."""
    given = {name: asked[name] for name in kind.payload.get("properties", {}) if asked.get(name)}
    match kind.move:
        case Move.BUDGET_EXTENDED:
            return _extension(run) | given
        case Move.PLAN_AMENDED:
            return _change(words.argument_fields(run), arguments(run), given)
        case Move.INPUT_CORRECTED:
            return _change(words.input_fields(run), run.input, given)
        case Move.SCOPE_NARROWED:
            scopes = words.scopes(run)
            scope = proposed.payload.get("scope", "") if proposed else scopes[0][0] if len(scopes) == 1 else ""
            return {"scope": scope} | given
    return given


def _extension(run: Run) -> dict[str, str]:
    """The budget for which it stopped, and half of what was planned, as far as that may be had."""
    short = [line for line in _lines(run) if line.is_used_up and line.most]
    stopped_for = [line for line in short if STOP_REASON[line.dimension] == run.stop_reason]
    # Scheduled look-ups that are used up are extended last: what people ask by is what helps at once.
    line = next(iter(sorted(stopped_for, key=lambda line: line.dimension == Dimension.STATUS_CHECKS)), None)
    if not line:
        return {}
    return {"dimension": line.dimension.value, "by": str(min(line.most, max(1, line.planned // 2)))}


def _change(
    fields: tuple[tuple[str, str], ...], present: Mapping[str, Any], given: Mapping[str, str]
) -> dict[str, str]:
    """The one field that can be changed, or the one asked for, with what it is now."""
    field = given.get("field") or (fields[0][0] if len(fields) == 1 else "")
    known = field in dict(fields) and present.get(field) is not None
    return {"field": field, "value": str(present[field]) if known else "", **given}


def arguments(run: Run) -> dict[str, Any]:
    """What the write that waits sends of what was proposed, by the name of the argument."""
    found = amending.proposed(run)
    return {name: found[1].params.get(name) for name in found[0].arguments["properties"]} if found else {}


@dataclass(frozen=True)
class Argument:
    name: str
    title: str
    value: str
    is_known: bool
    may_change: bool


def listed(run: Run) -> list[Argument]:
    """Everything that was proposed of the write that waits, and what of it a person may change."""
    found = amending.proposed(run)
    if not found:
        return []
    operation, plan = found
    return [
        Argument(
            name,
            _(schema.get("title", name)),
            _as_text(plan.params.get(name)),
            is_known=name in plan.params,
            may_change=name in operation.amendable,
        )
        for name, schema in operation.arguments["properties"].items()
    ]


def _as_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
