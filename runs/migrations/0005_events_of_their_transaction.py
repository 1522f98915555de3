"""An event names the transaction that writes it, and no other: the order of sealing rests on that (docs/record.md)."""

from django.db import migrations

GUARD = """
CREATE TRIGGER an_event_names_its_transaction AFTER INSERT ON runs_event FOR EACH ROW
    WHEN (NEW.transaction_id <> pg_current_xact_id()::text::bigint)
    EXECUTE FUNCTION runs_refuse('An event names the transaction that writes it, and no other.');
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0004_scope_and_follow_ups")]

    operations = [
        migrations.RunSQL(GUARD, "DROP TRIGGER an_event_names_its_transaction ON runs_event"),
    ]
