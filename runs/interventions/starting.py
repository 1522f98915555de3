"""Starting a run, once for each request and each subject."""

from collections.abc import Mapping
from time import monotonic
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from runs import case
from runs.agents.policies import DRIVEN, POLICIES
from runs.domain.budget import Ledger
from runs.domain.errors import ErrorClass
from runs.domain.interventions import Permission
from runs.domain.redaction import redact_text
from runs.engine.services import service
from runs.interventions import waking
from runs.interventions.inputs import check, parse
from runs.interventions.refusals import Refused, get_run, listed, refuse, require
from runs.models import Event, Run
from runs.models.run import ledger_as_json
from runs.secrets import known_secrets
from runs.tools.tool import Call, ToolFailed
from runs.workflows import registry
from runs.workflows.definition import Workflow

START_CHECK = 2.0  # seconds


def start(
    workflow: str,
    given: Mapping[str, Any] | str,
    by: User,
    request_key: str = "",
    policy: str = "",
    follows: Run | None = None,
) -> tuple[Run, bool]:
    """Start a run, or find the one that is already open for this subject. Returns it and whether it is new."""
    require(by, Permission.START, "start", None)
    known = _workflow(workflow, by)
    content: Mapping[str, Any] = parse(given, "input", by, "start") if isinstance(given, str) else given
    check(known.input_schema, content, "input", by, "start", None)
    if policy and policy not in POLICIES:
        message = f"There is no policy {policy!r}; there are {listed(POLICIES)}."
        refuse(by, "start", None, "unknown_policy", message, "policy")
    if len(request_key) > 120:
        refuse(by, "start", None, "invalid", "request_key: at most 120 characters.", "request_key")
    acts_for = known.acts_for(content, by.get_username())
    _check_subject(known, content, acts_for, by)
    run = Run(
        workflow=known.name,
        workflow_version=known.version,
        policy=policy or "scripted",
        subject=known.subject(content),
        input=dict(content),
        first_input=dict(content),
        asked_by=list(dict.fromkeys([by.get_username(), acts_for])),
        request_key=request_key,
        follows=follows,
        requester=by,
        acts_for=acts_for,
        role=known.role,
        budget=ledger_as_json(Ledger.of({**(known.turns if policy in DRIVEN else {}), **known.budgets})),
    )
    return _start_once(run, by)


def follow_up(run_id: UUID, name: str, by: User) -> tuple[Run, bool]:
    """Start the run that `name` declares to come out of this one, which has ended. Refused where it cannot."""
    require(by, Permission.START, "follow_up", None)
    run = get_run(run_id)
    workflow = registry.find(run.workflow, run.workflow_version)
    if not workflow or name not in workflow.follow_ups:
        names = listed(workflow.follow_ups) if workflow and workflow.follow_ups else "none"
        message = f"There is no follow-up {name!r}; there are {names}."
        refuse(by, "follow_up", run, "unknown_follow_up", message, status=404)
    declared = workflow.follow_ups[name]
    if why_not := case.why_no_follow_up(run, declared):
        refuse(by, "follow_up", run, "not_possible", why_not, status=409)
    return start(declared.workflow, declared.input(case.context_now(run)), by, follows=run)


def _start_once(run: Run, by: User) -> tuple[Run, bool]:
    same = Q(workflow=run.workflow) & (
        Q(pk__in=Run.objects.unfinished().filter(subject=run.subject).values("pk"))
        | (Q(request_key=run.request_key) & ~Q(request_key=""))
    )
    for _ in range(3):  # the open run may end between our insert and our look
        with transaction.atomic():
            Run.objects.bulk_create([run], ignore_conflicts=True)
            if Run.objects.filter(pk=run.pk).exists():
                origin = {"follows": str(run.follows_id)} if run.follows_id else {}
                about = {"workflow": run.workflow, "subject": run.subject, "policy": run.policy, **origin}
                Event.objects.record(run, "started", by, **about)
                waking.wake_after_commit(run.pk)
                return get_run(run.pk), True
        if found := Run.objects.filter(same).order_by("-created_at").first():
            _check_same(found, run, by)
            return found, False
    raise Refused("busy", "Another run for this subject is just ending. Try again.", status=409)


def _check_same(found: Run, wanted: Run, by: User) -> None:
    """A request key, and an open run, belong to one request: what asks for something else is told so."""
    if found.subject != wanted.subject or (
        found.request_key == wanted.request_key != "" and found.first_input != wanted.first_input
    ):
        message = "request_key: it was used before, for another request."
        refuse(by, "start", found, "key_reused", message, "request_key", 409)
    if found.acts_for != wanted.acts_for:
        message = f"{found.subject} is already being worked on, at the request of somebody else."
        refuse(by, "start", found, "busy", message, "input", 409)


def _workflow(name: str, by: User) -> Workflow:
    known = registry.find(name)
    if known is None:
        names = listed(registry.workflows())
        refuse(
            by, "start", None, "unknown_workflow", f"There is no workflow {name!r}; there are {names}.", "workflow", 404
        )
    return known


def _check_subject(workflow: Workflow, given: Mapping[str, Any], acts_for: str, by: User) -> None:
    """Refuse a subject that the authority definitely does not know. No answer is no refusal: the run will find out."""
    name, params, field = workflow.exists(given, acts_for)
    tool = workflow.tools[name]
    try:
        tool.perform(service(tool.service), Call(name, params), monotonic() + START_CHECK)
    except ToolFailed as failed:
        if failed.failure.error_class is ErrorClass.NOT_FOUND:
            message = f"{field}: {redact_text(failed.failure.message, known_secrets())[:200]}"
            refuse(by, "start", None, "unknown_subject", message, field, 404)
