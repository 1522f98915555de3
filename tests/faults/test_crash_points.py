"""A process may die at any point of a run's way: the next one carries on, and none of ten invariants is broken.

Here the write path is walked point by point and the other ways at a few; `bench/faults.py` walks them all.
"""

from random import Random

import pytest

from runs.engine import commit
from tests.faults.crashing import Point, how_it_begins
from tests.faults.stories import STORIES
from tests.faults.trials import Trials
from tests.states import without_guards

COMMIT = how_it_begins(commit._numbered(commit.COMMIT, ())[0])
CARRYING_ON = "sweep > carry_on > advance > _drive > _carry_on"
SETTLING = "sweep > carry_on > advance > _drive > settle_interrupted"
A_FEW = 2  # points of a way that is not walked whole


def at(points: list[Point]) -> list[int]:
    """The numbers of the points at which a death leaves another world behind than at the point before."""
    return [number for number, point in enumerate(points, 1) if point.new]


def a_few(numbers: list[int]) -> list[int]:
    """Always the same, of the later half: most stories begin alike."""
    return sorted(Random(len(numbers)).sample(numbers[len(numbers) // 2 :], A_FEW))


def names(lines: list[str]) -> set[str]:
    return {line.partition(":")[0] for line in lines}


@pytest.mark.parametrize("story", STORIES)
def test_whoever_dies_the_next_one_brings_it_to_the_same_end(trials: Trials, story: str) -> None:
    numbers = at(trials.points(story))

    for number in numbers if story == "write" else a_few(numbers):
        assert trials.die(story, number) == []


def test_what_a_person_does_is_there_in_full_or_not_at_all_and_needs_nobody_but_the_sweeper(trials: Trials) -> None:
    by_people = [
        number
        for number, point in enumerate(trials.points("approval"), 1)
        if point.where.startswith(("start", "send"))
        and point.when == "after"
        and point.what.startswith(("INSERT", "UPDATE", "COMMIT", "wake-up"))
    ]
    assert len(by_people) > 10

    for number in by_people:
        assert trials.die("approval", number) == []


def test_whoever_recovers_may_die_as_well(trials: Trials) -> None:
    sent = trials.place("write", "after POST")
    recovery = trials.points_after("write", sent)
    settling = [number for number, point in enumerate(recovery, 1) if SETTLING in point.where]
    assert settling

    for number in sorted({*settling, *a_few(at(recovery))}):
        assert trials.die("write", sent, number) == []


def test_three_deaths_in_a_row_are_survived(trials: Trials) -> None:
    for number in a_few(at(trials.points("never arrived"))):
        assert trials.die("never arrived", number, number, number) == []


def test_who_stood_still_and_was_taken_for_dead_changes_nothing_afterwards(trials: Trials) -> None:
    points = trials.points("write")
    about_to_act = [number - 1 for number in at(points)[1:] if points[number - 2].free]

    for number in about_to_act[-5:]:  # from the last read on
        assert trials.stand_still("write", number) == []


BROKEN = [  # the story, what is broken in it, where somebody dies (nowhere: nobody), and the invariants that say so
    ("write", "the_intent_is_committed_after_the_call", "after POST", {"I2"}),
    ("answer lost", "silence_is_taken_for_absence", "", {"I1", "I7"}),
    ("booking, answer lost", "silence_is_taken_for_absence", "", {"I1", "I7"}),
    ("write", "acceptance_is_taken_for_a_refusal", "", {"I1", "I8"}),
    ("write", "a_call_is_charged_once_it_is_over", "before GET /orders", {"I5"}),
    ("write", "what_somebody_held_is_passed_over", "before GET /orders", {"I3", "I10"}),
    ("write", "an_interrupted_call_is_forgotten", "before GET /orders", {"I4"}),
    ("approval", "an_event_is_saved_before_its_run_is_told_of_it", "before UPDATE runs_run SET inbox_seq", {"I6"}),
]


@pytest.mark.parametrize(("story", "broken", "place", "invariants"), BROKEN)
def test_an_engine_that_breaks_a_rule_is_noticed(
    trials: Trials, story: str, broken: str, place: str, invariants: set[str]
) -> None:
    points = [trials.place(story, place, broken)] if place else []

    assert invariants <= names(trials.die(story, *points, broken=broken))


def test_an_engine_whose_commits_ask_for_no_token_is_noticed_once_somebody_stands_still(trials: Trials) -> None:
    place = trials.place("write", f"before {COMMIT} in {CARRYING_ON} > stop")

    # The database would refuse what a late commit wants of a run that has ended.
    with without_guards("runs_run", "runs_effect", "runs_step"):
        found = trials.stand_still("write", place, broken="commits_ask_for_no_token")

    assert "I9" in names(found)
