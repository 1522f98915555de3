"""`manage.py people …`: who may sign in, and in which roles. Every change is on record.

A password is asked for, or read from standard input: a command line is seen by others, and kept.
"""

import sys
from argparse import ArgumentParser
from getpass import getpass
from typing import Any

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from runs.domain.interventions import ROLES
from runs.models import Event
from takeover.management import printout
from takeover.management.terminal import DONE, BadInput, TerminalCommand
from takeover.roles import make_roles


class Command(TerminalCommand):
    help = "Says who may sign in, adds people, and changes what they may do."

    def add_arguments(self, parser: ArgumentParser) -> None:
        folder = "the folder of the installation (.data)"  # read by manage.py before the settings are
        parser.add_argument("--data-dir", metavar="FOLDER", help=folder)
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
        for name, says in {
            "list": "Say who may sign in, and in which roles.",
            "add": "Add somebody; the password is asked for, or the first line of standard input.",
            "roles": "Give somebody these roles, and no others.",
            "password": "Give somebody another password.",
            "close": "Let somebody sign in no more; whoever is signed in is out at once.",
            "open": "Let somebody sign in again.",
        }.items():
            verb = verbs.add_parser(name, help=says, description=says)
            verb.add_argument("--data-dir", metavar="FOLDER", help=folder)
            if name == "list":
                verb.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")
                continue
            verb.add_argument("name", help="what they sign in with")
            if name == "add":
                verb.add_argument("--full-name", default="", help="what others read")
            if name in {"add", "roles"}:
                verb.add_argument("--role", dest="roles", action="append", default=[], choices=ROLES, help="repeatable")

    def _list(self, as_json: bool, **_: Any) -> int:
        found = [
            {
                "name": person.get_username(),
                "full_name": person.get_full_name(),
                "roles": sorted(group.name for group in person.groups.all()),
                "may_sign_in": person.is_active,
            }
            for person in User.objects.order_by("username").prefetch_related("groups")
        ]
        if as_json:
            self._print_json({"people": found})
            return DONE
        for line in printout.aligned([[str(one["name"]), _in_words(one)] for one in found]):
            self._print(line)
        if not found:
            self._print("Nobody yet: manage.py people add NAME --role support")
        return DONE

    def _add(self, name: str, full_name: str, roles: list[str], **_: Any) -> int:
        first, _space, last = full_name.strip().partition(" ")
        person = User(username=name, first_name=first, last_name=last)
        try:
            person.clean_fields(exclude=["password"])
        except ValidationError as no:
            raise BadInput("; ".join(f"{field}: {' '.join(says)}" for field, says in no.message_dict.items())) from None
        person.set_password(_new_password(person))
        try:
            with transaction.atomic():
                person.save()
                person.groups.set(_groups(roles))
                _on_record("person_added", person, roles=roles)
        except IntegrityError:
            raise BadInput(f"There is somebody called {name} already.") from None
        self._print(f"{name} may sign in" + (f" as {', '.join(roles)}." if roles else ", and may do nothing yet."))
        return DONE

    def _roles(self, name: str, roles: list[str], **_: Any) -> int:
        person = _find(name)
        with transaction.atomic():
            person.groups.set(_groups(roles))
            _on_record("person_given_roles", person, roles=roles)
        self._print(f"{name} has the role {', '.join(roles)}." if roles else f"{name} has no role, and may do nothing.")
        return DONE

    def _password(self, name: str, **_: Any) -> int:
        person = _find(name)
        person.set_password(_new_password(person))
        with transaction.atomic():
            person.save(update_fields=["password"])
            _on_record("person_given_password", person)
        self._print(f"{name} signs in with the new password from now on; open sessions have ended.")
        return DONE

    def _close(self, name: str, **_: Any) -> int:
        return self._let_in(name, False, "may sign in no more")

    def _open(self, name: str, **_: Any) -> int:
        return self._let_in(name, True, "may sign in")

    def _let_in(self, name: str, may: bool, says: str) -> int:
        person = _find(name)
        with transaction.atomic():
            person.is_active = may
            person.save(update_fields=["is_active"])
            _on_record("person_opened" if may else "person_closed", person)
        self._print(f"{name} {says}.")
        return DONE


def _in_words(one: dict[str, Any]) -> str:
    roles = ", ".join(one["roles"]) or "no role"
    return f"{one['full_name'] or '-'}  {roles}" + ("" if one["may_sign_in"] else "  (closed)")


def _find(name: str) -> User:
    person = User.objects.filter(username=name).first()
    if person is None:
        raise BadInput(f"There is nobody called {name}: manage.py people list says who there is.")
    return person


def _groups(roles: list[str]) -> list[Group]:
    make_roles()
    return list(Group.objects.filter(name__in=roles))


def _on_record(kind: str, person: User, **content: Any) -> None:
    Event.objects.record(None, kind, None, name=person.get_username(), **content)


def _new_password(person: User) -> str:
    if sys.stdin.isatty():
        password = getpass("Password: ")
        if getpass("Once more: ") != password:
            raise BadInput("The two passwords differ; nothing was changed.")
    else:
        password = sys.stdin.readline().rstrip("\n")
    try:
        validate_password(password, person)
    except ValidationError as no:
        raise BadInput(f"password: {' '.join(no.messages)}") from None
    return password
