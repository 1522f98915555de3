"""The demo's people, one for each role, and a second support desk so that two can reach for the same case."""

from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.db import transaction

from runs.domain.interventions import ROLES
from takeover.roles import make_roles

# Fixed and printed at the start, so that a newcomer can sign in at once. The demo answers on the loopback address only;
# an installation that others can reach is started without it.
PASSWORD = "takeover-demo"  # noqa: S105


@dataclass(frozen=True)
class Account:
    role: str
    full_name: str

    def __str__(self) -> str:
        return ROLES[self.role][0]


ACCOUNTS = {
    "support": Account("support", "Sasha Support"),
    "support2": Account("support", "Toni Support"),
    "supervisor": Account("supervisor", "Robin Supervisor"),
    "administrator": Account("administrator", "Alex Administrator"),
}


@transaction.atomic
def make_accounts() -> list[str]:
    """The names of the accounts that were not there yet. One that exists is left as its owner changed it."""
    make_roles()
    made = []
    for name, account in ACCOUNTS.items():
        if User.objects.filter(username=name).exists():
            continue
        first_name, _, last_name = account.full_name.partition(" ")
        user = User.objects.create_user(name, password=PASSWORD, first_name=first_name, last_name=last_name)
        user.groups.add(Group.objects.get(name=account.role))
        made.append(name)
    return made
