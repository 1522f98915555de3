from django.db import models

from runs.domain import contract
from runs.models.run import Run


class Fact(models.Model):
    """The latest reading of one named fact, with where it came from and when. History is in the steps."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="facts", db_index=False)
    name = models.CharField(max_length=140)
    data = models.JSONField()
    source = models.CharField(max_length=80)
    reference = models.CharField(max_length=200, blank=True)
    read_at = models.DateTimeField()
    stretch = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="one_reading_per_fact")]

    def __str__(self) -> str:
        return self.name

    def value(self) -> contract.Fact:
        return contract.Fact(self.name, self.data, self.source, self.read_at, self.reference, self.stretch)
