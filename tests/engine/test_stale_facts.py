"""What permits a write is read again whenever time may have passed: after a wait, a crash, a stop, or five minutes."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from runs.engine.advance import advance
from runs.models import Run
from tests.engine.conftest import Engine
from tests.engine.dying import Died, die_after
from tests.engine.test_leases import interrupt

PAST = "2000-01-01T00:00Z"


def stopped_as(run: Run) -> tuple[str, str]:
    return run.outcome, run.stop_reason


def killed_at(run: Run, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A worker dies in the middle of the next call of this kind, and its lease runs out."""

    def die(pk: UUID) -> None:
        raise Died

    interrupt(monkeypatch, kind, die)
    with pytest.raises(Died):
        advance(run.pk)
    Run.objects.filter(pk=run.pk).update(due_at=PAST)


def killed_after(run: Run, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    die_after(monkeypatch, tool)
    with pytest.raises(Died):
        advance(run.pk)
    Run.objects.filter(pk=run.pk).update(due_at=PAST)


def next_worker(run: Run) -> Run:
    advance(run.pk)
    run.refresh_from_db()
    return run


@pytest.fixture
def rate_limited(engine: Engine) -> Run:
    """The submission was turned away, as not executed; the run waits as long as the service asked."""
    engine.back_office.fault("B456", "rate_limited", times=1, retry_after=1)
    run = engine.start("B456")
    advance(run.pk)
    run.refresh_from_db()
    assert run.outcome == ""
    assert run.effects.get().state == "absent"
    return run


@pytest.fixture
def half_read(engine: Engine) -> Run:
    """Authority and order were read; the policies could not be, and the run waits to try again."""
    engine.back_office.fault("B456", "unavailable", where="policies", times=1)
    run = engine.start("B456", customer_id="U-88")
    advance(run.pk)
    run.refresh_from_db()
    assert run.outcome == ""
    assert set(run.facts.values_list("name", flat=True)) == {"authority", "order"}
    return run


# After a rate limit


def test_a_policy_that_changed_during_a_rate_limit_forbids_the_second_attempt(
    engine: Engine, rate_limited: Run
) -> None:
    engine.back_office.fault("B456", "policy_changed")

    run = engine.carry_on(rate_limited)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert len(engine.calls("B456", "submit")) == 1
    assert engine.effects("B456") == []


def test_an_amount_that_changed_during_a_rate_limit_is_another_write_under_another_key(
    engine: Engine, rate_limited: Run
) -> None:
    engine.back_office.change_order("B456", amount_minor=4900)

    run = engine.carry_on(rate_limited)

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_external_writes")
    assert len(engine.calls("B456", "submit")) == 1


def test_everything_is_read_once_more_before_the_second_attempt(engine: Engine, rate_limited: Run) -> None:
    run = engine.carry_on(rate_limited)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "authority")) == 3  # the first asked whether the order exists at all
    assert len(engine.calls("B456", "orders")) == 2
    assert len(engine.calls("B456", "policies")) == 2


# After a crash


def test_a_policy_that_changed_while_the_workers_were_away_forbids_the_second_attempt(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.back_office.fault("B456", "timeout_before_effect", seconds=0, times=1)
    run = engine.start("B456")
    killed_at(run, monkeypatch, "write")
    engine.back_office.fault("B456", "policy_changed")
    run.effects.update(sent_at=PAST)

    run = next_worker(run)

    assert run.effects.get().state == "absent"
    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert len(engine.calls("B456", "submit")) == 1


def test_after_a_crash_between_two_reads_both_are_made_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = engine.start("B456")
    killed_after(run, monkeypatch, "read_policies")
    engine.back_office.change_order("B456", opened=True)

    run = next_worker(run)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert engine.calls("B456", "submit") == []
    assert len(engine.calls("B456", "orders")) == 2


def test_what_was_withdrawn_while_the_workers_were_away_is_not_read_any_more(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.start("B456", customer_id="U-88")
    killed_after(run, monkeypatch, "read_order")
    engine.back_office.change_order("B456", customer="U-99")

    run = next_worker(run)

    assert stopped_as(run) == ("DECLINED", "not_authorised")
    assert len(engine.calls("B456", "orders")) == 1


# After five minutes


def test_what_was_just_read_is_not_read_again_for_the_sake_of_one_retry(engine: Engine, half_read: Run) -> None:
    run = engine.carry_on(half_read)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(engine.calls("B456", "orders")) == 1
    assert len(engine.calls("B456", "policies")) == 2


def test_an_order_read_more_than_five_minutes_ago_is_read_again(engine: Engine, half_read: Run) -> None:
    half_read.facts.update(read_at=timezone.now() - timedelta(minutes=6))
    engine.back_office.change_order("B456", opened=True)

    run = engine.carry_on(half_read)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert len(engine.calls("B456", "orders")) == 2


def test_an_entitlement_read_more_than_five_minutes_ago_is_asked_for_again_before_anything_else(
    engine: Engine, half_read: Run
) -> None:
    half_read.facts.filter(name="authority").update(read_at=timezone.now() - timedelta(minutes=6))
    engine.back_office.change_order("B456", customer="U-99")

    run = engine.carry_on(half_read)

    assert stopped_as(run) == ("DECLINED", "not_authorised")
    assert len(engine.calls("B456", "policies")) == 1


# After a stop


def test_a_run_that_a_person_lets_go_on_reads_everything_again(engine: Engine) -> None:
    engine.back_office.fault("B456", "policy_missing")
    run = engine.run("B456")
    assert run.stop_reason == "facts_missing"
    engine.back_office.clear("B456")
    engine.back_office.change_order("B456", opened=True)

    run = engine.send(run, "policy_confirmed", "alice", reference="policy desk")

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert len(engine.calls("B456", "orders")) == 2


def test_what_was_spent_before_a_stop_counts_after_three_resumes(engine: Engine) -> None:
    engine.back_office.fault("X177", "policy_conflict")
    run = engine.run("X177")
    marks = [run.budget["tool_attempts"]]
    for _ in range(3):
        run = engine.send(run, "resumed_after_review", "alice", reason="look once more")
        marks.append(run.budget["tool_attempts"])
    spent, limits = [mark[2] for mark in marks], {mark[0] for mark in marks}
    assert spent == sorted(set(spent)), "each stretch adds to what the ones before spent"
    assert limits == {marks[0][0]}
