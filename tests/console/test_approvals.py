import base64
import html
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.domain.effects import EffectState
from runs.domain.states import State
from runs.models import Effect, InboxEvent, Run
from takeover.console.queue import paging
from tests.console import rows
from tests.states import bring, bring_write

SignIn = Callable[[User], Client]


def test_proposed_writes_stand_there_with_everything_a_decision_needs(
    bob: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    page = signed_in(bob).get("/approvals/").content.decode()
    for said in ("59.00 EUR", "0.00 EUR", "Alice Lin", "cancel the request", "paid back", "due in 59 min"):
        assert said in page, said
    assert run.effects.get().plan_digest[:12] in page
    assert "Approve" in page


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
    run = rows.proposed("B456", alice, acts_for="bob")
    page = signed_in(bob).get("/approvals/").content.decode()
    assert "somebody else has to decide" in page
    assert f'id="approve-{run.pk}"' not in page


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


APPROVE, REJECT = "approval_granted", "approval_rejected"
HTMX = {"HX-Request": "true"}


def decide(client: Client, run: Run, name: str, form: bool = True, **typed: str) -> Any:
    """As from the card: by htmx, or as a plain form."""
    digest = run.effects.get().plan_digest
    given = {"answers": digest, "back": "/approvals/", **typed}
    address = f"/runs/{run.pk}/events/{name}/" + ("form/" if form else "")
    return client.post(address, given, headers=HTMX if form else {})


def shown(run: Run) -> str:
    return f"{run.pk}.{run.effects.get().plan_digest[:12]}"


def test_a_card_decides_by_the_digest_that_it_shows_and_says_what_was_recorded(
    bob: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    client = signed_in(bob)
    page = client.get("/approvals/").content.decode()
    assert f'<input type="hidden" name="answers" value="{run.effects.get().plan_digest}">' in page
    answer = decide(client, run, APPROVE)
    assert answer.headers["HX-Retarget"] == f"#p-{run.pk}"
    assert "Recorded. Being carried out." in answer.content.decode()
    assert f'id="approve-{run.pk}"' not in answer.content.decode()
    assert InboxEvent.objects.get().answers == run.effects.get().plan_digest


def test_without_script_a_decision_leads_back_to_the_list(bob: User, alice: User, signed_in: SignIn) -> None:
    run, client = rows.proposed("B456", alice), signed_in(bob)
    answer = decide(client, run, REJECT, form=False, reason="No receipt.", back="/approvals/?workflow=refund_request")
    assert answer.headers["Location"] == "/approvals/?workflow=refund_request"
    assert "Recorded. Being carried out.</b> Reject, Bob Okafor" in client.get("/approvals/").content.decode()


def test_nobody_is_led_to_another_site(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    answer = decide(signed_in(bob), run, APPROVE, form=False, back="https://elsewhere.example/approvals/")
    assert answer.headers["Location"] == f"/runs/{run.pk}/"


@pytest.mark.parametrize(("back", "leads_to"), [("nowhere", ""), ("/?q=\n退款", "/?q=%0A%E9%80%80%E6%AC%BE")])
def test_an_address_that_is_odd_does_not_break_what_was_decided(
    back: str, leads_to: str, bob: User, alice: User, signed_in: SignIn
) -> None:
    run, other = rows.proposed("B456", alice), rows.proposed("C881", alice)
    by_form = decide(signed_in(bob), run, APPROVE, form=False, back=back)
    by_script = decide(signed_in(bob), other, APPROVE, form=True, back=back)
    assert by_form.headers["Location"] == (leads_to or f"/runs/{run.pk}/")
    assert by_script.headers["HX-Redirect"] == (leads_to or f"/runs/{other.pk}/")


def test_the_form_of_a_rejection_opens_in_the_card_and_leads_back(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    form = signed_in(bob).get(f"/runs/{run.pk}/events/{REJECT}/form/?back=/approvals/").content.decode()
    assert '<input type="hidden" name="back" value="/approvals/">' in form
    assert "Back to the approvals" in form
    assert 'class="difference"' not in form  # the card shows it


def test_who_loses_a_race_at_the_card_is_told_by_whom_and_keeps_what_they_typed(
    bob: User, robin: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    decide(signed_in(robin), run, APPROVE)
    answer = decide(signed_in(bob), run, REJECT, reason="No <i>receipt</i>.")
    page = answer.content.decode()
    assert (answer.status_code, "HX-Retarget" in answer.headers) == (409, False)
    assert "Supervisor approved this plan at" in page
    assert "No &lt;i&gt;receipt&lt;/i&gt;.</textarea>" in page


def test_who_asked_for_it_sees_why_they_may_not_approve_and_may_still_reject(bob: User, signed_in: SignIn) -> None:
    run, client = rows.proposed("B456", bob), signed_in(bob)
    page = client.get("/approvals/").content.decode()
    assert f'aria-disabled="true" aria-describedby="why-{run.pk}">Approve</button>' in page
    assert f'id="reject-{run.pk}"' in page
    assert decide(client, run, APPROVE).status_code == 403


def test_a_card_that_is_decided_stays_in_its_place_on_an_open_page(
    bob: User, robin: User, alice: User, signed_in: SignIn
) -> None:
    first, second = (rows.proposed(order, alice) for order in ("B456", "C881"))
    decide(signed_in(robin), first, REJECT, reason="No.")
    InboxEvent.objects.update(result="applied")
    bring(first, State.PLANNING, outcome="", stop_reason="")
    new = rows.proposed("D041", alice)
    list_ = signed_in(bob).get("/approvals/list/", {"shown": [shown(first), shown(second)]}).content.decode()
    assert re.findall(r'<article class="card" id="p-([^"]*)"', list_) == [str(one.pk) for one in (first, second, new)]
    assert "It waits no more.</b> Reject, supervisor" in re.sub(r"Supervisor", "supervisor", list_)
    assert f'id="reject-{first.pk}"' not in list_
    assert list_.count("data-new") == 1
    assert str(first.pk) not in signed_in(bob).get("/approvals/").content.decode()


def test_a_plan_that_changed_under_an_open_page_cannot_be_approved_there(
    bob: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    list_ = signed_in(bob).get("/approvals/list/", {"shown": f"{run.pk}.{'0' * 12}"}).content.decode()
    assert "The proposed write has changed since you looked." in list_
    assert f'id="approve-{run.pk}"' not in list_


def test_the_list_goes_on_behind_its_last_card(
    bob: User, alice: User, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE", 2)
    now = timezone.now()
    for number in range(3):
        rows.proposed(f"N{number}", alice, answer_by=now + timedelta(minutes=number))
    rows.proposed("LAST", alice, answer_by=None)
    client, address, found = signed_in(bob), "/approvals/", []
    while address:
        page = client.get(address).content.decode()
        found += re.findall(r"<bdi>Refund of order (\w+)", page)
        following = re.search(r'href="([^"]*)">Next page', page)
        address = html.unescape(following[1]) if following else ""
    assert found == ["N0", "N1", "N2", "LAST"]


@pytest.mark.parametrize("query", ["after=nonsense", "after=2026-01-01~x", "workflow=<b>", "after=~%00"])
def test_an_address_that_was_tampered_with_is_refused_in_words(query: str, bob: User, signed_in: SignIn) -> None:
    assert signed_in(bob).get(f"/approvals/?{query}").status_code == 400
    assert signed_in(bob).get("/approvals/list/?shown=nonsense").status_code == 400


def test_one_workflow_can_be_looked_at_alone(bob: User, alice: User, signed_in: SignIn) -> None:
    rows.proposed("B456", alice)
    rows.proposed("C881", alice, workflow="another_one")
    page = signed_in(bob).get("/approvals/?workflow=refund_request").content.decode()
    assert "B456" in page
    assert "C881" not in page
    assert 'href="/approvals/?workflow=another_one">another one <b>1</b>' in page


@pytest.mark.parametrize("field", ["target", "risk", "undo", "target_version", "needs_approval"])
def test_whatever_a_plan_says_is_text(field: str, bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    effect = run.effects.get()
    effect.plan[field] = "<script>x</script>\u202e"
    Effect.objects.filter(pk=effect.pk).update(plan=effect.plan)
    page = signed_in(bob).get("/approvals/").content.decode()
    assert "<bdi>&lt;script&gt;x&lt;/script&gt;[U+202E]</bdi>" in page


def test_the_number_of_queries_does_not_grow(
    bob: User, alice: User, signed_in: SignIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(15):
        rows.proposed(f"N{number}", alice)
    client = signed_in(bob)
    with django_assert_max_num_queries(10):
        client.get("/approvals/")
    known = [shown(run) for run in Run.objects.all()]
    with django_assert_max_num_queries(8):
        client.get("/approvals/list/", {"shown": known})


def test_one_that_a_workflow_cannot_judge_takes_no_other_off_the_list(
    bob: User, alice: User, signed_in: SignIn, caplog: pytest.LogCaptureFixture
) -> None:
    odd, other = rows.proposed("B456", alice), rows.proposed("C881", alice)
    effect = odd.effects.get()
    Effect.objects.filter(pk=effect.pk).update(plan=effect.plan | {"params": {}})
    page = signed_in(bob).get("/approvals/").content.decode()
    assert f'id="p-{odd.pk}"' in page
    assert f'id="p-{other.pk}"' in page
    assert str(odd.pk) in caplog.text


def test_a_place_outside_the_calendar_is_refused_in_words(bob: User, alice: User, signed_in: SignIn) -> None:
    place = json.dumps(["urgency", "0001-01-01T00:00:00+14:00", None, str(rows.proposed("B456", alice).pk)])
    answer = signed_in(bob).get("/approvals/", {"after": base64.urlsafe_b64encode(place.encode()).decode()})
    assert answer.status_code == 400
    assert "Start at the first page." in answer.content.decode()
