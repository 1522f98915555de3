"""The cast: Alice and Ann clear the queue, Bob decides, Ada audits, Charlie has no role.

`support` is a member of staff whom the demo's authority service knows by that name.
"""

from django.contrib.auth.models import Group, Permission, User

from runs.domain.interventions import ROLES

ROLE_OF = {
    "support": "support",
    "supervisor": "supervisor",
    "alice": "support",
    "ann": "support",
    "bob": "supervisor",
    "ada": "administrator",
    "charlie": "",
}


def person(name: str) -> User:
    user, made = User.objects.get_or_create(username=name, defaults={"first_name": name.capitalize()})
    if made:
        user.set_password(name)
        user.save()
        if role := ROLE_OF[name]:
            user.groups.add(_group(role))
    return user


def _group(role: str) -> Group:
    """Emptying the tables between tests takes the groups with it."""
    group, made = Group.objects.get_or_create(name=role)
    if made:
        _, permissions = ROLES[role]
        group.permissions.set(Permission.objects.filter(content_type__app_label="runs", codename__in=permissions))
    return group
