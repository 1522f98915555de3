import re
from collections.abc import Callable
from datetime import timedelta

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.domain.effects import EffectState
from tests.console import rows
from tests.states import bring_write

SignIn = Callable[[User], Client]


def test_proposed_writes_stand_there_with_everything_a_decision_needs(
    bob: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    page = signed_in(bob).get("/approvals/").content.decode()
    for said in ("59.00 EUR", "0.00 EUR", "Alice Lin", "cancel the request", "paid back", "due in 59 min"):
        assert said in page, said
    assert run.effects.get().plan_digest[:12] in page
    assert "Decide" in page


def test_the_most_urgent_one_stands_first(bob: User, alice: User, signed_in: SignIn) -> None:
    now = timezone.now()
    rows.proposed("LATER", alice, answer_by=now + timedelta(hours=2))
    rows.proposed("SOON", alice, answer_by=now + timedelta(minutes=2))
    page = signed_in(bob).get("/approvals/").content.decode()
    assert re.findall(r"Refund of order (\w+)", page) == ["SOON", "LATER"]


def test_what_one_may_not_decide_says_why(bob: User, robin: User, alice: User, ada: User, signed_in: SignIn) -> None:
    own = "You asked for this run yourself; somebody else has to decide."
    rows.proposed("B456", bob)
    assert own in signed_in(bob).get("/approvals/").content.decode()
    assert own not in signed_in(robin).get("/approvals/").content.decode()
    for person in (alice, ada):
        assert "Needs the permission" in signed_in(person).get("/approvals/").content.decode()


def test_nobody_decides_for_themselves_what_another_asked_for_them(bob: User, alice: User, signed_in: SignIn) -> None:
    rows.proposed("B456", alice, acts_for="bob")
    page = signed_in(bob).get("/approvals/").content.decode()
    assert "somebody else has to decide" in page
    assert "Decide</a>" not in page


def test_for_whom_is_said_where_it_is_somebody_else(bob: User, alice: User, signed_in: SignIn) -> None:
    own, others = rows.proposed("B456", alice, acts_for="alice"), rows.proposed("C881", alice)
    client = signed_in(bob)
    page = client.get("/approvals/").content.decode()
    assert "Alice Lin for <bdi>U-88</bdi>" in page
    assert "for <bdi>alice</bdi>" not in page
    assert "for <bdi>alice</bdi>" not in client.get(f"/runs/{own.pk}/").content.decode()
    assert "for <bdi>U-88</bdi>" in client.get(f"/runs/{others.pk}/").content.decode()


def test_only_writes_that_wait_are_listed(bob: User, alice: User, signed_in: SignIn) -> None:
    rows.uncertain("B456", alice)
    assert "No write waits for a decision." in signed_in(bob).get("/approvals/").content.decode()


def test_only_the_last_write_of_a_run_waits(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    before = timezone.now() - timedelta(hours=1)
    older = rows.write(run, EffectState.ABSENT, operation_key="older", planned_at=before, plan_digest="older" * 3)
    page = signed_in(bob).get("/approvals/list/").content.decode()
    assert page.count("<article") == 1
    assert older.plan_digest[:12] not in page


def test_a_write_that_was_proven_absent_is_decided_when_it_is_put_up_again(
    bob: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    bring_write(run.effects.get(), EffectState.ABSENT, times_sent=1, sent_at=timezone.now())
    digest, client = run.effects.get().plan_digest, signed_in(bob)
    assert digest[:12] in client.get("/approvals/").content.decode()
    assert f'name="answers" value="{digest}"' in client.get(f"/runs/{run.pk}/").content.decode()
    form = client.get(f"/runs/{run.pk}/events/approval_granted/").content.decode()
    assert f'name="answers" value="{digest}"' in form
    assert client.post(f"/runs/{run.pk}/events/approval_granted/", {"answers": digest}).status_code == 302


def test_people_without_a_role_see_no_approvals(charlie: User, signed_in: SignIn) -> None:
    assert signed_in(charlie).get("/approvals/").status_code == 403


def test_the_number_of_queries_does_not_grow(
    bob: User, alice: User, signed_in: SignIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(15):
        rows.proposed(f"N{number}", alice)
    client = signed_in(bob)
    with django_assert_max_num_queries(8):
        client.get("/approvals/")
