"""The stories behind the demo's runs: one module for each workflow, of its name, with its `SCENARIOS`."""

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

from takeover.demo.scenario import Scenario


def of(workflows: Iterable[str]) -> list[Scenario]:
    """The stories of these workflows, in their order. One that has none, such as somebody's own, is left out."""
    told = {module.name for module in iter_modules(__path__)}
    modules = [import_module(f"{__name__}.{workflow}") for workflow in workflows if workflow in told]
    return [scenario for module in modules for scenario in module.SCENARIOS]
