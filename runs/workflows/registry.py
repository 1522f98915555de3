"""Which workflows this installation runs: the modules named by the WORKFLOWS setting, each with one `WORKFLOW`."""

from functools import cache
from importlib import import_module

from django.conf import settings

from runs.workflows.definition import Workflow


@cache
def workflows() -> dict[str, Workflow]:
    found: dict[str, Workflow] = {}
    for path in settings.WORKFLOWS:
        workflow: Workflow = import_module(path).WORKFLOW
        if workflow.name in found:
            raise ValueError(f"Two workflows are called {workflow.name!r}.")
        found[workflow.name] = workflow
    return found


def find(name: str, version: int | None = None) -> Workflow | None:
    """The registered workflow of that name, or None; also None where a run was made under another version."""
    workflow = workflows().get(name)
    return workflow if workflow and version in (None, workflow.version) else None
