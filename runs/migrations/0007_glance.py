import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_search_and_order")]

    operations = [
        migrations.CreateModel(
            name="Glance",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="glance",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("plan_digest", models.CharField(max_length=64)),
                ("asked_at", models.DateTimeField()),
                ("taken_at", models.DateTimeField(null=True)),
                ("read_at", models.DateTimeField(null=True)),
                (
                    "finding",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("unchanged", "Unchanged"),
                            ("changed", "Changed"),
                            ("not_now", "Not Now"),
                            ("unreadable", "Unreadable"),
                        ],
                        max_length=12,
                    ),
                ),
                ("difference", models.JSONField(default=list)),
                ("target_version", models.TextField(blank=True)),
                ("says", models.TextField(blank=True)),
            ],
            options={"default_permissions": ()},
        ),
    ]
