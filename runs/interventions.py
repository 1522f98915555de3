"""Everything a person may do to a run: the only door for writes from above (screens, command line, API).

A person never edits a run. They claim the case, and they send events, which a worker carries out. Both are recorded,
and so is what was refused. Services have one door of their own, `call_back`, and less to say. Lock order: the run's
row, then its inbox.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from time import monotonic
from typing import Any, NoReturn
from uuid import UUID

import jsonschema_rs
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from runs import case
from runs.agents.policies import DRIVEN, POLICIES
from runs.domain.budget import BudgetError, Dimension, Ledger
from runs.domain.errors import ErrorClass
from runs.domain.interventions import CATALOGUE, FROM_PEOPLE, EventKind, Permission, Standing, why_not
from runs.domain.redaction import clean, clean_text, identifiers, redact, redact_text
from runs.domain.states import Move, Outcome, State
from runs.engine.advance import nudge
from runs.engine.commit import ENDED
from runs.engine.services import service
from runs.engine.tasks import wake
from runs.models import Effect, Event, InboxEvent, Refusal, Run
from runs.models.run import ledger_as_json
from runs.secrets import known_secrets
from runs.tools.tool import Call, ToolFailed
from runs.workflows import registry
from runs.workflows.definition import Workflow

CLAIM_LASTS = timedelta(minutes=30)
START_CHECK = 2.0  # seconds
MOST_PAYLOAD = 20_000  # characters
DIGEST = re.compile("[0-9a-f]{64}")
MOST_CALLBACKS = 20  # kept about one write; a service has no use for more, and none of them could lead to anything


class Refused(Exception):
    """What was asked for cannot be done; nothing was changed. `status` speaks HTTP, `field` names what was wrong."""

    def __init__(self, code: str, message: str, field: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.status = code, message, field, status


@dataclass(frozen=True)
class PossibleEvent:
    kind: EventKind
    why_not: str


# Starting


def start(
    workflow: str, given: Mapping[str, Any] | str, by: User, request_key: str = "", policy: str = ""
) -> tuple[Run, bool]:
    """Start a run, or find the one that is already open for this subject. Returns it and whether it is new."""
    _require(by, Permission.START, "start", None)
    known = _workflow(workflow, by)
    content: Mapping[str, Any] = parse(given, "input", by, "start") if isinstance(given, str) else given
    _check(known.input_schema, content, "input", by, "start", None)
    if policy and policy not in POLICIES:
        message = f"There is no policy {policy!r}; there are {_list(POLICIES)}."
        _refuse(by, "start", None, "unknown_policy", message, "policy")
    if len(request_key) > 120:
        _refuse(by, "start", None, "invalid", "request_key: at most 120 characters.", "request_key")
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
        requester=by,
        acts_for=acts_for,
        role=known.role,
        budget=ledger_as_json(Ledger.of({**(known.turns if policy in DRIVEN else {}), **known.budgets})),
    )
    return _start_once(run, by)


def _start_once(run: Run, by: User) -> tuple[Run, bool]:
    same = Q(workflow=run.workflow) & (
        Q(pk__in=Run.objects.unfinished().filter(subject=run.subject).values("pk"))
        | (Q(request_key=run.request_key) & ~Q(request_key=""))
    )
    for _ in range(3):  # the open run may end between our insert and our look
        with transaction.atomic():
            Run.objects.bulk_create([run], ignore_conflicts=True)
            if Run.objects.filter(pk=run.pk).exists():
                Event.objects.record(run, "started", by, workflow=run.workflow, subject=run.subject, policy=run.policy)
                _wake_after_commit(run.pk)
                return _get(run.pk), True
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
        _refuse(by, "start", found, "key_reused", message, "request_key", 409)
    if found.acts_for != wanted.acts_for:
        message = f"{found.subject} is already being worked on, at the request of somebody else."
        _refuse(by, "start", found, "busy", message, "input", 409)


def _workflow(name: str, by: User) -> Workflow:
    known = registry.find(name)
    if known is None:
        names = _list(registry.workflows())
        _refuse(
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
            _refuse(by, "start", None, "unknown_subject", message, field, 404)


# The case as a lease


def claim(run_id: UUID, by: User) -> Run:
    """Take a case for half an hour, or prolong one's own claim. Refused, naming the holder, while somebody has it."""
    _require(by, Permission.OPERATE, "claim", None)
    run = _get(run_id)
    if run.is_final:
        _refuse(by, "claim", run, "ended", "The run has ended; there is nothing left to do.", status=409)
    with transaction.atomic():
        mine = (
            Run.objects.unfinished().filter(pk=run.pk).filter(Q(holder=None) | Q(holder=by) | Q(held_until__lt=Now()))
        )
        if mine.update(holder=by, held_until=Now() + CLAIM_LASTS):
            if run.holder_id != by.pk or not run.is_held():
                Event.objects.record(run, "case_claimed", by)
            _nudge_after_commit(run.pk)
            return _get(run_id)
    held = _not_theirs(_get(run_id), by) or "Somebody else was first. Try again."
    _refuse(by, "claim", run, "held", held, status=409)


def release(run_id: UUID, by: User) -> None:
    """Give a case back. Only the holder can."""
    _require(by, Permission.OPERATE, "release", None)
    run = _get(run_id)
    with transaction.atomic():
        if Run.objects.filter(pk=run.pk, holder=by).update(holder=None, held_until=None):
            Event.objects.record(run, "case_released", by)
            _nudge_after_commit(run.pk)
            return
    _refuse(by, "release", run, "not_yours", "You do not hold this case.", status=409)


def take_next(by: User, outcome: str = "") -> Run | None:
    """Claim the most urgent case that nobody has. Two people at once get two different ones."""
    _require(by, Permission.OPERATE, "take_next", None)
    cases = Run.objects.with_people().unclaimed()
    # Those that wait for the machine go on by themselves; they are taken only when asked for.
    waiting = cases.filter(outcome=outcome) if outcome else cases.exclude(outcome=Outcome.WAITING)
    # A decision has a list of its own, and is not for everybody.
    waiting = waiting.exclude(state=State.AWAITING_APPROVAL)
    with transaction.atomic():
        run = waiting.most_urgent_first().select_for_update(skip_locked=True, of=("self",)).first()
        if run is None:
            return None
        Run.objects.filter(pk=run.pk).update(holder=by, held_until=Now() + CLAIM_LASTS)
        Event.objects.record(run, "case_claimed", by)
        _nudge_after_commit(run.pk)
    return _get(run.pk)


# Events


def possible_events(run: Run, by: User) -> list[PossibleEvent]:
    """Every event of the catalogue with why this person cannot send it now; an empty reason means that they can."""
    stands = case.standing(run)
    return [PossibleEvent(kind, _why_not(kind, run, by, stands)) for kind in FROM_PEOPLE.values()]


def why_not_approve(run: Run, by: User) -> str:
    """Why this person cannot approve the write that waits; empty when they can."""
    return _why_not(FROM_PEOPLE[Move.APPROVAL_GRANTED], run, by, case.standing(run))


def send(
    run_id: UUID, event: str, by: User, payload: Mapping[str, Any] | str, answers: str = "", seen: str = ""
) -> InboxEvent:
    """Hand an event to the run. A decision names by `answers` the digest of the plan that was shown.

    `payload` is a JSON object, or its text. `seen` is what `standing_of` said when the person looked; where the run has
    moved on since, the event is refused. Accepted means recorded: a worker carries it out, and checks once more.
    """
    run, event = _get(run_id), clean_text(event)
    content: Mapping[str, Any] = parse(payload, "payload", by, event, run) if isinstance(payload, str) else payload
    try:
        kind = FROM_PEOPLE[Move(event)]
    except (KeyError, ValueError):
        names = _list(FROM_PEOPLE)
        _refuse(by, event, run, "unknown_event", f"There is no event {event!r}; there are {names}.", "event", 404)
    _require(by, kind.permission, event, run)
    _check(kind.payload, content, "payload", by, event, run)
    if kind.move is Move.BUDGET_EXTENDED:
        _check_extension(run, content, by)
    if kind.move is Move.INPUT_CORRECTED:
        _check_correction(run, content, by)
    delivered = None
    try:
        with transaction.atomic():
            # The row is locked first: what is checked here stays true until the event is in the inbox.
            run = Run.objects.select_for_update(of=("self",)).select_related("holder").get(pk=run_id)
            problem = _moved_on(run, seen) or _problem(kind, run, by, answers)
            if problem is None:
                delivered = _deliver(run, kind, by, content, answers, seconds=proposal(kind, run))
    except (OperationalError, InterfaceError):
        if not delivered or not _landed(delivered):
            raise
    if delivered:
        return delivered
    assert problem
    _refuse(by, event, run, problem.code, problem.message, problem.field, problem.status)


def standing_of(run: Run) -> str:
    """What a form carries so that it can be told when the run has moved on since."""
    return f"{run.state}/{run.outcome}/{run.stop_reason}"


def _moved_on(run: Run, seen: str) -> Refused | None:
    if not seen or seen == standing_of(run):
        return None
    now = (run.stop_reason or run.state).replace("_", " ")
    return Refused("stale", f"The run has moved on since you looked: it is {now} now.", "seen", 409)


def _why_not(kind: EventKind, run: Run, by: User, stands: Standing) -> str:
    """Why `by` cannot send this event now, apart from what a decision has to name; empty when they can."""
    if kind.move is Move.APPROVAL_REVOKED and run.state == State.AWAITING_APPROVAL:
        given = run.inbox.filter(name=Move.APPROVAL_GRANTED, result="").exists()
        stands = replace(stands, approved_unsent=given)  # no worker has seen it yet
    if says := why_not(kind, stands) or _not_by(kind, run, by):
        return says
    if first := proposal(kind, run):
        return _not_second(kind, first, by)
    # A decision about a write is not the holder's alone, and neither is the second of two people's word.
    shared = kind.permission is Permission.APPROVE or kind.answers_plan
    return "" if shared else _not_theirs(run, by)


def _problem(kind: EventKind, run: Run, by: User, answers: str) -> Refused | None:
    if refusal := _not_by(kind, run, by):
        return Refused("four_eyes", refusal, status=403)
    if kind.answers_plan and (stale := _stale(run, answers)):
        return stale
    if unseen := _unseen(kind, run, by, answers):
        return unseen
    if refusal := _why_not(kind, run, by, case.standing(run)):
        held = refusal == _not_theirs(run, by)
        return Refused("held" if held else "not_possible", refusal, "" if held else "event", 409)
    unread = run.inbox.filter(result="").select_related("actor")
    if same := unread.filter(name=kind.move).first():
        who = same.actor.get_username() if same.actor else "a service"
        return Refused("already_sent", f"{who} already sent this; it is being carried out.", status=409)
    if kind.answers_plan and (withdrawn := unread.filter(name=Move.CANCEL_REQUESTED).first()):
        who = withdrawn.actor.get_username() if withdrawn.actor else "somebody"
        said = f"{who} withdrew this request at {withdrawn.received_at:%H:%M:%S} UTC; there is nothing to decide."
        return Refused("withdrawn", said, status=409)
    return None


def _unseen(kind: EventKind, run: Run, by: User, answers: str) -> Refused | None:
    """Who confirms what somebody else proposed names that proposal: to say the same by chance is no confirmation."""
    first = proposal(kind, run)
    if not first or not first.actor or first.actor_id == by.pk or answers == str(first.pk):
        return None
    who, said = first.actor.get_username(), first.payload.get("reason", "")
    message = f"{who} proposed this, number {first.pk}: “{said[:200]}” Look at it, and confirm that number."
    return Refused("stale", message, "answers", 409)


def _stale(run: Run, answers: str) -> Refused | None:
    """Whether the decision is about a plan that is not the one waiting, or that somebody has decided already."""
    effect = run.effects.order_by("-planned_at", "-pk").first()
    earlier = _decision_about(run, answers)
    if earlier and (earlier.stretch == run.stretch or run.state != State.AWAITING_APPROVAL):
        return Refused("decided", f"{_told(earlier)}.", status=409)
    if not effect or answers != effect.plan_digest:
        said = f"{_told(earlier)}. " if earlier else ""
        now = f"the plan waiting now has digest {effect.plan_digest[:12]}" if effect else "no plan is waiting"
        message = f"{said}This decision is about another plan; {now}. {_what_changed(run)}".strip()
        return Refused("stale", message, "answers", 409)
    if effect.approval_expires_at and effect.approval_expires_at <= timezone.now():
        return Refused("expired", "The time for a decision has run out; the plan has to be put up again.", status=409)
    return None


def _decision_about(run: Run, digest: str) -> InboxEvent | None:
    if not DIGEST.fullmatch(digest):
        return None
    decisions = run.inbox.filter(answers=digest).exclude(result=InboxEvent.Result.REFUSED)
    return decisions.select_related("actor").order_by("-pk").first()


def _told(decision: InboxEvent) -> str:
    what = "approved" if decision.name == Move.APPROVAL_GRANTED else "rejected"
    who = decision.actor.get_username() if decision.actor else "somebody"
    return f"{who} {what} this plan at {decision.received_at:%H:%M:%S} UTC"


def _what_changed(run: Run) -> str:
    replaced = run.events.filter(kind="plan_replaced").select_related("text_row").order_by("-id").first()
    if not replaced or not hasattr(replaced, "text_row"):  # retention may have taken the text of a run that ended
        return ""
    return f"Changed: {replaced.text_row.content().get('changed')}."


def _check_extension(run: Run, payload: Mapping[str, Any], by: User) -> None:
    attempted, workflow = Move.BUDGET_EXTENDED, registry.find(run.workflow, run.workflow_version)
    if payload["dimension"] not in run.budget:
        names = _list(run.budget)
        _refuse(by, attempted, run, "invalid", f"dimension: must be one of {names}.", "dimension")
    if workflow:
        dimension = Dimension(payload["dimension"])
        try:
            run.ledger.extend(dimension, payload["by"], workflow.planned(dimension))
        except BudgetError as problem:
            _refuse(by, attempted, run, "invalid", f"{problem.field}: {problem}", problem.field)


def _check_correction(run: Run, payload: Mapping[str, Any], by: User) -> None:
    """A corrected input is held against the same schema as a new one, and is about the same subject."""
    attempted, workflow = Move.INPUT_CORRECTED, registry.find(run.workflow, run.workflow_version)
    if not workflow:
        return
    field = payload["field"]
    if field not in workflow.input_schema["properties"]:
        names = _list(workflow.input_schema["properties"])
        _refuse(by, attempted, run, "invalid", f"field: must be one of {names}.", "field")
    corrected = {**run.input, field: payload["value"]}
    try:
        _check(workflow.input_schema, corrected, "input", by, attempted, run)
    except Refused as no:
        raise Refused(no.code, f"value: {no.message}", "value", no.status) from None
    if workflow.subject(corrected) != run.subject:
        message = f"field: {run.subject} is what this run is about; for another one, start another run."
        _refuse(by, attempted, run, "invalid", message, "field")


def proposal(kind: EventKind, run: Run) -> InboxEvent | None:
    """What a first person proposed of an event that takes two, while the run has not moved on since."""
    if not kind.seconded_by:
        return None
    proposed = run.inbox.filter(name=kind.move, result=InboxEvent.Result.PROPOSED, stretch=run.stretch)
    first = proposed.select_related("actor").order_by("-id").first()
    # Who may not say it any more has not said it.
    entitled = first and first.actor and first.actor.is_active and first.actor.has_perm(f"runs.{kind.permission}")
    return first if entitled else None


def proposals(run: Run) -> list[InboxEvent]:
    return [first for kind in FROM_PEOPLE.values() if (first := proposal(kind, run))]


def _not_second(kind: EventKind, first: InboxEvent, by: User) -> str:
    """Why `by` cannot be the second of the two people that this event takes, of whom `first` proposed it."""
    if first.actor_id == by.pk:
        return "You proposed this; somebody else has to confirm it."
    if not by.has_perm(f"runs.{kind.seconded_by}"):
        return f"To confirm it needs the permission {str(kind.seconded_by).replace('_', ' ')!r}."
    return ""


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
    if kind.move is Move.INPUT_CORRECTED:
        stored = {**shown, "value": clean(payload["value"])}  # what is worked with must be what was typed
    is_proposal = kind.seconded_by is not None and seconds is None
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
        _nudge_after_commit(run.pk)
        return event
    _ring(run, takes_it_away=kind.move in {Move.CANCEL_REQUESTED, Move.PAUSED, Move.APPROVAL_REVOKED})
    Event.objects.record(run, "event_received", by, name=kind.move, payload=shown, answers=answers)
    _wake_after_commit(run.pk)
    return event


def _ring(run: Run, *, takes_it_away: bool = False) -> None:
    """Say that something new is in the inbox; `takes_it_away` from whoever holds the run, who has to claim it again."""
    # The cure for a lost race is the counter: a holder that commits after us sees it and looks into the inbox.
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE runs_run
                  SET inbox_seq = inbox_seq + 1,
                      token = token + CASE WHEN %(take)s THEN 1 ELSE 0 END,
                      owner = CASE WHEN %(take)s THEN '' ELSE owner END,
                      due_at = CASE WHEN owner = '' OR %(take)s THEN clock_timestamp() ELSE due_at END
                WHERE id = %(run)s""",
            {"run": run.pk, "take": takes_it_away},
        )


# Callbacks


def call_back(by_service: str, message_id: str, payload: Any) -> bool:
    """Hand what `by_service` says about one of its writes to the run. Returns whether it is new: one id counts once.

    `payload` is what the catalogue has of CALLBACK_RECEIVED. It is a hint and never evidence: a worker asks the service
    by operation key, if anything is open about this write. For a run that has ended it is kept, and moves nothing.
    Raises Refused: `invalid` (400), `unknown_operation` (404), `too_many` (429).
    """
    kind = CATALOGUE[Move.CALLBACK_RECEIVED]
    field, message = _fault(kind.payload, payload, "body")
    if message:
        raise Refused("invalid", message, field)
    said = clean(payload)
    effect, source = _write_of(by_service, said["operation_key"])
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",)).get(pk=effect.run_id)
        known = run.inbox.filter(name=kind.move)
        if known.filter(dedupe_key=f"{by_service}:{message_id}").exists():
            return False
        if known.filter(payload__operation_key=effect.operation_key).count() >= MOST_CALLBACKS:
            raise Refused("too_many", f"There are {MOST_CALLBACKS} callbacks about this write already.", status=429)
        keep = identifiers(run.input, (effect.operation_key,))
        shown = {**redact(said, known_secrets(), keep), "operation_key": effect.operation_key}
        why = ENDED if run.is_final else ""
        InboxEvent.objects.create(
            run=run,
            name=kind.move,
            payload=shown,
            received_at=timezone.now(),
            stretch=run.stretch,
            dedupe_key=f"{by_service}:{message_id}",
            result=InboxEvent.Result.REFUSED if why else "",
            result_reason=why,
            settled_at=timezone.now() if why else None,
        )
        Event.objects.record(run, "event_received", None, name=kind.move, payload=shown, source=source)
        if why:
            Event.objects.record(run, "event_refused", None, name=kind.move, why=why)
            _nudge_after_commit(run.pk)
        else:
            _ring(run)
            _wake_after_commit(run.pk)
    return True


def _write_of(by_service: str, key: str) -> tuple[Effect, str]:
    """The write with this key that went to `by_service`, and what that calls itself. Refused alike where there is none
    and where it is another service's, which is none of this one's business.
    """
    # A callback cannot be here before its write: "may have been sent" is committed before the call leaves.
    effect = Effect.objects.select_related("run").filter(operation_key=key, times_sent__gt=0).first()
    workflow = registry.find(effect.run.workflow) if effect else None
    tool = workflow.tools.get(effect.operation) if workflow and effect else None
    if not effect or not tool or tool.service != by_service:
        raise Refused("unknown_operation", "You have no write with this operation key here.", "operation_key", 404)
    return effect, tool.source


def _landed(event: InboxEvent) -> bool:
    """Whether an event is in the inbox although its commit was not answered; if so, as after any other commit."""
    connection.close()
    with transaction.atomic():
        # That transaction has this row: who gets it has waited for its end.
        Run.objects.select_for_update(of=("self",)).get(pk=event.run_id)
        landed = InboxEvent.objects.filter(pk=event.pk).exists()
        if landed:
            _wake_after_commit(event.run_id)
    return landed


# Refusing


def _get(run_id: UUID) -> Run:
    try:
        return Run.objects.select_related("holder", "requester").get(pk=run_id)
    except (Run.DoesNotExist, ValidationError, ValueError):
        raise Refused("unknown_run", f"There is no run {run_id}.", "run", 404) from None


def _require(by: User, permission: Permission, attempted: str, run: Run | None) -> None:
    if not by.is_active or not by.has_perm(f"runs.{permission}"):
        message = f"{by.get_username()} may not do this: it needs the permission {permission.replace('_', ' ')!r}."
        _refuse(by, attempted, run, "forbidden", message, status=403)


def _not_by(kind: EventKind, run: Run, by: User) -> str:
    if not by.has_perm(f"runs.{kind.permission}"):
        return f"Needs the permission {kind.permission.replace('_', ' ')!r}."
    if kind.not_by_requester and by.get_username() in {run.requester.get_username(), run.acts_for, *run.asked_by}:
        return "You asked for this run yourself; somebody else has to decide."
    return ""


def _not_theirs(run: Run, by: User) -> str:
    if run.is_held() and run.holder_id != by.pk and run.holder and run.held_until:
        return f"{run.holder.get_username()} holds this case until {run.held_until:%H:%M} UTC."
    return ""


def parse(text: str, what: str, by: User, attempted: str, run: Run | None = None) -> Any:
    """JSON from a person's hand. Refused, saying where, when it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        message = f"{what}: not valid JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}."
    except (ValueError, RecursionError):
        message = f"{what}: not valid JSON: it holds a number or a nesting that no form of ours needs."
    _refuse(by, attempted, run, "invalid", message, what)


def _check(schema: Mapping[str, Any], value: Any, what: str, by: User, attempted: str, run: Run | None) -> None:
    """Hold `value` against a JSON Schema; the first thing wrong is refused with its field's name."""
    field, message = _fault(schema, value, what)
    if message:
        _refuse(by, attempted, run, "invalid", message, field)


def _fault(schema: Mapping[str, Any], value: Any, what: str) -> tuple[str, str]:
    """The first field of `value` that does not fit the schema, and a sentence about it; empty where all do."""
    if not isinstance(value, dict):
        return what, f"{what}: must be a JSON object."
    try:
        if len(json.dumps(value, ensure_ascii=False).encode()) > MOST_PAYLOAD:
            return what, f"{what}: larger than {MOST_PAYLOAD} characters."
        error = next(_validator(_frozen(schema)).iter_errors(value), None)
        return _in_words(error, what) if error else ("", "")
    except (ValueError, RecursionError, TypeError):  # numbers of a thousand digits, text that is none, endless nesting
        return what, f"{what}: holds something that cannot be read as JSON."


def _frozen(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, sort_keys=True)


@lru_cache
def _validator(schema: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema)


def _in_words(error: jsonschema_rs.ValidationError, what: str) -> tuple[str, str]:
    """The field that is wrong, and a sentence that starts with its name."""
    detail = error.kind.as_dict()
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required():
            return detail["property"], f"{detail['property']}: is missing."
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties():
            unexpected = _list(detail["unexpected"])[:200]
            return unexpected, f"{unexpected}: is not a field of this {what}."
    field = ".".join(map(str, error.instance_path)) or what
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Pattern) and not str(error.instance).strip():
        return field, f"{field}: must not be blank."
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.MaxLength):
        return field, f"{field}: longer than {detail['limit']} characters."
    message = error.message if len(error.message) <= 200 else f"{error.message[:200]}…"
    return field, f"{field}: {message}."


def _refuse(
    by: User, attempted: str, run: Run | None, code: str, message: str, field: str = "", status: int = 400
) -> NoReturn:
    """Put the refused attempt on record and say no."""
    Refusal.objects.count_up(run, by, attempted, code, timezone.now())
    raise Refused(code, message, field, status)


def _list(names: Any) -> str:
    return ", ".join(sorted(str(name) for name in names))


# Waking


def _wake_after_commit(run_id: UUID) -> None:
    def wake_and_nudge() -> None:
        wake(run_id)
        nudge(run_id)

    # Robust: the event is committed, and a broker that is away must not turn that into an error. The sweeper finds it.
    transaction.on_commit(wake_and_nudge, robust=True)


def _nudge_after_commit(run_id: UUID) -> None:
    transaction.on_commit(lambda: nudge(run_id), robust=True)
