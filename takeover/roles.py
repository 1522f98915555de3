"""The roles of the rules as groups of Django, which hold what their people may do."""

from django.contrib.auth.models import Group, Permission

from runs.domain.interventions import ROLES


def make_roles() -> None:
    """One group for each role, with at least the permissions that the rules give it."""
    for role, (_, permissions) in ROLES.items():
        group, _ = Group.objects.get_or_create(name=role)
        group.permissions.add(
            *Permission.objects.filter(
                content_type__app_label="runs", codename__in=[permission.value for permission in permissions]
            )
        )
