"""Reading what a service answers: fields of the right type, records of one key, and whether they fit this call.

An answer that is not what it should be raises ToolFailed with `invalid_output`. Records name what they are about; one
that names something else is no receipt of this call's, whatever it says.
"""

from collections.abc import Callable, Mapping
from typing import Any

from runs.domain.effects import names_otherwise
from runs.domain.errors import Failure
from runs.domain.telling import QUOTABLE
from runs.tools.tool import Call, ToolFailed


def invalid_output(sentence: str) -> ToolFailed:
    return ToolFailed(Failure("invalid_output", sentence))


def field(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise invalid_output(f"The answer's field {name!r} is missing or of the wrong type.")
    return value


def content(data: Mapping[str, Any]) -> dict[str, Any]:
    """What was answered, without when: the same facts read twice are no news."""
    return {name: value for name, value in data.items() if name != "as_of"}


def records(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = field(data, "records", list)
    if not all(isinstance(record, dict) for record in found):
        raise invalid_output("The answer's records are not objects.")
    return list(found)


def doubt(found: list[Any], call: Call, who: str, state: Callable[[Mapping[str, Any]], str], number: str) -> str:
    """Why these records of one key are no one answer, as a sentence about `who`; empty where they are.

    `number` is the field in which a record has its number.
    """
    if strange := next((says for record in found if (says := stranger(record, call))), ""):
        return strange
    states = {state(record) for record in found}
    numbers = {str(record[number]) for record in found if record.get(number)}
    for told, what in ((states, "answered"), (numbers, "gave the numbers")):
        if len(told) > 1:
            return f"{who} {what} {' and '.join(sorted(told))} for one operation key"
    return ""


def stranger(record: Mapping[str, Any], call: Call) -> str:
    """What a record names that is not this call's; empty when it fits, or names nothing."""
    wanted = {**call.params, "operation_key": call.operation_key}
    name = names_otherwise(record, wanted)
    what = name.removesuffix("_id").removesuffix("_minor").replace("_", " ")
    return f"The receipt names {what} {record[name]}, not {wanted[name]}" if name else ""


def reason(record: Mapping[str, Any]) -> str:
    """Why a service refused, in its own words."""
    return str(record.get("reason") or record.get("message") or "no reason given")


def identifier(record: Mapping[str, Any], name: str) -> str:
    """A number or reference of the service's, which people will read and repeat. Raises ToolFailed for free text."""
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not QUOTABLE.fullmatch(value):
        raise invalid_output(f"The answer's {name} is not a reference.")
    return value
