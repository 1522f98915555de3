"""One step, opened: what it was taken for, the request that was really sent, and the answer that came back."""

from dataclasses import dataclass
from typing import Any

from runs.domain.redaction import identifiers, redact
from runs.models import Effect, Run, Step
from runs.secrets import known_secrets
from runs.workflows import registry


@dataclass(frozen=True)
class OpenedStep:
    step: Step
    label: str  # of the tool
    source: str  # who answers
    effect: Effect | None  # the write that it is about
    is_kept: bool  # retention takes requests and answers away
    request: Any
    response: Any  # None: there is none


def opened(run: Run, step: Step) -> OpenedStep:
    """`step` with what went out and what came back, without secrets: also without those that were none at the time."""
    workflow = registry.find(run.workflow, run.workflow_version)
    tool = workflow.tools.get(step.operation) if workflow else None
    effect = next((row for row in run.effects.all() if row.operation_key == step.operation_key), None)
    payload = getattr(step, "payload", None)
    keep = identifiers(run.input, [step.operation_key])
    request, response = (payload.request, payload.response) if payload else (None, None)
    return OpenedStep(
        step,
        tool.label if tool else step.operation.replace("_", " "),
        tool.source if tool else "",
        effect,
        payload is not None,
        redact(request, known_secrets(), keep),
        redact(response, known_secrets(), keep),
    )
