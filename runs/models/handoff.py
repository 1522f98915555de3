from django.db import models

from runs.models.run import Run


class Handoff(models.Model):
    """The package a person receives, written with its stop. Immutable: the next stop makes the next one."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="handoffs")
    version = models.PositiveIntegerField()
    package = models.JSONField()
    made_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        ordering = ["version"]
        constraints = [models.UniqueConstraint(fields=["run", "version"], name="one_handoff_per_stop")]

    def __str__(self) -> str:
        return f"handoff {self.version} of {self.run_id}"
