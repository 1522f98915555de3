"""`manage.py migrate`: Django's own, as the owner of the tables where one is named, who then says what the application
may do in them (docs/database.md).
"""

from typing import Any

from django.conf import settings
from django.core.management import CommandError, CommandParser
from django.core.management.commands import migrate

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
        super().handle(*args, **options)
        if options["database"] == OWNER and not options["plan"]:
            try:
                privileges.make_role(application["USER"], application["PASSWORD"], OWNER)
            except privileges.NoSuchRole as sentence:
                raise CommandError(str(sentence)) from None
            privileges.grant(application["USER"], OWNER)
