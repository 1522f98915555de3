"""The one button that stands out is the one that the question asks for."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runs.domain.interventions import FROM_PEOPLE
from runs.domain.states import OUTCOME_OF, SHORT, Move, State, StopReason
from runs.models import Run
from takeover.console import asked_for
from takeover.console.asked_for import ASKED_FOR
from tests.console import rows

SignIn = Callable[[User], Client]


def highlighted(client: Client, run: Run) -> list[str]:
    page = client.get(f"/runs/{run.pk}/").content.decode()
    acts = page.partition('id="acts"')[2].partition("</section>")[0]
    return re.findall(r'primary" id="act-(\w+)"', acts)


def test_every_stop_that_a_person_may_answer_says_what_it_asks_for() -> None:
    assert set(ASKED_FOR) == {reason for reason, outcome in OUTCOME_OF.items() if outcome in SHORT}
    assert {move for moves in ASKED_FOR.values() for move in moves} <= set(FROM_PEOPLE)


@pytest.mark.parametrize(
    ("reason", "move"),
    [
        (StopReason.CREDENTIAL_REFUSED, Move.CREDENTIAL_REPLACED),
        (StopReason.FACTS_IN_CONFLICT, Move.POLICY_CONFIRMED),
        (StopReason.APPROVAL_EXPIRED, Move.RESUMED_AFTER_REVIEW),
        (StopReason.QUESTION_ASKED, Move.EVIDENCE_SUPPLIED),
        (StopReason.INPUT_INVALID, Move.INPUT_CORRECTED),
    ],
)
def test_what_the_question_asks_for_stands_out(reason: StopReason, move: Move, alice: User, signed_in: SignIn) -> None:
    assert highlighted(signed_in(alice), rows.run("B456", alice, reason)) == [move]


def test_where_the_question_asks_for_what_one_may_not_do_nothing_stands_out(
    alice: User, bob: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, StopReason.LIMIT_STEPS)
    assert highlighted(signed_in(alice), run) == []
    assert highlighted(signed_in(bob), run) == [Move.BUDGET_EXTENDED]


@pytest.mark.parametrize(
    "reason", [StopReason.CANCELLED_TOO_LATE, StopReason.NO_PROGRESS, StopReason.APPROVAL_REJECTED]
)
def test_where_there_is_a_choice_no_side_of_it_stands_out(
    reason: StopReason, alice: User, bob: User, signed_in: SignIn
) -> None:
    assert highlighted(signed_in(bob), rows.run("B456", alice, reason)) == []


def test_where_a_narrower_scope_would_answer_the_question_too_nothing_stands_out() -> None:
    asked = Run(state=State.BLOCKED, stop_reason=StopReason.QUESTION_ASKED)
    knows = {Move.EVIDENCE_SUPPLIED, Move.RESUMED_AFTER_REVIEW}
    assert asked_for.first(asked, knows) is Move.EVIDENCE_SUPPLIED
    assert asked_for.first(asked, {*knows, Move.SCOPE_NARROWED}) is None
    assert asked_for.first(asked, knows, proposed=[Move.SCOPE_NARROWED]) is None
    asked.paused = True
    assert asked_for.first(asked, {*knows, Move.SCOPE_NARROWED, Move.UNPAUSED}) is Move.UNPAUSED
