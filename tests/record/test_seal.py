"""Sealing: everything is sealed once, in one order, whoever commits when, and nothing else ever waits for it."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection
from pytest_django.fixtures import Settings

from runs.engine import seal as sealing
from runs.engine.audit import verify
from runs.engine.seal import Front, Sealer, never_sealed, not_sealed, seal
from runs.models import Event, Seal
from takeover.management.checkup import Level
from takeover.management.checkup import seals as look_at_seals
from tests.processes import Standing, wait_until
from tests.record.conftest import KEY, Other, by_hand, forge, keys_are, seal_all, write

pytestmark = pytest.mark.django_db(transaction=True)


def sealed_ids() -> list[int]:
    return [number for seal in Seal.objects.all() for number, _ in seal.marked()]


def aside(work: Callable[[], int]) -> int:
    """Done by another thread on a connection of its own, to the end."""

    def run() -> int:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor() as another:
        return another.submit(run).result(30)


def test_each_event_is_sealed_once_and_every_seal_follows_the_one_before() -> None:
    ids = write("first", "second")
    seal_all()
    ids += write("third")
    seal_all()

    assert sealed_ids() == ids
    assert seal() == 0
    chain = list(Seal.objects.all())
    assert [seal.number for seal in chain] == list(range(1, len(chain) + 1))
    assert [seal.previous for seal in chain] == ["0" * 64, *(seal.hash for seal in chain[:-1])]
    assert verify().broken == ""
    assert verify().sealed == 3


def test_a_seal_takes_no_more_than_its_share_and_the_next_goes_on_within_a_transaction(
    monkeypatch: pytest.MonkeyPatch, other: Other
) -> None:
    monkeypatch.setattr(sealing, "AT_ONCE", 2)
    ids = [other.write(str(number)) for number in range(5)]
    other.commit()

    seal_all()

    assert sealed_ids() == ids
    assert [seal.count for seal in Seal.objects.all()] == [2, 2, 1]
    assert verify().broken == ""


def test_an_open_transaction_holds_up_what_is_younger_and_is_neither_lost_nor_out_of_order(other: Other) -> None:
    (before,) = write("before")
    late = other.write("begun first, committed last")
    younger = write("younger", "youngest")

    wait_until(lambda: seal() and not Event.objects.exclude(pk__in=[*sealed_ids(), *younger]).exists(), within=60)
    assert sealed_ids() == [before]  # the younger ones wait
    assert seal() == 0
    other.commit()
    seal_all()

    assert sealed_ids() == [before, late, *younger]  # in the order of their transactions
    assert verify().broken == ""


def test_what_a_transaction_that_failed_leaves_behind_holds_nothing_up(other: Other) -> None:
    other.write("never happened")
    other.session.rollback()
    ids = write("happened")

    seal_all()

    assert sealed_ids() == ids


def test_a_second_sealer_does_nothing_while_one_is_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = write("first", "second")
    others: list[Any] = []
    next_events = sealing._next_events

    def meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(sealing, "_next_events", next_events)
        others.append(aside(seal))
        return next_events(*given)

    monkeypatch.setattr(sealing, "_next_events", meanwhile)
    seal_all()

    assert others == [0]
    assert sealed_ids() == ids


def test_two_sealers_that_start_together_make_one_chain_and_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    ids, barrier, together = write(*map(str, range(20))), threading.Barrier(2), ThreadPoolExecutor()

    def tick() -> None:
        sealer = Sealer()
        for _ in range(20):
            barrier.wait(30)
            sealer.tick()
        connection.close()

    with caplog.at_level(logging.WARNING), together:
        for done in [together.submit(tick), together.submit(tick)]:
            done.result(60)
    seal_all()

    assert sealed_ids() == ids
    assert not caplog.records


def test_even_without_the_lock_no_two_seals_follow_the_same_one(monkeypatch: pytest.MonkeyPatch) -> None:
    write("first")
    seal_all()
    write("second")
    wait_until(lambda: Front.read().settled_below > Event.objects.latest("id").transaction_id, within=60)
    monkeypatch.setattr(sealing, "_is_alone", lambda: True)
    next_events = sealing._next_events

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(sealing, "_next_events", next_events)
        assert aside(seal) == 1
        return next_events(*given)

    monkeypatch.setattr(sealing, "_next_events", overtaken)
    with pytest.raises(IntegrityError):
        seal()

    assert Seal.objects.count() == 2
    assert verify().broken == ""


def test_clocks_that_jump_change_nothing() -> None:
    ids = write("today", "tomorrow")
    by_hand("UPDATE runs_event SET at = at + interval '40 days' WHERE id = %(id)s", id=ids[1])
    seal_all()
    ids += write("today again")
    seal_all()

    assert sealed_ids() == ids
    assert verify().broken == ""


def test_a_record_that_cannot_be_sealed_is_said_once_and_sealed_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write("first")
    sealer = Sealer()

    def no_database() -> int:
        raise OperationalError("the server closed the connection")

    with monkeypatch.context() as patch:
        patch.setattr(sealing, "seal", no_database)
        sealer.tick()
        sealer.tick()
    said = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == ["The record could not be sealed: OperationalError: the server closed the connection"]

    def is_sealed() -> bool:
        sealer.tick()
        return not not_sealed().exists()

    wait_until(is_sealed, within=60)
    assert verify().sealed == 1


def test_the_sweeper_seals_beside_its_sweeping(sweeper: Standing) -> None:
    ids = write("first")

    wait_until(lambda: sealed_ids() == ids, within=60)

    assert Seal.objects.get().up_to == Event.objects.get().at


def test_one_pass_of_the_sweeper_seals_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process keeps its own
    write("first")
    wait_until(lambda: Front.read().settled_below > Event.objects.get().transaction_id, within=60)
    call_command("sweep", "--once")
    assert not_sealed().count() == 0


# Keys


def test_a_key_that_was_replaced_is_said_once_and_the_chain_goes_on(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    write("first")
    seal_all()
    old, new = KEY, "a-key-that-is-only-used-by-tests-2"
    keys_are(settings, new)
    write("second")
    seal_all()
    write("third")
    seal_all()

    said = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert said[0].startswith("Seal 1 was signed by a key that is not here; now ")
    assert verify().broken.startswith("Seal 1 was signed by another key (")
    keys_are(settings, new, old)  # the one that signs, and the one it replaced
    assert verify().broken == ""


def test_without_a_key_nothing_is_called_whole(settings: Settings) -> None:
    write("first")
    seal_all()
    keys_are(settings)
    assert verify().broken.startswith("Seal 1 was signed by another key (")


# Another database cluster: a dump was restored there, and its transactions are counted from below


ELSEWHERE = 10**12  # how far the other cluster's count was


def moved_elsewhere(ids: list[int]) -> None:
    by_hand(
        "UPDATE runs_event SET transaction_id = transaction_id + %(by)s WHERE id = ANY(%(ids)s)", by=ELSEWHERE, ids=ids
    )


def sealed_elsewhere(monkeypatch: pytest.MonkeyPatch, cluster: int = 77, end: int = 2 * ELSEWHERE) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Front, "read", partial(Front, cluster, end, end, datetime.now(UTC)))
        patch.setattr(sealing, "floor_here", lambda last: 0)  # nothing there came from yet another one
        assert seal()
    assert Seal.objects.get().cluster == cluster


def test_after_a_restore_what_came_with_the_dump_and_what_is_new_are_both_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = write("sealed", "sealed too")
    moved_elsewhere(old)
    sealed_elsewhere(monkeypatch)
    unsealed = write("in the dump, and not sealed yet", "this too")
    moved_elsewhere(unsealed)
    new = write("new here", "new as well")
    assert not_sealed().count() == 4
    assert verify().not_sealed == 4

    seal_all()
    newer = write("newer")
    seal_all()

    assert sealed_ids() == [*old, *unsealed, *new, *newer]
    assert verify().broken == ""
    assert verify().sealed == 7
    assert len({seal.floor for seal in Seal.objects.all()}) == 2


def test_a_restore_is_noticed_even_when_the_count_has_passed_the_last_seal_before_anybody_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, straggler, last = write("sealed", "in the dump, and not sealed yet", "sealed too")
    end = Event.objects.get(pk=last).transaction_id + 60
    by_hand("UPDATE runs_event SET transaction_id = %(end)s + (id = %(id)s)::int", end=end, id=straggler)
    sealed_elsewhere(monkeypatch, end=end + 1)
    (new,) = write("new here, before the old end")
    assert Event.objects.get(pk=new).transaction_id < end
    while by_hand("SELECT 1 WHERE pg_current_xact_id()::text::bigint <= %(end)s + 1", end=end):
        pass

    seal_all()

    assert sealed_ids() == [first, last, straggler, new]
    assert verify().broken == ""


def test_a_count_that_was_set_back_in_the_same_cluster_is_noticed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    old = write("sealed")
    moved_elsewhere(old)
    sealed_elsewhere(monkeypatch, cluster=Front.read().cluster)
    new = write("new, far below")

    seal_all()

    assert sealed_ids() == [*old, *new]
    assert verify().broken == ""


def test_a_dump_from_before_there_were_seals_is_sealed_as_well() -> None:
    old = write("old", "old too")
    moved_elsewhere(old)
    new = write("new")

    seal_all()

    assert sealed_ids() == [*old, *new]
    assert verify().broken == ""


def test_a_change_of_what_another_cluster_sealed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    old = write("sealed", "sealed too")
    moved_elsewhere(old)
    sealed_elsewhere(monkeypatch)
    write("new here")
    seal_all()

    by_hand("UPDATE runs_event SET kind = 'other' WHERE id = %(id)s", id=old[1])

    assert verify().broken == f"Event {old[1]} (other) was changed after seal 1 was made."


def test_an_event_slipped_in_behind_what_another_cluster_sealed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    old = write("sealed", "gone")
    by_hand("DELETE FROM runs_eventtext WHERE event_id = %(id)s", id=old[1])
    by_hand("DELETE FROM runs_event WHERE id = %(id)s", id=old[1])
    old += write("sealed too")
    moved_elsewhere([old[0], old[2]])
    sealed_elsewhere(monkeypatch)
    write("new here")
    seal_all()

    forge("(id, kind, digest, transaction_id) VALUES (%(id)s, 'forged', '', %(at)s)", id=old[1], at=3 * ELSEWHERE)

    assert verify().broken == (f"Event {old[1]} (forged) is under no seal although there are later ones: it was added.")


# An event of the future, put there by somebody who may switch guards off


def test_an_event_that_no_seal_will_ever_take_in_is_named_once_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    write("first")
    seal_all()
    assert look_at_seals().level is Level.OK
    forge("(kind, digest, transaction_id) VALUES ('forged', '', %(at)s)", at=2**62)
    forged = Event.objects.get(kind="forged")
    (later,) = write("later")

    sealer = Sealer()

    def ticked() -> bool:
        sealer.tick()
        return later in sealed_ids()

    wait_until(ticked, within=60)
    sealer.tick()

    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    what = f"event {forged.pk} (forged) names transaction {2**62}, of the future"
    assert told == [f"The record could not be sealed: NeverSealed: {what}"]
    assert list(never_sealed()) == [forged]
    found = look_at_seals()
    assert found.level is Level.BROKEN
    assert f"1 event (the first is {forged.pk}, forged) will never be sealed" in found.says
