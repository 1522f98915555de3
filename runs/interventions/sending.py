"""Sending an event to a run: it is checked, recorded, and left for a worker to carry out."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from runs.domain.budget import BudgetError, Dimension
from runs.domain.effects import names_otherwise, put_up
from runs.domain.interventions import FROM_PEOPLE, EventKind
from runs.domain.redaction import clean, clean_text, identifiers, redact
from runs.domain.states import Move
from runs.interventions import waking
from runs.interventions.inputs import check, fault, parse
from runs.interventions.possible import is_requester, moved_on, problem_with, proposal
from runs.interventions.refusals import Refused, get_run, listed, refuse, require
from runs.models import Event, InboxEvent, Run
from runs.secrets import known_secrets
from runs.workflows import registry
from runs.workflows.definition import Writing, amended_value


def send(
    run_id: UUID, event: str, by: User, payload: Mapping[str, Any] | str, answers: str = "", seen: str = ""
) -> InboxEvent:
    """Hand an event to the run. A decision names by `answers` the digest of the plan that was shown.

    `payload` is a JSON object, or its text. `seen` is what `standing_of` said when the person looked; where the run has
    moved on since, the event is refused. Accepted means recorded: a worker carries it out, and checks once more.
    """
    run, event = get_run(run_id), clean_text(event)
    content: Mapping[str, Any] = parse(payload, "payload", by, event, run) if isinstance(payload, str) else payload
    try:
        kind = FROM_PEOPLE[Move(event)]
    except (KeyError, ValueError):
        names = listed(FROM_PEOPLE)
        refuse(by, event, run, "unknown_event", f"There is no event {event!r}; there are {names}.", "event", 404)
    require(by, kind.permission, event, run)
    check(kind.payload, content, "payload", by, event, run)
    if kind.move is Move.BUDGET_EXTENDED:
        _check_extension(run, content, by)
    if kind.move is Move.INPUT_CORRECTED:
        _check_correction(run, content, by)
    if kind.move is Move.PLAN_AMENDED:
        _check_amendment(run, content, by)
    if kind.move is Move.SCOPE_NARROWED:
        _check_scope(run, content, by)
    delivered = None
    try:
        with transaction.atomic():
            # The row is locked first: what is checked here stays true until the event is in the inbox.
            run = Run.objects.select_for_update(of=("self",)).select_related("holder").get(pk=run_id)
            first = proposal(kind, run)
            problem = moved_on(run, seen) or problem_with(kind, run, by, answers) or _another(first, content)
            if problem is None:
                delivered = _deliver(run, kind, by, content, answers, seconds=first)
    except (OperationalError, InterfaceError):
        if not delivered or not _landed(delivered):
            raise
    if delivered:
        return delivered
    assert problem
    refuse(by, event, run, problem.code, problem.message, problem.field, problem.status)


def _another(first: InboxEvent | None, payload: Mapping[str, Any]) -> Refused | None:
    """Whether a confirmation is of something else than what was proposed."""
    if first is None or payload.get("scope") == first.payload.get("scope"):
        return None
    return Refused("stale", f"scope: {first.payload['scope']!r} was proposed; confirm that.", "scope", 409)


def _check_extension(run: Run, payload: Mapping[str, Any], by: User) -> None:
    attempted, workflow = Move.BUDGET_EXTENDED, registry.find(run.workflow, run.workflow_version)
    if payload["dimension"] not in run.budget:
        names = listed(run.budget)
        refuse(by, attempted, run, "invalid", f"dimension: must be one of {names}.", "dimension")
    if workflow:
        dimension = Dimension(payload["dimension"])
        try:
            sent = run.effects.filter(times_sent__gt=0).count()
            run.ledger.extend(dimension, payload["by"], workflow.planned(dimension, sent))
        except BudgetError as problem:
            refuse(by, attempted, run, "invalid", f"{problem.field}: {problem}", problem.field)


def _check_correction(run: Run, payload: Mapping[str, Any], by: User) -> None:
    """A corrected input is held against the same schema as a new one, and is about the same subject."""
    attempted, workflow = Move.INPUT_CORRECTED, registry.find(run.workflow, run.workflow_version)
    if not workflow:
        return
    field = payload["field"]
    if field not in workflow.input_schema["properties"]:
        names = listed(workflow.input_schema["properties"])
        refuse(by, attempted, run, "invalid", f"field: must be one of {names}.", "field")
    corrected = {**run.input, field: payload["value"]}
    try:
        check(workflow.input_schema, corrected, "input", by, attempted, run)
    except Refused as no:
        raise Refused(no.code, f"value: {no.message}", "value", no.status) from None
    if workflow.subject(corrected) != run.subject:
        message = f"field: {run.subject} is what this run is about; for another one, start another run."
        refuse(by, attempted, run, "invalid", message, "field")


def _check_amendment(run: Run, payload: Mapping[str, Any], by: User) -> None:
    """A changed field is one that the waiting write's operation declares as amendable, and fits on its own."""
    attempted, workflow = Move.PLAN_AMENDED, registry.find(run.workflow, run.workflow_version)
    waiting = put_up(row.value() for row in run.effects.all())
    if not workflow or not waiting:
        return  # nothing to hold it against; the event itself is refused for that
    operation = workflow.operations.get(waiting.plan.operation)
    amendable = operation.amendable if isinstance(operation, Writing) else ()
    field = payload["field"]
    if not operation or field not in amendable:
        names = listed(amendable) if amendable else "none of this write"
        refuse(by, attempted, run, "invalid", f"field: must be one of {names}.", "field")
    schema = operation.arguments["properties"][field]
    value = amended_value(schema, payload["value"])
    _, message = fault({"type": "object", "properties": {field: schema}}, {field: value}, "value")
    if not message and names_otherwise({field: value}, run.input):
        message = f"{run.input[field]} is what this run was asked for; for another one, start another run."
    if message:
        refuse(by, attempted, run, "invalid", f"value: {message}", "value")


def _check_scope(run: Run, payload: Mapping[str, Any], by: User) -> None:
    """A narrower scope is one that the workflow declares, and narrower than the one that holds now."""
    attempted, workflow = Move.SCOPE_NARROWED, registry.find(run.workflow, run.workflow_version)
    if workflow and payload["scope"] not in (narrower := workflow.narrower(run.scope)):
        names = listed(narrower) if narrower else "none: the scope is as narrow as it gets"
        refuse(by, attempted, run, "invalid", f"scope: must be one of {names}.", "scope")


def _deliver(
    run: Run,
    kind: EventKind,
    by: User,
    payload: Mapping[str, Any],
    answers: str,
    seconds: InboxEvent | None,
) -> InboxEvent:
    """Put the event into the inbox; the first of two people's as a proposal, which moves nothing yet."""
    shown = stored = redact(payload, known_secrets(), identifiers(run.input))
    if kind.move in {Move.INPUT_CORRECTED, Move.PLAN_AMENDED}:
        stored = {**shown, "value": clean(payload["value"])}  # what is worked with must be what was typed
    is_proposal = kind.takes_two and seconds is None and not (kind.confirmed_by_requester and is_requester(run, by))
    event = InboxEvent.objects.create(
        run=run,
        name=kind.move,
        payload=stored,
        actor=by,
        received_at=timezone.now(),
        stretch=run.stretch,
        answers=answers if kind.answers_plan else "",
        seconds=seconds,
        result=InboxEvent.Result.PROPOSED if is_proposal else "",
    )
    if is_proposal:
        Event.objects.record(run, "event_proposed", by, name=kind.move, payload=shown)
        waking.nudge_after_commit(run.pk)
        return event
    waking.ring(run, takes_it_away=kind.move in {Move.CANCEL_REQUESTED, Move.PAUSED, Move.APPROVAL_REVOKED})
    Event.objects.record(run, "event_received", by, name=kind.move, payload=shown, answers=answers)
    waking.wake_after_commit(run.pk)
    return event


def _landed(event: InboxEvent) -> bool:
    """Whether an event is in the inbox although its commit was not answered; if so, as after any other commit."""
    connection.close()
    with transaction.atomic():
        # That transaction has this row: who gets it has waited for its end.
        Run.objects.select_for_update(of=("self",)).get(pk=event.run_id)
        landed = InboxEvent.objects.filter(pk=event.pk).exists()
        if landed:
            waking.wake_after_commit(event.run_id)
    return landed
