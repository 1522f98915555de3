"""`manage.py migrate`: Django's own, as the owner of the tables where one is named, who then says what the application
may do in them (docs/database.md).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import connections

from runs.models import privileges

OWNER = "owner"  # in DATABASES where OWNER_DATABASE_URL is set


class Command(migrate.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        if OWNER in settings.DATABASES:
            parser.set_defaults(database=OWNER)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["database"] == OWNER:
            application = settings.DATABASES["default"]
            if application["USER"] in {"", settings.DATABASES[OWNER]["USER"]}:
                raise CommandError("DATABASE_URL must name a role of its own, not the owner's (docs/database.md).")
        with unhurried(options["database"]):
            super().handle(*args, **options)
        if options["database"] == OWNER and not options["plan"]:
            try:
                privileges.make_role(application["USER"], application["PASSWORD"], OWNER)
            except privileges.NoSuchRole as sentence:
                raise CommandError(str(sentence)) from None
            privileges.grant(application["USER"], OWNER)


@contextmanager
def unhurried(database: str) -> Iterator[None]:
    """To change a large table takes as long as it takes, whatever the statements of the product may take."""
    connection = connections[database]
    usual, limits = connection.settings_dict, {"pool", "options", "answer_within"}
    connection.close()
    lasting = {name: given for name, given in usual["OPTIONS"].items() if name not in limits}
    connection.settings_dict = usual | {"OPTIONS": lasting}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = usual
