from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, models

from runs.models.run import Run


class RefusalManager(models.Manager["Refusal"]):
    def count_up(
        self, run: Run | None, by: User | None, attempted: str, code: str, now: datetime, count: int = 1
    ) -> None:
        """Record refused attempts; repeated ones within a minute raise a count instead of filling the table."""
        with connection.cursor() as cursor:
            cursor.execute(
                """INSERT INTO runs_refusal (run_id, person_id, attempted, code, minute, count)
                   VALUES (%s, %s, %s, %s, date_trunc('minute', %s::timestamptz), %s)
                   ON CONFLICT (run_id, person_id, attempted, code, minute)
                   DO UPDATE SET count = runs_refusal.count + excluded.count""",
                [run.pk if run else None, by.pk if by else None, attempted[:60], code[:40], now, count],
            )


class Refusal(models.Model):
    """What a signed-in person tried and was refused, aggregated by person, run, attempt, reason and minute.

    Without a person: callbacks, of which somebody who only claims to be a service may send any number.
    """

    run = models.ForeignKey(Run, models.CASCADE, null=True, related_name="refusals")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    attempted = models.CharField(max_length=60)
    code = models.CharField(max_length=40)
    minute = models.DateTimeField()
    count = models.PositiveIntegerField(default=1)

    objects = RefusalManager()

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["run", "person", "attempted", "code", "minute"],
                nulls_distinct=False,
                name="one_row_per_refusal_and_minute",
            )
        ]

    def __str__(self) -> str:
        return f"{self.attempted}: {self.code}"
