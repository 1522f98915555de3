"""`manage.py sweep`: the process that finds what is due. Any number may run; see `runs.engine.sweep`."""

import logging
import signal
import threading
from contextlib import suppress
from time import monotonic
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, close_old_connections, connections

from runs.engine import stopping
from runs.engine.liveness import forget_the_gone, new_name
from runs.engine.retention import Retention
from runs.engine.seal import Sealer
from runs.engine.sweep import Sweeper
from runs.models import Worker

log = logging.getLogger(__name__)
SEAL_EVERY = 1.0  # seconds
TIDY_EVERY = 60.0


class Command(BaseCommand):
    help = "Wakes runs that are due, and seals the record, for as long as it runs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="make one pass and end")
        parser.add_argument("--data-dir", help="the data folder of a running installation")

    def handle(self, *args: Any, once: bool, **options: Any) -> None:
        stop, name = threading.Event(), new_name()

        def stop_soon(*_: object) -> None:
            stopping.ask()  # a run that is being carried on is given back at its next step boundary
            stop.set()

        def sign() -> None:
            Worker.objects.sign(name, kind=Worker.Kind.SWEEPER)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop_soon)
        if once:
            Sealer().tick()
        else:
            # Beside the sweeping, so that neither waits for the other.
            threading.Thread(target=seal_until, args=[stop], name="sealer", daemon=True).start()
        sweeper, retention, tidied = Sweeper(sign), Retention(), monotonic() - TIDY_EVERY
        while True:
            close_old_connections()
            try:
                sweeper.sweep()
                sign()
                if monotonic() - tidied >= TIDY_EVERY:
                    tidied = monotonic()
                    forget_the_gone()
                    retention.tick()
            except DatabaseError as problem:
                log.warning("The database did not answer: %s", problem)
            if once or stop.wait(settings.ENGINE_SWEEP):
                break
        with suppress(DatabaseError):
            Worker.objects.stopped(name)


def seal_until(stop: threading.Event) -> None:
    sealer = Sealer()
    while not stop.wait(SEAL_EVERY):
        close_old_connections()
        sealer.tick()
    connections.close_all()
