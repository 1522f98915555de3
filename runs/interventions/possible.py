"""What a person may send to a run now, and what stands against it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from django.contrib.auth.models import User
from django.utils import timezone

from runs import case
from runs.domain.contract import Value
from runs.domain.effects import Undecidable, put_up, undecidable
from runs.domain.interventions import FROM_PEOPLE, PERMITS, EventKind, Permission, Standing, why_not
from runs.domain.states import Move, State
from runs.interventions.claims import not_theirs
from runs.interventions.refusals import Refused, called
from runs.models import InboxEvent, Run
from runs.workflows import registry

PROPOSED = InboxEvent.Result.PROPOSED
DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class PossibleEvent:
    kind: EventKind
    why_not: str


@dataclass(frozen=True)
class PossibleFollowUp:
    name: str
    label: str
    why_not: str


def possible_events(
    run: Run,
    by: User,
    proposed: Mapping[str, InboxEvent] | None = None,
    unread: Iterable[InboxEvent] | None = None,
) -> list[PossibleEvent]:
    """Every event of the catalogue with why this person cannot send it now; an empty reason means that they can.

    Whoever has read the `proposals`, and what of the inbox no worker has seen yet, hands them on.
    """
    stands = _as_it_will_stand(run, case.standing(run), unread)
    proposed = proposals(run) if proposed is None else proposed
    return [
        PossibleEvent(kind, _why_not(kind, run, by, stands, proposed.get(kind.move))) for kind in FROM_PEOPLE.values()
    ]


def possible_follow_ups(run: Run) -> list[PossibleFollowUp]:
    """Every linked run that the workflow declares, with why it cannot be started; none while the run is under way."""
    workflow = registry.find(run.workflow, run.workflow_version)
    if not workflow or not run.is_final:
        return []
    declared = workflow.follow_ups.items()
    return [PossibleFollowUp(name, one.label, case.why_no_follow_up(run, one)) for name, one in declared]


def decisions(run: Run, by: User) -> dict[Move, str]:
    """Everything that answers a proposed write, with why this person cannot send it; empty where they can."""
    stands = case.standing(run)
    return {move: _why_not(kind, run, by, stands, None) for move, kind in FROM_PEOPLE.items() if kind.answers_plan}


def helpful_scopes(run: Run) -> tuple[str, ...]:
    """The narrower scopes that would leave out something which does not hold now, or which nobody knows."""
    workflow = registry.find(run.workflow, run.workflow_version)
    narrower = workflow.narrower(run.scope) if workflow else ()
    if not workflow or not narrower:
        return ()
    judged = workflow.judge(case.context_now(run)).assertions
    open_ones = {name for name, judgement in judged.items() if judgement.value is not Value.MET}
    return tuple(name for name in narrower if workflow.scopes[name].drops & open_ones)


def standing_of(run: Run) -> str:
    """What a form carries so that it can be told when the run has moved on since."""
    return f"{run.state}/{run.outcome}/{run.stop_reason}"


def stop_of(run: Run, stretch: int) -> str:
    """As `standing_of`, and out of date also once the run has stopped anew and stands as before."""
    return f"{standing_of(run)}/{stretch}"


def moved_on(run: Run, seen: str) -> Refused | None:
    """A refusal where the run does not stand any more where `standing_of` or `stop_of` said; nothing seen is never
    stale."""
    if not seen or seen in {standing_of(run), stop_of(run, run.stretch)}:
        return None
    now = (run.stop_reason or run.state).replace("_", " ")
    return Refused("stale", f"The run has moved on since you looked: it is {now} now.", "seen", 409)


def _as_it_will_stand(run: Run, stands: Standing, unread: Iterable[InboxEvent] | None = None) -> Standing:
    """Where the run will stand once a worker has seen what was sent: an approval can be taken back before that too."""
    if run.state != State.AWAITING_APPROVAL:
        return stands
    if unread is None:
        unread = run.inbox.filter(result="")
    return replace(stands, approved_unsent=any(event.name == Move.APPROVAL_GRANTED for event in unread))


def _why_not(kind: EventKind, run: Run, by: User, stands: Standing, first: InboxEvent | None) -> str:
    """Why `by` cannot send this event now, of which somebody may have proposed the `first` half; empty when they can.

    What a decision has to name is not looked at.
    """
    if says := why_not(kind, stands) or _not_by(kind, run, by):
        return says
    if kind.move is Move.SCOPE_NARROWED and not helpful_scopes(run):
        return "Every narrower scope leaves out only what holds already; it would change nothing."
    if first:
        return _not_second(kind, run, first, by)
    # A decision about a write is not the holder's alone, and neither is the second of two people's word.
    shared = kind.permission is Permission.APPROVE or kind.answers_plan
    return "" if shared else not_theirs(run, by)


def problem_with(kind: EventKind, run: Run, by: User, answers: str) -> Refused | None:
    """The first thing that stands against this event from this person now; None where they may send it."""
    if refusal := _not_by(kind, run, by):
        return Refused("four_eyes", refusal, status=403)
    if kind.answers_plan and (stale := _stale(run, answers)):
        return stale
    first = proposal(kind, run)
    if unseen := _unseen(first, by, answers):
        return unseen
    unread = list(run.inbox.filter(result="").select_related("actor").order_by("pk"))
    if refusal := _why_not(kind, run, by, _as_it_will_stand(run, case.standing(run), unread), first):
        held = refusal == not_theirs(run, by)
        return Refused("held" if held else "not_possible", refusal, "" if held else "event", 409)
    if same := next((event for event in unread if event.name == kind.move), None):
        who = called(same.actor) if same.actor else "a service"
        return Refused("already_sent", f"{who} already sent this; it is being carried out.", status=409)
    withdrawn = next((event for event in unread if event.name == Move.CANCEL_REQUESTED), None)
    if kind.answers_plan and withdrawn:
        who = called(withdrawn.actor) if withdrawn.actor else "somebody"
        said = f"{who} withdrew this request at {withdrawn.received_at:%H:%M:%S} UTC; there is nothing to decide."
        return Refused("withdrawn", said, status=409)
    return None


def _unseen(first: InboxEvent | None, by: User, answers: str) -> Refused | None:
    """Who confirms what somebody else proposed names that proposal: to say the same by chance is no confirmation."""
    if not first or not first.actor or first.actor_id == by.pk or answers == str(first.pk):
        return None
    who, said = called(first.actor), first.payload.get("reason", "")
    message = f"{who} proposed this, number {first.pk}: “{said[:200]}” Look at it, and confirm that number."
    return Refused("stale", message, "answers", 409)


def _stale(run: Run, answers: str) -> Refused | None:
    """Whether the decision is about a plan that is not the one waiting, or that somebody has decided already."""
    waiting = put_up(row.value() for row in run.effects.all())
    earlier = _decision_about(run, answers)
    if earlier and (earlier.stretch == run.stretch or run.state != State.AWAITING_APPROVAL):
        return Refused("decided", f"{_told(earlier)}.", status=409)
    why_not = undecidable(waiting, answers, timezone.now())
    if why_not in {Undecidable.NOTHING_WAITS, Undecidable.ANOTHER_PLAN}:
        said = f"{_told(earlier)}. " if earlier else ""
        now = f"the plan waiting now has digest {waiting.digest[:12]}" if waiting else "no plan is waiting"
        message = f"{said}This decision is about another plan; {now}. {_what_changed(run)}".strip()
        return Refused("stale", message, "answers", 409)
    if why_not is Undecidable.TOO_LATE:
        return Refused("expired", "The time for a decision has run out; the plan has to be put up again.", status=409)
    return None


def _decision_about(run: Run, digest: str) -> InboxEvent | None:
    if not DIGEST.fullmatch(digest):
        return None
    decisions = run.inbox.filter(answers=digest).exclude(result=InboxEvent.Result.REFUSED)
    return decisions.select_related("actor").order_by("-pk").first()


def _told(decision: InboxEvent) -> str:
    what = "approved" if decision.name == Move.APPROVAL_GRANTED else "rejected"
    who = called(decision.actor) if decision.actor else "somebody"
    return f"{who} {what} this plan at {decision.received_at:%H:%M:%S} UTC"


def _what_changed(run: Run) -> str:
    replaced = run.events.filter(kind="plan_replaced").select_related("text_row").order_by("-id").first()
    if not replaced or not hasattr(replaced, "text_row"):  # retention may have taken the text of a run that ended
        return ""
    return f"Changed: {replaced.text_row.content().get('changed')}."


def proposal(kind: EventKind, run: Run) -> InboxEvent | None:
    """What a first person proposed of an event that takes two, while the run has not moved on since."""
    return proposals(run).get(kind.move) if kind.takes_two else None


def proposals(run: Run, said: Iterable[InboxEvent] | None = None) -> dict[str, InboxEvent]:
    """The latest proposal of each event; `said` is all of the inbox, newest first, from whoever has read it."""
    if said is None:
        said = run.inbox.filter(result=PROPOSED, stretch=run.stretch).select_related("actor").order_by("-id")
    proposed = [event for event in said if event.result == PROPOSED and event.stretch == run.stretch]
    latest = {event.name: event for event in reversed(proposed)}
    return {name: first for name, first in latest.items() if _is_entitled(FROM_PEOPLE[Move(name)], first)}


def _is_entitled(kind: EventKind, first: InboxEvent) -> bool:
    """Who may not say it any more has not said it."""
    return bool(first.actor and first.actor.is_active and first.actor.has_perm(f"runs.{kind.permission}"))


def asked_for(run: Run, by: User) -> bool:
    """Whether the run is `by`'s own: they started it, it acts for them, or they changed what it asks for."""
    return by.get_username() in {run.requester.get_username(), run.acts_for, *run.asked_by}


def is_requester(run: Run, by: User) -> bool:
    """Whether they started the run, or it acts for them: to have changed something of it makes nobody that."""
    return by.get_username() in {run.requester.get_username(), run.acts_for}


def _not_second(kind: EventKind, run: Run, first: InboxEvent, by: User) -> str:
    """Why `by` cannot be the second of the two people that this event takes, of whom `first` proposed it."""
    if first.actor_id == by.pk:
        return "You proposed this; somebody else has to confirm it."
    if kind.confirmed_by_requester:
        return "" if is_requester(run, by) else "Whoever asked for the run has to confirm it."
    if kind.seconded_by and not by.has_perm(f"runs.{kind.seconded_by}"):
        return f"To confirm it needs the permission to {PERMITS[kind.seconded_by]}."
    return ""


def _not_by(kind: EventKind, run: Run, by: User) -> str:
    if not by.has_perm(f"runs.{kind.permission}"):
        return f"Needs the permission to {PERMITS[kind.permission]}."
    if kind.not_by_requester and asked_for(run, by):
        return "You asked for this run yourself; somebody else has to decide."
    return ""
