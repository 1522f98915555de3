"""What stands in the tables of the rules and of the workflows, and is translated where it is shown."""

from collections.abc import Iterator, Mapping
from typing import Any

from runs.domain.effects import MEANING
from runs.domain.interventions import CATALOGUE, ROLES, UNDECLARED
from runs.workflows import registry
from runs.workflows.definition import Workflow
from takeover.catalogue.said import Said


def labels() -> Iterator[Said]:
    for role, (does, _permissions) in ROLES.items():
        yield Said(role, context="role", where="roles")
        yield Said(does, where="roles")
    for kind in CATALOGUE.values():
        for text in (kind.label, kind.says, kind.checked_again, *_titles(kind.payload)):
            yield Said(text, where="events")
    for text in (*UNDECLARED.values(), *MEANING.values()):
        yield Said(text, where="rules")
    for workflow in registry.workflows().values():
        for text in _of(workflow):
            yield Said(text, where=f"workflow {workflow.name}")


def _of(workflow: Workflow) -> Iterator[str]:
    yield from (workflow.title, workflow.role)
    yield from _titles(workflow.input_schema)
    for assertion in workflow.contract:
        yield assertion.label
    for tool in workflow.tools.values():
        yield from (tool.label, tool.source)
    for operation in workflow.operations.values():
        yield from _titles(operation.arguments)
    yield from (scope.label for scope in workflow.scopes.values())
    yield from (follow_up.label for follow_up in workflow.follow_ups.values())


def _titles(schema: Mapping[str, Any]) -> Iterator[str]:
    for one in schema.get("properties", {}).values():
        if "title" in one:
            yield one["title"]
