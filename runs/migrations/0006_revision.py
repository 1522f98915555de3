from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_worker")]

    # The database's own default: while an upgrade is under way, the release before it still starts runs.
    operations = [migrations.AddField("run", "revision", models.BigIntegerField(db_default=0))]
