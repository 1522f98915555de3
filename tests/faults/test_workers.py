"""Real Celery workers on a real broker, killed and doubled: nothing is lost, nothing happens twice."""

from collections.abc import Callable
from uuid import UUID

from django.utils import timezone

from runs.engine.tasks import advance_run, wake
from runs.interventions import starting
from runs.models import Run
from takeover.supervisor.children import Child
from tests.people import person
from tests.processes import BackOffice, Broker, Standing, wait_until

StartWorker = Callable[..., Child]


def start(order_id: str = "B456") -> Run:
    run, _ = starting.start("refund_request", {"order_id": order_id}, person("support"))
    return run


def outcome(run: Run) -> str:
    run.refresh_from_db()
    return run.outcome


def submits(back_office: BackOffice, order_id: str = "B456") -> int:
    return [call["kind"] for call in back_office.ledger(order_id)["calls"]].count("submit")


def the_lease_runs_out(run: Run) -> None:
    """As time would do it; the token still tells the dead worker's commits from the next one's."""
    Run.objects.filter(pk=run.pk).exclude(owner="").update(due_at=timezone.now())


def test_a_worker_carries_a_run_through(worker: Standing, back_office: BackOffice) -> None:
    run = start()

    wait_until(lambda: outcome(run) == "COMPLETED")

    assert submits(back_office) == 1
    assert Run.objects.get(pk=run.pk).owner == ""


def test_a_worker_killed_between_sending_and_saving_leads_to_a_look_up_and_one_effect(
    start_worker: StartWorker, back_office: BackOffice
) -> None:
    back_office.fault("B456", "slow", where="submit", seconds=1)
    doomed = start_worker()
    run = start()
    wait_until(lambda: submits(back_office) == 1)

    doomed.kill()
    wait_until(lambda: back_office.ledger("B456")["effects"])  # it happened, and nobody saved it
    assert outcome(run) == ""
    assert run.effects.get().state == "sent"
    start_worker(ENGINE_PACE="0.01")
    the_lease_runs_out(run)
    wake(run.pk)
    wait_until(lambda: outcome(run) == "COMPLETED")

    kinds = [call["kind"] for call in back_office.ledger("B456")["calls"]]
    assert kinds.count("submit") == 1
    assert kinds.index("submit") < kinds.index("lookup")
    assert len(back_office.ledger("B456")["effects"]) == 1
    assert run.step_rows.get(kind="write").status == "interrupted"
    assert run.budget["external_writes"][2] == 1


def test_a_worker_killed_while_reading_is_followed_by_one_that_reads_again(
    start_worker: StartWorker, back_office: BackOffice
) -> None:
    back_office.fault("B456", "slow", where="orders", seconds=3, times=1)
    doomed = start_worker()
    run = start()
    wait_until(lambda: run.step_rows.filter(operation="read_order").exists())

    doomed.kill()
    start_worker()
    the_lease_runs_out(run)
    wake(run.pk)
    wait_until(lambda: outcome(run) == "COMPLETED")

    assert run.step_rows.filter(status="interrupted").count() == 1
    # The lost attempt was paid for as well, and what had been read before it was read again.
    assert run.budget["steps"][2] == 6
    assert submits(back_office) == 1


def test_a_wake_up_that_comes_ten_times_moves_a_run_once(worker: Standing, back_office: BackOffice) -> None:
    run = start()
    for _ in range(10):
        advance_run.delay(str(run.pk))

    wait_until(lambda: outcome(run) == "COMPLETED")
    wait_until(Broker().is_empty)

    assert submits(back_office) == 1
    assert list(run.step_rows.values_list("seq", flat=True)) == [1, 2, 3, 4]


def test_when_every_wake_up_is_lost_the_sweeper_finds_the_run(
    worker: Standing, sweeper: Standing, back_office: BackOffice
) -> None:
    run = Run.objects.create(**a_run_nobody_was_told_about())

    wait_until(lambda: outcome(run) == "COMPLETED")

    assert submits(back_office) == 1


def a_run_nobody_was_told_about() -> dict[str, object]:
    made = start("F562")
    values = {f.attname: getattr(made, f.attname) for f in Run._meta.concrete_fields if f.name != "id"}
    return {**values, "subject": "order B456", "input": {"order_id": "B456"}, "request_key": ""}


def test_a_stranger_to_the_database_is_a_wake_up_for_nothing(worker: Standing) -> None:
    advance_run.delay(str(UUID(int=7)))
    wait_until(Broker().is_empty)
    assert "Traceback" not in worker.said()
