"""Made-up requests and answers, to try the functions of a workflow without its service.

An input is made from its JSON Schema. What was read is `Anything`: whatever a function looks for in it, it finds. That
is enough to see what a plan says or a script proposes, and it proves nothing about what real answers lead to.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, product
from typing import Any

import jsonschema_rs

from runs.domain.contract import Fact
from runs.domain.effects import Effect, EffectState, WritePlan
from runs.workflows.definition import Context

NOW = datetime(2026, 9, 25, 12, tzinfo=UTC)
RUN_ID = "00000000-0000-4000-8000-0000000a11ce"
# A text of a kind that people use, and that does not stand in a sentence by chance.
TEXTS = ("X7Q31", "x7q31", "7031", "XQZ", "xqz", "X", "x", "7", "2026-09-25", "2026-09-25T12:00:00+00:00",
         "x7q31@example.org", "https://example.org/x7q31")  # fmt: skip
MOST_FACTS = 500  # looked for by one function: more, and it goes on for as long as it finds something
MOST_EXAMPLES = 64


class NoExample(Exception):
    """Nothing could be made up that fits; the message is the field's name."""


def example(schema: Mapping[str, Any], field: str = "it", *, whole: bool = False) -> Any:
    """Something that fits a JSON Schema: what it names as `examples` or `default`, else a guess; of an object the
    required properties, or with `whole` all. Raises NoExample."""
    fits = jsonschema_rs.validator_for(dict(schema)).is_valid
    for guess in _guesses(schema, field, whole):
        if fits(guess):
            return guess
    raise NoExample(field)


def _guesses(schema: Mapping[str, Any], field: str, whole: bool) -> Iterator[Any]:
    yield from schema.get("examples", ())
    yield from (schema[word] for word in ("const", "default") if word in schema)
    yield from schema.get("enum", ())
    for either in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _guesses(either, field, whole)
    kinds = schema.get("type", ())
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        match kind:
            case "object":
                parts, required = schema.get("properties", {}), list(schema.get("required", ()))
                wanted = list(parts) if whole else required
                for names in (wanted, *([*required, name] for name in parts if name not in required)):
                    yield {name: example(parts.get(name, {}), name, whole=whole) for name in names}
            case "array":
                item = example(schema.get("items", {"type": "string"}), field, whole=whole)
                yield [item] * max(1, schema.get("minItems", 0))
            case "string":
                least = schema.get("minLength", 0)
                yield from (text * (least // len(text) + 1 if len(text) < least else 1) for text in TEXTS)
            case "integer" | "number":
                yield 7031
                yield from (schema.get(bound, 1) for bound in ("minimum", "maximum"))
                yield from (schema[bound] + by for bound, by in _JUST_INSIDE if bound in schema)
                yield schema.get("multipleOf", 1)
            case "boolean":
                yield True
            case "null":
                yield None


_JUST_INSIDE = (("exclusiveMinimum", 1), ("exclusiveMaximum", -1))


def examples(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Objects that fit, one for each choice that the properties with an `enum` leave. Raises NoExample."""
    first = example(schema, whole=True)
    choices = [
        [(name, value) for value in part.get("enum", [first[name]])]
        for name, part in schema.get("properties", {}).items()
        if name in first
    ]
    yield from islice((dict(chosen) for chosen in product(*choices)), MOST_EXAMPLES)


class Anything(str):
    """A text, a number, a list and an object in one."""

    def __new__(cls) -> "Anything":
        return super().__new__(cls, "2026-09-25")

    def __getitem__(self, key: Any) -> "Anything":
        return self

    def get(self, key: Any, default: Any = None) -> "Anything":
        return self

    def keys(self) -> Sequence[str]:
        return ["anything"]

    def values(self) -> Sequence["Anything"]:
        return [self]

    def items(self) -> Sequence[tuple[str, "Anything"]]:
        return [("anything", self)]

    def __iter__(self) -> Iterator["Anything"]:
        return iter([self])

    def __contains__(self, item: object) -> bool:
        return True

    def __len__(self) -> int:
        return 1

    def __int__(self) -> int:
        return 1

    def __index__(self) -> int:
        return 1

    def __float__(self) -> float:
        return 1.0

    def __format__(self, spec: str) -> str:
        try:
            return format(str(self), spec)
        except ValueError:
            return format(1, spec)


def _as_number(name: str) -> Callable[[Any, Any], Any]:
    of_numbers, of_text = getattr(operator, name), getattr(str, f"__{name}__", None)

    def apply(self: Anything, other: Any) -> Any:
        if of_text and isinstance(other, str) and not isinstance(other, Anything):
            return of_text(self, other)
        return of_numbers(1, 1 if isinstance(other, Anything) else other)

    return apply


def _from_the_right(name: str) -> Callable[[Any, Any], Any]:
    of_numbers = getattr(operator, name)
    return lambda self, other: f"{other}{self}" if isinstance(other, str) else of_numbers(other, 1)


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "lt", "le", "gt", "ge"):
    setattr(Anything, f"__{_name}__", _as_number(_name))
for _name in ("add", "sub", "mul", "floordiv", "truediv"):
    setattr(Anything, f"__r{_name}__", _from_the_right(_name))


class Facts(dict[str, Fact]):
    """Every fact there could be, each with `Anything` in it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __missing__(self, name: str) -> Fact:
        self.asked += 1
        if self.asked > MOST_FACTS:
            raise LookupError("it looks for one fact after the other, for as long as it finds one")
        return Fact(name, Anything(), "made up", NOW, "made-up")  # type: ignore[arg-type]  # that is what it is for

    def get(self, name: str, default: Any = None) -> Fact:
        return self[name]

    def __contains__(self, name: object) -> bool:
        return True


def context(given: Mapping[str, Any], acts_for: str, *, read: bool, effects: tuple[Effect, ...] = ()) -> Context:
    """A run that was just started, or with `read` one that has read everything there is."""
    facts: dict[str, Fact] = Facts() if read else {}
    return Context(RUN_ID, given, acts_for, facts, effects, stretch=0, now=NOW)


def effect(plan: WritePlan, state: EffectState, key: str = "made-up") -> Effect:
    """A write that went out once, as its service has it."""
    sent = {} if state is EffectState.PLANNED else {"sent_at": NOW, "answered_at": NOW, "times_sent": 1, "look_ups": 1}
    receipt: Any = Anything() if state is EffectState.CONFIRMED else None
    return Effect(key, state, plan, NOW, receipt=receipt, **sent)  # type: ignore[arg-type]
