"""`manage.py audit`: whatever is changed behind the product's back is found, and named."""

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from runs.engine import audit as auditing
from runs.engine.audit import verify
from runs.models import Event, Seal
from runs.models.seal import COVERED, SealedEvent, key_id
from tests.record.conftest import KEY, by_hand, forge, keys_are, seal_all, write

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ids(transactional_db: None) -> dict[str, int]:
    """Six events, e1 to e6, two under each of three seals."""
    made = []
    for pair in (("one", "two"), ("three", "four"), ("five", "six")):
        made += write(*pair)
        seal_all()
    merge_seals_of_two(made)
    return {f"e{number}": pk for number, pk in enumerate(made, start=1)}


def merge_seals_of_two(made: list[int]) -> None:
    """A transaction elsewhere may have come between two events; then they were sealed one by one. Do it over."""
    if Seal.objects.count() != 3:
        Seal.objects.all().delete()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("runs.engine.seal.AT_ONCE", 2)
            seal_all()
    assert [seal.count for seal in Seal.objects.all()] == [2, 2, 2]


def audit(*words: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("audit", *words, stdout=out, stderr=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    except CommandError as usage:
        return 2, str(usage)
    return 0, out.getvalue()


TAMPERED = [  # what was changed, how, and the sentence about it
    (
        "another kind",
        "UPDATE runs_event SET kind = 'x' WHERE id = %(e3)s",
        "Event {e3} (x) was changed after seal 2 was made.",
    ),
    (
        "another actor",
        "UPDATE runs_event SET actor_id = NULL WHERE id = %(e4)s",
        "Event {e4} (four) was changed after seal 2 was made.",
    ),
    (
        "another time",
        "UPDATE runs_event SET at = at + interval '1 us' WHERE id = %(e4)s",
        "Event {e4} (four) was changed after seal 2 was made.",
    ),
    (
        "another digest",
        "UPDATE runs_event SET digest = repeat('0', 64) WHERE id = %(e1)s",
        "Event {e1} (one) was changed after seal 1 was made.",
    ),
    (
        "another id",
        (
            "SET CONSTRAINTS ALL DEFERRED; UPDATE runs_eventtext SET event_id = 0 WHERE event_id = %(e3)s;"
            " UPDATE runs_event SET id = 0 WHERE id = %(e3)s"
        ),
        "Event {e3}, which seal 2 covers, is missing.",
    ),
    (
        "a text",
        "UPDATE runs_eventtext SET text = '{}' WHERE event_id = %(e5)s",
        "The text of event {e5} (five) does not fit its digest: it was changed.",
    ),
    (
        "a text and its digest",
        (
            "UPDATE runs_eventtext SET text = '{}' WHERE event_id = %(e5)s;"
            " UPDATE runs_event SET digest = encode(sha256('{}'), 'hex') WHERE id = %(e5)s"
        ),
        "Event {e5} (five) was changed after seal 3 was made.",
    ),
    (
        "an event deleted",
        "DELETE FROM runs_eventtext WHERE event_id = %(e2)s; DELETE FROM runs_event WHERE id = %(e2)s",
        "Event {e2}, which seal 1 covers, is missing.",
    ),
    (
        "all events deleted",
        "DELETE FROM runs_eventtext; DELETE FROM runs_event",
        "Event {e1}, which seal 1 covers, is missing.",
    ),
    (
        "an event added",
        "(kind, digest, transaction_id) SELECT 'forged', '', transaction_id FROM runs_event WHERE id = %(e3)s",
        "(forged) stands among those of seal 2, which does not cover it: it was added.",
    ),
    (
        "an event put before the first",
        "(id, kind, digest, transaction_id) VALUES (-1, 'forged', '', -1)",
        "Event -1 (forged) stands among those of seal 1, which does not cover it: it was added.",
    ),
    (
        "two events in each other's place",
        (
            "UPDATE runs_event SET transaction_id = -transaction_id"
            " + (SELECT sum(transaction_id) FROM runs_event WHERE id IN (%(e3)s, %(e4)s))"
            " WHERE id IN (%(e3)s, %(e4)s)"
        ),
        "The events of seal 2 were put into another order, from event {e4} (four) on.",
    ),
    (
        "an event moved behind the seals",
        "UPDATE runs_event SET transaction_id = transaction_id + 1000000 WHERE id = %(e2)s",
        "Event {e2}, which seal 1 covers, was moved away by a change of its transaction.",
    ),
    ("a seal taken out", "DELETE FROM runs_seal WHERE number = 2", "Seal 2 is missing: the next one is seal 3."),
    (
        "the first seal taken out",
        "DELETE FROM runs_seal WHERE number = 1",
        "Seal 1 is missing: the next one is seal 2.",
    ),
    (
        "a seal taken out and the gap closed",
        "DELETE FROM runs_seal WHERE number = 2; UPDATE runs_seal SET number = 2 WHERE number = 3",
        "Seal 2 was changed: its hash is not that of what it says.",
    ),
    ("a seal's time", "UPDATE runs_seal SET sealed_at = now() WHERE number = 1", "Seal 1 was changed"),
    ("a seal's count", "UPDATE runs_seal SET count = 3 WHERE number = 2", "Seal 2 was changed"),
    ("a seal's end", "UPDATE runs_seal SET last_event = last_event + 1 WHERE number = 2", "Seal 2 was changed"),
    ("a seal's floor", "UPDATE runs_seal SET floor = 2 WHERE number = 2", "Seal 2 was changed"),
    ("a seal's hash", "UPDATE runs_seal SET hash = repeat('0', 64) WHERE number = 3", "Seal 3 was changed"),
    (
        "a signature",
        "UPDATE runs_seal SET signature = repeat('0', 64) WHERE number = 2",
        "Seal 2 was not signed by the key that it names",
    ),
]


@pytest.mark.parametrize(("statements", "sentence"), [row[1:] for row in TAMPERED], ids=[row[0] for row in TAMPERED])
def test_what_was_changed_by_hand_is_named(statements: str, sentence: str, ids: dict[str, int]) -> None:
    assert verify().broken == ""
    change = forge if statements.startswith("(") else by_hand
    assert change(statements, **ids)

    code, said = audit("verify")

    assert code == 1
    assert sentence.format(**ids) in said.splitlines()[0]


def test_an_event_whose_marks_were_damaged_too_is_still_noticed(ids: dict[str, int]) -> None:
    by_hand("UPDATE runs_event SET kind = 'x' WHERE id = %(e3)s; UPDATE runs_seal SET marks = ''", **ids)
    assert verify().broken.startswith("What stands at seal 2 is not what was sealed")


def test_a_seal_made_anew_with_the_key_does_not_fit_the_one_after_it(ids: dict[str, int]) -> None:
    by_hand("UPDATE runs_event SET kind = 'x' WHERE id = %(e3)s", **ids)
    seal = Seal.objects.get(number=2)
    rows = Event.objects.filter(pk__in=[ids["e3"], ids["e4"]]).order_by("transaction_id", "id")
    seal.cover([SealedEvent(*row) for row in rows.values_list(*COVERED)])
    seal.sign(KEY)
    seal.save()

    assert verify().broken == "Seal 3 does not follow seal 2 as it stands: one of them was made anew."


def test_whoever_holds_key_and_database_can_only_be_caught_by_a_checkpoint(ids: dict[str, int]) -> None:
    checkpoint = Seal.objects.get(number=3).hash
    by_hand("UPDATE runs_event SET kind = 'x' WHERE id = %(e5)s; DELETE FROM runs_seal WHERE number = 3", **ids)
    seal_all()

    assert audit("verify")[0] == 0
    code, said = audit("verify", "--expect", checkpoint)
    assert code == 1
    assert "No seal has the expected hash, and the last one is seal 3" in said


def test_seals_that_were_cut_off_at_the_end_are_missed_by_a_checkpoint_only(ids: dict[str, int]) -> None:
    checkpoint = Seal.objects.get(number=3).hash
    assert audit("verify", "--expect", checkpoint)[0] == 0
    by_hand("DELETE FROM runs_seal WHERE number = 3")

    assert verify().not_sealed == 2
    code, said = audit("verify", "--expect", checkpoint)
    assert code == 1
    assert "No seal has the expected hash, and the last one is seal 2" in said


def test_a_signature_by_another_key_is_named(ids: dict[str, int], settings: Settings) -> None:
    other = "somebody else's key of some length"
    seal = Seal.objects.get(number=3)
    seal.sign(other)
    seal.save()
    assert verify().broken.startswith(f"Seal 3 was signed by another key ({key_id(other)})")
    seal.key_id = key_id(KEY)  # and says that it was ours
    seal.hash = seal.own_hash()
    seal.signature = seal.signature_by(other)
    seal.save()
    assert verify().broken == f"Seal 3 was not signed by the key that it names ({key_id(KEY)})."
    keys_are(settings, other)
    assert verify().broken.startswith("Seal 1 was signed by another key")


def test_texts_that_retention_emptied_are_counted_and_no_break(ids: dict[str, int]) -> None:
    by_hand("DELETE FROM runs_eventtext WHERE event_id = %(e1)s", **ids)
    by_hand("UPDATE runs_eventtext SET text = '' WHERE event_id = %(e2)s", **ids)

    code, said = audit("verify")

    assert code == 0
    assert "6 events under 3 seals; the text of 2 is not kept any more" in said


def test_what_is_not_sealed_yet_is_counted_and_its_text_held_against_its_digest(ids: dict[str, int]) -> None:
    (fresh,) = write("fresh")
    assert (verify().sealed, verify().not_sealed) == (6, 1)
    by_hand("UPDATE runs_eventtext SET text = 'x' WHERE event_id = %(fresh)s", fresh=fresh)
    assert f"The text of event {fresh} (fresh) does not fit its digest" in audit("verify")[1]


def test_a_record_without_a_seal_is_not_called_sealed(db: None) -> None:
    write("fresh")
    code, said = audit("verify")
    assert code == 0
    assert said.startswith("Nothing is sealed yet.")
    assert re.search(r"sealed up to +– \(there is no seal yet\)", said)
    assert re.search(r"not sealed yet +1$", said, re.MULTILINE)
    assert audit("verify", "--expect", "0" * 64)[0] == 1


def test_the_whole_record_in_a_few_rows_at_a_time_is_the_same(
    ids: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "CHUNK", 1)
    assert (verify().broken, verify().sealed, verify().seals) == ("", 6, 3)


def test_the_command_line_says_how_far_it_is_sealed(ids: dict[str, int]) -> None:
    last = Seal.objects.get(number=3)
    for verb in ("status", "verify"):
        code, said = audit(verb)
        assert code == 0
        assert f"{last.up_to:%Y-%m-%d %H:%M:%S} UTC, seal 3" in said
        assert last.hash in said


def test_json_says_the_same(ids: dict[str, int]) -> None:
    last = Seal.objects.get(number=3)
    found = json.loads(audit("verify", "--json")[1])
    assert {name: found[name] for name in ("whole", "broken", "seals", "sealed", "emptied", "not_sealed")} == {
        "whole": True,
        "broken": "",
        "seals": 3,
        "sealed": 6,
        "emptied": 0,
        "not_sealed": 0,
    }
    assert found["checkpoint"]["hash"] == last.hash
    assert json.loads(audit("status", "--json")[1]) == {"checkpoint": found["checkpoint"], "not_sealed": 0}
    by_hand("DELETE FROM runs_seal WHERE number = 1")
    code, said = audit("verify", "--json")
    broken: dict[str, Any] = json.loads(said)
    assert (code, broken["whole"], broken["broken"]) == (1, False, "Seal 1 is missing: the next one is seal 2.")


def test_a_hash_that_is_none_is_refused_with_what_it_should_look_like(db: None) -> None:
    code, said = audit("verify", "--expect", "abc")
    assert code == 2
    assert "argument --expect: must be the 64 hexadecimal digits of a checkpoint's hash, not 'abc'" in said
