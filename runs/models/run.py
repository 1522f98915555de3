import uuid
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now
from django.utils import timezone

from runs.domain.budget import Dimension, Ledger, Line
from runs.domain.contract import Acceptance
from runs.domain.interventions import Permission
from runs.domain.money import MOST_MINOR, Money
from runs.domain.states import FINAL, SHORT, Recovery, State

FINAL_STATES = sorted(FINAL)
URGENCY = ["answer_by", "stopped_at", "id"]  # PostgreSQL puts what is empty last, as `most_urgent_first` has it


def bigrams(text: Any) -> Func:
    """The pairs of letters in `text`, as the index of all searchable text has them."""
    return Func(text, function="runs_bigrams", output_field=ArrayField(models.TextField()))


# What of a run can be searched for, in small letters and each on a line of its own: subject, question, values of the
# input. None of them changes from step to step, so that most updates of a run touch no index.
WORDS = Func(F("subject"), F("input"), F("question"), function="runs_words", output_field=models.TextField())


class RunQuerySet(models.QuerySet["Run"]):
    def unfinished(self) -> "RunQuerySet":
        return self.exclude(state__in=FINAL_STATES)

    def with_people(self) -> "RunQuerySet":
        """Stopped short and not final: what the queue shows."""
        return self.unfinished().filter(outcome__in=SHORT)

    def awaiting_approval(self) -> "RunQuerySet":
        return self.filter(state=State.AWAITING_APPROVAL)

    def due(self) -> "RunQuerySet":
        """What a worker must look at now: ready, its timer passed, or its holder's lease ran out."""
        return self.filter(due_at__lte=Now())

    def most_urgent_first(self) -> "RunQuerySet":
        return self.order_by(F("answer_by").asc(nulls_last=True), "stopped_at", "id")

    def unclaimed(self) -> "RunQuerySet":
        return self.filter(Q(holder=None) | Q(held_until__lt=Now()))


class Run(models.Model):
    """One attempt to reach one goal for one subject.

    `due_at` is the machine's one clock: when a worker must next look (ready: now; waiting: the next look-up; leased:
    the lease's end; with a person or final: null). `answer_by` is the desk's: when a person should have answered.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workflow = models.CharField(max_length=60)
    workflow_version = models.PositiveIntegerField()
    policy = models.CharField(max_length=60)  # what proposes
    subject = models.CharField(max_length=120)  # "order B456": what one open run at a time may work on
    input = models.JSONField()
    first_input = models.JSONField(default=dict)  # before any correction: the same request again finds this run
    # A narrower contract that whoever asked for the run agreed to; empty: the whole. The one before stays on record.
    scope = models.CharField(max_length=60, blank=True)
    contract_version = models.PositiveSmallIntegerField(default=1)
    follows = models.ForeignKey("self", models.PROTECT, null=True, related_name="followed_by")  # the run it came out of
    request_key = models.CharField(max_length=120, blank=True)  # of the caller: the same one twice is the same run
    requester = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="requested_runs")
    acts_for = models.CharField(max_length=80, blank=True)  # the person behind the request, as the authority knows them
    asked_by = models.JSONField(default=list)  # names of all who ever asked for it or changed it: none of them decides
    created_at = models.DateTimeField(db_default=Now())

    state = models.CharField(max_length=20, default=State.RECEIVED)
    # How an update that changes the state says what it did. A trigger walks them and puts them away (docs/database.md).
    moves = ArrayField(models.CharField(max_length=40), db_default=[])
    outcome = models.CharField(max_length=20, blank=True)  # empty while it runs
    stop_reason = models.CharField(max_length=40, blank=True)
    acceptance = models.CharField(max_length=12, default=Acceptance.UNKNOWN)
    recovery = models.CharField(max_length=12, default=Recovery.NONE)
    error_class = models.CharField(max_length=20, blank=True)
    error_count = models.PositiveIntegerField(default=0)
    question = models.TextField(blank=True)
    effects_at_risk = models.PositiveSmallIntegerField(default=0)
    cancel_requested = models.BooleanField(default=False)
    paused = models.BooleanField(default=False)  # nothing new is started; what is out there is still looked up
    undoing = models.BooleanField(default=False)  # somebody decided to undo what took effect, and it is under way
    stopped_at = models.DateTimeField(null=True)  # this stop; null while it runs

    token = models.BigIntegerField(default=0)  # rises with every claim; every later commit names it
    revision = models.BigIntegerField(db_default=0)  # rises with every commit of a worker's: tells whether one landed
    owner = models.CharField(max_length=32, blank=True)  # random per claim; empty: nobody holds it
    due_at = models.DateTimeField(null=True, db_default=Now())
    dispatches = models.PositiveIntegerField(default=0)  # claims since the last commit that brought it on
    inbox_seq = models.PositiveIntegerField(default=0)  # events ever received: tells a holder to look
    steps = models.PositiveIntegerField(default=0)
    stretch = models.PositiveIntegerField(default=0)  # rises whenever what was read before has to be read again
    budget = models.JSONField(default=dict)  # {dimension: [limit, soft, spent, reserved]}
    progress = models.JSONField(default=dict)

    role = models.CharField(max_length=40, blank=True)  # whose desk it lies on
    answer_by = models.DateTimeField(null=True)
    # The money at stake when it stopped, in the currency's smallest unit. NULL, and not empty: not known, and last.
    stake_minor = models.BigIntegerField(null=True)
    stake_currency = models.CharField(max_length=3, null=True)  # noqa: DJ001
    holder = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="held_runs")
    held_until = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        permissions = [
            (Permission.START.value, "Can start a run"),
            (Permission.OPERATE.value, "Can claim runs and send the events that move them on"),
            (Permission.APPROVE.value, "Can approve and reject proposed writes"),
            (Permission.EXTEND.value, "Can extend a budget"),
            (Permission.AUDIT.value, "Can see how runs end and who decided what"),
        ]
        constraints = [
            # A double click, a duplicate delivery and two people at once all end up at the same run.
            models.UniqueConstraint(
                fields=["workflow", "subject"],
                condition=~Q(state__in=FINAL_STATES),
                name="one_open_run_per_subject",
            ),
            models.UniqueConstraint(
                fields=["workflow", "request_key"], condition=~Q(request_key=""), name="one_run_per_request_key"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=FINAL_STATES) | (Q(due_at=None) & Q(owner="")),
                name="a_final_run_is_never_due",
            ),
            models.CheckConstraint(condition=Q(state__in=[state.value for state in State]), name="run_state_is_known"),
            models.CheckConstraint(
                condition=Q(state="completed", outcome="COMPLETED", acceptance="succeeded")
                | (~Q(state="completed") & ~Q(outcome="COMPLETED")),
                name="completed_is_by_contract",
            ),
            models.CheckConstraint(
                condition=Q(stake_minor=None, stake_currency=None)
                | Q(
                    stake_minor__isnull=False,
                    stake_minor__range=(0, MOST_MINOR),
                    stake_currency__isnull=False,
                    stake_currency__regex="^[A-Z]{3}$",
                ),
                name="stake_is_an_amount_of_money",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="run_due"),
            # The parts of the queue, each in the order in which it is shown (docs/benchmarks.md).
            models.Index(
                fields=["outcome", *URGENCY],
                condition=Q(outcome__in=SHORT) & ~Q(state__in=FINAL_STATES) & ~Q(state=State.AWAITING_APPROVAL),
                name="run_by_outcome",
            ),
            models.Index(fields=URGENCY, condition=Q(state=State.AWAITING_APPROVAL), name="run_awaiting"),
            models.Index(
                fields=["-stopped_at", "-id"],
                condition=Q(state__in=FINAL_STATES) & Q(stopped_at__isnull=False),
                name="run_closed",
            ),
            models.Index(fields=["holder"], condition=Q(holder__isnull=False), name="run_holder"),
            models.Index(fields=["-stopped_at"], name="run_stopped"),
            models.Index(fields=["subject"], name="run_subject"),
            *(
                GinIndex(bigrams(WORDS), gin_pending_list_limit=512, condition=part, name=name)
                for name, part in (
                    ("run_open_words", ~Q(state__in=FINAL_STATES)),
                    ("run_closed_words", Q(state__in=FINAL_STATES)),
                )
            ),
            # What the queue is sorted by, and the filters that have to be quick among the closed ones too.
            models.Index(fields=URGENCY, condition=~Q(state__in=FINAL_STATES), name="run_open_by_urgency"),
            models.Index(fields=["stopped_at", "id"], condition=~Q(state__in=FINAL_STATES), name="run_open_by_age"),
            models.Index(fields=["stop_reason", "-stopped_at"], condition=~Q(stop_reason=""), name="run_reason"),
            models.Index(fields=["error_class", "-stopped_at"], condition=~Q(error_class=""), name="run_error"),
            models.Index(fields=["workflow", "-stopped_at"], name="run_workflow"),
        ]

    def __str__(self) -> str:
        return f"{self.workflow} for {self.subject}"

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def stake(self) -> Money | None:
        return Money.said(self.stake_minor, self.stake_currency)

    @property
    def ledger(self) -> Ledger:
        return Ledger({Dimension(name): Line(*figures) for name, figures in self.budget.items()})

    def is_held(self) -> bool:
        """Whether a person has it claimed now."""
        return self.holder_id is not None and self.held_until is not None and self.held_until > timezone.now()


def ledger_as_json(ledger: Ledger) -> dict[str, Any]:
    return {d.value: [line.limit, line.soft, line.spent, line.reserved] for d, line in ledger.lines.items()}
