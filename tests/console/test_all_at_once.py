"""Several people press at the same moment: one of them wins, and everybody is told what is so."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runs.domain.states import StopReason
from runs.models import Event, Glance, InboxEvent, Run
from tests.console import rows
from tests.people import person
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)
CAST = ("alice", "ann", "bob", "supervisor")


def client(name: str) -> Client:
    made = Client()
    made.force_login(person(name))
    return made


def post(name: str, address: str, /, **form: Any) -> Callable[[], Any]:
    pressed = client(name)
    return lambda: pressed.post(address, form)


def holders() -> Counter[str]:
    return Counter(Run.objects.exclude(holder=None).values_list("holder__username", flat=True))


def test_a_case_is_claimed_by_one_of_those_who_claim_it_at_once() -> None:
    run = rows.run("B456", person("alice"), StopReason.NO_PROGRESS)
    one_by_one, many = f"/runs/{run.pk}/claim/", {"do": "claim", "run": [str(run.pk)]}
    answers = at_once(
        *(post(name, one_by_one) for name in ("alice", "ann")),
        post("bob", "/queue/bulk/", **many),
        post("supervisor", f"/runs/{run.pk}/claim/row/"),
    )
    assert all(answer.status_code < 500 for answer in answers)
    assert holders().total() == 1
    assert Event.objects.filter(kind="case_claimed").count() == 1


def test_those_who_take_the_next_case_at_once_get_different_ones() -> None:
    for number in range(6):
        rows.run(f"N{number}", person("alice"), StopReason.NO_PROGRESS)
    answers = at_once(*(post(name, "/queue/take-next/") for name in CAST))
    assert len({answer.headers["Location"] for answer in answers}) == len(CAST)
    assert holders() == Counter(CAST)


def test_the_same_bulk_request_sent_twice_at_once_asks_each_service_once() -> None:
    runs = [rows.uncertain(f"N{number}", person("alice")) for number in range(3)]
    form = {"do": "reconcile", "run": [str(run.pk) for run in runs], "shown": [f"{run.pk}.x-1" for run in runs]}
    backwards = {**form, "run": form["run"][::-1]}
    answers = at_once(post("alice", "/queue/bulk/", **form), post("ann", "/queue/bulk/", **backwards))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert InboxEvent.objects.count() == len(runs)


def test_plans_that_two_people_approve_together_at_once_are_approved_once() -> None:
    runs = [rows.proposed(f"N{number}", person("alice")) for number in range(3)]
    plans = [f"{run.pk}.{run.effects.get().plan_digest}" for run in runs]
    answers = at_once(
        post("bob", "/approvals/together/", plan=plans), post("supervisor", "/approvals/together/", plan=plans[::-1])
    )
    assert [answer.status_code for answer in answers] == [200, 200]
    assert sorted(InboxEvent.objects.values_list("run", flat=True)) == sorted(run.pk for run in runs)


def test_a_case_that_is_claimed_and_handed_on_at_once_has_one_holder_and_the_record_tells_how() -> None:
    run = rows.run("B456", person("alice"), StopReason.NO_PROGRESS)
    address = f"/runs/{run.pk}/assign/"
    answers = at_once(
        post("bob", address, to=person("alice").pk),
        post("supervisor", address, to=person("ann").pk),
        post("ann", f"/runs/{run.pk}/claim/"),
    )
    assert all(answer.status_code < 500 for answer in answers)
    run.refresh_from_db()
    last = run.events.order_by("pk").last()
    assert last is not None
    assert run.holder
    told = str(last.text_row.content()["to"] if last.kind == "case_assigned" else last.actor)
    assert run.holder.username in told


def test_a_note_sent_twice_at_once_is_one_note() -> None:
    run = rows.uncertain("B456", person("alice"))
    twice = [post("alice", f"/runs/{run.pk}/notes/", text="Called.", once="0123456789abcdef") for _ in range(4)]
    assert {answer.status_code for answer in at_once(*twice)} == {302}
    assert run.events.filter(kind="noted").count() == 1


def test_everybody_who_looks_at_a_plan_at_once_asks_for_one_reading() -> None:
    run = rows.proposed("B456", person("alice"))
    before = Run.objects.values().get(pk=run.pk)
    address = f"/runs/{run.pk}/glance/?look=yes&of={run.effects.get().plan_digest}"
    looks = [client(name).get for name in CAST]
    answers = at_once(*((lambda look=look: look(address)) for look in looks))
    assert {answer.status_code for answer in answers} == {200}
    assert Glance.objects.count() == 1
    assert Run.objects.values().get(pk=run.pk) == before


def test_the_same_view_saved_twice_at_once_is_one_view() -> None:
    someone: User = person("alice")
    form = {"name": "Mine", "query": "tab=waiting"}
    answers = at_once(post("alice", "/queue/views/", **form), post("alice", "/queue/views/", **form))
    assert sorted(answer.status_code for answer in answers) == [302, 422]
    assert someone.saved_views.count() == 1
