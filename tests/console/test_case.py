import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.domain.effects import EffectState
from runs.domain.states import State, StopReason
from runs.models import Handoff, InboxEvent, Run, Seal
from runs.models.seal import FIRST, SealedEvent
from runs.timeline import timeline
from tests.console import rows
from tests.states import bring

SignIn = Callable[[User], Client]


def test_the_case_says_what_is_known_unknown_and_what_it_rests_on(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice, question="Was it received?")
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    for said in (
        "Refund of order B456",
        "Was it received?",
        ">MET<",
        ">UNKNOWN<",
        ">U-88</span> may act on this order",
        "authority service",
        f"refund-B456-{str(run.pk)[:8]}",
        "outcome unknown",
        "Nothing was found, and that is not proof",
        "Nobody answered. That says nothing about the write.",
        'lang="en">Your request about order B456 was handed to a person',
        'lang="zh-Hans">您关于订单 B456 的申请已转交人工客服跟进。',
    ):
        assert said in page, said


def test_an_unknown_effect_makes_asking_the_first_thing_to_do(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert '<button class="primary" id="act-reconcile_requested"' in page


def test_what_is_forbidden_stands_there_disabled_with_the_reason(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    button = 'type="button" aria-disabled="true" aria-describedby="why-resumed_after_review">Go on</button>'
    assert button in page
    assert "A write has an open outcome: ask the service first." in page


def test_what_asking_again_costs_stands_on_the_button_that_asks(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    run.budget["follow_up_checks"][2] = 5
    run.save()
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    title = "Reads only; nothing is sent again. 1 follow-up check left."
    assert re.search(rf'id="act-reconcile_requested" title="[^"]*{title}"', page)
    assert title in signed_in(alice).get(f"/runs/{run.pk}/events/reconcile_requested/").content.decode()


def test_that_somebody_else_has_the_case_is_said_once(alice: User, bob: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice, holder=bob, held_until=timezone.now() + timedelta(minutes=20))
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert 'id="held"><p>Bob Okafor has this case' in page
    assert 'type="button" aria-disabled="true" aria-describedby="held">Supply evidence</button>' in page
    assert "holds this case until" not in page
    assert "A write has an open outcome: ask the service first." in page


def test_a_paused_run_is_let_go_on_by_one_button(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.PAUSED, paused=True)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert 'class="primary" id="act-unpaused"' in page
    assert ">Go on</button>" not in page


@pytest.mark.parametrize(
    ("stopped_for", "level"),
    [(StopReason.CONTRACT_MET, ""), (StopReason.LIMIT_EXTERNAL_WRITES, ' data-level="out"')],
)
def test_a_used_up_budget_is_bad_news_only_for_a_run_that_stopped_for_it(
    stopped_for: StopReason, level: str, alice: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, stopped_for)
    run.budget["external_writes"][2] = 1
    run.save()
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert f"<li{level}><span>External writes</span> <b>1 of 1, used up</b>" in page
    assert page.count('data-level="out"') == bool(level)


def test_what_a_case_like_this_never_allows_is_out_of_the_way(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    offered, _, far_off = page.partition('id="far-off"')
    for label in ("Approve", "It did happen", "Credential replaced", "Ask the service again"):
        assert f"<b>{label}:</b>" in far_off, label
        assert f"<b>{label}:</b>" not in offered, label


def test_a_case_that_waits_says_when_it_is_asked_again(alice: User, signed_in: SignIn) -> None:
    soon = timezone.now() + timedelta(minutes=25, seconds=50)
    run = rows.run("B456", alice, StopReason.EFFECT_PENDING, effects_at_risk=1, due_at=soon, answer_by=None)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    told = re.search(r'Asked again in <time datetime="([^"]*)" title="[^"]* UTC">25 min</time> by itself', page)
    assert told
    assert told[1] == soon.isoformat(timespec="seconds")
    assert "No due time" not in page
    Run.objects.update(owner="worker")  # due_at is then when its lease ends
    assert "Asked again in" not in signed_in(alice).get(f"/runs/{run.pk}/").content.decode()


def test_a_supervisor_sees_what_would_change_and_until_when(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", alice)
    effect = run.effects.get()
    page = signed_in(bob).get(f"/runs/{run.pk}/").content.decode()
    for said in ("59.00 EUR", "original means of payment", "cancel the request at the refund service", "Decide by"):
        assert said in page, said
    assert f'name="answers" value="{effect.plan_digest}"' in page
    assert '<button class="primary" id="act-approval_granted"' in page


def test_the_requester_may_not_approve_their_own(bob: User, signed_in: SignIn) -> None:
    run = rows.proposed("B456", bob)
    page = signed_in(bob).get(f"/runs/{run.pk}/").content.decode()
    assert "You asked for this run yourself; somebody else has to decide." in page
    assert 'id="act-approval_granted"' not in page


def test_a_finished_case_offers_nothing(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.CONTRACT_MET)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert "Completed: every assertion was read back and holds." in page
    assert 'id="acts"' not in page


def test_a_decision_that_nobody_has_carried_out_yet_is_said_to_be_recorded(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    InboxEvent.objects.create(run=run, name="reconcile_requested", actor=alice, received_at=timezone.now())
    page = signed_in(alice).get(f"/runs/{run.pk}/body/").content.decode()
    assert "Recorded. Being carried out." in page
    assert "<html" not in page


def test_a_decision_that_could_not_be_carried_out_says_why(alice: User, signed_in: SignIn) -> None:
    run, now = rows.uncertain("B456", alice), timezone.now()
    InboxEvent.objects.create(
        run=run,
        name="cancel_requested",
        actor=alice,
        received_at=now,
        settled_at=now,
        result=InboxEvent.Result.REFUSED,
        result_reason="The run has ended.",
    )
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert "was not carried out" in page
    assert "The run has ended." in page


def test_what_was_filled_in_is_told_by_field_and_without_codes(alice: User, bob: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.LIMIT_EXTERNAL_WRITES)
    filled_in = {"by": 1, "reason": "Once more.", "dimension": "external_writes"}  # as the database orders them
    rows.event(run, "event_received", bob, name="budget_extended", payload=filled_in)
    rows.event(run, "event_received", bob, name="approval_rejected", payload={"reason": "Too much."})
    quotes = [line["quote"] for line in timeline(run) if line["quote"]]
    assert quotes == ["Too much.", "Budget: external writes; By how many: 1; Reason: Once more."]


def test_text_from_outside_is_escaped_marked_and_folded(alice: User, signed_in: SignIn) -> None:
    hostile = "<script>alert(1)</script></blockquote> \u202e \u200b" + " and on it goes" * 40
    run = rows.uncertain("B456", alice, question=hostile)
    rows.event(run, "claimed_completion", None, says=hostile)
    run.effects.update(receipt={"note": hostile}, reason=hostile)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert "<script>alert" not in page
    assert "</blockquote> " not in page
    assert "[U+202E] [U+200B]" in page
    assert "The agent wrote (not evidence)" in page
    assert '<details id="said-' in page


def test_the_holder_may_release_and_the_others_see_who_has_it(alice: User, bob: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    signed_in(alice).post(f"/runs/{run.pk}/claim/")
    assert "Release" in signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    page = signed_in(bob).get(f"/runs/{run.pk}/").content.decode()
    assert "<p>Alice Lin has this case, for another <time" in page
    assert "Release" not in page
    signed_in(alice).post(f"/runs/{run.pk}/release/")
    run.refresh_from_db()
    assert run.holder is None


def test_a_lost_race_for_a_case_is_a_page_that_names_the_winner(alice: User, bob: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    signed_in(bob).post(f"/runs/{run.pk}/claim/")
    answer = signed_in(alice).post(f"/runs/{run.pk}/claim/")
    assert answer.status_code == 409
    assert "Nothing was changed" in answer.content.decode()
    assert "Bob Okafor holds this case until" in answer.content.decode()


def test_claiming_leads_back_to_where_the_form_was_and_nowhere_else(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    client = signed_in(alice)
    assert client.post(f"/runs/{run.pk}/claim/", {"back": "/?tab=limit"}).headers["Location"] == "/?tab=limit"
    elsewhere = client.post(f"/runs/{run.pk}/claim/", {"back": "//evil.example/"})
    assert elsewhere.headers["Location"] == f"/runs/{run.pk}/"


def test_the_package_is_the_one_written_with_this_stop(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    for version, was in ((run.stretch, "this stop"), (run.stretch + 1, "another stop")):
        package = {"run_id": str(run.pk), "was": was}
        Handoff.objects.create(run=run, version=version, package=package, made_at=timezone.now())
    answer = signed_in(alice).get(f"/runs/{run.pk}/package.json")
    assert json.loads(answer.content)["was"] == "this stop"
    assert answer.headers["Content-Disposition"].startswith("attachment")


def test_a_run_without_a_package_gives_what_is_recorded_now(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice)
    package = json.loads(signed_in(alice).get(f"/runs/{run.pk}/package.json").content)
    assert package["run_id"] == str(run.pk)
    assert package["state"] == "executing"


@pytest.mark.parametrize("page", ["", "body/", "package.json", "events/cancel_requested/"])
def test_only_people_of_the_queue_and_auditors_look_at_a_case(
    page: str, alice: User, ada: User, charlie: User, signed_in: SignIn
) -> None:
    run = rows.uncertain("B456", alice)
    assert signed_in(charlie).get(f"/runs/{run.pk}/{page}").status_code == 403
    assert signed_in(ada).get(f"/runs/{run.pk}/{page}").status_code == 200


def test_an_unknown_run_is_a_page_that_says_so(alice: User, signed_in: SignIn) -> None:
    answer = signed_in(alice).get("/runs/00000000-0000-4000-8000-000000000000/")
    assert answer.status_code == 404
    assert "There is no run with this number." in answer.content.decode()


def test_the_number_of_queries_does_not_grow_with_the_history(
    alice: User, signed_in: SignIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = rows.uncertain("B456", alice)
    for seq in range(7, 40):
        rows.step(run, seq, "read", "read_order", "The order service answered.")
        rows.event(run, "event_received", alice, name="evidence_supplied", payload={"statement": "I saw it"})
    client = signed_in(alice)
    with django_assert_max_num_queries(17):
        client.get(f"/runs/{run.pk}/")


def test_a_case_says_how_far_the_record_is_sealed_and_what_that_does_not_prove(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    client = signed_in(alice)
    assert "Record sealed up to" not in client.get(f"/runs/{run.pk}/").content.decode()
    seal = Seal(number=1, previous=FIRST, cluster=1, floor=0, highest=0, sealed_at=timezone.now())
    seal.cover([SealedEvent(1, run.pk, "started", alice.pk, datetime(2026, 9, 25, 14, 3, 7, tzinfo=UTC), 700, "")])
    seal.sign("a key that is only used by tests 1")
    seal.save()

    page = client.get(f"/runs/{run.pk}/").content.decode()

    assert re.search(r'Record sealed up to <time datetime="2026-09-25T14:03:07\+00:00"', page)
    assert "what was never recorded" in page


def test_a_case_whose_workflow_is_gone_can_still_be_read(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.WORKFLOW_MISSING, workflow="gone", workflow_version=9)
    rows.write(run, EffectState.UNKNOWN)
    answer = signed_in(alice).get(f"/runs/{run.pk}/")
    assert answer.status_code == 200
    assert "gone: order B456" in answer.content.decode()


def test_of_a_write_that_is_withheld_nothing_is_claimed(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NOT_AUTHORISED)
    effect = rows.write(run, EffectState.CONFIRMED)
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert effect.operation_key in page
    assert "not sent" not in page
    assert "59.00 EUR" not in page


def test_times_are_shown_in_the_viewers_zone_with_the_exact_instant(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS, created_at=timezone.now() - timedelta(days=400))
    client = signed_in(alice)
    client.cookies["timezone"] = "Asia/Shanghai"
    assert "Asia/Shanghai (UTC+08:00)" in client.get(f"/runs/{run.pk}/").content.decode()
    for nonsense in ("../../etc/passwd", "Nowhere/City", ""):
        client.cookies["timezone"] = nonsense
        assert "UTC" in client.get(f"/runs/{run.pk}/").content.decode()


def test_what_came_of_the_last_thing_that_was_said_is_told_from_recorded_times(
    alice: User, bob: User, signed_in: SignIn
) -> None:
    run = rows.proposed("B456", alice)
    said_at = timezone.now() - timedelta(minutes=2)
    run.inbox.create(
        name="approval_granted",
        actor=bob,
        answers=run.effects.get().plan_digest,
        received_at=said_at,
        settled_at=said_at + timedelta(milliseconds=84),
        result="applied",
    )
    rows.event(run, "event_applied", bob, name="approval_granted")
    for seq, (kind, says) in enumerate((("read", "Read."), ("read", "Read."), ("write", "Accepted <b>as</b> R1.")), 7):
        at = said_at + timedelta(seconds=seq)
        key = run.effects.get().operation_key if kind == "write" else ""
        rows.step(run, seq, kind, "it", says, operation_key=key, started_at=at, settled_at=at)
    rows.event(run, "stopped", None, reason="contract_met")
    ended = bring(run, State.COMPLETED, outcome="COMPLETED", stop_reason="contract_met", acceptance="succeeded")

    page = signed_in(bob).get(f"/runs/{ended.pk}/").content.decode()
    told = page.partition('id="aftermath"')[2].partition("</details>")[0]
    assert "You sent “Approve” at" in told
    assert "a worker took it up 84 ms later." in told
    assert re.findall(r"<li><bdi>(.*?)</bdi>", told) == [
        "2 sources were read again.",
        "The write was still exactly the one that had been decided about.",
        f'It was sent under key <span class="key">{run.effects.get().operation_key}</span>.',
        "Accepted &lt;b&gt;as&lt;/b&gt; R1.",
        "Then it stopped: Completed (contract met).",
    ]
    assert "Bob Okafor sent “Approve” at" in signed_in(alice).get(f"/runs/{ended.pk}/").content.decode()


def test_only_of_a_decision_is_it_said_that_the_write_was_the_one_decided_about(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.EFFECT_PENDING, effects_at_risk=1)
    said_at = timezone.now() - timedelta(minutes=2)
    run.inbox.create(
        name="resumed_after_review", actor=alice, received_at=said_at, settled_at=said_at, result="applied"
    )
    rows.event(run, "event_applied", alice, name="resumed_after_review")
    for seq, kind in enumerate(("read", "write"), 7):
        at = said_at + timedelta(seconds=seq)
        rows.step(run, seq, kind, "it", "Done.", operation_key="k-1", started_at=at, settled_at=at)

    told = signed_in(alice).get(f"/runs/{run.pk}/").content.decode().partition('id="aftermath"')[2]
    assert "1 source was read again." in told
    assert "decided about" not in told


def test_what_is_not_carried_out_yet_has_no_aftermath(alice: User, signed_in: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    client = signed_in(alice)
    assert 'id="aftermath"' not in client.get(f"/runs/{run.pk}/").content.decode()
    client.post(f"/runs/{run.pk}/events/reconcile_requested/")
    assert 'id="aftermath"' not in client.get(f"/runs/{run.pk}/").content.decode()
