"""The money at stake in a run. In no index: only open runs are sorted by it, and some thousand are sorted quickly."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("runs", "0008_parts_of_the_queue")]

    operations = [
        migrations.AddField(model_name="run", name="stake_minor", field=models.BigIntegerField(null=True)),
        migrations.AddField(model_name="run", name="stake_currency", field=models.CharField(max_length=3, null=True)),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=Q(stake_minor=None, stake_currency=None)
                | Q(
                    stake_minor__isnull=False,
                    stake_minor__range=(0, 10**13),
                    stake_currency__isnull=False,
                    stake_currency__regex="^[A-Z]{3}$",
                ),
                name="stake_is_an_amount_of_money",
            ),
        ),
    ]
