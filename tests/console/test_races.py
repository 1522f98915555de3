"""Two people send something to the same run at once: the first counts, the second is told and keeps what they typed."""

from collections.abc import Callable
from itertools import product

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runs.domain.states import State, StopReason
from runs.interventions.possible import standing_of
from runs.models import InboxEvent, Run
from tests.console import rows
from tests.states import bring

SignIn = Callable[[User], Client]
WORDS = "Written by <b>hand</b>."
KEPT = "Written by &lt;b&gt;hand&lt;/b&gt;."
TYPED: dict[str, dict[str, str]] = {
    "approval_granted": {"comment": WORDS},
    "approval_rejected": {"reason": WORDS},
    "cancel_requested": {"reason": WORDS},
    "budget_extended": {"dimension": "steps", "by": "3", "reason": WORDS},
    "resumed_after_review": {"reason": WORDS},
}
DECISIONS = ("approval_granted", "approval_rejected")
# What each of them may be sent to.
BEFORE_A_DECISION = (*DECISIONS, "cancel_requested")
AFTER_A_STOP = ("cancel_requested", "budget_extended", "resumed_after_review")


def send(client: Client, run: Run, name: str, seen: str, form: bool) -> tuple[int, str]:
    answers = {"answers": run.effects.get().plan_digest} if name in DECISIONS else {}
    address = f"/runs/{run.pk}/events/{name}/" + ("form/" if form else "")
    answer = client.post(address, {**TYPED[name], **answers, "seen": seen})
    return answer.status_code, answer.content.decode()


def taken_up(run: Run) -> None:
    """As a worker leaves it that has begun to carry out what was sent first."""
    InboxEvent.objects.update(result="applied")
    bring(run, State.PLANNING, outcome="", stop_reason="")


@pytest.mark.parametrize("form", [False, True])
@pytest.mark.parametrize(("first", "second"), [*product(DECISIONS, repeat=2)])
def test_a_plan_is_decided_once_and_who_was_second_is_told_who_and_what(
    first: str, second: str, form: bool, bob: User, robin: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    seen = standing_of(run)
    assert send(signed_in(robin), run, first, seen, form)[0] in {200, 302}
    status, page = send(signed_in(bob), run, second, seen, form)
    what = "approved" if first == "approval_granted" else "rejected"
    assert status == 409
    assert f"Supervisor {what} this plan at" in page
    assert KEPT in page
    assert InboxEvent.objects.get().name == first


@pytest.mark.parametrize(("first", "second"), [*product(BEFORE_A_DECISION, repeat=2)])
def test_once_a_worker_has_begun_the_second_of_two_is_told_and_nothing_typed_is_lost(
    first: str, second: str, bob: User, robin: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    seen = standing_of(run)
    send(signed_in(robin), run, first, seen, form=False)
    taken_up(run)
    status, page = send(signed_in(bob), run, second, seen, form=False)
    assert status == 409
    assert KEPT in page
    assert "supervisor" in page
    assert InboxEvent.objects.get().name == first


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_request_that_is_withdrawn_is_not_decided_about_any_more(
    decision: str, bob: User, robin: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    seen = standing_of(run)
    send(signed_in(robin), run, "cancel_requested", seen, form=False)
    status, page = send(signed_in(bob), run, decision, seen, form=False)
    assert status == 409
    assert "Supervisor withdrew this request at" in page
    assert KEPT in page


@pytest.mark.parametrize(("first", "second"), [*product(AFTER_A_STOP, repeat=2)])
def test_of_two_ways_on_from_a_stop_the_second_is_told_what_the_first_did(
    first: str, second: str, bob: User, robin: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, StopReason.LIMIT_STEPS)
    seen = standing_of(run)
    assert send(signed_in(robin), run, first, seen, form=False)[0] == 302
    taken_up(run)
    status, page = send(signed_in(bob), run, second, seen, form=False)
    assert status == 409
    assert "When you opened it: Limit reached (steps used up). Now: planning." in page
    assert KEPT in page
    assert InboxEvent.objects.get().name == first


@pytest.mark.parametrize("name", AFTER_A_STOP)
def test_the_same_sent_by_two_is_one_event(name: str, bob: User, robin: User, alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.LIMIT_STEPS)
    seen = standing_of(run)
    send(signed_in(robin), run, name, seen, form=False)
    status, page = send(signed_in(bob), run, name, seen, form=False)
    assert (status, "Supervisor already sent this; it is being carried out." in page) == (409, True)
    assert KEPT in page
