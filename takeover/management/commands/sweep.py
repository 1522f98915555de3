"""`manage.py sweep`: the process that finds what is due. Any number may run; see `runs.engine.sweep`."""

import logging
import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, close_old_connections

from runs.engine.sweep import Sweeper

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Wakes runs that are due, for as long as it runs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="make one pass and end")
        parser.add_argument("--data-dir", help="the data folder of a running installation")

    def handle(self, *args: Any, once: bool, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        sweeper = Sweeper()
        while True:
            close_old_connections()
            try:
                sweeper.sweep()
            except DatabaseError as problem:
                log.warning("The database did not answer: %s", problem)
            if once or stop.wait(settings.ENGINE_SWEEP):
                return
