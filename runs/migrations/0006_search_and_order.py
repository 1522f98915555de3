"""What the queue is searched and sorted by (docs/database.md).

A text is found by the pairs of letters in it, so that words of two characters are found by the index too. What changes
at every step is in none of these indexes: such an update of a run stays within its page.
"""

import django.contrib.postgres.indexes
from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models import F, Func, Q

FUNCTIONS = """
-- What of a run can be searched: each text on a line of its own, so that a line feed finds beginnings. One expression,
-- which the planner writes out in place of the call: it is cheap to look through rows with.
CREATE FUNCTION runs_words(subject text, input jsonb, question text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT lower(left(E'\\n' || subject || E'\\n' || question || E'\\n'
                      || translate(jsonb_path_query_array(input, '$.*')::text, '"', E'\\n'), 2000))
$$;

CREATE FUNCTION runs_bigrams(words text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 2000 AS $$
    SELECT coalesce(array_agg(DISTINCT substr(words, place, 2)), '{}')
      FROM generate_series(1, length(words) - 1) AS place
$$;
"""
FINAL = ["cancelled", "completed", "failed"]


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_events_of_their_transaction")]

    operations = [
        migrations.RunSQL(FUNCTIONS, "DROP FUNCTION runs_bigrams, runs_words"),
        migrations.AddIndex(
            model_name="run",
            index=django.contrib.postgres.indexes.GinIndex(
                Func(
                    Func(
                        F("subject"),
                        F("input"),
                        F("question"),
                        function="runs_words",
                        output_field=models.TextField(),
                    ),
                    function="runs_bigrams",
                    output_field=ArrayField(models.TextField()),
                ),
                gin_pending_list_limit=512,
                name="run_words",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                fields=["answer_by", "stopped_at", "id"], condition=~Q(state__in=FINAL), name="run_open_by_urgency"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["stopped_at", "id"], condition=~Q(state__in=FINAL), name="run_open_by_age"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["stop_reason", "-stopped_at"], condition=~Q(stop_reason=""), name="run_reason"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["error_class", "-stopped_at"], condition=~Q(error_class=""), name="run_error"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["workflow", "-stopped_at"], name="run_workflow"),
        ),
    ]
