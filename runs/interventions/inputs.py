"""Input from a hand: it has to be JSON, fit its schema, and be told in words where it does not."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
from django.contrib.auth.models import User

from runs.interventions.refusals import listed, refuse
from runs.models import Run

MOST_PAYLOAD = 20_000  # characters


def parse(text: str, what: str, by: User, attempted: str, run: Run | None = None) -> Any:
    """JSON from a person's hand. Refused, saying where, when it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        message = f"{what}: not valid JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}."
    except (ValueError, RecursionError):
        message = f"{what}: not valid JSON: it holds a number or a nesting that no form of ours needs."
    refuse(by, attempted, run, "invalid", message, what)


def check(schema: Mapping[str, Any], value: Any, what: str, by: User, attempted: str, run: Run | None) -> None:
    """Hold `value` against a JSON Schema; the first thing wrong is refused with its field's name."""
    field, message = fault(schema, value, what)
    if message:
        refuse(by, attempted, run, "invalid", message, field)


def fault(schema: Mapping[str, Any], value: Any, what: str) -> tuple[str, str]:
    """The first field of `value` that does not fit the schema, and a sentence about it; empty where all do."""
    if not isinstance(value, dict):
        return what, f"{what}: must be a JSON object."
    try:
        if len(json.dumps(value, ensure_ascii=False).encode()) > MOST_PAYLOAD:
            return what, f"{what}: larger than {MOST_PAYLOAD} characters."
        error = next(_validator(_frozen(schema)).iter_errors(value), None)
        return _in_words(error, what) if error else ("", "")
    except (ValueError, RecursionError, TypeError):  # numbers of a thousand digits, text that is none, endless nesting
        return what, f"{what}: holds something that cannot be read as JSON."


def _frozen(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, sort_keys=True)


@lru_cache
def _validator(schema: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema)


def _in_words(error: jsonschema_rs.ValidationError, what: str) -> tuple[str, str]:
    """The field that is wrong, and a sentence that starts with its name."""
    detail = error.kind.as_dict()
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required():
            return detail["property"], f"{detail['property']}: is missing."
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties():
            unexpected = listed(detail["unexpected"])[:200]
            return unexpected, f"{unexpected}: is not a field of this {what}."
    field = ".".join(map(str, error.instance_path)) or what
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Pattern) and not str(error.instance).strip():
        return field, f"{field}: must not be blank."
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.MaxLength):
        return field, f"{field}: longer than {detail['limit']} characters."
    message = error.message if len(error.message) <= 200 else f"{error.message[:200]}…"
    return field, f"{field}: {message}."
