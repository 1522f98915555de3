"""What comes out of a run that has ended: a run of its own, which says where it came from."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from runs.domain.effects import EffectState
from runs.domain.states import StopReason
from runs.models import Refusal, Run
from tests.console import rows
from tests.processes import BackOffice

SignIn = Callable[[User], Client]


@pytest.fixture(autouse=True)
def _office(back_office: BackOffice, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)


def accepted(by: User) -> Run:
    run = rows.run("B456", by, StopReason.CONTRACT_MET)
    rows.facts(run)
    receipt = {"request_id": "R789", "order_id": "B456", "submit_state": "accepted"}
    rows.write(run, EffectState.CONFIRMED, receipt=receipt)
    return run


def page(client: Client, run: Run) -> str:
    return client.get(f"/runs/{run.pk}/").content.decode()


def test_an_accepted_refund_offers_to_follow_its_payment(alice: User, signed_in: SignIn) -> None:
    run, client = accepted(alice), signed_in(alice)
    assert '<button id="follow-payment">Follow the payment</button>' in page(client, run)

    answer = client.post(f"/runs/{run.pk}/follow-ups/payment/")

    following = run.followed_by.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/runs/{following.pk}/")
    assert (following.workflow, following.input["request_id"]) == ("refund_payment", "R789")


def test_each_of_the_two_leads_to_the_other(alice: User, signed_in: SignIn) -> None:
    run, client = accepted(alice), signed_in(alice)
    client.post(f"/runs/{run.pk}/follow-ups/payment/")
    following = run.followed_by.get()

    def link(to: Run, title: str) -> str:
        return f'<a class="link" id="related-{to.pk}" href="/runs/{to.pk}/"><bdi>{title}</bdi></a>'

    assert f"Follows</span> {link(run, 'Refund of order B456')}" in page(client, following)
    back = link(following, "Payment of refund R789 for order B456")
    assert f"Followed by</span> {back}" in page(client, run)


def test_pressed_twice_it_is_one_run_and_says_so(alice: User, signed_in: SignIn) -> None:
    run, client = accepted(alice), signed_in(alice)
    client.post(f"/runs/{run.pk}/follow-ups/payment/")

    answer = client.post(f"/runs/{run.pk}/follow-ups/payment/", follow=True)

    assert "This run was under way already; nothing new was started." in answer.content.decode()
    assert run.followed_by.count() == 1


def test_where_nothing_can_follow_the_button_says_why(alice: User, signed_in: SignIn) -> None:
    run, client = rows.run("A123", alice, StopReason.NOT_ELIGIBLE), signed_in(alice)

    shown = page(client, run)

    assert 'type="button" aria-disabled="true" aria-describedby="why-follow-payment">' in shown
    assert "so there is no payment to follow." in shown
    answer = client.post(f"/runs/{run.pk}/follow-ups/payment/")
    assert answer.status_code == 409
    assert "so there is no payment to follow." in answer.content.decode()
    assert Refusal.objects.get().attempted == "follow_up"


def test_while_it_is_open_nothing_can_follow(alice: User, signed_in: SignIn) -> None:
    run, client = rows.uncertain("B456", alice), signed_in(alice)
    assert 'id="follow-ups"' not in page(client, run)
    assert client.post(f"/runs/{run.pk}/follow-ups/payment/").status_code == 409


def test_who_may_not_start_runs_is_offered_none_and_refused(alice: User, ada: User, signed_in: SignIn) -> None:
    run, client = accepted(alice), signed_in(ada)
    assert 'id="follow-ups"' not in page(client, run)
    assert client.post(f"/runs/{run.pk}/follow-ups/payment/").status_code == 403
    assert not run.followed_by.exists()


def test_a_follow_up_that_is_not_declared_is_not_found(alice: User, signed_in: SignIn) -> None:
    run, client = accepted(alice), signed_in(alice)
    answer = client.post(f"/runs/{run.pk}/follow-ups/party/")
    assert (answer.status_code, "there are payment" in answer.content.decode()) == (404, True)


def test_it_takes_a_form_and_no_link(alice: User, signed_in: SignIn) -> None:
    run, client = accepted(alice), signed_in(alice)
    assert client.get(f"/runs/{run.pk}/follow-ups/payment/").status_code == 405
    assert not run.followed_by.exists()


def test_of_what_waits_for_the_world_the_first_thing_to_do_is_to_look_now(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.RESULT_PENDING)
    assert '<a class="button primary" id="act-resumed_after_review"' in page(signed_in(alice), run)
