from django.db import models
from django.db.models import Q

from runs.domain.states import StepStatus
from runs.models.run import Run


class Step(models.Model):
    """One external call: its intent, committed before the call leaves, and what came of it."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="step_rows", db_index=False)
    seq = models.PositiveIntegerField()
    stretch = models.PositiveIntegerField()
    kind = models.CharField(max_length=10)  # of StepKind
    operation = models.CharField(max_length=60)
    operation_key = models.CharField(max_length=120, blank=True)
    expects = models.CharField(max_length=200)  # the new observation this step was taken for
    charge = models.JSONField(default=dict)
    token = models.BigIntegerField()
    status = models.CharField(max_length=12, default=StepStatus.INTENT)  # of StepStatus
    summary = models.TextField(blank=True)  # redacted, one sentence
    code = models.CharField(
        max_length=40, blank=True
    )  # the tool's stable code where it failed; of a write or a look-up, the answer
    error_class = models.CharField(max_length=20, blank=True)
    fingerprint = models.CharField(max_length=64, blank=True)
    gain = models.JSONField(default=dict)  # what it brought, as far as it brought anything
    started_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        ordering = ["seq"]
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="one_step_per_place"),
            models.CheckConstraint(
                condition=Q(status__in=[status.value for status in StepStatus]), name="step_status_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"step {self.seq}: {self.operation}"


class StepPayload(models.Model):
    """Request and answer of one step. Stands apart from the step so that retention can empty it."""

    step = models.OneToOneField(Step, models.CASCADE, primary_key=True, related_name="payload")
    request = models.JSONField(default=dict)
    response = models.JSONField(null=True)

    class Meta:
        default_permissions = ()
