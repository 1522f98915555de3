"""What a service says of its own accord about one of its writes."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from runs.domain.interventions import CATALOGUE
from runs.domain.redaction import clean, identifiers, redact
from runs.domain.states import Move
from runs.engine.commit import ENDED
from runs.interventions import waking
from runs.interventions.inputs import fault
from runs.interventions.refusals import Refused
from runs.models import Effect, Event, InboxEvent, Run
from runs.secrets import known_secrets
from runs.workflows import registry

MOST_CALLBACKS = 20  # kept about one write; a service has no use for more, and none of them could lead to anything


def call_back(by_service: str, message_id: str, payload: Any) -> bool:
    """Hand what `by_service` says about one of its writes to the run. Returns whether it is new: one id counts once.

    `payload` is what the catalogue has of CALLBACK_RECEIVED. It is a hint and never evidence: a worker asks the service
    by operation key, if anything is open about this write. For a run that has ended it is kept, and moves nothing.
    Raises Refused: `invalid` (400), `unknown_operation` (404), `too_many` (429).
    """
    kind = CATALOGUE[Move.CALLBACK_RECEIVED]
    field, message = fault(kind.payload, payload, "body")
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
            waking.nudge_after_commit(run.pk)
        else:
            waking.ring(run)
            waking.wake_after_commit(run.pk)
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
