from django.conf import settings
from django.db import models
from django.db.models import Q

from runs.domain import effects
from runs.domain.effects import UNRESOLVED, Answer, EffectState, WritePlan
from runs.models.run import Run


class Effect(models.Model):
    """One logical external write: its plan, its approval, its life, its receipt."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="effects")
    operation_key = models.CharField(max_length=120, unique=True)
    operation = models.CharField(max_length=60)
    undoes = models.CharField(max_length=120, blank=True)  # the operation key of the write that this one compensates
    binding = models.CharField(max_length=64, blank=True)  # what this key was first sent for
    state = models.CharField(max_length=14, default=EffectState.PLANNED)
    plan = models.JSONField()  # target, params, difference, target_version, expected, undo, risk, needs_approval
    plan_digest = models.CharField(max_length=64)
    planned_at = models.DateTimeField()
    approved_digest = models.CharField(max_length=64, blank=True)
    approved_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    approved_at = models.DateTimeField(null=True)
    approval_expires_at = models.DateTimeField(null=True)  # of the request while it waits, then of the approval
    sent_at = models.DateTimeField(null=True)
    times_sent = models.PositiveIntegerField(default=0)
    look_ups = models.PositiveIntegerField(default=0)
    last_answer = models.CharField(max_length=16, blank=True)
    answered_at = models.DateTimeField(null=True)
    next_look_at = models.DateTimeField(null=True)
    receipt = models.JSONField(null=True)
    reason = models.TextField(blank=True)  # why the service refused, or what does not fit

    class Meta:
        default_permissions = ()
        ordering = ["planned_at", "id"]
        indexes = [models.Index(fields=["run"], condition=Q(state__in=sorted(UNRESOLVED)), name="effect_unresolved")]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in EffectState]), name="effect_state_is_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.operation_key}"

    def value(self) -> effects.Effect:
        """This row as the domain's value."""
        return effects.Effect(
            key=self.operation_key,
            state=EffectState(self.state),
            plan=WritePlan(**{**self.plan, "difference": tuple(tuple(line) for line in self.plan["difference"])}),
            planned_at=self.planned_at,
            undoes=self.undoes,
            binding=self.binding,
            approved_digest=self.approved_digest,
            approved_by=self.approved_by_id,
            approved_at=self.approved_at,
            approval_expires_at=self.approval_expires_at,
            sent_at=self.sent_at,
            times_sent=self.times_sent,
            look_ups=self.look_ups,
            last_answer=Answer(self.last_answer) if self.last_answer else None,
            answered_at=self.answered_at,
            next_look_at=self.next_look_at,
            receipt=self.receipt,
            reason=self.reason,
        )
