"""The proposed write on the page, against what a worker has just read again."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.domain.states import StopReason
from runs.models import Glance, Run
from tests.console import rows

SignIn = Callable[[User], Client]
HOSTILE = "<b>399.00</b> \u202e EUR"


@pytest.fixture
def run(alice: User) -> Run:
    return rows.proposed("B456", alice)


def read(run: Run, finding: str, **values: Any) -> Glance:
    """What a worker found three seconds ago."""
    effect, now = run.effects.get(), timezone.now()
    found: dict[str, Any] = {
        "plan_digest": effect.plan_digest,
        "asked_at": now - timedelta(seconds=4),
        "taken_at": now - timedelta(seconds=4),
        "read_at": now - timedelta(seconds=3),
        "finding": finding,
        "target_version": effect.plan["target_version"],
        "difference": effect.plan["difference"] if finding == "unchanged" else [],
    }
    return Glance.objects.create(run=run, **(found | values))


def shown(client: Client, run: Run, page: str = "") -> str:
    return client.get(f"/runs/{run.pk}/{page}").content.decode()


def of(run: Run) -> str:
    """The comparison of the plan that its page shows."""
    return f"glance/?of={run.effects.get().plan_digest}"


def test_a_page_that_is_opened_asks_for_a_reading_and_looks_again_until_it_is_there(
    run: Run, bob: User, signed_in: SignIn
) -> None:
    page = shown(signed_in(bob), run)
    assert "A worker was asked to read it now" in page
    assert "read when it was proposed, <time" in page
    digest = run.effects.get().plan_digest
    assert f'hx-get="/runs/{run.pk}/glance/?of={digest}" hx-trigger="every 2s"' in page
    assert Glance.objects.get(pk=run.pk).plan_digest == digest


def test_a_card_asks_for_a_reading_of_its_own_plan_once_it_is_seen(run: Run, bob: User, signed_in: SignIn) -> None:
    client, digest = signed_in(bob), run.effects.get().plan_digest
    page = client.get("/approvals/").content.decode()
    assert f'hx-get="/runs/{run.pk}/glance/?of={digest}&amp;look=yes" hx-trigger="intersect once"' in page
    assert not Glance.objects.exists()
    assert "59.00 EUR" in shown(client, run, f"glance/?of={digest}&look=yes")
    assert Glance.objects.get(pk=run.pk).plan_digest == digest


def test_another_plan_than_the_one_on_the_page_does_not_take_its_place(run: Run, bob: User, signed_in: SignIn) -> None:
    fragment = shown(signed_in(bob), run, "glance/?of=another&look=yes")
    assert "This write does not wait for a decision any more." in fragment
    assert "59.00 EUR" not in fragment
    assert not Glance.objects.exists()


def test_the_fragment_tells_what_was_read_and_asks_for_nothing(run: Run, bob: User, signed_in: SignIn) -> None:
    fragment = shown(signed_in(bob), run, of(run))
    assert "Not known now" in fragment
    assert not Glance.objects.exists()

    read(run, "unchanged")
    fragment = shown(signed_in(bob), run, of(run))
    assert ">As proposed</span>" in fragment
    assert re.search(r"read again <time [^>]*>[0-9]+ s</time> ago", fragment)
    assert "hx-trigger" not in fragment
    assert "<html" not in fragment


def test_what_a_worker_has_in_hand_is_said_to_be_read(run: Run, bob: User, signed_in: SignIn) -> None:
    read(run, "", read_at=None)
    assert "Being read now" in shown(signed_in(bob), run, of(run))


def test_a_reading_that_nobody_made_is_not_waited_for_for_ever(run: Run, bob: User, signed_in: SignIn) -> None:
    read(run, "", asked_at=timezone.now() - timedelta(minutes=1), taken_at=None, read_at=None)
    fragment = shown(signed_in(bob), run, of(run))
    assert "No worker has read it." in fragment
    assert "hx-trigger" not in fragment


@pytest.mark.parametrize("page", ["", "events/approval_granted/"])
def test_what_changed_is_loud_and_stands_beside_what_was_proposed(
    page: str, run: Run, bob: User, signed_in: SignIn
) -> None:
    difference = [["refund request", "none", "submitted"], ["amount", "0.00 EUR", HOSTILE]]
    read(run, "changed", difference=difference, target_version="order version 5, policy v3")
    told = shown(signed_in(bob), run, page)
    assert "Changed since it was proposed." in told
    assert "Approving it sends nothing: a new plan would be put up" in told
    assert "&lt;b&gt;399.00&lt;/b&gt; [U+202E] EUR" in told
    assert "as proposed: <bdi>59.00 EUR</bdi>" in told
    assert "order version 5, policy v3" in told
    assert told.count(" data-changed>") == 3  # one field changed, one is gone, and the version


def test_what_would_not_be_proposed_any_more_says_why(run: Run, bob: User, signed_in: SignIn) -> None:
    read(run, "not_now", says="Policy v4 allows 1 day.", target_version="")
    told = shown(signed_in(bob), run)
    assert "As things are now, it would not be proposed any more." in told
    assert "Policy v4 allows 1 day." in told
    assert "59.00 EUR" in told


def test_what_could_not_be_read_says_why_and_claims_nothing(run: Run, bob: User, signed_in: SignIn) -> None:
    read(run, "unreadable", says="The order service: It could not be reached.", target_version="")
    told = shown(signed_in(bob), run)
    assert "What is there now could not be read." in told
    assert "The order service: It could not be reached." in told
    assert "Not known now" in told
    assert "As proposed" not in told


def test_a_reading_about_another_plan_is_not_shown(run: Run, bob: User, signed_in: SignIn) -> None:
    read(run, "changed", plan_digest="0" * 64)
    told = shown(signed_in(bob), run)
    assert "Changed since" not in told
    assert "read when it was proposed" in told


def test_of_a_run_that_was_decided_the_fragment_says_so(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.CONTRACT_MET)
    assert "This write does not wait for a decision any more." in shown(signed_in(alice), run, "glance/?of=any")


def test_of_a_run_that_is_withheld_nothing_is_asked_or_shown(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NOT_AUTHORISED)
    rows.write(run)
    client = signed_in(alice)
    for page in ("", "glance/"):
        assert "59.00 EUR" not in shown(client, run, page)
    assert not Glance.objects.exists()


def test_only_people_of_the_queue_and_auditors_look(run: Run, charlie: User, ada: User, signed_in: SignIn) -> None:
    assert signed_in(charlie).get(f"/runs/{run.pk}/glance/").status_code == 403
    assert signed_in(ada).get(f"/runs/{run.pk}/glance/").status_code == 200
    assert signed_in(ada).post(f"/runs/{run.pk}/glance/").status_code == 405


def test_a_proposal_costs_a_page_few_more_queries(
    run: Run, bob: User, signed_in: SignIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = signed_in(bob)
    client.get(f"/runs/{run.pk}/")  # which names two people share is looked up once and then remembered
    with django_assert_max_num_queries(14):
        client.get(f"/runs/{run.pk}/")
    with django_assert_max_num_queries(14):
        client.get(f"/runs/{run.pk}/{of(run)}")
