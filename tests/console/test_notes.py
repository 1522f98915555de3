"""Notes on a case: part of the record, and nothing moves for them."""

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from runs.domain.states import StopReason
from runs.interventions import notes
from runs.interventions.refusals import Refused
from runs.models import Event, EventText, Run
from tests.console import rows

SignIn = Callable[[User], Client]


@pytest.fixture
def run(alice: User) -> Run:
    return rows.uncertain("B456", alice)


def write(client: Client, run: Run, text: str, once: str = "") -> HttpResponse:
    return client.post(f"/runs/{run.pk}/notes/", {"text": text, "once": once})  # type: ignore[return-value]


def noted(run: Run) -> list[Event]:
    return list(run.events.filter(kind="noted"))


def page(client: Client, run: Run) -> str:
    return client.get(f"/runs/{run.pk}/").content.decode()


def test_a_note_is_on_record_with_who_wrote_it_and_stands_in_card_and_story(
    run: Run, alice: User, bob: User, signed_in: SignIn
) -> None:
    assert write(signed_in(alice), run, " Called the shop.\r\nThey call back. ").status_code == 302

    [note] = noted(run)
    assert note.actor == alice
    assert json.loads(note.text_row.text)["text"] == "Called the shop.\nThey call back."
    told = page(signed_in(bob), run)
    assert "<b>Alice Lin</b>" in told
    assert "Alice Lin made a note." in told
    assert told.count("Called the shop.") == 2


def test_a_note_moves_nothing(run: Run, alice: User, signed_in: SignIn) -> None:
    before = Run.objects.filter(pk=run.pk).values().get()
    write(signed_in(alice), run, "Only so that it is known.")
    assert Run.objects.filter(pk=run.pk).values().get() == before
    assert not run.inbox.exists()


def test_the_newest_note_stands_first(run: Run, alice: User, signed_in: SignIn) -> None:
    client = signed_in(alice)
    for text in ("The first one", "The second one"):
        write(client, run, text)
    told = page(client, run)
    card = told[told.index('id="notes"') :]
    assert card.index("The second one") < card.index("The first one")


def test_a_form_that_is_sent_twice_is_one_note(run: Run, alice: User, bob: User, signed_in: SignIn) -> None:
    for _ in range(2):
        assert write(signed_in(alice), run, "Once", "form-1").status_code == 302
    assert len(noted(run)) == 1
    write(signed_in(alice), run, "Once", "form-2")
    write(signed_in(bob), run, "Once", "form-1")  # somebody else's form
    assert len(noted(run)) == 3


@pytest.mark.parametrize(("text", "says"), [("", "Write something first."), (" \n ", "Write something first.")])
def test_an_empty_note_is_refused(text: str, says: str, run: Run, alice: User, signed_in: SignIn) -> None:
    answer = write(signed_in(alice), run, text)
    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert not noted(run)


def test_what_was_typed_survives_a_refusal(run: Run, alice: User, signed_in: SignIn) -> None:
    typed = "long <b> " * 250
    answer = write(signed_in(alice), run, typed, "form-1")
    told = answer.content.decode()
    assert answer.status_code == 422
    assert "A note may have at most 2000 characters; these are 2250." in told
    assert "long &lt;b&gt; long &lt;b&gt;" in told
    assert 'name="once" value="form-1"' in told


def test_hostile_text_stays_text_and_secrets_are_not_kept(run: Run, alice: User, signed_in: SignIn) -> None:
    write(signed_in(alice), run, "<script>alert(1)</script> \u202e \x00 password: winter-of-79")
    told = page(signed_in(alice), run)
    assert "<script>alert" not in told
    assert "[U+202E]" in told
    assert "winter-of-79" not in told
    assert "winter-of-79" not in EventText.objects.get(event=noted(run)[0]).text


def test_only_who_works_on_the_queue_writes_notes(
    run: Run, ada: User, charlie: User, alice: User, signed_in: SignIn
) -> None:
    for person in (ada, charlie):
        assert write(signed_in(person), run, "I was here").status_code == 403
    assert not noted(run)
    assert 'id="note-text"' not in page(signed_in(ada), run)
    assert signed_in(alice).get(f"/runs/{run.pk}/notes/").status_code == 405


def test_a_run_that_has_ended_still_takes_notes(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.CONTRACT_MET)
    assert write(signed_in(alice), run, "The customer wrote again.").status_code == 302
    assert "The customer wrote again." in page(signed_in(alice), run)


def test_a_run_that_is_withheld_neither_takes_nor_shows_notes(alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NOT_AUTHORISED)
    rows.event(run, "noted", alice, text="U-88 lives in Bremen")
    client = signed_in(alice)
    assert write(client, run, "And more").status_code == 409
    assert len(noted(run)) == 1
    told = page(client, run)
    assert "Bremen" not in told
    assert 'id="note-text"' not in told


def test_a_note_whose_text_is_gone_says_so(run: Run, alice: User, signed_in: SignIn) -> None:
    write(signed_in(alice), run, "Called the shop.")
    EventText.objects.all().delete()  # as retention does
    told = page(signed_in(alice), run)
    assert "The text is not kept any more." in told
    assert "A note was made. The text is not kept any more." in told


def test_a_note_that_is_sent_while_the_run_stops_for_somebody_not_entitled_is_not_kept(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = rows.run("C881", alice, StopReason.NOT_AUTHORISED)
    before = Run.objects.get(pk=stopped.pk)
    before.stop_reason = ""
    monkeypatch.setattr(notes, "get_run", lambda _run_id: before)
    with pytest.raises(Refused, match="closed to notes"):
        notes.write(stopped.pk, alice, "The customer is Mr Lee.")
    assert not noted(stopped)
