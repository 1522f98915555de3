"""Notes: what people write down about a case for each other. Part of the record; a note never moves a run."""

from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from runs.domain.interventions import Permission
from runs.domain.redaction import LONGEST, clean_text, identifiers, redact_text
from runs.domain.states import StopReason
from runs.interventions import waking
from runs.interventions.refusals import Refused, get_run, refuse, require
from runs.models import Event, Run
from runs.secrets import known_secrets

KIND = "noted"
MOST = LONGEST  # characters; what is longer would be kept folded
LOOKED_AT = 20  # notes of the same person, among which a double one is looked for


def write(run_id: UUID, by: User, text: str, once: str = "") -> Event:
    """Put a note on record. `once` names the form that it was typed into: sent twice, it is one note."""
    run = get_run(run_id)
    require(by, Permission.OPERATE, KIND, run)
    text = clean_text(text.replace("\r\n", "\n")).strip()
    if not text:
        raise Refused("invalid", "text: write something first.", "text")
    if len(text) > MOST:
        raise Refused("invalid", f"text: at most {MOST} characters; these are {len(text)}.", "text")
    kept = redact_text(text, known_secrets(), identifiers(run.input))
    with transaction.atomic():
        # The same form, sent twice at once, waits here; and what is so of the run now stays so until this is committed.
        run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        if run.stop_reason != StopReason.NOT_AUTHORISED:
            if once and (known := _known(run, by, once)):
                return known
            note = Event.objects.record(run, KIND, by, text=kept, once=once[:40])
            waking.nudge_after_commit(run.pk)
            return note
    said = "This run is closed to notes: nothing about its subject is kept with it."
    refuse(by, KIND, run, "withheld", said, status=409)


def _known(run: Run, by: User, once: str) -> Event | None:
    mine = run.events.filter(kind=KIND, actor=by, text_row__isnull=False).select_related("text_row").order_by("-id")
    return next((note for note in mine[:LOOKED_AT] if note.text_row.content().get("once") == once[:40]), None)
