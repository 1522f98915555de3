"""The editorial desk for tests: reports carried on in this process against the real back office, and its own books."""

from typing import Any

from runs import case
from runs.interventions import starting
from runs.models import Run
from runs.tools.reports import digest_of
from tests.engine.conftest import Engine, assert_sound
from tests.people import person


class Reports(Engine):
    """As the engine's own desk; where `report` puts a draft up, a supervisor approves it."""

    def start(self, order_id: str, by: str = "support", **given: Any) -> Run:
        policy = given.pop("policy", "")
        run, _ = starting.start("research_report", {"report_id": order_id, **given}, person(by), policy=policy)
        return run

    def report(self, report_id: str = "RP-7", **given: Any) -> Run:
        run = self.run(report_id, **given)
        return self.approve(run) if run.stop_reason == "approval_required" else run

    def approve(self, run: Run) -> Run:
        return self.send(run, "approval_granted", "supervisor", run.effects.latest("planned_at").plan_digest)

    def extend(self, run: Run, **by: int) -> Run:
        for dimension, number in by.items():
            run = self.send(run, "budget_extended", "supervisor", dimension=dimension, by=number, reason="Worth it.")
        return run

    def plan(self, run: Run, **limits: int) -> Run:
        """Other limits than the document's, for this trial."""
        for dimension, limit in limits.items():
            run.budget[dimension][0] = limit
        run.save(update_fields=["budget"])
        return run

    def writes(self, report_id: str = "RP-7") -> list[tuple[str, str]]:
        return [(call["method"], call["path"]) for call in self.calls(report_id, "submit")]

    def sources_read(self) -> list[str]:
        ledger = self.back_office.client.get("/control/ledger").json()
        return [call["order_id"] for call in ledger["calls"] if call["kind"] == "sources"]

    def draft(self, number: str = "DR-501") -> dict[str, Any]:
        headers = {"Authorization": "Bearer demo-key"}
        found: dict[str, Any] = self.back_office.client.get(f"/drafts/{number}", headers=headers).json()
        return found

    def change_draft(self, section: str, text: str) -> dict[str, Any]:
        """Somebody in the office revises a section."""
        content = {"name": section, "text": text, "cites": ["S-102"]}
        body = {"report_id": "RP-7", "section": section, "text": text, "cites": ["S-102"], "version": 1}
        answer = self.back_office.client.put(
            f"/drafts/DR-501/sections/{section}",
            json={**body, "digest": digest_of([content])},
            headers={"Authorization": "Bearer demo-key", "Idempotency-Key": "theirs"},
        )
        answer.raise_for_status()
        return content

    def change_assignment(self, report_id: str = "RP-7", **fields: Any) -> None:
        self.back_office.client.put(f"/control/assignments/{report_id}", json=fields).raise_for_status()


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def spent(run: Run) -> dict[str, int]:
    return {dimension: line[2] for dimension, line in run.budget.items() if line[2]}


def values(run: Run) -> dict[str, str]:
    return {row["name"]: row["value"] for row in case.read(run)["contract"]}


def left_behind(run: Run) -> dict[str, Any]:
    package: dict[str, Any] = run.handoffs.latest("version").package
    assert_sound(package)
    return package


def told(run: Run) -> str:
    says: str = case.read(run)["customer_says"]["en"]
    return says
