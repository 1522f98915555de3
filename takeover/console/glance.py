"""The proposed write against what is there now: what a worker read again while somebody looks."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import case as cases
from runs.domain.states import State
from runs.interventions import glances
from runs.models import Glance, Run
from takeover.console import desk

PATIENCE = timedelta(seconds=20)  # how long a page that was opened goes on looking for the answer


@dataclass(frozen=True)
class Line:
    """One field: what it was and would become as proposed, and as of the last reading."""

    field: str
    proposed: tuple[str, str]  # now, then
    read: tuple[str, str] | None = None  # None: not read

    @property
    def now(self) -> str:
        return self.read[0] if self.read else self.proposed[0]

    @property
    def then(self) -> str:
        return self.read[1] if self.read else self.proposed[1]

    @property
    def now_differs(self) -> bool:
        return self.now != self.proposed[0]

    @property
    def then_differs(self) -> bool:
        return self.then != self.proposed[1]


@dataclass(frozen=True)
class Compared:
    """A plan beside what was last read about it."""

    digest: str  # of the plan
    lines: list[Line]
    planned_at: datetime | str
    version: str  # of what was read when it was proposed
    glance: Glance | None

    @property
    def finding(self) -> str:
        """What was read last, if anything was; empty where nothing was yet."""
        return self.glance.finding if self.glance and self.glance.read_at else ""

    @property
    def version_now(self) -> str:
        """Another version of what was read, where there is one."""
        now = self.glance.target_version if self.glance and self.finding else ""
        return now if now != self.version else ""

    @property
    def is_awaited(self) -> bool:
        """Whether an answer may still come by itself: then the page looks again."""
        return bool(self.glance and not self.glance.is_answered and timezone.now() - self.glance.asked_at < PATIENCE)

    @property
    def is_being_read(self) -> bool:
        return self.is_awaited and self.glance is not None and self.glance.is_taken


def compared(waiting: dict[str, Any], glance: Glance | None) -> Compared:
    """`waiting` is the proposed write as the package tells it."""
    planned = {field: (now, then) for field, now, then in waiting["plan"]["difference"]}
    read = {field: (now, then) for field, now, then in glance.difference} if glance and glance.read_at else {}
    not_there = ("–", "–")
    lines = [
        Line(field, planned.get(field, not_there), read.get(field, not_there) if read else None)
        for field in dict.fromkeys([*planned, *read])
    ]
    return Compared(waiting["plan_digest"], lines, waiting["planned_at"], waiting["plan"]["target_version"], glance)


def looked_at(run: Run, waiting: dict[str, Any] | None) -> Compared | None:
    """What stands beside a proposed write on a page that somebody opens; the next reading is asked for."""
    return compared(waiting, glances.look_at(run, waiting["plan_digest"])) if waiting else None


def undecided(case: dict[str, Any]) -> dict[str, Any] | None:
    """The proposed write that lies before a person: the last one, whatever became of it before it was put up."""
    return case["effects"][-1] if case["effects"] and case["state"] == State.AWAITING_APPROVAL else None


@require_safe
@never_cache
def glance(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The comparison alone, of the plan that a page shows. Who only waits for it is not looking anew: `look` asks."""
    _person, run = desk.case_for(request, run_id)
    waiting = undecided(cases.read(run))
    if waiting is None or waiting["plan_digest"] != request.GET.get("of"):
        found = None
    elif "look" in request.GET:
        found = looked_at(run, waiting)
    else:
        found = compared(waiting, glances.last_at(run, waiting["plan_digest"]))
    return render(request, "_glance.html", {"run": run, "glance": found})
