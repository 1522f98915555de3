"""Whether a worker still hears: a message of its own travels the broker, is consumed, and is seen in the database.

A worker that lost its ear at a reconnect stays up, answers pings and takes nothing. So each one consumes a queue of its
own beside the shared one, over the same channel, and sends itself a canary every few seconds. It counts as deaf only
where the broker took the canary, the database answers, a slot was free, and still nothing was seen for long enough:

    the broker does not take the canary    not deaf: nobody could hear
    the database does not answer           not deaf: it may have been seen
    the machine slept, or the process      not deaf: only time in which the watchdog was awake is counted
    every slot is in use                   not deaf: a canary would have to wait; but nothing may take for ever,
                                           so with no run done or taken for much longer it is stuck

A deaf or stuck worker says so and ends itself; whoever started it starts it again, and its runs go on elsewhere.
"""

import logging
import os
import secrets
import signal
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from celery import current_app
from celery.worker import state
from django.conf import settings
from django.db import Error, connection
from django.db.models.functions import Now
from kombu.exceptions import OperationalError
from redis import RedisError

from runs.engine import stopping
from runs.engine.tasks import advance_run, canary
from runs.models import Worker

log = logging.getLogger(__name__)
TICK = 0.5  # seconds
KEPT = timedelta(hours=1)  # how long the row of a process is kept after its last sign
GIVEN_UP = os.EX_TEMPFAIL  # exit code of a worker that ended itself: start it again


def new_name() -> str:
    return secrets.token_hex(8)


def queue_of(name: str) -> Any:
    """The queue that this worker alone consumes (kombu's Queue)."""
    return current_app.amqp.queues.new_missing(f"canary.{name}")


def forget_the_gone() -> None:
    """Remove rows of processes that have long been silent, and their queues. Without a broker they wait."""
    gone = list(Worker.objects.silent_for(KEPT))
    if not gone:
        return
    try:
        with current_app.connection_for_write() as broker, broker.channel() as channel:
            for worker in gone:
                # A queue can be deleted only where it was declared: the bindings are known by channel.
                queue = queue_of(worker.name).bind(channel)
                queue.declare()
                queue.delete()
                worker.delete()
    except (OperationalError, RedisError, OSError) as problem:
        log.warning("The queues of workers that are gone stay for now: the broker is out of reach (%s)", problem)


class Watchdog(threading.Thread):
    """Watches over the worker in whose main process it runs; `controller` is Celery's WorkController."""

    def __init__(self, worker: str, controller: Any) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.worker, self.controller = worker, controller
        self.silence = 0.0  # seconds awake since the worker was last seen to hear or to get on
        self.load = (False, 0, 0)
        self.exit_code = 0

    def run(self) -> None:
        while not stopping.asked():
            try:
                self._look()
            except (Error, OperationalError) as problem:
                self.silence = 0.0
                log.info("Nothing can be said about what this worker hears (%s)", str(problem).strip())
            except Exception:
                self.silence = 0.0
                log.exception("The watchdog stumbled")
            finally:
                connection.close()  # this thread's own; kept open, it would be inherited by every process forked later
            self._wait(settings.WORKER_CANARY)
        self._see_it_end()

    def _wait(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            if stopping.asked():
                return
            time.sleep(TICK)
            self.silence += TICK  # however long it really took

    def _look(self) -> None:
        slots, in_hand = self.controller.concurrency, len(state.reserved_requests)
        full = in_hand >= slots
        pool = self.controller.pool_cls.__module__.rpartition(".")[2]
        me = Worker.objects.sign(self.worker, kind=Worker.Kind.WORKER, pool=pool, slots=slots, in_hand=in_hand)
        # Changes whenever a run is taken or let go. A worker with free slots may do that, and yet hear nothing new.
        before, self.load = self.load, (full, state.total_count[advance_run.name], in_hand)
        if self.load != before if full or before[0] else me.heard:
            self.silence = 0.0
        if full:
            if self.silence >= settings.WORKER_STUCK_AFTER:
                self._give_up(f"All {slots} slots have been in use and none has got on", "stuck")
        elif self.silence >= settings.WORKER_DEAF_AFTER:
            self._give_up("The broker takes messages for this worker and none has arrived", "deaf")
        else:
            Worker.objects.filter(pk=self.worker).update(canary_sent_at=Now())
            canary.apply_async((self.worker,), queue=queue_of(self.worker))

    def _give_up(self, what: str, word: str) -> None:
        log.critical("%s for %d seconds: this worker is %s and ends itself", what, self.silence, word)
        self.exit_code = GIVEN_UP
        state.should_stop = GIVEN_UP  # as a signal would do it: what is in hand is finished, then the process ends
        stopping.ask()

    def _see_it_end(self) -> None:
        """Calls have deadlines, but not all end in time; and a loop that hears nothing may not hear this either."""
        time.sleep(settings.CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT)
        log.critical("This worker did not end by itself in time and is ended; the leases of its runs run out")
        try:
            for pid in self.controller.pool.info.get("processes", ()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        finally:
            os._exit(self.exit_code or GIVEN_UP)
