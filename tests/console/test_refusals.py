"""Who was refused what, at the web's edge."""

import logging

import pytest
from django.test import Client

from runs.models import Refusal
from takeover.console.refusals import QUIET, Strangers, strangers
from tests.people import person

pytestmark = pytest.mark.django_db


def test_a_page_that_somebody_may_not_see_is_a_refused_attempt_on_record() -> None:
    client = Client()
    client.force_login(person("charlie"))

    for _ in range(2):
        assert client.get("/").status_code == 403
    client.force_login(person("alice"))
    assert client.get("/outcomes/").status_code == 403

    tried = set(Refusal.objects.values_list("person__username", "attempted"))
    assert tried == {("charlie", "see queue"), ("alice", "see outcomes")}
    assert sum(row.count for row in Refusal.objects.filter(person=person("charlie"))) == 2


def test_strangers_are_counted_and_leave_no_rows() -> None:
    before = strangers.counts.copy()

    Client().post("/queue/take-next/")
    Client().post("/sign-in/", {"username": "support", "password": "guess"})

    assert strangers.counts - before == {"change": 1, "sign-in": 1}
    assert not Refusal.objects.exists()


def test_a_stranger_who_only_looks_has_attempted_nothing() -> None:
    before = strangers.counts.copy()

    assert Client().get("/").status_code == 302
    assert Client().head("/approvals/").status_code == 302

    assert strangers.counts == before


def test_strangers_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    door = Strangers(clock=lambda: now)
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            door.refuse("page")
        now += QUIET
        door.refuse("page")

    assert [record.getMessage() for record in caplog.records] == [
        "1 attempt by somebody who is not signed in was refused (1 since the start)",
        "1000 attempts by people who are not signed in were refused (1001 since the start)",
    ]
