"""The one statement between two external calls, and the only code that changes a run's state (docs/rules.md, 8).

In one round trip it fences the run by its token, settles the last result, appends its events, and records the next
intent with its reservation. Everything hangs on the `run` part: if the token is not ours any more, that part returns no
row, and then nothing else happens either.

Two rules keep it correct under read committed, where a blocked UPDATE re-reads the row it waited for and nothing else:
whatever must be seen at that moment (the token; `inbox_seq` for events that arrived meanwhile) is a column of the run.

A commit whose answer was lost may have landed, may not, and may land yet. It raises `revision` and is fenced by it, so
the same statement sent again lands once at the most; where it finds nothing to do, the row says which of the two did.
"""

import json
import logging
import re
import secrets
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models.functions import Now
from psycopg import RawCursor

from runs.domain.states import FINAL, Move
from runs.models import Event, InboxEvent, Run

log = logging.getLogger(__name__)
RECONNECT_WITHIN = 3.0  # seconds, for a restart; a lease outlasts the call it covers by more (calls.MARGIN)
NOTHING = "[]"
SLACK = 2.0  # seconds that a lease may last beyond what was asked for


class LeaseLost(Exception):
    """Somebody else has the run now. Whoever sees this stops at once and changes nothing."""


CLAIM = """
UPDATE runs_run
   SET token = token + 1, owner = %(owner)s, dispatches = dispatches + 1,
       due_at = clock_timestamp() + make_interval(secs => %(seconds)s)
 WHERE id = %(run)s AND due_at <= clock_timestamp()
RETURNING token, clock_timestamp()
"""

COMMIT = """
WITH run AS (
    UPDATE runs_run
       SET state = %(state)s, moves = %(moves)s,
           outcome = %(outcome)s, stop_reason = %(stop_reason)s, acceptance = %(acceptance)s,
           recovery = %(recovery)s, error_class = %(error_class)s, error_count = %(error_count)s,
           question = %(question)s, effects_at_risk = %(effects_at_risk)s, cancel_requested = %(cancel_requested)s,
           paused = %(paused)s, undoing = %(undoing)s, acts_for = %(acts_for)s,
           -- A long value that is written again is stored anew, and would count as a change of what is indexed.
           input = CASE WHEN input = %(input)s::jsonb THEN input ELSE %(input)s::jsonb END,
           asked_by = %(asked_by)s, scope = %(scope)s, contract_version = %(contract_version)s,
           stopped_at = %(stopped_at)s, steps = %(steps)s, stretch = %(stretch)s, budget = %(budget)s,
           progress = %(progress)s, role = %(role)s, answer_by = %(answer_by)s,
           stake_minor = %(stake_minor)s, stake_currency = %(stake_currency)s,
           dispatches = CASE WHEN %(brought_on)s THEN 0 ELSE dispatches END,
           revision = revision + 1,
           owner = CASE WHEN %(hold_for)s::float8 IS NULL THEN '' ELSE owner END,
           holder_id = CASE WHEN %(ended)s THEN NULL ELSE holder_id END,
           -- A lease that already lasts about as long stays as it is: an update that moves no indexed column touches
           -- no index.
           due_at = CASE WHEN due_at - clock_timestamp() - make_interval(secs => %(hold_for)s::float8)
                              BETWEEN interval '0' AND make_interval(secs => %(slack)s::float8) THEN due_at
                         WHEN %(hold_for)s::float8 IS NOT NULL
                              THEN clock_timestamp() + make_interval(secs => %(hold_for)s::float8 + %(slack)s::float8)
                         WHEN %(ended)s THEN NULL
                         WHEN inbox_seq > %(inbox_seen)s THEN clock_timestamp()
                         ELSE %(due_at)s::timestamptz END
     WHERE id = %(run)s AND token = %(token)s AND owner = %(owner)s AND revision = %(revision)s
 RETURNING id, inbox_seq
), settled_step AS (
    UPDATE runs_step
       SET status = s.status, summary = s.summary, code = s.code, error_class = s.error_class,
           fingerprint = s.fingerprint, gain = s.gain, settled_at = s.settled_at
      FROM run, jsonb_to_recordset(%(settled_steps)s) AS s(seq int, status text, summary text, code text,
           error_class text, fingerprint text, gain jsonb, settled_at timestamptz)
     WHERE runs_step.run_id = run.id AND runs_step.seq = s.seq
           -- Says the same again, so that a long run's other steps are not read.
       AND runs_step.seq = ANY(ARRAY(SELECT (step ->> 'seq')::int FROM jsonb_array_elements(%(settled_steps)s) AS step))
 RETURNING runs_step.id, runs_step.seq
), answer AS (
    UPDATE runs_steppayload
       SET response = a.response
      FROM settled_step, jsonb_to_recordset(%(settled_steps)s) AS a(seq int, response jsonb)
     WHERE runs_steppayload.step_id = settled_step.id AND a.seq = settled_step.seq
), intent AS (
    INSERT INTO runs_step (run_id, seq, stretch, kind, operation, operation_key, expects, charge, token, status,
                           summary, code, error_class, fingerprint, gain, started_at, deadline_at)
    SELECT run.id, i.seq, i.stretch, i.kind, i.operation, i.operation_key, i.expects, i.charge, %(token)s, i.status,
           i.summary, '', '', i.fingerprint, '{}', i.started_at, i.deadline_at
      FROM run, jsonb_to_recordset(%(intents)s) AS i(seq int, stretch int, kind text, operation text,
           operation_key text, expects text, charge jsonb, status text, summary text, fingerprint text,
           started_at timestamptz, deadline_at timestamptz)
 RETURNING id, seq
), request AS (
    INSERT INTO runs_steppayload (step_id, request)
    SELECT intent.id, r.request
      FROM intent JOIN jsonb_to_recordset(%(intents)s) AS r(seq int, request jsonb) ON r.seq = intent.seq
), fact AS (
    INSERT INTO runs_fact (run_id, name, data, source, reference, read_at, stretch)
    SELECT run.id, f.name, f.data, f.source, f.reference, f.read_at, f.stretch
      FROM run, jsonb_to_recordset(%(facts)s) AS f(name text, data jsonb, source text, reference text,
           read_at timestamptz, stretch int)
    ON CONFLICT (run_id, name) DO UPDATE
       SET data = excluded.data, source = excluded.source, reference = excluded.reference,
           read_at = excluded.read_at, stretch = excluded.stretch
), numbered_event AS (
    -- Materialised: the record and its text must carry the same number.
    SELECT nextval(pg_get_serial_sequence('runs_event', 'id')) AS id, run.id AS run_id, v.*
      FROM run, jsonb_to_recordset(%(events)s) AS v(kind text, actor_id int, digest text, text text)
), event AS (
    INSERT INTO runs_event (id, run_id, kind, actor_id, digest)
    SELECT id, run_id, kind, actor_id, digest FROM numbered_event
), event_text AS (
    INSERT INTO runs_eventtext (event_id, text) SELECT id, text FROM numbered_event
){rare}
SELECT inbox_seq FROM run
"""
# What most commits have nothing of is left out of theirs: the server would set it up each time.
RARE = {
    "effects": """, effect AS (
    INSERT INTO runs_effect (run_id, operation_key, operation, undoes, binding, state, plan, plan_digest,
                             planned_at, approved_digest, approved_by_id, approved_at, approval_expires_at, sent_at,
                             times_sent, look_ups, last_answer, answered_at, next_look_at, receipt, reason)
    SELECT run.id, e.*
      FROM run, jsonb_to_recordset(%(effects)s) AS e(operation_key text, operation text, undoes text, binding text,
           state text, plan jsonb, plan_digest text, planned_at timestamptz, approved_digest text, approved_by_id int,
           approved_at timestamptz, approval_expires_at timestamptz, sent_at timestamptz, times_sent int, look_ups int,
           last_answer text, answered_at timestamptz, next_look_at timestamptz, receipt jsonb, reason text)
    ON CONFLICT (operation_key) DO UPDATE
       SET run_id = excluded.run_id, binding = excluded.binding, state = excluded.state, plan = excluded.plan,
           plan_digest = excluded.plan_digest, planned_at = excluded.planned_at,
           approved_digest = excluded.approved_digest, approved_by_id = excluded.approved_by_id,
           approved_at = excluded.approved_at, approval_expires_at = excluded.approval_expires_at,
           sent_at = excluded.sent_at, times_sent = excluded.times_sent, look_ups = excluded.look_ups,
           last_answer = excluded.last_answer, answered_at = excluded.answered_at,
           next_look_at = excluded.next_look_at, receipt = excluded.receipt, reason = excluded.reason
)""",
    "handoffs": """, handoff AS (
    INSERT INTO runs_handoff (run_id, version, package, made_at)
    SELECT run.id, h.version, h.package, h.made_at
      FROM run, jsonb_to_recordset(%(handoffs)s) AS h(version int, package jsonb, made_at timestamptz)
)""",
    "inbox": """, read_inbox AS (
    UPDATE runs_inboxevent
       SET result = n.result, result_reason = n.result_reason, settled_at = clock_timestamp()
      FROM run, jsonb_to_recordset(%(inbox)s) AS n(id bigint, result text, result_reason text)
     WHERE runs_inboxevent.run_id = run.id AND runs_inboxevent.id = n.id
)""",
}
# After a commit that found nothing: whether it had landed already, under this token and as the very next revision.
LANDED = "SELECT inbox_seq FROM runs_run WHERE id = %(run)s AND token = %(token)s AND revision = %(revision)s + 1"

ENDED = "The run had ended; kept as evidence."

LATE = """
WITH run AS (
    UPDATE runs_run
       SET inbox_seq = inbox_seq + 1,
           due_at = CASE WHEN state = ANY(%(final)s) THEN NULL
                         WHEN owner = '' THEN clock_timestamp() ELSE due_at END
     WHERE id = %(run)s
 RETURNING id, state = ANY(%(final)s) AS ended
)
INSERT INTO runs_inboxevent (run_id, name, payload, received_at, stretch, answers, dedupe_key, result, result_reason)
SELECT id, %(name)s, %(payload)s, clock_timestamp(), 0, '', %(dedupe_key)s,
       CASE WHEN ended THEN 'refused' ELSE '' END,
       CASE WHEN ended THEN %(why)s ELSE '' END
  FROM run
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True)
class Lease:
    """The right to change one run. `now` is the database's clock, carried on by a monotonic one."""

    run: UUID
    token: int
    owner: str
    taken_at: datetime
    taken_at_monotonic: float

    def now(self) -> datetime:
        return self.taken_at + timedelta(seconds=monotonic() - self.taken_at_monotonic)


@dataclass
class Pending:
    """What has happened in memory since the last commit and goes into the next one."""

    moves: list[str] = field(default_factory=list)  # that led to the run's state; the database walks them too
    settled_steps: list[dict[str, Any]] = field(default_factory=list)
    intents: list[dict[str, Any]] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    effects: dict[str, dict[str, Any]] = field(default_factory=dict)  # by operation key; the latest counts
    events: list[dict[str, Any]] = field(default_factory=list)
    handoffs: list[dict[str, Any]] = field(default_factory=list)
    inbox: list[dict[str, Any]] = field(default_factory=list)


def claim(run: UUID, seconds: float) -> Lease | None:
    """Take the run if it is due. None: somebody has it, it is not due, or it does not exist."""
    owner = secrets.token_hex(8)
    with connection.cursor() as cursor:
        asked = monotonic()
        cursor.execute(CLAIM, {"run": run, "owner": owner, "seconds": seconds})
        row = cursor.fetchone()
    return Lease(run, row[0], owner, row[1], asked) if row else None


def commit(
    lease: Lease,
    run: Run,
    pending: Pending,
    *,
    inbox_seen: int,
    hold_for: float | None = None,
    due_at: datetime | None = None,
) -> int:
    """Write `run` as it stands, with all that is pending. Returns `inbox_seq`: above `inbox_seen`, look into the inbox.

    `hold_for`: keep the lease that many seconds, and up to `SLACK` more. None gives the run back, to be looked at again
    at `due_at` (None: when an event arrives), or at once if an event arrived meanwhile. Raises LeaseLost where the
    token is not ours any more, and the database's own error where it is away: whether that commit landed, nobody knows,
    and the lease runs out.
    """
    parameters: dict[str, Any] = {
        "run": lease.run,
        "token": lease.token,
        "owner": lease.owner,
        "revision": run.revision,
        "hold_for": hold_for,
        "slack": SLACK,
        "due_at": due_at,
        "inbox_seen": inbox_seen,
        "ended": run.is_final,
        "state": run.state,
        "moves": "{" + ",".join(pending.moves) + "}",  # an array, as the server writes one
        "outcome": run.outcome,
        "stop_reason": run.stop_reason,
        "acceptance": run.acceptance,
        "recovery": run.recovery,
        "error_class": run.error_class,
        "error_count": run.error_count,
        "question": run.question,
        "effects_at_risk": run.effects_at_risk,
        "cancel_requested": run.cancel_requested,
        "paused": run.paused,
        "undoing": run.undoing,
        "input": _json(run.input),
        "acts_for": run.acts_for,
        "asked_by": _json(run.asked_by),
        "scope": run.scope,
        "contract_version": run.contract_version,
        "brought_on": _brought_on(run, pending, let_go=hold_for is None),
        "stopped_at": run.stopped_at,
        "steps": run.steps,
        "stretch": run.stretch,
        "budget": _json(run.budget),
        "progress": _json(run.progress),
        "role": run.role,
        "answer_by": run.answer_by,
        "stake_minor": run.stake_minor,
        "stake_currency": run.stake_currency,
        "settled_steps": _json(pending.settled_steps),
        "intents": _json(pending.intents),
        "facts": _json(pending.facts),
        "effects": _json(list(pending.effects.values())),
        "events": _json(pending.events),
        "handoffs": _json(pending.handoffs),
        "inbox": _json(pending.inbox),
    }
    try:
        row = _make(run, parameters)
    except (OperationalError, InterfaceError) as problem:
        log.warning("A commit of run %s was not answered (%s); it is made again", lease.run, problem)
        reconnect()
        row = _make(run, parameters) or _landed(parameters)
    if not row:
        raise LeaseLost
    run.revision += 1
    return int(row[0])


def _brought_on(run: Run, pending: Pending, *, let_go: bool) -> bool:
    """Whether this worker got the run further than those before it, or lets go of it in good health.

    After a worker that died, all is read again that was read before. That alone is no progress: a run at which every
    worker dies would be taken up as often as its budget pays for what comes before that place.
    """
    settled = [step for step in pending.settled_steps if step["status"] != "interrupted"]
    return bool(run.outcome) or any(let_go or step["gain"] for step in settled)


def reconnect() -> None:
    """Wait for a database that restarts. Raises OperationalError where it stays away."""
    connection.close()
    give_up_at = monotonic() + RECONNECT_WITHIN
    while True:
        try:
            return connection.ensure_connection()
        except OperationalError:
            if monotonic() >= give_up_at:
                raise
            sleep(0.1)


def _make(run: Run, parameters: dict[str, Any]) -> tuple[int] | None:
    # The end of a run answers what arrived while it was coming: nobody looks into its inbox afterwards.
    together = transaction.atomic() if parameters["ended"] else nullcontext()
    with together, _bound_by_the_server() as cursor:
        statement, names = _numbered(COMMIT, tuple(part for part in RARE if parameters[part] != NOTHING))
        cursor.execute(statement, [_plain(parameters[name]) for name in names])
        row: tuple[int] | None = cursor.fetchone()
        if row and parameters["ended"] and row[0] > parameters["inbox_seen"]:
            _refuse_the_rest(run)
    return row


def _landed(parameters: dict[str, Any]) -> tuple[int] | None:
    with connection.cursor() as cursor:
        cursor.execute(LANDED, parameters)
        row: tuple[int] | None = cursor.fetchone()
    return row


def _refuse_the_rest(run: Run) -> None:
    for event in run.inbox.filter(result="").select_related("actor"):
        event.result, event.result_reason, event.settled_at = InboxEvent.Result.REFUSED, ENDED, Now()
        event.save(update_fields=["result", "result_reason", "settled_at"])
        Event.objects.record(run, "event_refused", event.actor, name=event.name, why=ENDED)


def keep_late_result(run: UUID, step: str, payload: dict[str, Any]) -> None:
    """Append a result that came in after the lease was lost. Not fenced: it is evidence and changes no state."""
    with connection.cursor() as cursor:
        cursor.execute(
            LATE,
            {
                "run": run,
                "name": Move.LATE_RESULT,
                "payload": _json(payload),
                "dedupe_key": f"late:{step}",
                "final": sorted(FINAL),
                "why": ENDED,
            },
        )


@lru_cache
def _numbered(statement: str, rare: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """`statement` with these of its rarer parts, and its parameters numbered, as the server names them: the driver
    need not read it at each step."""
    statement = statement.replace("{rare}", "".join(RARE[part] for part in rare))
    names = tuple(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    return re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", statement), names


def _bound_by_the_server() -> CursorWrapper:
    """A cursor that leaves the parameters to the server, which then plans the statement once, and not at each step: its
    plan takes longer than its work. Where a connection may not prepare statements, they are planned anew.
    """
    connection.ensure_connection()
    return CursorWrapper(RawCursor(connection.connection), connection)


def _plain(value: Any) -> str | None:
    """As text, whose type the statement tells: one that changed with the value would make another statement of it."""
    return None if value is None else _text(value)


def _json(value: Any) -> str:
    return NOTHING if value == [] else json.dumps(value, default=_text)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
