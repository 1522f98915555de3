"""`manage.py demo`: fills an installation with runs in every outcome, by really running them."""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx2
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand
from django.db import OperationalError
from django.utils import timezone

from runs import case
from runs.domain.interventions import CATALOGUE
from runs.domain.states import State
from runs.engine.calls import terms_of
from runs.interventions import claims, sending, starting
from runs.interventions.possible import proposal
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.workflows import registry
from takeover.demo import papers, scenarios
from takeover.demo.accounts import make_accounts
from takeover.demo.scenario import Act, Scenario
from takeover.management import standstill

FIRST_MOVE_WITHIN = 30  # seconds until some worker must have taken up some run
WITHIN = 120
POLL = 0.2


class Stuck(Exception):
    """The demo cannot go on; the message says why and what to do."""


class Playing:
    """One scenario under way."""

    def __init__(self, scenario: Scenario, run: Run) -> None:
        self.run, self.acts = run, list(scenario.acts)


class Command(BaseCommand):
    help = "Makes the demo's accounts, and runs of every workflow in every outcome by really running them."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--data-dir", metavar="FOLDER", help="the folder of the installation (.data)")
        parser.add_argument("--accounts-only", action="store_true", help="make the accounts and no runs")
        parser.add_argument("--again", action="store_true", help="once more; what was refunded is now refused")

    def handle(self, *args: Any, accounts_only: bool, again: bool, **options: Any) -> None:
        try:
            if made := make_accounts():
                self.stdout.write(f"Accounts made: {', '.join(made)}")
            if not accounts_only:
                self._play(again)
        except Stuck as sentence:
            self.stderr.write(str(sentence))
            sys.exit(1)
        except OperationalError:
            self.stderr.write(f"Nothing is running in {settings.DATA_DIR}: start it with bin/up.")
            sys.exit(1)

    def _play(self, again: bool) -> None:
        series = f"demo-{timezone.now():%y%m%d%H%M%S}" if again else "demo"
        stories = scenarios.of(registry.workflows())
        left = [story for story in stories if not _played(story, series)]
        if not left:
            self.stdout.write("The demo's runs are there already. (--again runs the stories once more.)")
            return
        with httpx2.Client(base_url=settings.BACK_OFFICE_URL, timeout=10) as self.office:
            _ask(self.office, "GET", "/health")
            papers.lay_out()
            started = [self._start(story, series) for story in left if not story.follows]
            playing = [one for one in started if one]
            self.stdout.write(f"Started {len(playing)} runs; workers carry them out.")
            self._carry_on(playing, [story for story in left if story.follows], series)

    def _start(self, story: Scenario, series: str, origin: Run | None = None) -> Playing | None:
        """The story under way; None where somebody works on what it is about."""
        if not origin and _is_worked_on(story):
            return None
        for strike in story.faults:
            _ask(self.office, "POST", "/control/faults", dict(strike))
        person, key = User.objects.get(username=story.by), f"{series}-{story.name}"
        try:
            if origin and story.follows:
                run, made = starting.follow_up(origin.pk, story.follows[1], person)
            else:
                run, made = starting.start(story.workflow, story.input, person, request_key=key, policy=story.policy)
        except Refused as no:
            if not origin:
                raise Stuck(f"The {story.workflow} run {story.name} was refused: {no.message}") from None
            self.stdout.write(f"{case.title(origin)}: nothing follows it. {no.message}")
            return None
        if not made:
            return None
        one = Playing(story, run)
        if one.acts and one.acts[0].at_once:
            self._act(one)
        return one

    def _carry_on(self, playing: list[Playing], following: list[Scenario], series: str) -> None:
        total, begun = len(playing) + len(following), time.monotonic()
        left, waiting = list(playing), list(following)
        while left or waiting:
            _refresh(left)
            still = standstill.reached([one.run for one in left])
            for one in [one for one in left if one.run.pk in still and not one.acts]:
                left.remove(one)
                run, number = one.run, total - len(left) - len(waiting)
                self.stdout.write(f"{number} of {total}: {case.title(run)} → {run.outcome} ({run.stop_reason})")
            for one in left:
                if one.acts and _is_time_for(one.acts[0], one.run, one.run.pk in still):
                    self._act(one)
            for story, origin in _ready(waiting, series, {one.run.pk for one in left}):
                waiting.remove(story)
                if origin and (begun_now := self._start(story, series, origin)):
                    left.append(begun_now)
            waited = time.monotonic() - begun
            if playing and waited > FIRST_MOVE_WITHIN and all(one.run.state == State.RECEIVED for one in playing):
                raise Stuck(f"No worker took up a run within {FIRST_MOVE_WITHIN} seconds: see that bin/up is running.")
            if waited > WITHIN:
                late = len(left) + len(waiting)
                self.stdout.write(f"{late} of {total} take longer than {WITHIN} seconds; they go on by themselves.")
                return
            time.sleep(POLL)
        self.stdout.write("Those that wait go on by themselves: the service is asked again in the next minutes.")

    def _act(self, one: Playing) -> None:
        act = one.acts.pop(0)
        person = User.objects.get(username=act.who)
        try:
            if act.event is None:
                claims.claim(one.run.pk, person)
                return
            answers, kind = "", CATALOGUE[act.event]
            if kind.answers_plan:
                answers = case.read(one.run)["effects"][-1]["plan_digest"]
            elif first := proposal(kind, one.run):
                answers = str(first.pk)
            sending.send(one.run.pk, act.event, person, act.payload, answers=answers)
        except Refused as no:
            self.stdout.write(f"{case.title(one.run)}: {act.who} was refused. {no.message}")


def _ask(office: httpx2.Client, method: str, path: str, body: dict[str, Any] | None = None) -> None:
    try:
        answer = office.request(method, path, json=body)
    except httpx2.HTTPError:
        raise Stuck(f"The back office at {settings.BACK_OFFICE_URL} does not answer: start bin/up.") from None
    if not answer.is_success:
        reason = f"{method} {path} was answered with {answer.status_code}"
        raise Stuck(f"The service at {settings.BACK_OFFICE_URL} is not the demo's back office ({reason}).")


def _played(story: Scenario, series: str) -> bool:
    key = "follows__request_key" if story.follows else "request_key"
    return Run.objects.filter(workflow=story.workflow, **{key: f"{series}-{story.name}"}).exists()


def _ready(stories: Sequence[Scenario], series: str, playing: set[UUID]) -> list[tuple[Scenario, Run | None]]:
    """Those of `stories` whose origin is not being played any more, with the run that they come out of, if any."""
    found = []
    for story in stories:
        assert story.follows
        origin = Run.objects.filter(workflow=story.follows[0], request_key=f"{series}-{story.name}").first()
        if origin is None or origin.pk not in playing:
            found.append((story, origin))
    return found


def _is_worked_on(story: Scenario) -> bool:
    """Whether somebody has a run open for what this story is about."""
    workflow = registry.workflows()[story.workflow]
    return Run.objects.unfinished().filter(workflow=story.workflow, subject=workflow.subject(story.input)).exists()


def _refresh(playing: list[Playing]) -> None:
    rows = Run.objects.select_related("holder", "requester").in_bulk([one.run.pk for one in playing])
    for one in playing:
        one.run = rows[one.run.pk]


def _is_time_for(act: Act, run: Run, stands_still: bool) -> bool:
    if not stands_still:
        return False
    if not act.with_proof:
        return True
    sent = run.effects.exclude(sent_at=None).order_by("-sent_at").first()
    if not sent or not sent.sent_at:
        return False
    tool = registry.workflows()[run.workflow].tools[sent.operation]
    return timezone.now() > sent.sent_at + terms_of(tool).in_flight
