from django.conf import settings
from django.db import models
from django.db.models import Q

from runs.models.run import Run


class InboxEvent(models.Model):
    """What people and services told a run. Only the worker that holds the run acts on it, in order, exactly once."""

    class Result(models.TextChoices):
        APPLIED = "applied"
        REFUSED = "refused"  # no longer possible when the worker came to it
        PROPOSED = "proposed"  # by the first of two people; nothing happens before the second

    run = models.ForeignKey(Run, models.CASCADE, related_name="inbox")
    name = models.CharField(max_length=40)
    payload = models.JSONField(default=dict)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    received_at = models.DateTimeField()
    stretch = models.PositiveIntegerField(default=0)  # the stop that it answers
    answers = models.CharField(max_length=64, blank=True)  # digest of the plan that a decision is about
    seconds = models.ForeignKey("self", models.PROTECT, null=True, related_name="+")  # the proposal that this confirms
    dedupe_key = models.CharField(max_length=120, blank=True)
    result = models.CharField(max_length=10, choices=Result.choices, blank=True)  # empty: not looked at yet
    result_reason = models.TextField(blank=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        ordering = ["id"]
        constraints = [
            # Each time a plan is put up it is decided once: the second person is told who was first.
            models.UniqueConstraint(
                fields=["run", "answers", "stretch"],
                condition=~Q(answers="") & ~Q(result="refused"),
                name="one_decision_per_plan",
            ),
            models.UniqueConstraint(
                fields=["run", "dedupe_key"], condition=~Q(dedupe_key=""), name="one_event_per_delivery"
            ),
        ]
        indexes = [models.Index(fields=["run", "id"], condition=Q(result=""), name="inbox_open")]

    def __str__(self) -> str:
        return self.name
