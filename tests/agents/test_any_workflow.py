"""Every workflow that ships, driven by a model that says what its script would: unchanged, and to the same end.

What is shown here is that everything a script may propose can be asked for in a strict schema, comes back as it was
meant, and is carried out under the workflow's own budgets.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from runs.agents import prompt
from runs.agents.schemas import strict
from runs.domain.proposals import Act, Ask, Claim, Exhausted
from runs.interventions import starting
from runs.models import Run
from runs.workflows import registry
from runs.workflows.definition import Context, Workflow
from tests.documents import Documents
from tests.people import person

from .conftest import Driven
from .provider import Says, call, takes

STARTED_WITH: dict[str, dict[str, Any]] = {
    "refund_request": {"order_id": "B456"},
    "workshop_booking": {"event_id": "W201", "participant_id": "P-301"},
    "booking_cancellation": {"booking_id": "B-4801", "event_id": "W109", "participant_id": "P-303"},
    "market_scan": {"brief_id": "M101"},
    "document_digest": {"digest": "d.md", "first": "originals/rain.md", "second": "originals/wells.md"},
    "research_report": {"report_id": "RP-7"},
}


class Parrot:
    """A model that proposes what the script does: it remembers of which record it was made its prompt."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = prompt.ask

        def ask(workflow: Workflow, context: Context, secrets: tuple[str, ...]) -> dict[str, Any]:
            self.workflow, self.context = workflow, context
            return real(workflow, context, secrets)

        monkeypatch.setattr(prompt, "ask", ask)

    def answers(self, request: Mapping[str, Any]) -> Says:
        match self.workflow.script(self.context):
            case Act(operation, arguments):
                return call(operation, **arguments)
            case Claim(says):
                return call(prompt.CLAIM, says=says)
            case Ask(question) | Exhausted(question):
                return call(prompt.ASK, question=question)
        raise AssertionError("The script proposed what no model can.")


def carried(driven: Driven, workflow: str, policy: str) -> Run:
    """A run to its end; where a person is to approve, one does."""
    run, _ = starting.start(workflow, STARTED_WITH[workflow], person("support"), policy=policy)
    run = driven.engine.carry_on(run)
    if run.stop_reason == "approval_required":
        waiting = run.effects.latest("planned_at").plan_digest
        run = driven.engine.send(run, "approval_granted", "supervisor", waiting)
    return run


@pytest.mark.parametrize("workflow", STARTED_WITH)
def test_a_model_that_proposes_what_the_script_does_comes_to_the_same_end(
    workflow: str, driven: Driven, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parrot = Parrot(monkeypatch)
    driven.provider.answers[:] = [parrot.answers]

    def anew(name: str) -> None:
        driven.engine.back_office.reset()
        folder = Documents(tmp_path / name)
        settings.SERVICES = {**settings.SERVICES, "documents": {"folder": str(folder.path)}}

    anew("scripted")
    scripted = carried(driven, workflow, "scripted")
    anew("driven")
    run = carried(driven, workflow, driven.service)

    assert (run.outcome, run.stop_reason, run.acceptance) == ("COMPLETED", "contract_met", "succeeded")
    assert (scripted.outcome, scripted.stop_reason) == (run.outcome, run.stop_reason)
    assert not run.events.filter(kind="proposal_refused").exists()


@pytest.mark.parametrize("workflow", sorted(registry.workflows()))
def test_every_operation_is_offered_in_a_schema_that_each_service_takes(workflow: str) -> None:
    operations = registry.workflows()[workflow].operations
    for name, operation in operations.items():
        made = strict(operation.arguments)
        assert takes(made), f"{name}: {json.dumps(made)}"
