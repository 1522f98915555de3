"""`manage.py up`: the whole installation in one terminal."""

import os
import sys
from argparse import ArgumentError, ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from takeover.environment import DATA_DIR
from takeover.supervisor import CannotStart
from takeover.supervisor.stack import Options, check_port, up


class Command(BaseCommand):
    help = "Starts the database, the broker, the workers, the demo's back office and the site, until Ctrl-C."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_arguments(parser)

    def handle(self, *args: Any, port: str, workers: str, demo: bool, **options: Any) -> None:
        try:
            up(
                _options(port, workers, demo),
                welcome=lambda env: _welcome(env, settings.DATA_DIR, demo),
            )
        except CannotStart as sentence:
            self.stderr.write(str(sentence))
            sys.exit(1)
        except OSError as error:
            where = error.filename or settings.DATA_DIR
            self.stderr.write(f"{where}: {error.strerror}. See that the disk has room and that you may write there.")
            sys.exit(1)


def look_first(words: list[str]) -> None:
    """Refuse what makes no sense before the settings are read, which make the data folder and a key in it."""
    parser = ArgumentParser(add_help=False, exit_on_error=False)
    _add_arguments(parser)
    try:
        given, _ = parser.parse_known_args(words)
    except ArgumentError:
        return  # the command's own parser says it, with the usage
    options = _options(given.port, given.workers, given.demo)
    if not options.folder.exists():  # otherwise who holds it comes first, and what a killed start left on the port
        check_port(options.port)


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--port", default="8000", help="where the site answers (8000)")
    parser.add_argument("--data-dir", help="where everything is kept (.data)")  # read by manage.py
    parser.add_argument("--workers", default=str(min(2, os.cpu_count() or 1)), help="worker processes (2)")
    parser.add_argument("--no-demo", dest="demo", action="store_false", help="no demo accounts, runs or back office")


def _options(port: str, workers: str, demo: bool) -> Options:
    return Options(DATA_DIR, _between("--port", port, 1, 65535), _between("--workers", workers, 1, 64), demo)


def _between(option: str, value: str, low: int, high: int) -> int:
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        raise CannotStart(f"{option} must be a whole number from {low} to {high}, not {value!r}.")
    return int(value)


def _welcome(env: Mapping[str, str], folder: Path, demo: bool) -> str:
    lines = [f"Takeover is ready: {env['SITE_URL']}", ""]
    if demo:
        from takeover.demo.accounts import ACCOUNTS, PASSWORD

        lines += [f"Sign in with the password {PASSWORD!r} as"]
        lines += [f"  {name:<14} {role}" for name, role in ACCOUNTS.items()]
        lines += ["", f"The demo's back office, where faults are switched on: {env['BACK_OFFICE_URL']}"]
    else:
        manage = f"{sys.executable} {settings.BASE_DIR / 'manage.py'}"
        lines += ["Add people in another terminal; other roles are supervisor and administrator:"]
        lines += [f"  {manage} people add NAME --role support --data-dir {folder}"]
    lines += ["", f"Everything is kept in {folder}. Stop with Ctrl-C."]
    rule = "=" * max(map(len, lines))
    return "\n".join(["", rule, *lines, rule, ""])
