"""Many cases at once, each answered for by itself; and handing cases to people."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from runs.domain.states import StopReason
from runs.interventions import claims
from runs.interventions.refusals import Refused
from runs.models import InboxEvent, Refusal, Run
from runs.timeline import timeline
from tests.console import rows
from tests.people import person

SignIn = Callable[[User], Client]


def results(page: str) -> list[tuple[str, str]]:
    """Each item's title, and what became of it: "done" or why not."""
    items = re.findall(r"<li><span class=\"mark\"[^>]*>([^<]*)</span>\s*(.*?)</li>", page, re.S)
    told = [(mark, re.sub(r"\s*<[^>]+>\s*", "|", rest).strip("|").split("|")) for mark, rest in items]
    return [(words[0], words[-1] if mark == "not done" else mark) for mark, words in told]


def shown(*runs: Run) -> list[str]:
    return [f"{run.pk}.stamp-{run.stretch}" for run in runs]


def held_by(holder: User) -> dict[str, Any]:
    return {"holder": holder, "held_until": timezone.now() + timedelta(minutes=20)}


def test_each_case_of_a_bulk_claim_is_answered_for(alice: User, bob: User, signed_in: SignIn) -> None:
    free = rows.run("FREE", alice, StopReason.NO_PROGRESS)
    taken = rows.run("TAKEN", alice, StopReason.NO_PROGRESS, **held_by(bob))
    ended = rows.run("ENDED", alice, StopReason.CONTRACT_MET)
    answer = signed_in(alice).post(
        "/queue/bulk/", {"do": "claim", "run": [free.pk, taken.pk, ended.pk, "00000000-0000-4000-8000-000000000000"]}
    )
    told = results(answer.content.decode())
    assert told[0] == ("Refund of order FREE", "done")
    assert told[1][1].startswith("Bob Okafor holds this case until")
    assert told[2] == ("Refund of order ENDED", "The run has ended; there is nothing left to do.")
    assert 'There is no run <span class="key">00000000-0000-4000-8000-000000000000</span>.' in answer.content.decode()
    assert "Claim: 1 of 4 done" in answer.content.decode()
    free.refresh_from_db()
    assert free.holder == alice


def test_all_means_the_cases_that_the_page_shows(alice: User, signed_in: SignIn) -> None:
    runs = [rows.run(f"N{number}", alice, StopReason.NO_PROGRESS) for number in range(3)]
    signed_in(alice).post("/queue/bulk/", {"do": "claim", "all": "yes", "shown": shown(*runs[:2])})
    assert set(Run.objects.filter(holder=alice)) == set(runs[:2])


def test_cases_are_given_back_together(alice: User, bob: User, signed_in: SignIn) -> None:
    mine = rows.run("MINE", alice, StopReason.NO_PROGRESS, **held_by(alice))
    his = rows.run("HIS", alice, StopReason.NO_PROGRESS, **held_by(bob))
    page = signed_in(alice).post("/queue/bulk/", {"do": "release", "run": [mine.pk, his.pk]}).content.decode()
    assert results(page) == [("Refund of order MINE", "done"), ("Refund of order HIS", "You do not hold this case.")]
    his.refresh_from_db()
    assert his.holder == bob


def test_asking_again_for_many_sends_each_its_own_event_and_never_twice(alice: User, signed_in: SignIn) -> None:
    asked, sure = rows.uncertain("ASKED", alice), rows.run("SURE", alice, StopReason.NO_PROGRESS)
    form = {"do": "reconcile", "run": [asked.pk, sure.pk], "shown": shown(asked, sure)}
    client = signed_in(alice)
    first = results(client.post("/queue/bulk/", form).content.decode())
    assert first[0] == ("Refund of order ASKED", "done")
    assert first[1][1] != "done"
    assert "already sent this" in results(client.post("/queue/bulk/", form).content.decode())[0][1]
    # Carried out meanwhile; the run has stopped anew, and stands as before.
    InboxEvent.objects.update(result=InboxEvent.Result.APPLIED)
    Run.objects.filter(pk=asked.pk).update(stretch=asked.stretch + 1)
    assert "moved on since you looked" in results(client.post("/queue/bulk/", form).content.decode())[0][1]
    assert InboxEvent.objects.count() == 1


def test_a_supervisor_assigns_what_somebody_else_holds_and_both_are_named(
    alice: User, bob: User, signed_in: SignIn
) -> None:
    ann = person("ann")
    hers = rows.run("HERS", alice, StopReason.NO_PROGRESS, **held_by(alice))
    free = rows.proposed("FREE", alice)
    form = {"do": "assign", "to": ann.pk, "run": [hers.pk, free.pk]}
    client = signed_in(bob)
    page = client.post("/queue/bulk/", form).content.decode()
    assert "Given to Ann; Alice Lin (alice) had it." in page
    assert [mark for _title, mark in results(page)] == ["done", "done"]
    assert "Refund of order HERS" in signed_in(ann).get("/?tab=mine").content.decode()
    assert timeline(hers)[0]["says"] == "bob gave the case to Ann (ann); Alice Lin (alice) had it."
    assert timeline(free)[0]["says"] == "bob gave the case to Ann (ann)."
    client.post("/queue/bulk/", form)
    assert hers.events.filter(kind="case_assigned").count() == 1


def test_support_hands_on_its_own_case_and_no_other(alice: User, bob: User, signed_in: SignIn) -> None:
    ann = person("ann")
    hers = rows.run("HERS", alice, StopReason.NO_PROGRESS, **held_by(alice))
    his = rows.run("HIS", alice, StopReason.NO_PROGRESS, **held_by(bob))
    free = rows.run("FREE", alice, StopReason.NO_PROGRESS)
    form = {"do": "assign", "to": ann.pk, "run": [hers.pk, his.pk, free.pk]}
    told = results(signed_in(alice).post("/queue/bulk/", form).content.decode())
    assert told[0][1] == "done"
    assert "Only they or a supervisor can hand it on." in told[1][1]
    assert told[2][1] == "You hand on what you hold; claim the case first."
    assert set(Run.objects.filter(holder=ann)) == {hers}
    assert set(Refusal.objects.filter(attempted="assign").values_list("code", flat=True)) == {"held", "not_yours"}


@pytest.mark.parametrize("who", ["ada", "charlie"])
def test_nobody_is_given_a_case_who_does_not_work_on_the_queue(who: str, alice: User, bob: User) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    with pytest.raises(Refused, match=f"to: {who.capitalize()} does not work on the queue"):
        claims.assign(run.pk, bob, person(who))
    run.refresh_from_db()
    assert run.holder is None


def test_a_case_is_assigned_from_its_own_page(alice: User, bob: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    answer = signed_in(bob).post(f"/runs/{run.pk}/assign/", {"to": alice.pk}, follow=True)
    assert answer.redirect_chain == [(f"/runs/{run.pk}/", 302)]
    assert "Given to Alice Lin." in answer.content.decode()


@pytest.mark.parametrize(
    ("form", "status", "says"),
    [
        ({"do": "claim"}, 422, "Select at least one case"),
        ({"do": "assign", "run": "one"}, 422, "choose a person from the list"),
        ({"do": "assign", "run": "one", "to": "99999"}, 422, "choose a person from the list"),
        ({"do": "assign", "run": "one", "to": "²"}, 422, "choose a person from the list"),
        ({"do": "approve", "run": "one"}, 400, "makes no sense"),
        ({"do": "claim", "run": "<script>"}, 400, "makes no sense"),
        ({"do": "claim", "run": "many"}, 422, "101 cases are selected; at most 100 are done at once."),
    ],
)
def test_a_form_that_cannot_be_followed_says_why_and_does_nothing(
    form: dict[str, str], status: int, says: str, alice: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    many = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(100)]
    meant = {"one": [str(run.pk)], "many": [*many, str(run.pk)]}
    content = {**form, "run": meant.get(form.get("run", ""), form.get("run", []))}
    answer = signed_in(alice).post("/queue/bulk/", content)
    assert answer.status_code == status
    assert says in answer.content.decode()
    run.refresh_from_db()
    assert run.holder is None


@pytest.mark.parametrize("action", ["claim", "release", "assign", "reconcile"])
@pytest.mark.parametrize("who", ["ada", "charlie"])
def test_who_does_not_work_on_the_queue_does_nothing_in_bulk(
    who: str, action: str, alice: User, ada: User, charlie: User, signed_in: SignIn
) -> None:
    run = rows.uncertain("B456", alice)
    form = {"do": action, "run": run.pk, "to": alice.pk, "shown": shown(run)}
    page = signed_in({"ada": ada, "charlie": charlie}[who]).post("/queue/bulk/", form).content.decode()
    assert "needs the permission" in page or "has neither role" in page
    assert not InboxEvent.objects.exists()
    run.refresh_from_db()
    assert run.holder is None


def test_nothing_is_done_in_bulk_or_assigned_by_a_get(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS)
    for address in ("/queue/bulk/", f"/runs/{run.pk}/assign/", "/queue/views/", "/queue/views/1/delete/"):
        assert signed_in(alice).get(address).status_code == 405, address


def test_only_who_may_act_is_offered_boxes_and_only_for_what_is_open(alice: User, ada: User, signed_in: SignIn) -> None:
    rows.run("OPEN", alice, StopReason.NO_PROGRESS)
    rows.run("ENDED", alice, StopReason.CONTRACT_MET)
    assert signed_in(alice).get("/").content.decode().count('id="pick-') == 1
    assert 'id="pick-' not in signed_in(alice).get("/?tab=closed").content.decode()
    page = signed_in(ada).get("/").content.decode()
    assert 'id="pick-' not in page
    assert "/queue/bulk/" not in page


def test_results_show_hostile_text_as_text(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NO_PROGRESS, subject="<img src=x>\u202e", workflow="gone")
    page = signed_in(alice).post("/queue/bulk/", {"do": "claim", "run": run.pk, "back": "https://evil.example/"})
    assert "&lt;img src=x&gt;[U+202E]" in page.content.decode()
    assert "evil.example" not in page.content.decode()


def test_a_case_is_handed_on_from_its_own_page_by_those_who_may(
    alice: User, bob: User, ada: User, signed_in: SignIn
) -> None:
    ann, run = person("ann"), rows.run("B456", alice, StopReason.NO_PROGRESS)

    def offered(who: User) -> bool:
        return f'<option value="{ann.pk}">Ann</option>' in signed_in(who).get(f"/runs/{run.pk}/").content.decode()

    assert offered(bob)
    assert not offered(alice)  # who has not taken it has nothing to hand on
    assert not offered(ada)
    claims.claim(run.pk, alice)
    assert offered(alice)
    assert signed_in(alice).post(f"/runs/{run.pk}/assign/", {"to": ann.pk}).status_code == 302
    assert not offered(bob)  # she has it already
    assert not offered(alice)
