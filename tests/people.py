"""The cast: Alice clears the queue, Ann does so too, Bob decides, Ada audits, Charlie has no role."""

from django.contrib.auth.models import Group, User

ROLE_OF = {"support": "support", "alice": "support", "ann": "support", "bob": "supervisor", "ada": "administrator", "charlie": ""}


def person(name: str) -> User:
    user, made = User.objects.get_or_create(username=name, defaults={"first_name": name.capitalize()})
    if made:
        user.set_password(name)
        user.save()
        if role := ROLE_OF[name]:
            user.groups.add(Group.objects.get(name=role))
    return user
