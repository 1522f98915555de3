import os
import socket
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models.functions import Now


class WorkerQuerySet(models.QuerySet["Worker"]):
    def heard_from(self, within: timedelta) -> "WorkerQuerySet":
        """Those that have not said goodbye and gave a sign within that time."""
        return self.filter(stopped_at=None, last_sign_at__gte=Now() - within)

    def silent_for(self, long: timedelta) -> "WorkerQuerySet":
        return self.filter(last_sign_at__lt=Now() - long)


class WorkerManager(models.Manager["Worker"]):
    def sign(self, name: str, **facts: Any) -> "Worker":
        """Say that this process is there, and what is true of it now. Its row comes back if somebody removed it."""
        about = {"host": socket.gethostname()[:100], "pid": os.getpid(), "last_sign_at": Now()}
        worker, _ = self.update_or_create(name=name, defaults=facts | about)
        return worker

    def stopped(self, name: str) -> None:
        self.filter(name=name).update(stopped_at=Now())


class Worker(models.Model):
    """One start of a process that carries runs on. Kept a while longer than it lives; all times are the database's."""

    class Kind(models.TextChoices):
        WORKER = "worker"
        SWEEPER = "sweeper"

    name = models.CharField(max_length=32, primary_key=True)  # random per start: hosts and pids come again
    kind = models.CharField(max_length=10, choices=Kind.choices)
    host = models.CharField(max_length=100)
    pid = models.PositiveIntegerField()
    pool = models.CharField(max_length=20, blank=True)
    slots = models.PositiveIntegerField(default=1)  # runs it can carry at once
    in_hand = models.PositiveIntegerField(default=0)  # messages it had taken at its last sign
    started_at = models.DateTimeField(db_default=Now())
    last_sign_at = models.DateTimeField()  # it runs and reaches the database; whether it hears, the canary says
    canary_sent_at = models.DateTimeField(null=True)  # the broker was given a message for this worker alone
    canary_seen_at = models.DateTimeField(null=True)  # and the worker has received one
    stopped_at = models.DateTimeField(null=True)

    objects = WorkerManager.from_queryset(WorkerQuerySet)()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.pid} on {self.host}"

    @property
    def heard(self) -> bool:
        """Whether the last message sent to it came through."""
        if self.canary_sent_at is None:
            return True
        return self.canary_seen_at is not None and self.canary_seen_at >= self.canary_sent_at
