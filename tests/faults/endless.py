"""Settings of a worker one of whose policies never returns."""

import logging
import threading
from typing import Any

from runs.agents.policies import POLICIES
from runs.workflows.definition import Context, Workflow
from takeover.settings import *  # noqa: F403

POLICY = "endless"


def never_returns(workflow: Workflow, context: Context) -> Any:
    logging.getLogger(__name__).info("The endless policy is asked")
    threading.Event().wait()


POLICIES[POLICY] = never_returns
