"""`manage.py runs …`: the same door as the console, for a terminal and for scripts.

Exit codes: 0 done; 1 it ended otherwise, or not in time; 2 refused, or what was given makes no sense.
"""

import math
import os
import time
import uuid
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from runs import case
from runs.domain.budget import Dimension
from runs.domain.interventions import CATALOGUE, FROM_PEOPLE
from runs.domain.states import Move, Outcome
from runs.interventions import sending, starting
from runs.models import Run
from runs.workflows import registry
from takeover.console import words
from takeover.management import printout, standstill
from takeover.management.terminal import DONE, OTHERWISE, BadInput, TerminalCommand

POLL = 0.2


class Command(TerminalCommand):
    help = "Starts, shows and moves on runs of agents."

    def add_arguments(self, parser: ArgumentParser) -> None:
        # Read by manage.py before the settings are; accepted before and after the verb.
        folder = "the folder of the installation (.data)"
        parser.add_argument("--data-dir", metavar="FOLDER", help=folder)
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")

        def verb(name: str, says: str, *, person: bool = False, run: bool = True) -> ArgumentParser:
            added = verbs.add_parser(name, help=says, description=says)
            added.add_argument("--data-dir", metavar="FOLDER", help=folder)
            added.add_argument(
                "--json", dest="as_json", action="store_true", help="print one JSON object, nothing else"
            )
            if run:
                added.add_argument("run", metavar="ID", help="the run's id")
            if person:
                added.add_argument("--as", dest="person", metavar="USER", required=True, help="the account that acts")
            return added

        start = verb("start", "Start a run of a workflow.", person=True, run=False)
        start.add_argument("workflow", metavar="WORKFLOW")
        start.add_argument(
            "--input", dest="given", metavar="JSON", required=True, help="what the workflow asks for, as an object"
        )
        start.add_argument("--policy", metavar="NAME", default="", help="what proposes the steps (scripted)")
        start.add_argument("--request-key", metavar="KEY", default="", help="the same key again gives the same run")

        listing = verb("list", "List runs, the most urgent first.", run=False)
        listing.add_argument("--outcome", metavar="OUTCOME", default="", help="only those that stopped like this")
        listing.add_argument("--workflow", metavar="WORKFLOW", default="", help="only those of this workflow")
        listing.add_argument("--limit", metavar="N", type=_whole, default=50, help="at most so many (50)")

        verb("show", "Show one run: the package that a person receives.")

        send = verb("send", "Send an event to a run.", person=True)
        send.add_argument("event", metavar="EVENT", help=", ".join(move.value for move in FROM_PEOPLE))
        send.add_argument("--payload", metavar="JSON", default="{}", help="what the event asks for, as an object")
        send.add_argument("--plan", metavar="DIGEST", default="", help="the plan that is decided (the one shown now)")
        send.add_argument("--confirms", metavar="N", default="", help="the number of what somebody else proposed")

        verb("reconcile", "Ask the service again what became of a run's write.", person=True)

        follow = verb(
            "follow", "Start the run that its workflow declares to come out of one that has ended.", person=True
        )
        follow.add_argument("name", metavar="NAME", help="of the follow-up, such as payment")

        wait = verb("wait", "Wait until a run stops.")
        wait.add_argument("--until", metavar="OUTCOME", default="", help="go on through other outcomes, up to this one")
        wait.add_argument("--timeout", metavar="S", type=_seconds, default=60.0, help="seconds to wait at most (60)")

    # The verbs

    def _start(
        self,
        workflow: str,
        given: str,
        person: str,
        policy: str,
        request_key: str,
        as_json: bool,
        **_: Any,
    ) -> int:
        run, made = starting.start(workflow, given, _person(person), request_key=request_key, policy=policy)
        return self._say_started(run, made, as_json)

    def _follow(self, run: str, name: str, person: str, as_json: bool, **_: Any) -> int:
        following, made = starting.follow_up(_run(run).pk, name, _person(person))
        return self._say_started(following, made, as_json)

    def _say_started(self, run: Run, made: bool, as_json: bool) -> int:
        if as_json:
            return self._print_package(run)
        self._print("Started" if made else "Already there, nothing new was started", f": {case.title(run)}")
        self._print(str(run.pk))
        return DONE

    def _list(self, outcome: str, workflow: str, limit: int, as_json: bool, **_: Any) -> int:
        found = Run.objects.select_related("holder").most_urgent_first()
        if outcome:
            found = found.filter(outcome=_outcome("--outcome", outcome))
        if workflow:
            if workflow not in registry.workflows() and not Run.objects.filter(workflow=workflow).exists():
                raise BadInput(f"There is no workflow called {workflow!r}. Known: {', '.join(registry.workflows())}.")
            found = found.filter(workflow=workflow)
        runs = list(found[:limit])
        if as_json:
            self._print_json({"runs": [printout.in_short(run) for run in runs]})
            return DONE
        if not runs:
            self._print("No run fits.")
        rows = [
            [
                str(run.pk),
                run.outcome or "running",
                run.stop_reason or run.state,
                printout.age(run),
                run.holder.get_username() if run.holder and run.is_held() else "–",
                case.title(run),
            ]
            for run in runs
        ]
        for line in printout.aligned([["RUN", "OUTCOME", "REASON", "AGE", "HELD BY", "WHAT"], *rows] if rows else []):
            self._print(line)
        if (all_of_them := found.count()) > len(runs):
            self._print(f"These are {len(runs)} of {all_of_them}; --limit {all_of_them} shows all.")
        return DONE

    def _show(self, run: str, as_json: bool, **_: Any) -> int:
        found = _run(run)
        if as_json:
            return self._print_package(found)
        for line in printout.told(case.read(found)):
            self._print(line)
        return DONE

    def _send(
        self, run: str, event: str, person: str, payload: str, plan: str, confirms: str, as_json: bool, **_: Any
    ) -> int:
        found, sender = _run(run), _person(person)
        kind = CATALOGUE.get(Move(event)) if event in set(Move) else None
        if kind and kind.answers_plan and not plan:
            last = found.effects.last()
            plan = last.plan_digest if last else ""
        checks = found.ledger.left(Dimension.FOLLOW_UP_CHECKS)
        sent = sending.send(found.pk, event, sender, payload, answers=confirms or plan)
        if as_json:
            return self._print_package(_run(run))
        if sent.result:
            self._print(
                f"Proposed: {words.event(event)} ({event}). Nothing happens before a second person sends it too, "
                f"with --confirms {sent.pk}."
            )
            return DONE
        self._print(f"Accepted: {words.event(event)} ({event})" + (f", about plan {plan}" if plan else ""))
        if kind and kind.costs_a_look_up and checks:
            self._print(f"(follow-up checks: {checks - 1} left after this one)")
        folder = f" --data-dir {settings.DATA_DIR}" if "TAKEOVER_DATA_DIR" in os.environ else ""
        self._print(f"What comes of it: manage.py runs wait {found.pk}{folder}")
        return DONE

    def _reconcile(self, run: str, person: str, as_json: bool, **_: Any) -> int:
        return self._send(run, Move.RECONCILE_REQUESTED, person, "{}", "", "", as_json)

    def _wait(self, run: str, until: str, timeout: float, as_json: bool, **_: Any) -> int:
        wanted = _outcome("--until", until) if until else None
        deadline = time.monotonic() + timeout
        while True:
            found = _run(run)
            if standstill.reached([found]):
                if wanted is None or found.outcome == wanted:
                    code, says = DONE, ""
                    break
                if found.is_final:
                    code, says = OTHERWISE, f"It ended as {found.outcome}, not as {wanted}."
                    break
            if time.monotonic() >= deadline:
                now = found.outcome or found.state
                code, says = OTHERWISE, f"It did not get there within {timeout:g} seconds; it is {now}."
                break
            time.sleep(min(POLL, max(0.0, deadline - time.monotonic())))
        if as_json:
            self._print_package(found)
        else:
            for line in printout.in_a_few_lines(case.read(found)):
                self._print(line)
        if says:
            self.stderr.write(says)
        return code

    # Printing

    def _print_package(self, run: Run) -> int:
        self._print_json(case.read(run))
        return DONE


# What was given


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise ArgumentTypeError(f"must be a whole number from 1 to 10000, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 86_400:
        raise ArgumentTypeError(f"must be a number of seconds from 0 to 86400, not {text!r}")
    return seconds


def _person(name: str) -> User:
    person = User.objects.filter(username=name).first()
    if person is None:
        raise BadInput(f"There is no account called {name!r}.")
    if not person.is_active:
        raise BadInput(f"The account {name!r} is switched off.")
    return person


def _run(number: str) -> Run:
    try:
        run_id = uuid.UUID(number)
    except ValueError:
        raise BadInput(f"{number!r} is not a run's id, which looks like {uuid.UUID(int=0)}.") from None
    run = Run.objects.select_related("holder", "requester").filter(pk=run_id).first()
    if run is None:
        raise BadInput(f"There is no run {run_id} here. `manage.py runs list` shows those there are.")
    return run


def _outcome(option: str, text: str) -> Outcome:
    try:
        return Outcome(text.upper())
    except ValueError:
        raise BadInput(f"{option} must be one of {', '.join(Outcome)}, not {text!r}.") from None
