"""What takes two people, or corrects what was asked for, as the screens show it."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runs.domain.states import State, StopReason
from runs.models import InboxEvent, Run
from tests.console import rows

SignIn = Callable[[User], Client]
CLOSING = {"reason": "The service is gone <b>for good</b>.", "reference": "ticket 4711"}


def address(run: Run, event: str) -> str:
    return f"/runs/{run.pk}/events/{event}/"


@pytest.fixture
def proposed(alice: User, signed_in: SignIn) -> Run:
    run = rows.uncertain("B456", alice)
    signed_in(alice).post(address(run, "closed_unresolved"), CLOSING)
    return run


def test_a_proposal_stands_in_the_case_with_its_words_and_says_what_is_missing(
    proposed: Run, bob: User, signed_in: SignIn
) -> None:
    page = signed_in(bob).get(f"/runs/{proposed.pk}/").content.decode()
    assert "was proposed by Alice Lin. Nothing happens before a second person confirms it." in page
    assert "The service is gone &lt;b&gt;for good&lt;/b&gt;." in page
    assert "Alice Lin proposed: Close with the outcome unknown." in page
    assert "Recorded. Being carried out." not in page
    assert 'id="act-closed_unresolved"' in page


def test_who_proposed_it_is_told_that_somebody_else_has_to_confirm(
    proposed: Run, alice: User, signed_in: SignIn
) -> None:
    page = signed_in(alice).get(f"/runs/{proposed.pk}/").content.decode()
    assert "You proposed this; somebody else has to confirm it." in page


def test_the_second_person_s_word_goes_to_a_worker(proposed: Run, bob: User, signed_in: SignIn) -> None:
    client = signed_in(bob)
    form = client.get(address(proposed, "closed_unresolved")).content.decode()
    first = InboxEvent.objects.get()
    assert "then somebody else, who may" in form
    assert "Proposed by Alice Lin; sending it as a second person carries it out." in form
    assert f'<input type="hidden" name="answers" value="{first.pk}">' in form
    client.post(address(proposed, "closed_unresolved"), {**CLOSING, "answers": first.pk})
    first, second = InboxEvent.objects.order_by("id")
    assert (first.result, second.result, second.seconds) == ("proposed", "", first)


def test_a_proposal_about_an_earlier_stop_is_not_shown_any_more(proposed: Run, bob: User, signed_in: SignIn) -> None:
    Run.objects.filter(pk=proposed.pk).update(stretch=2)
    assert "was proposed by" not in signed_in(bob).get(f"/runs/{proposed.pk}/").content.decode()


def test_a_run_closed_unresolved_says_so_and_is_loud_in_the_figures(alice: User, ada: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice, state=State.FAILED, answer_by=None, question="")
    page = signed_in(ada).get(f"/runs/{run.pk}/").content.decode()
    assert "Closed by two people although nobody knows what became of a write." in page
    assert "1 write, outcome open" in page
    figures = signed_in(ada).get("/outcomes/").content.decode()
    assert "1 of them has a write whose outcome is open." in figures
    assert "1 of those was closed by people, and nobody knows what became of it." in figures


def test_a_run_closed_unresolved_is_not_said_to_wait_for_anybody(alice: User, ada: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice, state=State.FAILED, answer_by=None, question="")
    client = signed_in(ada)
    for address in (f"/runs/{run.pk}/", "/?tab=closed", "/outcomes/runs/"):
        page = client.get(address).content.decode()
        assert '<span class="badge" data-outcome="UNRESOLVED">Closed unresolved' in page, address
        assert '<span class="badge" data-outcome="NEEDS_HUMAN">' not in page, address
        assert '<span class="badge" data-outcome="WAITING">' not in page, address


def test_an_open_write_of_an_open_run_is_not_called_closed(alice: User, ada: User, signed_in: SignIn) -> None:
    rows.uncertain("B456", alice)
    assert "closed by people" not in signed_in(ada).get("/outcomes/").content.decode()


def test_a_correction_offers_the_workflow_s_own_fields(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.INPUT_INVALID)
    page = signed_in(alice).get(address(run, "input_corrected")).content.decode()
    assert 'value="order_id"' not in page  # what the run is about: another one is another run
    assert '<option value="customer_id">Customer the request is made for</option>' in page


def test_a_correction_that_does_not_fit_names_the_field_and_keeps_what_was_typed(
    alice: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, StopReason.INPUT_INVALID)
    typed = {"field": "customer_id", "value": "<script>", "reason": "Typed wrongly."}
    answer = signed_in(alice).post(address(run, "input_corrected"), typed)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'value="&lt;script&gt;"' in page
    assert "customer_id" in page
    assert "value: " not in page  # the form says where
    assert not InboxEvent.objects.exists()


def test_a_form_that_was_opened_before_the_proposal_does_not_confirm_it(
    proposed: Run, bob: User, signed_in: SignIn
) -> None:
    answer = signed_in(bob).post(address(proposed, "closed_unresolved"), CLOSING)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "Alice Lin proposed this" in page
    assert InboxEvent.objects.count() == 1


@pytest.mark.parametrize("name", ["callback_received", "retry_scheduled", "late_result", "no_such_event"])
def test_what_no_person_sends_has_no_form(name: str, alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    assert signed_in(alice).get(address(run, name)).status_code == 404
