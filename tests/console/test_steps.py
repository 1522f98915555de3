"""The story of a run, part by part, and each step of it opened."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from runs.domain.states import StopReason
from runs.models import Run, StepPayload
from tests.console import rows

SignIn = Callable[[User], Client]
TOLD = {
    "people": "Alice Lin took the case.",
    "writes": "The refund service did not answer within 5 s.",
    "reads": "Not found yet, which is no proof of absence.",
    "stops": "Stopped: nobody knows.",
}


@pytest.fixture
def run(alice: User) -> Run:
    made = rows.uncertain("B456", alice)
    rows.event(made, "case_claimed", alice)
    rows.event(made, "stopped", None, reason="outcome_unconfirmed", says="nobody knows.")
    return made


def story(client: Client, run: Run, query: str) -> str:
    page = client.get(f"/runs/{run.pk}/{query}").content.decode()
    return page[page.index('<ol class="timeline">') : page.index("</ol>", page.index('<ol class="timeline">'))]


@pytest.mark.parametrize("part", TOLD)
def test_a_part_of_the_story_is_an_address(part: str, run: Run, alice: User, signed_in: SignIn) -> None:
    told = story(signed_in(alice), run, f"?show={part}")
    assert [name for name, line in TOLD.items() if line in told] == [part]


@pytest.mark.parametrize("query", ["", "?show=all", "?show=nonsense", "?show=%00"])
def test_all_of_the_story_is_told_unless_a_part_is_asked_for(
    query: str, run: Run, alice: User, signed_in: SignIn
) -> None:
    told = story(signed_in(alice), run, query)
    assert all(line in told for line in TOLD.values())


def test_the_part_that_is_told_is_the_one_that_comes_when_the_run_changes(
    run: Run, alice: User, signed_in: SignIn
) -> None:
    page = signed_in(alice).get(f"/runs/{run.pk}/?show=people").content.decode()
    assert f'hx-get="/runs/{run.pk}/body/?show=people"' in page
    assert '<a class="chip" id="part-people" href="?show=people#happened" aria-current="true">People</a>' in page
    told = story(signed_in(alice), run, "body/?show=people")
    assert TOLD["people"] in told
    assert TOLD["reads"] not in told


def keep(run: Run, seq: int, request: object, response: object) -> None:
    StepPayload.objects.create(step=run.step_rows.get(seq=seq), request=request, response=response)


@pytest.mark.parametrize("page", ["", "opened/"])
def test_a_step_opens_to_what_was_really_sent_and_answered(page: str, run: Run, alice: User, signed_in: SignIn) -> None:
    hostile = "<script>alert(1)</script> \u202e"
    keep(run, 5, {"order": "B456", "token": "secret-of-a-service"}, {"found": False, "note": hostile})
    answer = signed_in(alice).get(f"/runs/{run.pk}/steps/5/{page}")
    told = answer.content.decode()
    assert answer.status_code == 200
    for said in (
        "Not found yet, which is no proof of absence.",
        "&quot;order&quot;: &quot;B456&quot;",
        "&quot;found&quot;: false",
        "text from outside",
        "&lt;script&gt;alert(1)&lt;/script&gt; [U+202E]",
        f"refund-B456-{str(run.pk)[:8]}",
    ):
        assert said in told, said
    assert "secret-of-a-service" not in told
    assert ("<html" in told) == (page == "")


def test_a_write_opens_to_what_was_proposed_as_well(run: Run, alice: User, signed_in: SignIn) -> None:
    keep(run, 4, {"order_id": "B456"}, None)
    told = signed_in(alice).get(f"/runs/{run.pk}/steps/4/").content.decode()
    assert "original means of payment" in told
    assert "No answer that could be kept." in told


def test_what_is_not_kept_any_more_is_said_to_be_so(run: Run, alice: User, signed_in: SignIn) -> None:
    told = signed_in(alice).get(f"/runs/{run.pk}/steps/1/").content.decode()
    assert "The request and the answer are not kept any more." in told


def test_an_answer_that_is_long_is_folded(run: Run, alice: User, signed_in: SignIn) -> None:
    keep(run, 1, {"order": "B456"}, {"lines": list(range(200))})
    assert "<summary>Show all of it</summary>" in signed_in(alice).get(f"/runs/{run.pk}/steps/1/").content.decode()


@pytest.mark.parametrize("seq", ["99", "9" * 30, "0"])
def test_a_step_that_there_is_not_is_a_page_that_says_so(seq: str, run: Run, alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).get(f"/runs/{run.pk}/steps/{seq}/")
    assert answer.status_code == 404
    assert "This run has no step of this number." in answer.content.decode()


@pytest.mark.parametrize("page", ["", "opened/"])
def test_of_a_run_that_is_withheld_no_step_opens(page: str, alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NOT_AUTHORISED)
    rows.step(run, 1, "read", "check_authority", "Mallory may not act on this order.")
    keep(run, 1, {"order": "B456"}, {"customer": "U-88"})
    client = signed_in(alice)
    told = client.get(f"/runs/{run.pk}/steps/1/{page}").content.decode()
    assert "Withheld" in told
    assert "U-88" not in told
    assert "/steps/1/" not in client.get(f"/runs/{run.pk}/").content.decode()


def test_only_people_of_the_queue_and_auditors_open_steps(
    run: Run, charlie: User, ada: User, signed_in: SignIn
) -> None:
    assert signed_in(charlie).get(f"/runs/{run.pk}/steps/1/").status_code == 403
    assert signed_in(ada).get(f"/runs/{run.pk}/steps/1/").status_code == 200


def test_a_step_takes_few_queries(
    run: Run, alice: User, signed_in: SignIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = signed_in(alice)
    with django_assert_max_num_queries(7):
        client.get(f"/runs/{run.pk}/steps/1/opened/")
