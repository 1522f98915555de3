"""Approving several proposed writes in one go: each is sent by itself, for its own digest, and fails by itself."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User

from runs.domain.states import Move
from runs.interventions import sending
from runs.interventions.refusals import Refused, get_run, refuse
from runs.models import Effect, Run
from runs.workflows import registry
from runs.workflows.definition import Writing

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """What became of one of them; `refused` says why it was not recorded."""

    run: Run | None
    digest: str
    refused: str = ""


def pair(run_id: UUID, digest: str) -> str:
    """A run and the plan of it that was shown, as a form carries them."""
    return f"{run_id}.{digest}"


def may_go_together(run: Run, effect: Effect) -> bool:
    """Whether the workflow lets this write be approved along with others."""
    workflow = registry.find(run.workflow, run.workflow_version)
    operation = workflow.operations.get(effect.operation) if workflow else None
    try:
        return isinstance(operation, Writing) and bool(operation.together(effect.value().plan))
    except Exception:
        # A list of approvals must not fail for one of them, whose plan an earlier version may have made.
        log.exception("Whether the write of run %s may go together with others could not be said", run.pk)
        return False


def approve(pairs: Iterable[str], by: User) -> list[Result]:
    """Approve each of these; one that cannot be keeps no other back."""
    return [_approve(*one.partition(".")[::2], by) for one in dict.fromkeys(pairs)]


def _approve(number: str, digest: str, by: User) -> Result:
    run = None
    try:
        run = get_run(number)
        shown = [effect for effect in run.effects.all() if effect.plan_digest == digest]
        if shown and not may_go_together(run, shown[-1]):
            message = "Its workflow has each of these decided by itself: look at it, and approve it there."
            refuse(by, Move.APPROVAL_GRANTED, run, "not_together", message, status=409)
        sending.send(run.pk, Move.APPROVAL_GRANTED, by, {}, answers=digest)
    except Refused as no:
        return Result(run, digest, no.message)
    return Result(run, digest)
