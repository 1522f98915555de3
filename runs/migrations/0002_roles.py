"""A group for each role, so that an installation without the demo has roles to put people into."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

PERMISSIONS = {
    "start_run": "Can start a run",
    "operate_run": "Can claim runs and send the events that move them on",
    "approve_write": "Can approve and reject proposed writes",
    "extend_budget": "Can extend a budget",
    "audit_runs": "Can see how runs end and who decided what",
}
ROLES = {
    "support": ["start_run", "operate_run"],
    "supervisor": ["start_run", "operate_run", "approve_write", "extend_budget"],
    "administrator": ["audit_runs"],
}


def make_roles(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    database = schema_editor.connection.alias
    # Django makes content types and permissions after all migrations have run, and then only those that are missing.
    content_type, _ = (
        apps.get_model("contenttypes", "ContentType")
        .objects.using(database)
        .get_or_create(app_label="runs", model="run")
    )
    permissions = {
        codename: apps.get_model("auth", "Permission")
        .objects.using(database)
        .get_or_create(content_type=content_type, codename=codename, defaults={"name": name})[0]
        for codename, name in PERMISSIONS.items()
    }
    for role, codenames in ROLES.items():
        group, _ = apps.get_model("auth", "Group").objects.using(database).get_or_create(name=role)
        group.permissions.add(*(permissions[codename] for codename in codenames))


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(make_roles, migrations.RunPython.noop)]
