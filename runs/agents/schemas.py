"""The schema of an operation's arguments as model services hold a model to it, and what comes back as it was meant.

In their strict modes the services keep a model to the schema while it writes, and understand only a part of JSON Schema
there: every property is required, and limits of length, range or pattern are refused. So what may be left out may be
null instead, and the limits are told in words. The declared schema is what arguments are held against afterwards.
"""

import json
from collections.abc import Mapping
from typing import Any

UNDERSTOOD = {
    "type", "enum", "const", "anyOf", "oneOf", "items", "properties", "required", "additionalProperties",
    "title", "description",
}  # fmt: skip
NULL = {"type": "null"}


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` in the part of JSON Schema that every strict mode takes."""
    made: dict[str, Any] = {name: schema[name] for name in ("enum", "const") if name in schema}
    limits = {name: value for name, value in schema.items() if name not in UNDERSTOOD}
    words = [schema.get("title"), schema.get("description"), json.dumps(limits, sort_keys=True) if limits else None]
    if said := ". ".join(word for word in words if word):
        made["description"] = said
    kind = schema.get("type")
    if isinstance(kind, list):
        inner = {name: schema[name] for name in ("items", "properties", "required") if name in schema}
        return {**made, "anyOf": [strict({**inner, "type": one}) if one != "null" else NULL for one in kind]}
    if either := schema.get("anyOf") or schema.get("oneOf") or []:
        return {**made, "anyOf": [strict(one) for one in either]}
    if kind:
        made["type"] = kind
    if "items" in schema:
        made["items"] = strict(schema["items"])
    if kind == "object":
        properties, required = schema.get("properties", {}), schema.get("required", ())
        made["properties"] = {
            name: strict(one) if name in required else _or_null(strict(one)) for name, one in properties.items()
        }
        made |= {"required": list(properties), "additionalProperties": False}
    return made


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if NULL in schema.get("anyOf", ()) else {"anyOf": [schema, NULL]}


def without_nulls(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` without what `strict` made a model fill in though it may be left out."""
    may_be_left_out = schema.get("properties", {}).keys() - set(schema.get("required", ()))
    return {name: value for name, value in arguments.items() if value is not None or name not in may_be_left_out}
