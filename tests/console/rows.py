"""Rows for the console's tests: runs as workers leave them behind."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from runs.domain import effects
from runs.domain.budget import Ledger
from runs.domain.contract import Acceptance
from runs.domain.effects import EffectState, WritePlan
from runs.domain.states import FINAL, OUTCOME_OF, Outcome, State, StepStatus, StopReason
from runs.models import Effect, Event, Fact, Run, Step
from runs.models.run import ledger_as_json
from runs.workflows.refund_request import WORKFLOW
from tests.states import bring, bring_write

STATE_OF = {
    Outcome.COMPLETED: State.COMPLETED,
    Outcome.DECLINED: State.FAILED,
    Outcome.CANCELLED: State.CANCELLED,
}
AT_STAKE = {"stake_minor": 59_00, "stake_currency": "EUR"}
ACCEPTANCE_OF = {Outcome.COMPLETED: Acceptance.SUCCEEDED, Outcome.DECLINED: Acceptance.FAILED}


def run(order: str, requester: User, stopped_for: StopReason | None = None, **values: Any) -> Run:
    """A run for this order that stopped for this reason, or one that is under way."""
    now = timezone.now()
    given = {"order_id": order}
    outcome = OUTCOME_OF[stopped_for] if stopped_for else None
    state = State.EXECUTING if outcome is None else STATE_OF.get(outcome, State.BLOCKED)
    if stopped_for is StopReason.APPROVAL_REQUIRED:
        state = State.AWAITING_APPROVAL
    budget = ledger_as_json(Ledger.of(WORKFLOW.budgets))
    budget["steps"][2] = budget["tool_attempts"][2] = 6
    defaults: dict[str, Any] = {
        "workflow": WORKFLOW.name,
        "workflow_version": WORKFLOW.version,
        "policy": "scripted",
        "subject": WORKFLOW.subject(given),
        "input": given,
        "requester": requester,
        "acts_for": "U-88",
        "created_at": now - timedelta(minutes=20),
        "state": state,
        "outcome": outcome or "",
        "stop_reason": stopped_for or "",
        "acceptance": ACCEPTANCE_OF.get(outcome, Acceptance.UNKNOWN) if outcome else Acceptance.UNKNOWN,
        "question": f"How should order {order} go on?" if outcome and state not in FINAL else "",
        "stopped_at": now - timedelta(minutes=12) if outcome else None,
        "stretch": 1 if outcome else 0,
        "steps": 6,
        "budget": budget,
        "due_at": None if outcome else now,
        "role": WORKFLOW.role,
        "answer_by": now + timedelta(hours=2) if outcome and state not in FINAL else None,
    }
    wanted = defaults | values
    ended = {name: wanted.pop(name) for name in ("state", "outcome", "stop_reason", "acceptance")}
    return bring(Run.objects.create(**wanted), ended.pop("state"), **ended)


def write(run: Run, state: EffectState = EffectState.PLANNED, **values: Any) -> Effect:
    """The refund request that this run proposes or has sent."""
    now = timezone.now()
    order = run.input["order_id"]
    plan = WritePlan(
        operation="submit_refund",
        target=f"order {order}",
        params={"order_id": order, "amount_minor": 5900, "currency": "EUR"},
        difference=(
            ("refund request", "none", "submitted"),
            ("amount", "0.00 EUR", "59.00 EUR"),
            ("paid to", "–", "original means of payment"),
        ),
        target_version="order version 4, policy v3",
        expected="accepted, with a request number",
        undo="cancel the request at the refund service by its number, while it is not paid out",
        risk="59.00 EUR are paid back once the service has processed it",
        needs_approval="amounts above 50.00 EUR need a supervisor (policy v3)",
    )
    sent = state not in {EffectState.PLANNED, EffectState.APPROVED}
    key, planned_at = f"refund-{order}-{str(run.pk)[:8]}", now - timedelta(minutes=15)
    defaults: dict[str, Any] = {
        "operation_key": key,
        "operation": plan.operation,
        "plan": {name: getattr(plan, name) for name in plan.__dataclass_fields__},
        "plan_digest": effects.Effect(key, state, plan, planned_at).digest,
        "planned_at": planned_at,
        "approval_expires_at": now + timedelta(hours=1) if state == EffectState.PLANNED else None,
        "sent_at": now - timedelta(minutes=14) if sent else None,
        "times_sent": 1 if sent else 0,
    }
    return bring_write(Effect.objects.create(run=run, **(defaults | values)), state)


def step(run: Run, seq: int, kind: str, operation: str, summary: str, **values: Any) -> Step:
    at = timezone.now() - timedelta(minutes=20 - seq)
    defaults: dict[str, Any] = {
        "stretch": 0,
        "expects": "an answer",
        "token": 1,
        "status": StepStatus.DONE,
        "started_at": at,
        "deadline_at": at + timedelta(seconds=5),
        "settled_at": at + timedelta(seconds=1),
    }
    return Step.objects.create(run=run, seq=seq, kind=kind, operation=operation, summary=summary, **(defaults | values))


def fact(run: Run, name: str, data: dict[str, Any], source: str) -> Fact:
    return Fact.objects.create(run=run, name=name, data=data, source=source, read_at=timezone.now(), reference="#1")


def facts(run: Run) -> None:
    """What the preconditions' sources said about an order that may be refunded."""
    fact(run, "authority", {"allowed": True}, "authority service")
    order = {"order_id": run.input["order_id"], "delivered_on": "2026-09-22", "opened": False, "version": 4}
    fact(run, "order", order | {"amount_minor": 5900, "currency": "EUR"}, "order service")
    policy = {"version": "v3", "window_days": 7, "requires_unopened": True, "approval_above_minor": 5000}
    fact(run, "policies", {"business_date": "2026-09-25", "policies": [policy]}, "policy service")


def event(run: Run, kind: str, by: User | None = None, **content: Any) -> Event:
    return Event.objects.record(run, kind, by, **content)


def uncertain(order: str, requester: User, **values: Any) -> Run:
    """The classic: sent, the answer was lost, and looking it up settled nothing."""
    made = run(order, requester, StopReason.OUTCOME_UNCONFIRMED, **{"effects_at_risk": 1, **AT_STAKE, **values})
    facts(made)
    effect = write(made, EffectState.UNKNOWN, look_ups=3, last_answer="not_found_yet", answered_at=timezone.now())
    for seq, (kind, operation, summary) in enumerate(
        [
            ("read", "check_authority", "The authority service says that U-88 may act on this order."),
            ("read", "read_order", "The order service: delivered 22 September, unopened."),
            ("read", "read_policies", "The policy service: v3 is in force."),
            ("write", "submit_refund", "The refund service did not answer within 5 s. Outcome unknown."),
            ("look_up", "look_up_refund", "Not found yet, which is no proof of absence."),
            ("look_up", "look_up_refund", "Nobody answered. That says nothing about the write."),
        ],
        start=1,
    ):
        failed = {"status": StepStatus.FAILED, "code": "no_answer"} if kind == "write" else {}
        key = effect.operation_key if kind != "read" else ""
        step(made, seq, kind, operation, summary, operation_key=key, **failed)
    return made


def proposed(order: str, requester: User, **values: Any) -> Run:
    """A write that waits for a supervisor."""
    question = f"May a refund of 59.00 EUR be requested for order {order}?"
    made = run(order, requester, StopReason.APPROVAL_REQUIRED, **{"question": question, **AT_STAKE, **values})
    facts(made)
    write(made)
    return made
