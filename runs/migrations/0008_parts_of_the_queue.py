"""An index for each part of the queue, in the order in which it is shown. None names what changes at every step."""

from django.db import migrations, models
from django.db.models import Q

FINAL = ["cancelled", "completed", "failed"]
SHORT = ["WAITING", "NEEDS_HUMAN", "LIMIT_REACHED"]
URGENCY = ["answer_by", "stopped_at", "id"]
# Without it the planner takes the two for independent, and expects sixty open runs that need a person where there are
# six thousand: "take next" then sorts them all, instead of taking the first of an index.
STATISTICS = "CREATE STATISTICS run_stands (mcv) ON state, outcome FROM runs_run"


class Migration(migrations.Migration):
    dependencies = [("runs", "0007_glance")]

    operations = [
        migrations.RemoveIndex(model_name="run", name="run_queue"),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                fields=["outcome", *URGENCY],
                condition=Q(outcome__in=SHORT) & ~Q(state__in=FINAL) & ~Q(state="awaiting_approval"),
                name="run_by_outcome",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=URGENCY, condition=Q(state="awaiting_approval"), name="run_awaiting"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                fields=["-stopped_at", "-id"],
                condition=Q(state__in=FINAL) & Q(stopped_at__isnull=False),
                name="run_closed",
            ),
        ),
        migrations.RunSQL(STATISTICS, "DROP STATISTICS run_stands"),
    ]
