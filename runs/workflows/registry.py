"""Which workflows this installation runs: the modules that the WORKFLOWS setting names, each with one `WORKFLOW`."""

import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from runs.domain.errors import DomainError
from runs.domain.redaction import redact_text
from runs.secrets import known_secrets
from runs.workflows.definition import Workflow


@cache
def workflows() -> dict[str, Workflow]:
    """Those of this installation, by name. Raises ImproperlyConfigured with the first sentence of `load`."""
    found, problems = load(settings.WORKFLOWS)
    if problems:
        raise ImproperlyConfigured(next(iter(problems.values())))
    return found


def find(name: str, version: int | None = None) -> Workflow | None:
    """The registered workflow of that name, or None; also None where a run was made under another version."""
    workflow = workflows().get(name)
    return workflow if workflow and version in (None, workflow.version) else None


def load(modules: Sequence[str]) -> tuple[dict[str, Workflow], dict[str, str]]:
    """The workflows that `modules` declare, by name; and of each module with none a sentence that says why, and the
    cure."""
    found: dict[str, Workflow] = {}
    declared_by: dict[str, str] = {}
    problems: dict[str, str] = {}
    for path in dict.fromkeys(modules):
        try:
            workflow = _declared(path)
        except ImproperlyConfigured as no:
            problems[path] = str(no)
            continue
        if first := declared_by.get(workflow.name):
            problems[path] = (
                f"WORKFLOWS names {first} and {path}, which both declare a workflow called {workflow.name!r}: "
                "give one of them another name, or leave it out."
            )
            continue
        found[workflow.name], declared_by[workflow.name] = workflow, path
    return found, problems


def _declared(path: str) -> Workflow:
    try:
        # What it prints goes where the log goes: our own output may be one JSON object.
        with redirect_stdout(sys.stderr):
            module = import_module(path)
    except ModuleNotFoundError as problem:
        missing = problem.name or ""
        if path == missing or path.startswith(f"{missing}."):
            cure = "install its package into this environment, or correct the name"
            raise ImproperlyConfigured(f"WORKFLOWS names {path}, and there is no module {missing}: {cure}.") from None
        raise _broken(path, problem) from problem
    except (Exception, SystemExit) as problem:  # whatever somebody else's module does when it is imported
        raise _broken(path, problem) from problem
    workflow = getattr(module, "WORKFLOW", None)
    if workflow is None:
        raise ImproperlyConfigured(
            f"WORKFLOWS names {path}, which has no WORKFLOW: name the module that declares one, or declare it there."
        )
    if not isinstance(workflow, Workflow):
        raise ImproperlyConfigured(
            f"WORKFLOWS names {path}, whose WORKFLOW is a {type(workflow).__name__}: it has to be a Workflow "
            "(runs.workflows.definition)."
        )
    return workflow


def _broken(path: str, problem: BaseException) -> ImproperlyConfigured:
    # What it was given, it may repeat.
    said = redact_text(" ".join(str(problem).split()), known_secrets())[:500].removesuffix(".")
    # That is how declarations are refused, in a sentence of their own.
    refused = isinstance(problem, ValueError | DomainError) and bool(said)
    what = said if refused else f"{type(problem).__name__}: {said}".removesuffix(": ")
    return ImproperlyConfigured(
        f"WORKFLOWS names {path}, which fails when it is imported{_where(path, problem)}: {what}. "
        "Correct it there, or take the module out of WORKFLOWS."
    )


def _where(path: str, problem: BaseException) -> str:
    """The innermost line of the module's own package that `problem` came by: " (loans/tools.py, line 9)", say."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return f" ({problem.filename}, line {problem.lineno})"
    package = path.partition(".")[0]
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(problem.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] == package
        and frame.f_globals.get("__name__") != __name__
    ]
    return f" ({frames[-1][0]}, line {frames[-1][1]})" if frames else ""
