"""A worker's whole job, as one story.

1. Claim the run: one conditional update that raises its token. Nobody gets it twice.
2. Close what a dead worker left open.
3. At each step boundary: read the inbox, look at where the run stands, decide by the fifteen rules.
4. Act: commit the intent, make the call, and come back to 3 with its answer, which travels in the next commit.
5. Stop: outcome, question and package in one commit; or the slice is over: settle, give the run back, wake it again.

Losing the lease at any commit ends the story at once; an answer already in hand is appended as late evidence.
"""

import logging
import random
from dataclasses import replace
from datetime import datetime
from time import monotonic
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from runs.domain.decision import Kind, decide
from runs.domain.effects import EffectState, WritePlan
from runs.domain.progress import attempt_fingerprint
from runs.domain.proposals import Claim, HandOver
from runs.domain.redaction import digest
from runs.domain.states import FINAL, SAID_BY_THE_POLICY, Move, State, StepKind, StopReason
from runs.engine import calls, commit, stopping
from runs.engine.commit import LeaseLost
from runs.engine.events import read_inbox
from runs.engine.held import Held, pace
from runs.engine.outlook import Next, Outlook, look
from runs.engine.stops import close_unresolved, next_due, stop
from runs.models import Run
from runs.workflows import registry

log = logging.getLogger(__name__)


def advance(run_id: UUID) -> bool:
    """Carry a run on until it stops or the slice ends. Returns whether it should be woken again at once."""
    if stopping.asked():
        return True
    lease = commit.claim(run_id, settings.ENGINE_LEASE)
    if not lease:
        return False
    held = Held(lease)
    try:
        if held.run.dispatches > settings.ENGINE_MAX_DISPATCHES:
            return _park(held)
        return _drive(held)
    except LeaseLost:
        log.info("Run %s is in other hands; nothing was changed", run_id)
        calls.keep_late(held)
        return False
    except (DatabaseError, InterfaceError):
        # What of it was saved, nobody knows: the lease runs out, and an answer in hand is there for who is next.
        commit.reconnect()
        calls.keep_late(held)
        raise


def _park(held: Held) -> bool:
    """Set a run apart that no worker survives or gets anywhere with: before anything else of it is touched."""
    taken = held.run.dispatches - 1
    held.resume()
    stop(held, StopReason.CANNOT_DISPATCH, f"It was taken up {taken} times and no worker brought it any further.")
    nudge(held.lease.run)
    return held.more_inbox or held.run.inbox.filter(result="").exists()


def _drive(held: Held) -> bool:
    calls.settle_interrupted(held)
    read_inbox(held)
    if held.state in FINAL:
        close_unresolved(held)
        nudge(held.lease.run)
        return False
    if not _has_something_to_do(held):
        held.give_back(next_due(held))
        return held.more_inbox
    held.resume()
    try:
        given_back = _carry_on(held, monotonic() + settings.ENGINE_SLICE)
    except (LeaseLost, DatabaseError, InterfaceError):
        raise
    except Exception as problem:
        # A defect of a workflow or of ours must not run round and round: the run stops, with its answer in hand.
        log.exception("Run %s met an unforeseen error", held.lease.run)
        stop(held, StopReason.UNFORESEEN_ERROR, f"An unforeseen error ({type(problem).__name__}) is in the log.")
        given_back = False
    nudge(held.lease.run)
    return given_back or (held.more_inbox and held.state not in FINAL)


def _carry_on(held: Held, slice_ends: float) -> bool:
    """Step after step, until it stops or waits for a retry. True: the slice is over and there is more to do."""
    while not _stopped(held):
        outlook = look(held)
        verdict = decide(outlook.situation)
        match verdict.kind:
            case Kind.DROP:
                raise LeaseLost
            case Kind.STOP:
                assert verdict.reason
                if verdict.reason in SAID_BY_THE_POLICY:
                    # Like a claim: who only ever asks uses its budget up.
                    _charge(held, outlook)
                if verdict.reason is StopReason.RESULT_PENDING:
                    _wait(held, outlook)
                stop(held, verdict.reason, outlook.found, verdict.rule)
            case Kind.RETRY:
                again_at = _retry_at(held)
                failed = outlook.situation.failure
                held.move(Move.RETRY_SCHEDULED, at=again_at, code=failed.code if failed else "")
                held.give_back(again_at)
                return False
            case Kind.ASK_APPROVAL:
                _ask_approval(held, outlook, verdict.rule)
            case Kind.VALIDATE:
                _refute(held, outlook)
            case Kind.HAND_OVER:
                _hand_over(held, outlook)
            case Kind.REFUSE:
                _refuse(held, outlook)
            case Kind.ACT | Kind.LOOK_UP:
                # What somebody asked for is remembered in this worker's hands only, so it is done before giving back.
                asked = held.asked is not None and verdict.kind is Kind.LOOK_UP
                over = stopping.asked() or monotonic() >= slice_ends
                if held.pending.settled_steps and over and not asked:
                    held.give_back(held.now())
                    return True
                assert outlook.next.call
                _begin(held, outlook.next)
                calls.make(held, outlook.next.call)
        if held.more_inbox and not held.run.outcome:
            read_inbox(held)
    return False


def _has_something_to_do(held: Held) -> bool:
    """A stopped run goes on for an event or a timer; anything else that woke it was a false alarm."""
    if held.woken or not held.run.outcome:
        return True
    due = next_due(held)
    return due is not None and due <= held.now()


def _stopped(held: Held) -> bool:
    """Whether the run has come to a stop; the ones that no rule decides are made here."""
    if held.run.outcome:
        return True
    if held.workflow is None:
        sent = any(effect.times_sent for effect in held.effects)
        if held.run.cancel_requested and not sent:
            stop(held, StopReason.CANCELLED_UNSENT)
        else:
            stop(held, StopReason.WORKFLOW_MISSING, _missing(held.run))
    elif held.state is State.AWAITING_APPROVAL and not held.run.cancel_requested:
        stop(held, StopReason.APPROVAL_EXPIRED, "Nobody decided in time.")
    return bool(held.run.outcome)


def _missing(run: Run) -> str:
    if registry.find(run.workflow):
        return f"Version {run.workflow_version} of {run.workflow} is not installed any more."
    return f"The workflow {run.workflow} is not installed any more."


def _begin(held: Held, coming: Next) -> None:
    """Take the transitions that lead to the state in which this call is made."""
    assert coming.call
    if held.state is State.RECEIVED:
        held.move(Move.STARTED)
    kind = coming.call.tool.kind
    if kind is StepKind.LOOK_UP or coming.checks_a_claim:
        if held.state is not State.VALIDATING:
            held.move(Move.VALIDATION_DUE)
        return
    if held.state is State.BLOCKED:
        held.move(Move.VALIDATION_DUE)
    if held.state is State.VALIDATING:
        held.move(Move.CONTRACT_NOT_MET)
        held.move(Move.REVISION_BEGUN)
    if kind is StepKind.WRITE:
        assert coming.effect
        held.put(coming.effect)
        held.take_up()
        if held.state is State.PLANNING:
            held.move(Move.PROPOSAL_ACCEPTED, digest=coming.effect.digest)


def _ask_approval(held: Held, outlook: Outlook, rule: int) -> None:
    """Put the planned write before a person. A plan that differs from the one shown before says what changed."""
    effect = outlook.next.effect
    assert effect
    assert held.workflow
    before = held.effect(effect.key)
    if before and before.digest != effect.digest:
        held.record("plan_replaced", digest=effect.digest, changed=_changes(before.plan, effect.plan))
    expires_at = held.now() + held.workflow.approval_within
    held.put(
        replace(
            effect,
            state=EffectState.PLANNED if effect.state is EffectState.APPROVED else effect.state,
            approved_digest="",
            approved_by=None,
            approved_at=None,
            approval_expires_at=expires_at,
        )
    )
    held.record("approval_asked", digest=effect.digest, rule=effect.plan.needs_approval)
    if held.state is State.RECEIVED:
        held.move(Move.STARTED)
    if held.state is State.VALIDATING:
        held.move(Move.CONTRACT_NOT_MET)
        held.move(Move.REVISION_BEGUN)
    stop(held, StopReason.APPROVAL_REQUIRED, effect.plan.needs_approval, rule)


def _changes(old: WritePlan, new: WritePlan) -> str:
    """What is not the same in two plans, as a person would say it."""
    before = {field: then for field, _, then in old.difference}
    changed = [
        f"{field}: {before.get(field, 'nothing')} became {then}"
        for field, _, then in new.difference
        if before.get(field) != then
    ]
    if old.target_version != new.target_version:
        changed.append(f"what was read: {old.target_version} became {new.target_version}")
    return "; ".join(changed) or "its details changed"


def _refute(held: Held, outlook: Outlook) -> None:
    """The policy claims completion and the contract does not bear it out: recorded, charged, and on with the rest."""
    claim = outlook.next.proposal
    assert isinstance(claim, Claim)
    if held.state is State.RECEIVED:
        held.move(Move.STARTED)
    if held.state is not State.VALIDATING:
        held.move(Move.VALIDATION_DUE)
    held.move(Move.CONTRACT_NOT_MET)
    held.move(Move.REVISION_BEGUN)
    held.record("claimed_completion", says=claim.says)
    _charge(held, outlook)
    held.take_up()
    values = {name: judgement.value for name, judgement in held.judgements().items()}
    attempt = attempt_fingerprint(held.run.policy, "claim", {"says": claim.says}, values)
    held.progress = replace(held.progress.observed(attempt), claims=held.progress.claims + 1)


def _wait(held: Held, outlook: Outlook) -> None:
    """The policy wants to look again later: by the same waits as look-ups, and from the same allowance."""
    assert held.workflow
    _charge(held, outlook)
    waits, taken = held.workflow.look_up_after, held.progress.waits
    at = held.now() + pace(waits[min(taken, len(waits) - 1)])
    # The same call is no repetition then: time is what it waits for.
    held.progress = replace(held.progress.read_again(), waits=taken + 1, look_again_at=at.isoformat())


def _hand_over(held: Held, outlook: Outlook) -> None:
    """One agent passes the task on. Whoever had it before is remembered until something is gained."""
    given = outlook.next.proposal
    assert isinstance(given, HandOver)
    held.record("handed_over", task=given.task, giver=given.giver, taker=given.taker)
    _charge(held, outlook)
    held.take_up()
    held.progress = held.progress.handed_over(digest(given.task), given.giver, given.taker)


def _refuse(held: Held, outlook: Outlook) -> None:
    """What a model proposed cannot be considered: it is told why. The same once more is no progress."""
    held.record("proposal_refused", why=outlook.next.found)
    _charge(held, outlook)
    held.take_up()
    attempt = attempt_fingerprint(held.run.policy, "proposal", {"why": outlook.next.found}, {})
    held.progress = replace(held.progress.observed(attempt), refused=outlook.next.found[:500])


def _charge(held: Held, outlook: Outlook) -> None:
    """A step that calls nobody is paid for at once."""
    held.ledger = held.ledger.reserve(outlook.next.charge)
    calls.spend(held, outlook.next.charge)


def _retry_at(held: Held) -> datetime:
    """Exponential backoff with full jitter, and never before the time that the service asked for."""
    assert held.workflow
    assert held.failure
    longest = held.workflow.retry_after * 2 ** max(0, held.progress.errors_in_a_row - 1)
    wait = pace(longest) * random.random()  # noqa: S311 - jitter, not a secret
    return held.now() + max(wait, held.failure.asked_wait())


def nudge(run_id: UUID) -> None:
    """Tell open screens to look again. Outside the commit, whose speed it would halve; a lost nudge costs seconds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('runs', %s)", [str(run_id)])
