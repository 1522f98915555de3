"""A workflow may live in any installed package; what is wrong with a module that is named is said in one sentence."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django.fixtures import Settings

from runs.workflows import registry
from runs.workflows.definition import Writing
from takeover.management.checkup import CHECKS, Level

REFUND = "runs.workflows.refund_request"
GOOD = f"from dataclasses import replace\nfrom {REFUND} import WORKFLOW as R\nWORKFLOW = replace(R, name='lending')\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Makes a module in a package that Python finds, and returns its name."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)

    def make(source: str, name: str = "flow") -> str:
        folder = tmp_path / "ourloans"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        (folder / f"{name}.py").write_text(source)
        return f"ourloans.{name}"

    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]


def said(module: str) -> str:
    found, problems = registry.load([REFUND, module])
    assert list(found) == ["refund_request"], "one wrong module takes the others along"
    return problems[module]


def test_a_workflow_of_any_package_is_found_beside_those_that_come_along(package: Callable[[str], str]) -> None:
    found, problems = registry.load([REFUND, package(GOOD)])

    assert (list(found), problems) == (["refund_request", "lending"], {})


def test_what_a_module_says_when_it_breaks_holds_no_secret_of_the_installation(
    package: Callable[[str], str], settings: Settings
) -> None:
    settings.SERVICES = {**settings.SERVICES, "loans": {"url": "http://127.0.0.1:1", "token": "quiet-winter-lake"}}
    source = "from django.conf import settings\nraise ValueError(f'no loans with {settings.SERVICES}')\n"

    sentence = said(package(source))

    assert "no loans with" in sentence
    assert "quiet-winter-lake" not in sentence


def test_what_a_module_prints_when_it_is_imported_is_no_part_of_what_we_print(
    package: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    registry.load([package(f"print('hello')\n{GOOD}")])

    assert capsys.readouterr() == ("", "hello\n")


def test_a_module_that_ends_the_process_when_it_is_imported_ends_nothing(package: Callable[[str], str]) -> None:
    assert "flow.py, line 1): SystemExit: 3. Correct it there" in said(package("raise SystemExit(3)\n"))


def test_a_module_that_is_named_twice_is_one() -> None:
    assert registry.load([REFUND, REFUND]) == ({"refund_request": registry.workflows()["refund_request"]}, {})


@pytest.mark.parametrize(("path", "missing"), [("nowhere.at.all", "nowhere"), ("runs.workflows.gone",) * 2])
def test_a_package_that_is_not_installed_is_named(path: str, missing: str) -> None:
    assert said(path) == (
        f"WORKFLOWS names {path}, and there is no module {missing}: install its package into this environment, or "
        "correct the name."
    )


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "which has no WORKFLOW: name the module that declares one, or declare it there."),
        (
            "WORKFLOW = {'name': 'lending'}",
            "whose WORKFLOW is a dict: it has to be a Workflow (runs.workflows.definition).",
        ),
        (
            "x = 1\nimport not_installed_here",
            (
                "which fails when it is imported ({file}, line 2): ModuleNotFoundError: No module named "
                "'not_installed_here'. Correct it there, or take the module out of WORKFLOWS."
            ),
        ),
        (
            "def f(:\n",
            (
                "which fails when it is imported ({file}, line 1): SyntaxError: invalid syntax (flow.py, line 1). "
                "Correct it there, or take the module out of WORKFLOWS."
            ),
        ),
        (
            GOOD.replace("name=", "contract=(), name="),
            (
                "which fails when it is imported ({file}, line 3): Workflow 'lending' has an empty contract: nothing "
                "could ever complete it. Correct it there, or take the module out of WORKFLOWS."
            ),
        ),
        (
            "from runs.domain.telling import Wording\n\nWording('order_id', {}, {})",
            (
                "which fails when it is imported ({file}, line 3): being_worked_on.en: there is no text for it. "
                "Correct it there, or take the module out of WORKFLOWS."
            ),
        ),
        (
            "raise RuntimeError",
            (
                "which fails when it is imported ({file}, line 1): RuntimeError. Correct it there, or take the module "
                "out of WORKFLOWS."
            ),
        ),
    ],
)
def test_what_is_wrong_is_said_with_the_setting_the_module_the_line_and_the_cure(
    source: str, says: str, package: Callable[[str], str], tmp_path: Path
) -> None:
    path = package(source)

    assert said(path) == f"WORKFLOWS names {path}, {says.format(file=tmp_path / 'ourloans' / 'flow.py')}"


def test_two_workflows_of_one_name_are_refused(package: Callable[..., str]) -> None:
    first, second = package(GOOD, "flow"), package(GOOD, "other")

    assert registry.load([first, second])[1] == {
        second: f"WORKFLOWS names {first} and {second}, which both declare a workflow called 'lending': "
        "give one of them another name, or leave it out."
    }


def test_who_asks_for_the_workflows_is_told_the_first_sentence(settings: Settings) -> None:
    settings.WORKFLOWS = ["nowhere.first", "nowhere.second"]

    with pytest.raises(ImproperlyConfigured, match=r"^WORKFLOWS names nowhere\.first, and there is no module nowhere"):
        registry.workflows.__wrapped__()


def test_the_doctor_says_it_too(settings: Settings) -> None:
    settings.WORKFLOWS = [REFUND, "nowhere.first"]

    finding = next(check.look() for check in CHECKS if check.name == "declarations")

    assert finding.level is Level.BROKEN
    assert finding.says.startswith("WORKFLOWS names nowhere.first, and there is no module nowhere")


def test_what_people_may_change_of_a_write_has_titles() -> None:
    amendable = [
        (name, operation)
        for workflow in registry.workflows().values()
        for name, operation in workflow.operations.items()
        if isinstance(operation, Writing) and operation.amendable
    ]
    assert amendable
    for name, operation in amendable:
        untitled = [field for field in operation.amendable if "title" not in operation.arguments["properties"][field]]
        assert not untitled, (name, untitled)
