"""A run as a person reads it: the package of section 9 of docs/rules.md, made from what is recorded.

One reading for everyone: the engine writes it down with a stop, the console shows it, the command line prints it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.utils import timezone

from runs.domain.budget import Dimension, Ledger
from runs.domain.contract import Fact, Value
from runs.domain.effects import INDEFINITE, MEANING, SENDABLE, Answer, Effect, put_up
from runs.domain.interventions import FROM_PEOPLE, Declared, Standing, why_not
from runs.domain.package import VERSION, fold
from runs.domain.progress import changes
from runs.domain.redaction import identifiers, redact
from runs.domain.states import Move, Outcome, State, StepStatus, StopReason
from runs.domain.telling import LANGUAGES, tell
from runs.models import InboxEvent, Run, Step
from runs.secrets import known_secrets
from runs.workflows import registry
from runs.workflows.definition import Context, FollowUp, Workflow, Writing

log = logging.getLogger(__name__)
STEPS_SHOWN = 60
SAID_SHOWN = 20
WORDS_OF_PEOPLE = (Move.EVIDENCE_SUPPLIED, Move.EFFECT_CONFIRMED, Move.EFFECT_REFUTED)
NOT_AS_WANTED = set(Answer) - {Answer.ACCEPTED}
BROKEN_OFF = {StepStatus.FAILED, StepStatus.INTERRUPTED}


def read(
    run: Run, latest_steps: Sequence[Step] | None = None, said: Iterable[InboxEvent] | None = None
) -> dict[str, Any]:
    """The package on what is recorded now. `latest_steps`, and all that was `said` to the run: the newest first, from
    whoever has read them already."""
    facts = {row.name: row.value() for row in run.facts.all()}
    effects = [row.value() for row in run.effects.all()]
    latest = run.step_rows.order_by("-seq") if latest_steps is None else latest_steps
    steps = [step_as_json(step) for step in reversed(latest[:STEPS_SHOWN])]
    return package(run, facts, effects, run.ledger, steps, timezone.now(), said)


def context_of(run: Run, facts: Mapping[str, Fact], effects: Iterable[Effect], now: datetime) -> Context:
    return Context(str(run.pk), run.input, run.acts_for, facts, tuple(effects), run.stretch, now, run.scope)


def context_now(run: Run) -> Context:
    """What the workflow's own functions may look at, on what is recorded now."""
    facts = {row.name: row.value() for row in run.facts.all()}
    return context_of(run, facts, [row.value() for row in run.effects.all()], timezone.now())


def why_no_follow_up(run: Run, follow_up: FollowUp) -> str:
    """Why this linked run cannot be started from `run` now, as a sentence; empty where it can."""
    if not run.is_final:
        return "Only a run that has ended has follow-ups."
    try:
        return str(follow_up.why_not(context_now(run)) or "")
    except Exception:
        log.exception("Whether run %s has the follow-up %s could not be said", run.pk, follow_up.label)
        return "Whether it can be started could not be said; the error is in the log."


def package(
    run: Run,
    facts: Mapping[str, Fact],
    effects: list[Effect],
    ledger: Ledger,
    steps: list[dict[str, Any]],
    now: datetime,
    said: Iterable[InboxEvent] | None = None,
) -> dict[str, Any]:
    """The package of a run with the given values, without secrets: valid under `runs.domain.package.SCHEMA`.

    About a person who was not entitled, it holds nothing of the subject beyond what that person said themselves.
    """
    workflow = registry.find(run.workflow, run.workflow_version)
    withheld = run.stop_reason == StopReason.NOT_AUTHORISED
    context = context_of(run, {} if withheld else facts, effects, now)
    reason = StopReason(run.stop_reason) if run.stop_reason else None
    contract = _contract(workflow, context, withheld)
    if withheld:
        steps = [step for step in steps if step["operation"] in opening_reads(workflow)]
    checkpoint, checkpoint_step = _last_checkpoint(steps)
    deviation, deviation_step = _first_deviation(run, steps, contract, withheld)
    approvers = _approvers(effects)
    written = [_withheld(effect) if withheld else _effect(effect, workflow, run, approvers) for effect in effects]
    spent = _by_now(run, ledger, now)
    says = _customer_says(workflow, context, reason, run.is_final)
    made = {
        "package_version": VERSION,
        "run_id": str(run.pk),
        "stretch": run.stretch,
        "workflow": run.workflow,
        "workflow_title": workflow.title if workflow else run.workflow,
        "workflow_version": run.workflow_version,
        "policy": run.policy,
        "subject": run.subject,
        "title": title(run),
        "goal": _goal(workflow, run),
        "input": run.input,
        "requester": run.requester.get_username(),
        "acts_for": run.acts_for,
        "state": str(run.state),
        "outcome": str(run.outcome),
        "stop_reason": str(run.stop_reason),
        "contract_version": run.contract_version,
        "scope": workflow.scopes[run.scope].label if workflow and run.scope else run.scope,
        "acceptance": str(run.acceptance),
        "recovery": str(run.recovery),
        "withheld": withheld,
        "stake": asdict(run.stake) if run.stake and not withheld else None,
        "unknown": _unknown(run, workflow, says),
        "contract": contract,
        "effects": written,
        "people_said": [] if withheld else _people_said(run, said),
        "steps": steps,
        "steps_left_out": max(0, run.steps - len(steps)),
        "budgets": [
            {
                "dimension": str(dimension),
                "limit": line.limit,
                "soft": line.soft,
                "spent": line.spent,
                "reserved": line.reserved,
                "left": line.available,
            }
            for dimension in Dimension
            if (line := spent.lines.get(dimension))
        ],
        "error": {"class": str(run.error_class), "count": run.error_count},
        "last_checkpoint": checkpoint,
        "last_checkpoint_step": checkpoint_step,
        "first_deviation": deviation,
        "first_deviation_step": deviation_step,
        "last_fingerprint": next((s["fingerprint"] for s in reversed(steps) if s["fingerprint"]), ""),
        "progress": "Withheld." if withheld else _progress(run, contract, written),
        "question": run.question,
        "customer_says": says,
        "role": run.role,
        "answer_by": run.answer_by,
        "next_look_at": run.due_at if run.outcome in {Outcome.WAITING, Outcome.LIMIT_REACHED} else None,
        "holder": run.holder.get_username() if run.is_held() and run.holder else "",
        "held_until": run.held_until if run.is_held() else None,
        "created_at": run.created_at,
        "stopped_at": run.stopped_at,
        "made_at": now,
        "folded": [],
    }
    told = redact(made, known_secrets(), identifiers(run.input, (effect.key for effect in effects)))
    return fold(told | _events(run, effects))


def _people_said(run: Run, said: Iterable[InboxEvent] | None) -> list[dict[str, Any]]:
    """What people supplied, as their word and not as evidence; the latest last."""
    if said is None:
        given = run.inbox.filter(name__in=WORDS_OF_PEOPLE).exclude(result=InboxEvent.Result.REFUSED)
        said = given.select_related("actor").order_by("-id")[:SAID_SHOWN]
    words = [event for event in said if event.name in WORDS_OF_PEOPLE and event.result != InboxEvent.Result.REFUSED]
    return [
        {
            "event": event.name,
            "by": event.actor.get_username() if event.actor else "",
            "at": event.received_at,
            "statement": event.payload.get("statement", ""),
            "reference": event.payload.get("reference", ""),
        }
        for event in reversed(words[:SAID_SHOWN])
    ]


def opening_reads(workflow: Workflow | None) -> set[str]:
    """The reads that ask whether somebody is entitled: all that may be shown of a run of somebody who is not."""
    return {workflow.tools[read.tool].name for read in workflow.reads if read.opens} if workflow else set()


def _customer_says(
    workflow: Workflow | None, context: Context, reason: StopReason | None, ended: bool
) -> dict[str, str]:
    """By language; empty where nothing may be said, for want of the workflow that words it."""
    try:
        if workflow:
            closed = ended and any(effect.unresolved for effect in context.effects)
            return tell(reason, workflow.customer_says, context.input, context.effects, closed)
    except Exception:
        log.exception("What the customer may be told could not be put into words")
    return dict.fromkeys(LANGUAGES, "")


def _by_now(run: Run, ledger: Ledger, now: datetime) -> Ledger:
    """The ledger with its wall time, which runs by itself: what was spent of it is read off the clock."""
    ended = run.stopped_at if run.is_final and run.stopped_at else now
    elapsed = max(0, int((ended - run.created_at).total_seconds()))  # a page's clock may be behind the database's
    return ledger.at(elapsed)


def _unknown(run: Run, workflow: Workflow | None, says: Mapping[str, str]) -> list[dict[str, str]]:
    if not workflow:
        why = f"Version {run.workflow_version} of {run.workflow} is not installed here."
        return [{"field": field, "why": why} for field in ("goal", "contract", "customer_says")]
    return [] if all(says.values()) else [{"field": "customer_says", "why": "It could not be put into words."}]


def _last_checkpoint(steps: list[dict[str, Any]]) -> tuple[str, int | None]:
    """The last result that is definite, and its step."""
    for step in reversed(steps):
        if step["status"] == StepStatus.DONE and step["code"] not in INDEFINITE:
            return step["summary"], step["seq"]
    return "", None


def _first_deviation(
    run: Run, steps: list[dict[str, Any]], contract: list[dict[str, Any]], withheld: bool
) -> tuple[str, int | None]:
    """The first call that did not bring what the contract needs, and its step; or else what was read and is wrong."""
    if steps and steps[0]["seq"] > 1 and not withheld:
        before = run.step_rows.filter(seq__lt=steps[0]["seq"])
        if earlier := before.filter(Q(status__in=BROKEN_OFF) | Q(code__in=NOT_AS_WANTED)).order_by("seq").first():
            return earlier.summary, earlier.seq
    for step in steps:
        if step["status"] in BROKEN_OFF or step["code"] in NOT_AS_WANTED:
            return step["summary"], step["seq"]
    wrong = next((row for row in contract if row["value"] == Value.UNMET), None)
    return (f"{wrong['label']}: {wrong['says']}", None) if wrong else ("", None)


def _goal(workflow: Workflow | None, run: Run) -> str:
    """Empty where the workflow cannot say it: a run that stops must be able to say so all the same."""
    try:
        return str(workflow.goal(run.first_input or run.input)) if workflow else ""
    except Exception:
        log.exception("The goal of run %s could not be put into words", run.pk)
        return ""


def title(run: Run) -> str:
    try:
        if workflow := registry.find(run.workflow):
            return str(workflow.headline(run.input))
    except Exception:
        # A list of cases must not fail for one of them, whose input an earlier version may have taken.
        log.exception("The headline of run %s could not be put into words", run.pk)
    return f"{run.workflow}: {run.subject}"


def step_as_json(step: Step) -> dict[str, Any]:
    return {
        "seq": step.seq,
        "kind": step.kind,
        "operation": step.operation,
        "operation_key": step.operation_key,
        "status": str(step.status),
        "summary": step.summary,
        "code": step.code,
        "error_class": step.error_class,
        "expects": step.expects,
        "fingerprint": step.fingerprint,
        "gain": step.gain,
        "started_at": step.started_at,
        "settled_at": step.settled_at,
    }


def _contract(workflow: Workflow | None, context: Context, withheld: bool) -> list[dict[str, Any]]:
    if not workflow:
        return []
    rows = []
    judgements = workflow.judge(context).assertions
    for assertion in workflow.in_scope(context.scope):
        judged = judgements[assertion.name]
        if withheld and assertion.judge is workflow.authorised:
            value, says = Value.UNMET, "not entitled"
        else:
            value, says = judged.value, judged.evidence.says
        rows.append(
            {
                "name": assertion.name,
                "label": assertion.label,
                "value": str(value),
                "says": says,
                "source": judged.evidence.source,
                "at": judged.evidence.at,
                "reference": judged.evidence.reference,
            }
        )
    return rows


def _withheld(effect: Effect) -> dict[str, Any]:
    return {"operation_key": effect.key, "state": str(effect.state), "unresolved": effect.unresolved}


def _approvers(effects: list[Effect]) -> dict[int, str]:
    """The names of those who approved a write, by their numbers."""
    numbers = {effect.approved_by for effect in effects if effect.approved_by}
    people = get_user_model().objects.filter(pk__in=numbers) if numbers else ()
    return {person.pk: person.get_username() for person in people}


def _effect(effect: Effect, workflow: Workflow | None, run: Run, approvers: Mapping[int, str]) -> dict[str, Any]:
    tool = workflow.tools.get(effect.plan.operation) if workflow else None
    return {
        "operation": effect.plan.operation,
        "label": tool.label if tool else effect.plan.operation,
        "source": tool.source if tool else "",
        "operation_key": effect.key,
        "undoes": effect.undoes,
        "target": effect.plan.target,
        "state": str(effect.state),
        "unresolved": effect.unresolved,
        "sent_at": effect.sent_at,
        "times_sent": effect.times_sent,
        "look_ups": effect.look_ups,
        "last_answer": str(effect.last_answer or ""),
        "last_answer_means": MEANING[effect.last_answer] if effect.last_answer else "",
        "last_answer_at": effect.answered_at,
        "next_look_at": effect.next_look_at if run.due_at else None,  # of a run that is not due, nobody looks
        "receipt": effect.receipt,
        "reason": effect.reason,
        "plan": {
            "target": effect.plan.target,
            "params": effect.plan.params,
            "difference": [list(line) for line in effect.plan.difference],
            "target_version": effect.plan.target_version,
            "expected": effect.plan.expected,
            "undo": effect.plan.undo,
            "risk": effect.plan.risk,
            "needs_approval": effect.plan.needs_approval,
        },
        "plan_digest": effect.digest,
        "planned_at": effect.planned_at,
        "approved_by": approvers.get(effect.approved_by, "") if effect.approved_by else "",
        "approved_at": effect.approved_at,
        "approval_expires_at": effect.approval_expires_at,
        "notifications": "none by this product; whether the service notified anybody is not known",
    }


def _progress(run: Run, contract: list[dict[str, Any]], effects: list[dict[str, Any]]) -> str:
    """Which assertions, and which writes, changed since the last stop."""
    if not contract:
        return "Not known: the contract is not installed here."
    earlier = run.handoffs.filter(version__lt=run.stretch).order_by("-version")
    last = earlier.values_list("package__contract", "package__effects").first() if run.stretch > 1 else None
    if not last:
        met = sum(row["value"] == Value.MET for row in contract)
        return f"First stop: {met} of {len(contract)} assertions are met."
    contract_then, effects_then = last
    before = {row["name"]: row["value"] for row in contract_then or []}
    labels = {row["name"]: row["label"] for row in contract}
    found = changes(before, {row["name"]: row["value"] for row in contract})
    changed = [f"{labels[name]}: {was} became {now}" for name, (was, now) in found.items()]
    stood = {effect["operation_key"]: effect["state"] for effect in effects_then or []}
    changed += [
        f"{effect['label']}: {stood.get(effect['operation_key'], 'nothing')} became {effect['state']}"
        for effect in effects
        if stood.get(effect["operation_key"]) != effect["state"]
    ]
    return "; ".join(changed) or "No assertion and no write changed since the last stop."


def standing(run: Run, effects: Iterable[Effect] | None = None) -> Standing:
    """`run` as the event catalogue sees it; with the `effects` that a worker knows, or else as they are recorded."""
    known = [row.value() for row in run.effects.all()] if effects is None else list(effects)
    return Standing(
        state=State(run.state),
        outcome=Outcome(run.outcome) if run.outcome else None,
        stop_reason=StopReason(run.stop_reason) if run.stop_reason else None,
        effect_unresolved=run.effects_at_risk > 0,
        cancel_requested=run.cancel_requested,
        paused=run.paused,
        follow_up_checks_left=run.ledger.left(Dimension.FOLLOW_UP_CHECKS) or 0,
        approved_unsent=any(effect.approved_digest and effect.state in SENDABLE for effect in known),
        anything_sent=any(effect.times_sent and effect.state not in SENDABLE for effect in known),
        declared=_declared(registry.find(run.workflow, run.workflow_version), run, put_up(known)),
    )


def _declared(workflow: Workflow | None, run: Run, waiting: Effect | None) -> frozenset[Declared]:
    if not workflow:
        return frozenset()
    proposed = workflow.operations.get(waiting.plan.operation) if waiting else None
    holds = {
        Declared.COMPENSATION: bool(workflow.undo),
        Declared.SCOPES: bool(workflow.narrower(run.scope)),
        Declared.AMENDMENTS: isinstance(proposed, Writing) and bool(proposed.amendable),
    }
    return frozenset(what for what, it_does in holds.items() if it_does)


def _events(run: Run, effects: Iterable[Effect]) -> dict[str, list[dict[str, Any]]]:
    """What may be done, and what may not and why: all of it in words of ours, in which nothing can be hidden."""
    stands = standing(run, effects)
    events = [
        {
            "name": str(move),
            "label": kind.label,
            "says": kind.says,
            "permission": str(kind.permission),
            "second_person": str(kind.seconded_by or ""),
            "confirmed_by_requester": kind.confirmed_by_requester,
            "not_by_requester": kind.not_by_requester,
            "answers_plan": kind.answers_plan,
            "payload": kind.payload,
            "checked_again": kind.checked_again,
            "why_not": why_not(kind, stands),
        }
        for move, kind in FROM_PEOPLE.items()
    ]
    return {
        "allowed_events": [event for event in events if not event["why_not"]],
        "forbidden_events": [event for event in events if event["why_not"]],
    }
