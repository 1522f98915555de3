"""What the console keeps for people. What it shows of runs is in `runs.models`."""

from django.conf import settings
from django.db import models
from django.db.models import Q

NAME_AT_MOST = 60


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    def seen_by(self, person_id: int) -> "SavedViewQuerySet":
        """Their own and what others share, their own first."""
        seen = self.filter(Q(owner=person_id) | Q(shared=True)).select_related("owner")
        return seen.order_by(models.Case(models.When(owner=person_id, then=0), default=1), "name", "id")


class SavedView(models.Model):
    """A part of the queue with its filters, under a name. It says nothing of runs: it is the address alone."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=NAME_AT_MOST)
    query = models.TextField(blank=True)  # of the queue's address; read leniently, for filters come and go
    shared = models.BooleanField(default=False)

    objects = SavedViewQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="one_view_per_name")]

    def __str__(self) -> str:
        return self.name


class Preferences(models.Model):
    """How one person wants the console to speak to them. Empty: as their browser says."""

    person = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True)
    language = models.CharField(max_length=20, blank=True)
    zone = models.CharField(max_length=60, blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.language or 'any language'}, {self.zone or 'any zone'}"
