"""What keeps the pages fast, whatever lies on the desk: few queries, and as many for forty runs as for four."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from runs.domain.states import StopReason
from runs.models import Run
from runs.timeline import TIMELINE_SHOWN
from takeover.console import desk
from tests.console import rows

SignIn = Callable[[User], Client]

# A page, and the most queries that it may take. Who is signed in, and what they may, are two of them.
PAGES = {
    "/": 6,
    **{f"/?tab={tab}": 6 for tab in desk.TABS},
    "/?q=order": 8,
    "/?tab=closed&q=order": 8,
    "/?workflow=refund_request": 6,
    "/queue/list/": 6,
    "/queue/counts/?tabs=yes": 3,
    "/approvals/": 7,
    "/approvals/list/": 5,
    "/outcomes/": 10,
    "/outcomes/?days=90": 10,
    "/outcomes/runs/": 5,
    "/outcomes.csv": 3,
}


def a_few_of_each(requester: User, holder: User, numbers: Iterable[int]) -> None:
    until = timezone.now() + timedelta(minutes=5)
    for number in numbers:
        rows.uncertain(f"U{number}", requester, holder=holder, held_until=until)
        rows.proposed(f"P{number}", requester)
        rows.run(f"W{number}", requester, StopReason.RESULT_PENDING)
        rows.run(f"L{number}", requester, StopReason.LIMIT_STEPS)
        rows.run(f"C{number}", requester, StopReason.CONTRACT_MET)


def queries(client: Client, address: str) -> int:
    client.get(address)  # what is looked up once and then remembered
    with CaptureQueriesContext(connection) as sent:
        assert client.get(address).status_code == 200
    return len(sent)


@pytest.mark.parametrize("address", PAGES)
def test_a_page_takes_few_queries_and_no_more_of_them_for_more_runs(
    address: str, ada: User, alice: User, bob: User, signed_in: SignIn
) -> None:
    client = signed_in(ada)
    a_few_of_each(alice, bob, range(1))
    for_few = queries(client, address)
    a_few_of_each(alice, bob, range(1, 9))
    assert queries(client, address) == for_few <= PAGES[address]


def test_news_take_as_many_queries_for_thirty_rows_as_for_one(alice: User, bob: User, signed_in: SignIn) -> None:
    client = signed_in(alice)
    a_few_of_each(alice, bob, range(6))
    since = (timezone.now() - timedelta(hours=1)).isoformat()

    def news_of(runs: Iterable[Run]) -> int:
        shown = [("shown", f"{run.pk}.as-it-was") for run in runs]
        return queries(client, "/queue/news/?" + urlencode([("since", since), *shown]))

    assert news_of(Run.objects.all()[:1]) == news_of(Run.objects.all()[:30]) <= 6


@pytest.mark.parametrize(("kind", "most"), [("proposed", 12), ("uncertain", 11), ("closed", 11)])
def test_a_case_takes_few_queries_and_no_more_of_them_the_longer_its_history_grows(
    kind: str, most: int, alice: User, signed_in: SignIn
) -> None:
    made = {
        "proposed": lambda: rows.proposed("B456", alice),
        "uncertain": lambda: rows.uncertain("B456", alice),
        "closed": lambda: rows.run("B456", alice, StopReason.CONTRACT_MET),
    }
    client, run = signed_in(alice), made[kind]()
    assert queries(client, f"/runs/{run.pk}/") <= most

    def go_on(until: int) -> int:
        said = {"name": "evidence_supplied", "actor": alice, "result": "applied", "stretch": run.stretch}
        for seq in range(run.step_rows.count() + 11, until):
            rows.step(run, seq, "read", "read_order", "The order service answered.")
            rows.event(run, "event_received", alice, name="evidence_supplied", payload={"statement": "I saw it"})
            rows.fact(run, f"note:{seq}", {"says": "so"}, "order service")
            run.inbox.create(**said, received_at=timezone.now(), settled_at=timezone.now())
        return queries(client, f"/runs/{run.pk}/")

    # What is longer than is read at once is asked for once more: where it left the way, what people said and proposed,
    # notes, an approval that waits for its worker; and what came of the last thing that somebody said, twice.
    assert go_on(TIMELINE_SHOWN + 20) == go_on(TIMELINE_SHOWN + 40) <= most + 7
