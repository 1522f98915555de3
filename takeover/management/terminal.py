"""What commands for a terminal and for scripts have in common: sentences on stderr, and exit codes that mean something.

Exit codes: 0 done; 1 it ended otherwise, or not in time; 2 refused, or what was given makes no sense.
"""

import json
import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, InterfaceError, OperationalError, ProgrammingError, connection

from runs.interventions.refusals import Refused
from takeover.management import printout

DONE, OTHERWISE, REFUSED = 0, 1, 2


class BadInput(Exception):
    """What was given makes no sense; the message says what and how it should look."""


class TerminalCommand(BaseCommand):
    """Has a method `_verb` for each of its verbs, which returns the exit code."""

    requires_system_checks = ()
    suppressed_base_arguments = {
        "--version",
        "--verbosity",
        "--settings",
        "--pythonpath",
        "--traceback",
        "--no-color",
        "--force-color",
    }

    def run_from_argv(self, argv: list[str]) -> None:
        # One connection is enough, and a pool would try for ten seconds where nobody listens.
        connection.settings_dict["OPTIONS"].pop("pool", None)
        try:
            try:
                super().run_from_argv(argv)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:  # who was reading (`head`, say) has had enough; what is left goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        try:
            code = getattr(self, f"_{verb}")(**options)
        except (BadInput, Refused) as no:
            self.stderr.write(printout.one_line(no.message if isinstance(no, Refused) else str(no)))
            code = REFUSED
        except (OperationalError, InterfaceError) as problem:
            self.stderr.write(_no_database(problem))
            code = REFUSED
        except ProgrammingError as problem:
            if "permission denied" in str(problem):
                role = connection.settings_dict["USER"]
                self.stderr.write(f"The role {role} may not do this: run manage.py migrate with OWNER_DATABASE_URL.")
            elif "does not exist" in str(problem):
                self.stderr.write(f"The database of {settings.DATA_DIR} has no tables yet: bin/up makes them.")
            else:
                raise
            code = REFUSED
        except KeyboardInterrupt:
            code = 130
        if code:
            sys.exit(code)

    def _print(self, *parts: str) -> None:
        self.stdout.write(printout.one_line("".join(parts)))

    def _print_json(self, content: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(content, indent=2, cls=DjangoJSONEncoder))


def _no_database(problem: DatabaseError | InterfaceError) -> str:
    if "DATABASE_URL" in os.environ:
        reason = (str(problem).strip().splitlines() or ["no reason given"])[0]
        return f"The database that DATABASE_URL names does not answer: {printout.one_line(reason)}"
    return f"Nothing is running in {settings.DATA_DIR}: start it with bin/up, or name its folder with --data-dir."
