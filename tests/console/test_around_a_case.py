"""What stands around a case: names, related runs, what each stretch spent, the customer's sentence."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from runs import case as cases
from runs.domain.interventions import PERMITS
from runs.domain.states import StopReason
from runs.models import Handoff, Run
from runs.timeline import TIMELINE_SHOWN
from takeover.console import desk, words
from takeover.console.case import context
from takeover.console.related import related
from takeover.console.stretches import stretches
from tests.console import rows
from tests.people import person

SignIn = Callable[[User], Client]


def test_people_go_by_their_full_names_wherever_they_stand(alice: User, bob: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    rows.event(run, "case_claimed", bob)
    run.effects.update(approved_by=bob, approved_at=timezone.now())
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert "<dd>Alice Lin for <bdi>U-88</bdi></dd>" in page
    assert "<dt>Approved</dt><dd>Bob Okafor," in page
    assert "Bob Okafor took the case." in page
    assert not re.search(r">\s*(alice|bob)\b", page)


def test_two_people_of_one_name_are_told_apart(alice: User, bob: User) -> None:
    other = person("ann")
    User.objects.filter(pk=other.pk).update(first_name="Alice", last_name="Lin")
    assert desk.name_of(alice) == "Alice Lin (alice)"
    assert desk.name_of(bob) == "Bob Okafor"


def test_a_case_is_given_to_one_of_two_people_of_one_name_knowingly(alice: User, bob: User) -> None:
    assert desk.name_of(bob) == "Bob Okafor"
    namesake = person("ann")
    User.objects.filter(pk=namesake.pk).update(first_name=bob.first_name, last_name=bob.last_name)
    offered = dict(desk.colleagues())
    assert [offered[one.pk] for one in (bob, namesake)] == ["Bob Okafor (bob)", "Bob Okafor (ann)"]


def test_what_permissions_are_called_is_the_same_on_screens_and_in_refusals() -> None:
    assert {permission: str(text) for permission, text in words.PERMISSION.items()} == PERMITS


def test_runs_of_the_same_subject_in_any_workflow_are_related_the_latest_first(alice: User, signed_in: SignIn) -> None:
    now = timezone.now()
    earlier = rows.run("B456", alice, StopReason.CONTRACT_MET, created_at=now - timedelta(days=2))
    rows.run("X999", alice, StopReason.CONTRACT_MET)
    elsewhere = rows.run("B456", alice, StopReason.NO_PROGRESS, workflow="gone", created_at=now - timedelta(days=1))
    run = rows.run("B456", alice, StopReason.NO_PROGRESS, follows=earlier)
    assert [(one.run, str(one.how)) for one in related(run)] == [(elsewhere, "Same subject"), (earlier, "Follows")]
    assert [(one.run, str(one.how)) for one in related(earlier)] == [
        (run, "Followed by"),
        (elsewhere, "Same subject"),
    ]
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert f'href="/runs/{earlier.pk}/"' in page


def test_what_is_shown_of_related_runs_is_read_with_them(alice: User, signed_in: SignIn) -> None:
    run, client = rows.run("B456", alice, StopReason.CONTRACT_MET), signed_in(alice)

    def queries() -> int:
        with CaptureQueriesContext(connection) as sent:
            page = client.get(f"/runs/{run.pk}/").content.decode()
        assert page.count('id="related-') == Run.objects.filter(subject=run.subject).count() - 1
        return len(sent)

    queries()  # what is looked up once and then remembered
    none = queries()
    for workflow in ("refund_request", "refund_request", "gone"):
        rows.run("B456", alice, StopReason.CONTRACT_MET, workflow=workflow)
    assert queries() == none


@pytest.mark.parametrize("others", [0, TIMELINE_SHOWN])
def test_how_often_it_went_on_is_told_beside_the_budget(others: int, alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS, stretch=3)
    for _stop in range(3):
        rows.event(run, "stopped")
    for _other in range(others):
        rows.event(run, "event_received", alice, name="evidence_supplied", payload={"statement": "I saw it"})
    assert "across 2 resumes" in signed_in(alice).get(f"/runs/{run.pk}/").content.decode()


def test_of_a_withheld_run_no_other_run_of_its_subject_is_named(alice: User) -> None:
    rows.run("B456", alice, StopReason.CONTRACT_MET)
    run = rows.run("B456", alice, StopReason.NOT_AUTHORISED)
    assert related(run) == []


def handoff(run: Run, version: int, **spent: int) -> None:
    package = cases.read(run)
    for line in package["budgets"]:
        line["spent"] = spent.get(line["dimension"], 0)
    package |= {"outcome": "NEEDS_HUMAN", "stop_reason": "no_progress"}
    package = {name: package[name] for name in ("budgets", "outcome", "stop_reason")}
    Handoff.objects.create(run=run, version=version, package=package, made_at=timezone.now())


def spent(run: Run) -> list[dict[str, int]]:
    budgets: list[dict[str, Any]] = cases.read(run)["budgets"]
    budgets = [line for line in budgets if line["dimension"] != "wall_time"]
    return [{k: v for k, v in stretch.spent.items() if k != "wall_time"} for stretch in stretches(run, budgets)]


def test_each_stretch_says_what_it_spent(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS, stretch=2)  # by now: 6 steps, 6 tool attempts
    handoff(run, 1, steps=4, tool_attempts=4)
    assert spent(run) == [{"steps": 4, "tool_attempts": 4}, {"steps": 2, "tool_attempts": 2}]
    handoff(run, 2, steps=6, tool_attempts=6)
    assert spent(run) == [{"steps": 4, "tool_attempts": 4}, {"steps": 2, "tool_attempts": 2}]
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert "What each stretch spent" in page
    assert "Steps 2 · Tool attempts 2" in page


def test_a_run_that_was_never_resumed_has_no_stretches(alice: User) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    handoff(run, 1, steps=6)
    assert spent(run) == []
    assert spent(rows.run("X999", alice)) == []


def test_only_the_latest_stretches_are_told(alice: User) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS, stretch=12)
    for version in range(1, 13):
        handoff(run, version, steps=version)
    assert spent(run) == [{"steps": 1}] * 8


def test_the_customer_s_sentence_in_the_reader_s_language_stands_first(alice: User) -> None:
    run = rows.uncertain("B456", alice)
    for language, first in (("en", "en"), ("zh-hans", "zh-Hans")):
        with translation.override(language):
            assert next(tag for tag, _name, _text in context(run, alice)["told"]) == first


def test_what_is_at_risk_stands_beside_the_question(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    top = page[page.index('id="the-question"') : page.index('id="contract"')]
    assert "At risk" in top
    assert "order B456" in top
    assert "outcome unknown" in top
    assert "Answer by" in top
