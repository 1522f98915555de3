"""What a proposed write would be if it were planned now: read for people who look at it, outside the run's record.

The run is looked at as the worker that carries it on would look, with the same functions; but here it is a copy in
memory that is dropped. No lease, no step, no fact, no budget: nothing of it is committed, and the run, once it is
decided about, reads everything again itself.
"""

import logging
from dataclasses import asdict, dataclass
from datetime import timedelta
from time import monotonic
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection
from django.db.models.functions import Now

from runs.domain.contract import Fact, Value
from runs.domain.decision import FactsState, NextStep
from runs.domain.effects import Effect, put_up
from runs.domain.errors import Failure
from runs.domain.redaction import clean, redact
from runs.domain.states import State, StepKind
from runs.engine import calls
from runs.engine.calls import Planned
from runs.engine.commit import Lease
from runs.engine.held import Held
from runs.engine.outlook import Outlook, look, told_by
from runs.models import Glance
from runs.secrets import known_secrets

log = logging.getLogger(__name__)
DEADLINE = 10.0  # seconds, for all that is read
MOST_CALLS = 40
NO_TOKEN = -1  # that no run ever has: should anything try to commit, it is fenced off

Finding = Glance.Finding


@dataclass(frozen=True)
class Seen:
    finding: Glance.Finding
    says: str = ""
    effect: Effect | None = None  # as it would be put up now


class Unreadable(Exception):
    """What the plan rests on could not be read. The message is a sentence."""


def answer(run_id: UUID) -> None:
    """Answer what somebody who looks at a plan asked. Asked twice, late, or about a run that moved on: nothing."""
    glance = Glance.objects.take(run_id)
    if glance is None:
        return
    held = _copy(run_id)
    waiting = put_up(held.effects)
    if held.state is not State.AWAITING_APPROVAL or waiting is None or waiting.digest != glance.plan_digest:
        return
    seen = _look(held, waiting)
    plan = redact(clean(asdict(seen.effect.plan)), known_secrets(), held.identifiers()) if seen.effect else {}
    # By now somebody may have asked about another plan, of which this says nothing.
    still_asked = Glance.objects.filter(pk=run_id, taken_at=glance.taken_at, plan_digest=glance.plan_digest)
    still_asked.update(
        read_at=Now(),
        finding=seen.finding,
        difference=plan.get("difference", []),
        target_version=plan.get("target_version", ""),
        says=held.readable(seen.says)[: calls.MOST_WORDS],
    )


def _copy(run_id: UUID) -> Held:
    with connection.cursor() as cursor:
        asked = monotonic()
        cursor.execute("SELECT clock_timestamp()")
        held = Held(Lease(run_id, NO_TOKEN, "", cursor.fetchone()[0], asked))
    held.run.stretch += 1  # what was read before permits nothing
    return held


def _look(held: Held, waiting: Effect) -> Seen:
    try:
        return _plan_now(held, waiting, monotonic() + DEADLINE)
    except Unreadable as why:
        return Seen(Finding.UNREADABLE, str(why))
    except (DatabaseError, InterfaceError):
        raise
    except Exception as problem:
        log.exception("What run %s proposes could not be planned on what is so now", held.run.pk)
        return Seen(Finding.UNREADABLE, f"An unforeseen error ({type(problem).__name__}) is in the log.")


def _plan_now(held: Held, waiting: Effect, until: float) -> Seen:
    if held.workflow is None:
        raise Unreadable("The run's workflow is not installed here.")
    for _ in range(MOST_CALLS):
        outlook = look(held)
        coming = outlook.next
        if _is_ruled_out(outlook):
            break
        if coming.step is NextStep.WRITE and coming.effect:
            same = coming.effect.digest == waiting.digest
            return Seen(Finding.UNCHANGED if same else Finding.CHANGED, effect=coming.effect)
        if coming.call is None or coming.step is not NextStep.READ or coming.closed:
            break
        _read(held, coming.call, until)
    else:
        raise Unreadable(f"It rests on more than {MOST_CALLS} readings.")
    return Seen(Finding.NOT_NOW, outlook.found)


def _is_ruled_out(outlook: Outlook) -> bool:
    situation = outlook.situation
    unmet = Value.UNMET in {situation.authorised, situation.eligible}
    return unmet or situation.facts in {FactsState.MISSING, FactsState.CONFLICT}


def _read(held: Held, call: Planned, until: float) -> None:
    tool, now = call.tool, monotonic()
    assert held.workflow
    if tool.kind is not StepKind.READ or held.workflow.tools.get(tool.name) is not tool:
        raise Unreadable("To plan it again takes more than reading.")
    if now >= until:
        raise Unreadable(f"It was not read within {timedelta(seconds=DEADLINE).seconds} seconds.")
    result = calls.only_read(held, call, min(until, now + tool.deadline))
    if isinstance(result, Failure):
        raise Unreadable(told_by(tool, result))
    held.learn(Fact(call.learns, result.data, tool.source, held.now(), result.reference, held.run.stretch))
