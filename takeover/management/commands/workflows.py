"""`manage.py workflows`: which workflows run here, and what is wrong with them. Exit codes as of the other commands."""

from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings

from runs.domain.budget import Dimension
from runs.domain.states import StepKind
from runs.workflows import registry
from runs.workflows.definition import Workflow
from takeover.console.words import spell
from takeover.management import complaints, printout
from takeover.management.terminal import DONE, OTHERWISE, BadInput, TerminalCommand

KINDS = {StepKind.READ: "reads", StepKind.WRITE: "writes", StepKind.LOOK_UP: "looks up"}


class Command(TerminalCommand):
    help = "Says which workflows run here, and what is wrong with them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
        for name, says in (
            ("list", "Say of each workflow what it uses and what it may spend."),
            ("check", "Say what is wrong with workflows; exit code 1 where anything is."),
        ):
            added = verbs.add_parser(name, help=says, description=says)
            added.add_argument("names", metavar="NAME", nargs="*", help="only these workflows (all)")
            # Read by manage.py before the settings are.
            added.add_argument("--data-dir", metavar="FOLDER", help="the folder of the installation (.data)")
            if name == "check":
                added.add_argument(
                    "--json", dest="as_json", action="store_true", help="print one JSON object, nothing else"
                )

    def _list(self, names: list[str], **_: Any) -> int:
        found, problems = _registered(names)
        for workflow in found:
            for line in in_a_few_lines(workflow):
                self._print(line)
        for says in problems.values():
            self.stderr.write(printout.one_line(says))
        return OTHERWISE if problems else DONE

    def _check(self, names: list[str], as_json: bool, **_: Any) -> int:
        found, problems = _registered(names)
        known = [*registry.load(settings.WORKFLOWS)[0]]
        said: list[tuple[str, str, str]] = [("wrong", module, says) for module, says in problems.items()]
        for workflow in found:
            wrong, unseen = complaints.look(workflow, known, [*settings.SERVICES])
            said += [("wrong", workflow.name, sentence) for sentence in wrong]
            said += [("unknown", workflow.name, sentence) for sentence in unseen]
            if not wrong:
                said.append(("ok", workflow.name, "Nothing is wrong with what it declares."))
        is_wrong = any(level == "wrong" for level, _, _ in said)
        if as_json:
            lines = [{"level": level, "workflow": name, "says": says} for level, name, says in said]
            self._print_json({"level": "wrong" if is_wrong else "ok", "checks": lines})
        else:
            for line in printout.aligned(list(line) for line in said):
                self._print(line)
        return OTHERWISE if is_wrong else DONE


def _registered(names: list[str]) -> tuple[list[Workflow], dict[str, str]]:
    """Those with these names, or all; and the modules that declare none, which might be any of them."""
    found, problems = registry.load(settings.WORKFLOWS)
    if not problems and (unknown := [name for name in names if name not in found]):
        raise BadInput(f"There is no workflow called {unknown[0]!r}. Known: {', '.join(found)}.")
    return [workflow for name, workflow in found.items() if not names or name in names], problems


def in_a_few_lines(workflow: Workflow) -> Iterator[str]:
    yield f"{workflow.name} v{workflow.version}  {workflow.title} ({workflow.role})"
    asked, needed = workflow.input_schema["properties"], workflow.input_schema.get("required", [])
    yield f"  input: {', '.join(name if name in needed else f'{name} (if you like)' for name in asked)}"
    for kind, what in KINDS.items():
        if tools := [name for name, tool in workflow.tools.items() if tool.kind is kind]:
            yield f"  {what}: {', '.join(tools)}"
    yield f"  budgets: {', '.join(_limit(workflow, dimension) for dimension in workflow.budgets)}"


def _limit(workflow: Workflow, dimension: Dimension) -> str:
    limit = workflow.planned(dimension)
    said = spell(timedelta(seconds=limit)) if dimension is Dimension.WALL_TIME else str(limit)
    return f"{dimension.value.replace('_', ' ')} {said}"
