"""A search among the open runs does not grow with those that have ended: each part has an index of its own, and a run
is in one of them (docs/database.md)."""

import django.contrib.postgres.indexes
from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models import F, Func, Q

FINAL = ["cancelled", "completed", "failed"]


def of_words(name: str, condition: Q) -> django.contrib.postgres.indexes.GinIndex:
    words = Func(F("subject"), F("input"), F("question"), function="runs_words", output_field=models.TextField())
    pairs = Func(words, function="runs_bigrams", output_field=ArrayField(models.TextField()))
    return django.contrib.postgres.indexes.GinIndex(pairs, gin_pending_list_limit=512, condition=condition, name=name)


class Migration(migrations.Migration):
    dependencies = [("runs", "0009_stake")]

    operations = [
        migrations.RemoveIndex(model_name="run", name="run_words"),
        migrations.AddIndex(model_name="run", index=of_words("run_open_words", ~Q(state__in=FINAL))),
        migrations.AddIndex(model_name="run", index=of_words("run_closed_words", Q(state__in=FINAL))),
    ]
