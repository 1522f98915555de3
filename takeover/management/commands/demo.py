"""`manage.py demo`: fills an installation with runs in every outcome, by really running them."""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

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
from takeover.demo import scenarios
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
        played = Run.objects.filter(request_key__startswith=f"{series}-")
        known = set(played.values_list("workflow", "request_key"))
        stories = scenarios.of(registry.workflows())
        left = [story for story in stories if (story.workflow, f"{series}-{story.name}") not in known]
        if not left:
            self.stdout.write("The demo's runs are there already. (--again runs the stories once more.)")
            return
        playing = self._start(left, series)
        self._carry_on(playing)

    def _start(self, stories: Sequence[Scenario], series: str) -> list[Playing]:
        people = {user.username: user for user in User.objects.filter(username__in={story.by for story in stories})}
        started = []
        with httpx2.Client(base_url=settings.BACK_OFFICE_URL, timeout=10) as office:
            _ask(office, "GET", "/health")
            for story in stories:
                if _is_worked_on(story):
                    continue
                for strike in story.faults:
                    _ask(office, "POST", "/control/faults", dict(strike))
                try:
                    run, made = starting.start(
                        story.workflow,
                        story.input,
                        people[story.by],
                        request_key=f"{series}-{story.name}",
                        policy=story.policy,
                    )
                except Refused as no:
                    raise Stuck(f"The {story.workflow} run {story.name} was refused: {no.message}") from None
                if made:
                    started.append(one := Playing(story, run))
                    if one.acts and one.acts[0].at_once:
                        self._act(one)
        self.stdout.write(f"Started {len(started)} runs; workers carry them out.")
        return started

    def _carry_on(self, playing: list[Playing]) -> None:
        total, begun = len(playing), time.monotonic()
        left = list(playing)
        while left:
            _refresh(left)
            still = standstill.reached([one.run for one in left])
            for one in [one for one in left if one.run.pk in still and not one.acts]:
                left.remove(one)
                run, number = one.run, total - len(left)
                self.stdout.write(f"{number} of {total}: {case.title(run)} → {run.outcome} ({run.stop_reason})")
            for one in left:
                if one.acts and _is_time_for(one.acts[0], one.run, one.run.pk in still):
                    self._act(one)
            waited = time.monotonic() - begun
            if waited > FIRST_MOVE_WITHIN and all(one.run.state == State.RECEIVED for one in left):
                raise Stuck(f"No worker took up a run within {FIRST_MOVE_WITHIN} seconds: see that bin/up is running.")
            if waited > WITHIN:
                self.stdout.write(
                    f"{len(left)} of {total} take longer than {WITHIN} seconds; they go on by themselves."
                )
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
