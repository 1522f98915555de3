"""`manage.py doctor`: what is wrong with this installation, and what to do. Exit code 1 where something is broken."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection

from takeover.management import printout
from takeover.management.checkup import WAIT, Level, examine, in_short


class Command(BaseCommand):
    help = "Says in sentences what is wrong with this installation, as far as this machine and environment can tell."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object, nothing else")
        parser.add_argument("--data-dir", metavar="FOLDER", help="the folder of the installation (.data)")

    def run_from_argv(self, argv: list[str]) -> None:
        # One connection that gives up soon, instead of a pool that tries on. The settings themselves are looked at.
        known = connection.settings_dict["OPTIONS"]
        on_the_server = f"{known.get('options', '')} -c statement_timeout={WAIT * 1000}"
        limits = {"pool": False, "connect_timeout": WAIT, "options": on_the_server, "answer_within": 2 * WAIT}
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": known | limits}
        super().run_from_argv(argv)

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        found = list(examine())
        worst = max((finding.level for _, finding in found), key=list(Level).index)
        if as_json:
            lines = [{"check": check.name, "level": finding.level, "says": finding.says} for check, finding in found]
            self.stdout.write(json.dumps({"level": worst, "checks": lines}, indent=2))
        else:
            for line in printout.aligned([finding.level, name, finding.says] for name, finding in in_short(found)):
                self.stdout.write(line)
        if worst is Level.BROKEN:
            sys.exit(1)
