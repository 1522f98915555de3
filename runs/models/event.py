import json
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models.functions import Now

from runs.domain.redaction import digest
from runs.models.run import Run


def canonical(content: dict[str, Any]) -> str:
    """The one spelling of an event's content that its digest is taken over."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


class CurrentTransaction(models.Func):
    """The number of the transaction that inserts the row; PostgreSQL draws it in the order that snapshots see."""

    template = "pg_current_xact_id()::text::bigint"
    output_field = models.BigIntegerField()


class EventQuerySet(models.QuerySet["Event"]):
    def after(self, place: tuple[int, int]) -> "EventQuerySet":
        """Those behind this transaction and id in the order of sealing, in that order."""
        transaction_id, number = place
        behind = models.Q(transaction_id__gt=transaction_id) | models.Q(id__gt=number)
        # The first condition is what the index is entered by.
        return self.filter(behind, transaction_id__gte=transaction_id).order_by("transaction_id", "id")

    @transaction.atomic
    def record(self, run: Run | None, kind: str, by: User | None, **content: Any) -> "Event":
        """Append one event from outside the engine, whose own events travel in its commit."""
        text = canonical(content)
        event = self.create(run=run, kind=kind, actor=by, digest=digest(text))
        EventText.objects.create(event=event, text=text)
        return event


class Event(models.Model):
    """The record: what happened to a run, when and by whom. Its text stands apart, so that retention can empty it."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="events", db_index=False)
    kind = models.CharField(max_length=40)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")  # null: a worker
    at = models.DateTimeField(db_default=Now())
    # Sealing goes by transaction, once nothing older can still commit.
    transaction_id = models.BigIntegerField(db_default=CurrentTransaction())
    digest = models.CharField(max_length=64)

    objects = EventQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        ordering = ["id"]
        indexes = [
            models.Index(fields=["run", "id"], name="event_run"),
            models.Index(fields=["transaction_id", "id"], name="event_order_of_sealing"),
        ]

    def __str__(self) -> str:
        return self.kind


class EventText(models.Model):
    event = models.OneToOneField(Event, models.CASCADE, primary_key=True, related_name="text_row")
    text = models.TextField()

    class Meta:
        default_permissions = ()

    def content(self) -> dict[str, Any]:
        return dict(json.loads(self.text))
