"""What no process may start with: connections that do not fit it, and workflows that cannot be run. Asked by
`manage.py check`, by workers and by the web server's start.
"""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from runs.workflows import registry
from takeover.environment import flag


@register
def connections(app_configs: Sequence[Any] | None = None, **_: Any) -> list[CheckMessage]:
    return unfit(is_worker=flag("WORKER"))


@register
def workflows(app_configs: Sequence[Any] | None = None, **_: Any) -> list[CheckMessage]:
    """Of each module in the WORKFLOWS setting that declares no workflow, a sentence that names the cure as well."""
    _found, problems = registry.load(settings.WORKFLOWS)
    return [Error(says, id="takeover.E003") for says in problems.values()]


def at_start(*, is_worker: bool) -> list[CheckMessage]:
    return [*unfit(is_worker=is_worker), *workflows()]


def unfit(*, is_worker: bool) -> list[CheckMessage]:
    """What is wrong with the connections to the database for a worker, sweeper or command, or for the web server."""
    database = settings.DATABASES["default"]
    pool = database.get("OPTIONS", {}).get("pool")
    if is_worker and pool:
        return [
            Error(
                "A worker has a connection pool, which Celery closes at every task.",
                hint="Start it with WORKER=1, or take the pool out of DATABASES.",
                id="takeover.E001",
            )
        ]
    if not is_worker and not pool and database.get("CONN_MAX_AGE", 0) != 0:
        return [
            Error(
                "The web server keeps its connections without a pool, one for each thread that ever served a request.",
                hint="Start it without WORKER, or take CONN_MAX_AGE out of DATABASES and put a pool in.",
                id="takeover.E002",
            )
        ]
    return []


def sentence(problem: CheckMessage) -> str:
    return f"{problem.msg} {problem.hint or ''}".rstrip()
