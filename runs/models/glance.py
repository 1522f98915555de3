from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection, models
from django.db.models.functions import Now

from runs.models.run import Run

AGAIN_AFTER = 15  # seconds from the last question, or its answer, to the next
STALE = 60  # seconds after which a question is not answered any more: whoever asked it has gone

ASK = """
WITH asked AS (
INSERT INTO runs_glance (run_id, plan_digest, asked_at, finding, difference, target_version, says)
VALUES (%(run)s, %(digest)s, clock_timestamp(), '', '[]', '', '')
ON CONFLICT (run_id) DO UPDATE
   SET plan_digest = excluded.plan_digest, asked_at = excluded.asked_at,
       read_at = CASE WHEN runs_glance.plan_digest = excluded.plan_digest THEN runs_glance.read_at END
 WHERE greatest(runs_glance.asked_at, runs_glance.read_at) < clock_timestamp() - make_interval(secs => %(again_after)s)
RETURNING *
)
SELECT *, true AS is_new FROM asked
 UNION ALL
SELECT *, false FROM runs_glance WHERE run_id = %(run)s AND plan_digest = %(digest)s AND NOT EXISTS (SELECT FROM asked)
"""
TAKE = """
UPDATE runs_glance SET taken_at = clock_timestamp()
 WHERE run_id = %(run)s AND (taken_at IS NULL OR taken_at < asked_at)
   AND asked_at > clock_timestamp() - make_interval(secs => %(stale)s)
RETURNING run_id
"""


class GlanceManager(models.Manager["Glance"]):
    def ask(self, run: Run, plan_digest: str) -> "Glance | None":
        """Note that somebody looks at this plan, unless it was asked, or answered, just now. What is known of it, and
        `is_new` where it was noted; None where nothing is, as far as this statement sees."""
        asked: dict[str, Any] = {"run": run.pk, "digest": plan_digest, "again_after": AGAIN_AFTER}
        return next(iter(self.raw(ASK, asked)), None)

    def take(self, run_id: UUID) -> "Glance | None":
        """The question, for the one worker that answers it; None where it is answered, or too old."""
        with connection.cursor() as cursor:
            cursor.execute(TAKE, {"run": run_id, "stale": STALE})
            if cursor.fetchone() is None:
                return None
        return self.get(pk=run_id)

    def forget(self) -> None:
        """Take away what nobody has looked at for a day."""
        self.filter(asked_at__lt=Now() - timedelta(days=1)).delete()


class Glance(models.Model):
    """What a proposed write would be if it were planned now, read for people who look at it.

    One row a run, written over by each reading: no part of the run's record, and nothing rests on it. Before a write is
    sent, the run reads everything again itself.
    """

    class Finding(models.TextChoices):
        UNCHANGED = "unchanged"
        CHANGED = "changed"  # another plan would be put up
        NOT_NOW = "not_now"  # no write would be put up, as things are
        UNREADABLE = "unreadable"

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, related_name="glance")
    plan_digest = models.CharField(max_length=64)  # of the plan that waits for a decision
    asked_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)  # null: not for this plan yet
    finding = models.CharField(max_length=12, choices=Finding.choices, blank=True)
    difference = models.JSONField(default=list)  # as the plan would have it now: field, now, then; redacted
    target_version = models.TextField(blank=True)
    says = models.TextField(blank=True)  # why there is none, as a sentence

    objects = GlanceManager()
    is_new: bool  # of one that was asked for

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"glance at {self.run_id}"

    @property
    def is_answered(self) -> bool:
        return self.read_at is not None and self.read_at >= self.asked_at

    @property
    def is_taken(self) -> bool:
        return self.taken_at is not None and self.taken_at >= self.asked_at
