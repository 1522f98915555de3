"""Several proposed writes approved in one go: each by itself, for exactly what was shown."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runs.models import Effect, InboxEvent, Run
from tests.console import rows

SignIn = Callable[[User], Client]


def pair(run: Run) -> str:
    return f"{run.pk}.{run.effects.get().plan_digest}"


def approve(client: Client, *pairs: str) -> Any:
    return client.post("/approvals/together/", {"plan": pairs})


def dear(run: Run) -> Run:
    """Above what goes together with others."""
    effect = run.effects.get()
    effect.plan["params"]["amount_minor"] = 900_00
    Effect.objects.filter(pk=effect.pk).update(plan=effect.plan, plan_digest=replaced(effect))
    return run


def replaced(effect: Effect) -> str:
    return effect.value().digest


def test_each_is_recorded_for_its_own_digest(bob: User, alice: User, signed_in: SignIn) -> None:
    runs = [rows.proposed(order, alice) for order in ("B456", "C881")]
    page = approve(signed_in(bob), *map(pair, runs)).content.decode()
    assert "2 approvals were recorded" in page
    assert set(InboxEvent.objects.values_list("run", "answers")) == {
        (run.pk, run.effects.get().plan_digest) for run in runs
    }


def test_only_what_its_workflow_lets_go_together_can_be_chosen(bob: User, alice: User, signed_in: SignIn) -> None:
    run, costly = rows.proposed("B456", alice), dear(rows.proposed("C881", alice))
    client = signed_in(bob)
    page = client.get("/approvals/").content.decode()
    assert f'name="plan" value="{pair(run)}"' in page
    assert f'name="plan" value="{pair(costly)}"' not in page
    answer = approve(client, pair(costly)).content.decode()
    assert "each of these decided by itself" in answer
    assert not InboxEvent.objects.exists()


@pytest.mark.parametrize(
    ("minor", "currency", "goes"),
    [
        *((200_00, "EUR", True), (200_01, "EUR", False), (200_00, "USD", True), (1_500_00, "CNY", True)),
        *((30_000, "JPY", True), (30_001, "JPY", False)),  # a yen has no hundredths
        *((1, "KWD", False), (1, "XAU", False), (1, "", False)),
    ],
)
def test_how_much_goes_together_depends_on_the_currency(
    minor: int, currency: str, goes: bool, bob: User, alice: User, signed_in: SignIn
) -> None:
    effect = rows.proposed("B456", alice).effects.get()
    effect.plan["params"] |= {"amount_minor": minor, "currency": currency}
    Effect.objects.filter(pk=effect.pk).update(plan=effect.plan, plan_digest=replaced(effect))
    page = signed_in(bob).get("/approvals/").content.decode()
    assert (f'name="plan" value="{pair(effect.run)}"' in page) is goes


def test_one_that_changed_meanwhile_is_refused_and_holds_no_other_up(bob: User, alice: User, signed_in: SignIn) -> None:
    runs = [rows.proposed(order, alice) for order in ("B456", "C881")]
    page = approve(signed_in(bob), f"{runs[0].pk}.{'0' * 64}", pair(runs[1])).content.decode()
    assert "1 approval was recorded" in page
    assert "1 was refused" in page
    assert "This decision is about another plan" in page
    assert InboxEvent.objects.get().run == runs[1]


def test_one_that_somebody_else_decided_names_them(bob: User, robin: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    approve(signed_in(robin), pair(run))
    assert "Supervisor approved this plan at" in approve(signed_in(bob), pair(run)).content.decode()
    assert InboxEvent.objects.count() == 1


def test_nobody_approves_their_own_among_others(bob: User, alice: User, signed_in: SignIn) -> None:
    own, other = rows.proposed("B456", bob), rows.proposed("C881", alice)
    client = signed_in(bob)
    assert pair(own) not in client.get("/approvals/").content.decode()
    page = approve(client, pair(own), pair(other)).content.decode()
    assert "You asked for this run yourself" in page
    assert InboxEvent.objects.get().run == other


@pytest.mark.parametrize("nonsense", ["", "x", ".", "<b>.<i>", "00000000-0000-0000-0000-000000000000.x"])
def test_what_names_no_plan_is_refused_by_itself(nonsense: str, bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    answer = approve(signed_in(bob), nonsense, pair(run))
    assert answer.status_code == 200
    assert "<b>.<i>" not in answer.content.decode()
    assert InboxEvent.objects.get().run == run


def test_nothing_chosen_is_said(bob: User, signed_in: SignIn) -> None:
    assert "Nothing was chosen" in approve(signed_in(bob)).content.decode()


def test_it_takes_a_form_and_the_right_to_decide(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", bob)
    assert signed_in(bob).get("/approvals/together/").status_code == 405
    assert "alice may not do this" in approve(signed_in(alice), pair(run)).content.decode()
    assert not InboxEvent.objects.exists()
