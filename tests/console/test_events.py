from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.domain.interventions import CATALOGUE, FROM_PEOPLE
from runs.domain.states import Move, StopReason
from runs.models import InboxEvent, Refusal, Run
from tests.console import rows

SignIn = Callable[[User], Client]


def address(run: Run, name: str, form: bool = False) -> str:
    return f"/runs/{run.pk}/events/{name}/" + ("form/" if form else "")


MOST: int = CATALOGUE[Move.BUDGET_EXTENDED].payload["properties"]["by"]["maximum"]
EVIDENCE = {"statement": "The customer forwarded the receipt.", "reference": "mail 17"}


@pytest.mark.parametrize("name", [move.value for move in FROM_PEOPLE])
def test_every_event_has_a_form_that_decides_nothing(name: str, bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    page = signed_in(bob).get(address(run, name))
    assert page.status_code == 200
    assert 'method="post"' in page.content.decode()
    assert not InboxEvent.objects.exists()


def test_the_form_says_what_it_means_where_it_leads_and_what_is_checked_again(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    page = signed_in(alice).get(address(run, "evidence_supplied")).content.decode()
    assert "It does not confirm a write by itself." in page
    assert 'blocked <span aria-hidden="true">→</span><span class="sr">to</span> validating' in page
    assert "The authority is asked again where it can be" in page


def test_a_form_offers_the_budgets_of_this_run(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.LIMIT_STEPS)
    page = signed_in(bob).get(address(run, "budget_extended")).content.decode()
    limit = run.budget["status_checks"][0]
    label = f"Status checks: 0 of {limit} spent, may be raised by {limit}"
    assert f'<option value="status_checks">{label}</option>' in page
    assert "model_turns" not in page


def test_a_sent_event_is_recorded_and_leads_back_to_the_case(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    answer = signed_in(alice).post(address(run, "evidence_supplied"), EVIDENCE)
    assert answer.headers["Location"] == f"/runs/{run.pk}/"
    sent = InboxEvent.objects.get()
    assert (sent.name, sent.payload, sent.actor) == ("evidence_supplied", EVIDENCE, alice)


def test_a_form_opened_in_the_case_leads_back_to_it_too(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    answer = signed_in(alice).post(address(run, "evidence_supplied", form=True), EVIDENCE)
    assert answer.headers["HX-Redirect"] == f"/runs/{run.pk}/"


def test_asking_again_is_one_press(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    signed_in(alice).post(address(run, "reconcile_requested"), {"seen": "whatever"})
    assert InboxEvent.objects.get().name == "reconcile_requested"


def test_a_double_click_is_one_event(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    client = signed_in(alice)
    client.post(address(run, "reconcile_requested"))
    second = client.post(address(run, "reconcile_requested"))
    assert second.status_code == 409
    assert "Alice Lin already sent this; it is being carried out." in second.content.decode()
    assert InboxEvent.objects.count() == 1


@pytest.mark.parametrize("form", [False, True])
def test_a_wrong_payload_names_the_field_and_keeps_what_was_typed(form: bool, alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    typed = {"statement": 'I <b>saw</b> it "there"', "reference": "  "}
    answer = signed_in(alice).post(address(run, "evidence_supplied", form), typed)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "I &lt;b&gt;saw&lt;/b&gt; it &quot;there&quot;</textarea>" in page
    assert 'aria-invalid="true" aria-describedby="e-evidence_supplied-reference"' in page
    assert "This is needed." in page
    assert ("<html" in page) is not form
    assert not InboxEvent.objects.exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"dimension": "steps", "by": "many", "reason": "r"}, f"It must be a whole number from 1 to {MOST}."),
        ({"dimension": "steps", "by": str(MOST + 1), "reason": "r"}, f"It must be a whole number from 1 to {MOST}."),
        ({"dimension": "wishes", "by": "1", "reason": "r"}, ">must be one of"),
        ({"dimension": "steps", "by": "1", "reason": "r" * 2001}, "It may have at most 2000 characters."),
        ({"dimension": "steps", "by": "1"}, "This is needed."),
        ({"dimension": "steps", "by": "1", "reason": "r", "extra": "x"}, "extra: is not a field of this payload."),
    ],
)
def test_missing_extra_and_wrong_fields_are_named(
    typed: dict[str, str], said: str, bob: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, StopReason.LIMIT_STEPS)
    answer = signed_in(bob).post(address(run, "budget_extended"), typed)
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not InboxEvent.objects.exists()


def test_an_approval_is_bound_to_the_plan_that_was_shown(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    digest = run.effects.get().plan_digest
    signed_in(bob).post(address(run, "approval_granted"), {"answers": digest})
    assert InboxEvent.objects.get().answers == digest


def test_a_stale_page_decides_nothing_and_says_what_changed(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    rows.event(run, "plan_replaced", None, changed="order version 4 became 5")
    stale = {"answers": "0" * 64, "reason": "Too much."}
    answer = signed_in(bob).post(address(run, "approval_rejected"), stale)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "order version 4 became 5" in page
    assert "The proposed write has changed since you looked." in page
    assert "Too much.</textarea>" in page
    assert not InboxEvent.objects.exists()


def test_a_second_decision_is_told_to_whom_it_lost(bob: User, robin: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    digest = run.effects.get().plan_digest
    signed_in(robin).post(address(run, "approval_granted"), {"answers": digest})
    answer = signed_in(bob).post(address(run, "approval_rejected"), {"answers": digest, "reason": "No."})
    assert answer.status_code == 409
    assert "Supervisor approved this plan at" in answer.content.decode()
    assert "No.</textarea>" in answer.content.decode()


def test_a_form_about_a_run_that_moved_on_is_not_sent_blindly(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    typed = {"reason": "The customer withdrew.", "seen": "blocked/WAITING/effect_unknown"}
    answer = signed_in(alice).post(address(run, "cancel_requested"), typed)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "When you opened it: Waiting (write unknown). Now: Needs a person (outcome unconfirmed)." in page
    assert "The customer withdrew.</textarea>" in page
    refused = Refusal.objects.get()
    assert (refused.run, refused.person, refused.attempted, refused.code) == (run, alice, "cancel_requested", "stale")
    typed["seen"] = "blocked/NEEDS_HUMAN/outcome_unconfirmed"
    assert f'name="seen" value="{typed["seen"]}"' in page
    assert signed_in(alice).post(address(run, "cancel_requested"), typed).status_code == 302


@pytest.mark.parametrize("seen", ["", "/", "a", "<b>/<i>/<u>/x", "blocked/NO_SUCH/reason"])
def test_a_form_that_remembers_nonsense_is_answered_like_any_other(seen: str, alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    answer = signed_in(alice).post(address(run, "cancel_requested"), {"seen": seen})
    assert answer.status_code == 422
    assert "<b>/<i>" not in answer.content.decode()


def test_an_event_that_the_state_does_not_allow_is_refused_with_the_reason(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.CONTRACT_MET)
    answer = signed_in(alice).post(address(run, "cancel_requested"), {"reason": "Late."})
    assert answer.status_code == 409
    assert "The run has ended (completed)." in answer.content.decode()


@pytest.mark.parametrize(
    ("who", "name", "typed"),
    [
        ("alice", "approval_granted", {}),
        ("alice", "budget_extended", {"dimension": "steps", "by": "1", "reason": "r"}),
        ("ada", "reconcile_requested", {}),
        ("charlie", "reconcile_requested", {}),
    ],
)
def test_who_lacks_the_permission_is_told_which_and_it_is_on_record(
    who: str, name: str, typed: dict[str, Any], request: pytest.FixtureRequest, bob: User, signed_in: SignIn
) -> None:
    person: User = request.getfixturevalue(who)
    run = rows.uncertain("B456", bob)
    answer = signed_in(person).post(address(run, name), typed)
    assert answer.status_code == 403
    why = "Your account has neither role" if who == "charlie" else "needs the permission"
    assert why in answer.content.decode()
    assert not InboxEvent.objects.exists()
    assert Refusal.objects.get().person == person


def test_a_case_in_somebodys_hands_is_not_moved_by_another(alice: User, bob: User, signed_in: SignIn) -> None:
    until = timezone.now() + timedelta(minutes=20)
    run = rows.uncertain("B456", alice, holder=bob, held_until=until)
    answer = signed_in(alice).post(address(run, "evidence_supplied"), EVIDENCE)
    assert answer.status_code == 409
    assert "Bob Okafor holds this case until" in answer.content.decode()
    assert EVIDENCE["statement"] in answer.content.decode()


def test_an_event_that_nobody_knows_is_a_refused_attempt_on_record(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    for name in ("completed", "no-such-event"):
        assert signed_in(alice).post(address(run, name), {"reason": "Let me."}).status_code == 404
    assert set(Refusal.objects.values_list("attempted", "code")) == {
        ("completed", "unknown_event"),
        ("no-such-event", "unknown_event"),
    }


@pytest.mark.parametrize("method", ["get", "post"])
def test_unknown_runs_and_unknown_events_are_not_found(method: str, alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    send = getattr(signed_in(alice), method)
    assert send(address(run, "completed")).status_code == 404
    assert send(address(Run(), "cancel_requested")).status_code == 404


def test_an_event_cannot_be_sent_from_another_site(alice: User) -> None:
    run = rows.uncertain("B456", alice)
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post(address(run, "reconcile_requested"))
    assert answer.status_code == 403
    assert "This page was too old to send" in answer.content.decode()
    assert not InboxEvent.objects.exists()


@pytest.mark.parametrize("name", [move.value for move in FROM_PEOPLE])
def test_the_number_of_queries_of_a_form_does_not_grow_with_the_history(
    name: str, bob: User, alice: User, signed_in: SignIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = rows.proposed("B456", alice)
    for seq in range(7, 40):
        rows.step(run, seq, "read", "read_order", "The order service answered.")
    client = signed_in(bob)
    with django_assert_max_num_queries(15):
        client.get(address(run, name, form=True))
