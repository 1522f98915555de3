"""One process dies, the next ones carry on: what became of it, held against the invariants and the story's own end."""

import itertools
from shutil import rmtree
from uuid import UUID

from django.db.models import Q

from runs.domain.budget import Dimension
from runs.domain.states import Move, Outcome, StopReason
from runs.models import Run
from tests.documents import Documents
from tests.faults.crashing import Attempt, ForkServer, Point
from tests.faults.invariants import violations
from tests.faults.stories import STORIES
from tests.people import person
from tests.processes import BackOffice

WITHOUT_LOOK_UPS = {
    (Outcome.NEEDS_HUMAN, StopReason.OUTCOME_UNCONFIRMED),
    (Outcome.LIMIT_REACHED, StopReason.LIMIT_STATUS_CHECKS),
}


class Trials:
    def __init__(self, server: ForkServer, office: BackOffice) -> None:
        self.server, self.office = server, office
        rmtree(server.documents, ignore_errors=True)  # the names begin anew as well
        self.documents = Documents(server.documents)
        self.numbers = itertools.count(1)
        self.attempts = 0
        for name in ("support", "supervisor"):
            person(name)
        if not server.is_warm:
            server.warm_up("write", self.lay_out("write"))

    def points(self, story: str, broken: str = "") -> list[Point]:
        """The points that the story passes when nobody dies; then nothing may be wrong, unless something is broken."""
        order = self.lay_out(story)
        attempt = self._play(story, order, broken=broken)
        found = [] if broken else self._found(story, order, attempt, [])
        assert not found, "\n".join(found)
        return attempt.points

    def lay_out(self, story: str) -> str:
        """An order or event of its own for this attempt, with the story's faults."""
        order = f"K{next(self.numbers):05}"
        if STORIES[story].about.controls:
            self.office.change(STORIES[story].about.controls, order, **STORIES[story].order)
        for fault, parameters in STORIES[story].faults.items():
            self.office.fault(order, fault, **parameters)
        return order

    def die(self, story: str, *points: int, broken: str = "") -> list[str]:
        """The first process dies at the first point, the one after it at the second, and so on; the last one lives.

        Returns what does not hold, each as a line: right after a death, and at the end. A process that has nothing left
        to do before its point comes is the last; the first one must come to its point.
        """
        order, found, deaths = self.lay_out(story), list[str](), list[str]()
        for point in points:
            attempt = self._play(story, order, at=point, broken=broken)
            if attempt.ended != "killed":
                missed = [] if deaths else [f"Point {point} never came: {attempt.ended}"]
                return found + missed + self._found(story, order, attempt, deaths)
            deaths.append(str(attempt.points[-1]))
            lines = violations(_runs(order), self._ledger(order), resting=False)
            found += [f"{line} (at once after a death {deaths[-1]})" for line in lines]
        return found + self._found(story, order, self._play(story, order, broken=broken), deaths)

    def stand_still(self, story: str, point: int, broken: str = "") -> list[str]:
        """A process stands still at a point, is taken for dead, and goes on when everything is over."""
        order = self.lay_out(story)
        stopped = self._play(story, order, at=point, broken=broken, then="stop")
        assert stopped.ended == "stopped", stopped.ended
        stood = [str(stopped.points[-1])]
        found = self._found(story, order, self._play(story, order, broken=broken), stood)
        return found + self._found(story, order, self.server.go_on(stopped), stood)

    def points_after(self, story: str, point: int) -> list[Point]:
        """The points that the process passes which follows one that died at `point`."""
        order = self.lay_out(story)
        self._play(story, order, at=point)
        return self._play(story, order).points

    def place(self, story: str, words: str, broken: str = "") -> int:
        """The number of the first point that is called so."""
        return next(n for n, point in enumerate(self.points(story, broken), 1) if words in str(point))

    def _play(self, story: str, order: str, at: int = 0, broken: str = "", then: str = "die") -> Attempt:
        self.attempts += 1
        return self.server.play(story, order, at=at, broken=broken, then=then)

    def _found(self, story: str, order: str, attempt: Attempt, deaths: list[str]) -> list[str]:
        found = violations(_runs(order), self._ledger(order))
        runs = list(Run.objects.filter(_is_about(order)))
        if attempt.ended != "done":
            found.append(f"I3: the process that carried {order} on did not come to an end: {attempt.ended}")
        elif len(runs) != 1 or not self._ended_well(runs[0], story, deaths):
            ends = [(run.outcome, run.stop_reason) for run in runs]
            found.append(f"I3: {order} ended as {ends}, not as {STORIES[story].ends}")
        return [f"{line} (after {' and '.join(deaths) or 'nothing'})" for line in found]

    def _ended_well(self, run: Run, story: str, deaths: list[str]) -> bool:
        ended = (run.outcome, run.stop_reason)
        # Who dies while asking has spent that look-up, and what is still open when none is left is a person's.
        used_up = deaths and run.ledger.left(Dimension.STATUS_CHECKS) == 0
        # What a death costs may be more than all that people may grant: then it lies with them, and says so.
        line = run.ledger.lines[Dimension.TOOL_ATTEMPTS]
        granted = deaths and run.inbox.filter(name=Move.BUDGET_EXTENDED, payload__dimension="tool_attempts").exists()
        too_dear = granted and line.available <= 1 and ended == (Outcome.LIMIT_REACHED, StopReason.LIMIT_TOOL_ATTEMPTS)
        return ended == STORIES[story].ends or bool(used_up and ended in WITHOUT_LOOK_UPS) or bool(too_dear)

    def _ledger(self, order: str) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = self.office.ledger(order)
        return {"calls": found["calls"], "effects": found["effects"] + self.documents.effects(order)}


def _runs(order: str) -> list[UUID]:
    return list(Run.objects.filter(_is_about(order)).values_list("pk", flat=True))


def _is_about(order: str) -> Q:
    return Q(input__order_id=order) | Q(input__event_id=order) | Q(input__report_id=order) | Q(input__digest=order)
