"""Mutation tests of the rules: does some test of tests/domain/ notice when one expression of runs/domain/ is changed?

    bench/mutants                  every file
    bench/mutants states budget    these files

mutmut makes the changes, in a copy of the rules, and of the tools and workflows, which are plain Python too, without
tests/conftest.py: so neither Django nor a server is needed. What it cannot judge is left out, and not counted: tables
at module level, of which docs/tables.md and its test keep the record, and functions that are called only while a module
is imported, since its workers are forked later.
The exit code is 1 below `ENOUGH`, or where the tests fail without any change.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code

ROOT = Path(__file__).resolve().parent.parent
DOMAIN = Path("runs/domain")
ENOUGH = 95.0  # per cent of the mutants
NOTICED = {"killed", "timeout"}  # a change that makes a loop endless is noticed, too
NEEDS_MORE = re.compile(r"^\s*(from|import) (django|takeover|runs(?!\.(domain|tools|workflows)\b))", re.MULTILINE)
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
CONFIG = """\
[tool.mutmut]
source_paths = ["runs"]
only_mutate = {files}
pytest_add_cli_args_test_selection = ["tests/domain"]
pytest_add_cli_args = ["--hypothesis-seed=0", "-p", "no:cacheprovider"]
use_git_change_detection = false
also_copy = ["docs"]
"""


def main(names: list[str]) -> int:
    known = {file.stem: file for file in sorted((ROOT / DOMAIN).glob("*.py")) if file.stem != "__init__"}
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"There is no {DOMAIN / unknown[0]}.py; there are {', '.join(known)}.")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        os.chdir(folder)  # mutmut works where it stands
        _copy(names or list(known))
        run = [sys.executable, "-m", "mutmut", "run", "--max-children", str(os.cpu_count() or 1)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        if done.returncode:
            said = "\n".join(line for line in done.stdout.splitlines() if line[:1] not in SPINNER)
            sys.exit(f"{said}{done.stderr}\nmutmut did not come to judge: see above.")
        return _report([DOMAIN / f"{name}.py" for name in names or known])


def _copy(names: list[str]) -> None:
    for folder in ("docs", "runs/domain", "runs/tools", "runs/workflows", "tests/domain"):
        shutil.copytree(ROOT / folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
        Path(folder).parent.joinpath("__init__.py").touch()
    for test in sorted(Path("tests/domain").glob("test_*.py")):
        if NEEDS_MORE.search(test.read_text()):
            print(f"{test} is left out: it needs more than the rules, tools and workflows")
            test.unlink()
    for name in names:
        file = DOMAIN / f"{name}.py"
        file.write_text(_within_reach(file.read_text()))
    Path("pyproject.toml").write_text(CONFIG.format(files=json.dumps([str(DOMAIN / f"{name}.py") for name in names])))


def _within_reach(source: str) -> str:
    """`source` as mutmut can work on it: it passes over decorated functions, so a property is written as a call; and
    a function that is called at import is marked, so that it passes over that one.
    """
    lines, tree = source.splitlines(), ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    calls = [node.func for node in _at_import(tree) if isinstance(node, ast.Call)]
    called = {call.id for call in calls if isinstance(call, ast.Name)}
    for function in sorted(functions, key=lambda node: node.lineno, reverse=True):
        if function in tree.body and function.name in called:
            lines[function.lineno - 1] += "  # pragma: no mutate block"
        if [ast.unparse(decorator) for decorator in function.decorator_list] == ["property"]:
            indent = " " * function.col_offset
            lines.insert(function.end_lineno or 0, f"{indent}{function.name} = property({function.name})")
            del lines[function.decorator_list[0].lineno - 1]
    return "\n".join([*lines, ""])


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: everything but the bodies of its functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
            yield from _at_import(child)


def _report(files: list[Path]) -> int:
    found = {file: _statuses(file) for file in files}
    print(f"{'file':<24}{'killed':>8}{'survived':>10}{'timeout':>9}{'noticed':>10}")
    for file, statuses in found.items():
        if statuses:
            print(_line(file.name, Counter(statuses.values())))
    total = Counter(status for statuses in found.values() for status in statuses.values())
    print(_line("all", total))
    for file, statuses in found.items():
        for mutant, status in statuses.items():
            if status not in NOTICED:
                print(f"\n{mutant}: {status}\n{get_diff_for_mutant(mutant, path=file)}")
    return int(_noticed(total) < ENOUGH)


def _statuses(file: Path) -> dict[str, str]:
    """What became of each mutant of a file. One that no test reaches counts as survived."""
    codes = json.loads(Path("mutants", f"{file}.meta").read_text())["exit_code_by_key"]
    return {mutant: status_by_exit_code[code].replace("no tests", "survived") for mutant, code in codes.items()}


def _line(name: str, count: Counter[str]) -> str:
    survived = sum(count.values()) - count["killed"] - count["timeout"]
    return f"{name:<24}{count['killed']:>8}{survived:>10}{count['timeout']:>9}{_noticed(count):>8.1f} %"


def _noticed(count: Counter[str]) -> float:
    return 100.0 * sum(count[status] for status in NOTICED) / (sum(count.values()) or 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
