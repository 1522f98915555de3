"""Notes on a case: what people write down for each other. Nothing moves for it."""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.utils.translation import gettext as _

from runs.domain.interventions import Permission
from runs.domain.states import StopReason
from runs.interventions import notes
from runs.interventions.refusals import Refused
from runs.models import Event, Run
from takeover.console import desk

SHOWN = 20
MOST = notes.MOST


def shown(run: Run, events: Iterable[Event] | None = None) -> list[dict[str, Any]]:
    """The newest first. Of a run of somebody who was not entitled there are none to be seen. `events` is all of the
    record, from whoever has read it."""
    if run.stop_reason == StopReason.NOT_AUTHORISED:
        return []
    if events is None:
        events = run.events.filter(kind=notes.KIND).select_related("actor", "text_row").order_by("-id")[:SHOWN]
    rows = [event for event in events if event.kind == notes.KIND][:SHOWN]
    return [
        {
            "pk": row.pk,
            "at": row.at,
            "by": desk.name_of(row.actor),
            "text": row.text_row.content().get("text", "") if hasattr(row, "text_row") else None,
        }
        for row in rows
    ]


def error(typed: str, no: Refused) -> str:
    """In the words of a form, which stands below the field and need not name it."""
    if not typed.strip():
        return _("Write something first.")
    if len(typed) > MOST:
        return _("A note may have at most %(most)d characters; these are %(typed)d.") % {
            "most": MOST,
            "typed": len(typed),
        }
    return no.message.removeprefix("text: ")


def may_write(run: Run, person: User) -> bool:
    return desk.may(person, Permission.OPERATE) and run.stop_reason != StopReason.NOT_AUTHORISED


def form(typed: Mapping[str, str] | None = None, no: Refused | None = None) -> dict[str, Any]:
    """The form to write one: empty, or with what was typed and what is wrong with it."""
    text, once = (typed.get("text", ""), typed.get("once", "")) if typed else ("", "")
    # Sent twice, one form is one note.
    return {"typed": text, "once": once or secrets.token_hex(8), "error": error(text, no) if no else "", "most": MOST}
