"""Workers that hear nothing end themselves; busy ones, and ones that nobody could hear, are left alone."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.utils import timezone

from runs.engine.liveness import GIVEN_UP, KEPT, forget_the_gone, queue_of
from runs.engine.tasks import canary, wake
from runs.models import Run, Worker
from takeover.celery import app
from takeover.supervisor import valkey
from takeover.supervisor.children import Child
from tests import processes
from tests.faults.test_workers import outcome, start, submits
from tests.processes import BackOffice, Broker, Standing, launch, wait_until

StartWorker = Callable[..., Child]
HASTY = {"WORKER_CANARY": "1", "WORKER_DEAF_AFTER": "3"}
POOLS = ["threads", "prefork"]
ALL_IN_ONE_GO = {"ENGINE_SLICE": "60"}  # a run is one task, in which no slot becomes free


def pid_of(child: Child) -> int:
    assert child.process
    return child.process.pid


def row_of(child: Child) -> Worker:
    return Worker.objects.get(pid=pid_of(child))


def hears(child: Child) -> bool:
    known = Worker.objects.filter(pid=pid_of(child), canary_seen_at__isnull=False).first()
    return known is not None and known.heard


def deafen(child: Child) -> None:
    """It stays up and answers pings, but consumes nothing any more: what a failed reconnect has done to workers."""
    for queue in ("celery", queue_of(row_of(child).name).name):
        app.control.cancel_consumer(queue, destination=[child.name], reply=True, timeout=5)


def every_read_is_slow(back_office: BackOffice) -> None:
    for read in ("authority", "orders", "policies"):
        back_office.fault("B456", "slow", where=read, seconds=4)


def ended(child: Child) -> bool:
    return not child.running


def how_it_stands(run: Run) -> str:
    """All that can be said of a run that nobody carries on."""
    row = Run.objects.values("state", "outcome", "owner", "due_at", "token", "dispatches", "steps").get(pk=run.pk)
    waiting = {key: Broker().client.llen(key) for key in Broker().client.keys("*celery")}
    listening = [client["cmd"] for client in Broker().client.client_list() if "b" in client["flags"]]
    return f"{row}; messages {waiting}; who waits for one: {listening}; {list(Worker.objects.values())}"


def in_mid_call(run: Run, operation: str) -> bool:
    return run.step_rows.filter(operation=operation, status="intent").exists()


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_that_hears_nothing_any_more_ends_itself_and_the_next_one_goes_on(
    start_worker: StartWorker, sweeper: Standing, back_office: BackOffice, pool: str
) -> None:
    deaf = start_worker(pool, **HASTY)
    wait_until(lambda: hears(deaf))
    deafen(deaf)
    run = start()

    wait_until(lambda: ended(deaf), within=60)
    assert deaf.exit_code == GIVEN_UP
    assert outcome(run) == ""
    start_worker(pool)
    # The broker may have handed the wake-up to the worker that does not look any more: then the sweeper sends another.
    try:
        wait_until(lambda: outcome(run), within=60)
    except TimeoutError:
        raise AssertionError(f"{how_it_stands(run)}; {sweeper.said()}") from None
    assert outcome(run) == "COMPLETED"
    assert submits(back_office) == 1


def test_a_worker_whose_connection_died_without_a_word_ends_itself(
    start_worker: StartWorker, back_office: BackOffice, own_broker: Child
) -> None:
    with half_open(own_broker.env["REDIS_URL"].removeprefix("unix://")) as (address, cut):
        worker = start_worker(**HASTY, WORKER_STOP_WITHIN="3", REDIS_URL=f"unix://{address}")
        wait_until(lambda: hears(worker))

        cut()
        wait_until(lambda: ended(worker), within=60)

        assert worker.exit_code == GIVEN_UP
        assert "this worker is deaf" in said(worker)


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_whose_every_slot_is_busy_is_left_alone(
    start_worker: StartWorker, back_office: BackOffice, pool: str
) -> None:
    every_read_is_slow(back_office)
    busy = start_worker(pool, concurrency=1, **HASTY, **ALL_IN_ONE_GO)
    run = start()

    wait_until(lambda: outcome(run) == "COMPLETED", within=30)
    wait_until(lambda: hears(busy))

    assert busy.running
    assert "deaf" not in said(busy)


def test_a_worker_in_which_nothing_ends_or_begins_any_more_ends_itself(
    start_worker: StartWorker, back_office: BackOffice
) -> None:
    every_read_is_slow(back_office)
    stuck = start_worker(concurrency=1, **HASTY, **ALL_IN_ONE_GO, WORKER_STUCK_AFTER="3")
    run = start()

    wait_until(lambda: ended(stuck), within=30)

    assert stuck.exit_code == GIVEN_UP
    assert "All 1 slots have been in use and none has got on" in said(stuck)
    assert Run.objects.due().filter(pk=run.pk, owner="", outcome="").exists()


def test_after_three_restarts_of_the_broker_a_worker_hears_and_a_new_run_finishes(
    start_worker: StartWorker, back_office: BackOffice, own_broker: Child, product_env: dict[str, str], tmp_path: Path
) -> None:
    address = own_broker.env["REDIS_URL"]
    workers: list[Child] = []

    def somebody_hears() -> bool:
        """As the supervisor does: who ended is started again. A restart in an unlucky moment ends Celery's worker."""
        if not workers or ended(workers[-1]):
            workers.append(start_worker(**HASTY | {"WORKER_DEAF_AFTER": "40"}, REDIS_URL=address))
        return Worker.objects.filter(pid=pid_of(workers[-1]), canary_seen_at__gt=restarted_at).exists()

    restarted_at = timezone.now()
    wait_until(somebody_hears)
    for _ in range(3):
        own_broker.kill()
        launch(own_broker, tmp_path / "valkey.log")
        restarted_at = timezone.now()
        wait_until(somebody_hears, within=90)
    run = start()
    sweeper = launch(processes.sweeper(product_env | {"REDIS_URL": address}), tmp_path / "sweeper.log")
    try:
        wait_until(lambda: outcome(run) == "COMPLETED", within=30)
    finally:
        sweeper.kill()

    assert submits(back_office) == 1


def test_a_worker_that_nobody_can_reach_is_not_deaf(
    start_worker: StartWorker, back_office: BackOffice, own_broker: Child, tmp_path: Path
) -> None:
    worker = start_worker(**HASTY, REDIS_URL=own_broker.env["REDIS_URL"])
    wait_until(lambda: hears(worker))

    own_broker.kill()
    wait_until(lambda: said(worker).count("Nothing can be said about what this worker hears") > 4, within=60)

    assert worker.running


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_asked_to_stop_finishes_the_step_and_gives_the_run_back(
    start_worker: StartWorker, back_office: BackOffice, pool: str
) -> None:
    back_office.fault("B456", "slow", where="orders", seconds=2, times=1)
    worker = start_worker(pool)
    run = start()
    wait_until(lambda: in_mid_call(run, "read_order"))

    worker.send(signal.SIGTERM)
    wait_until(lambda: ended(worker), within=30)

    assert worker.exit_code == 0
    assert row_of(worker).stopped_at
    assert [*run.step_rows.values_list("operation", "status")][-1] == ("read_order", "done")
    assert Run.objects.due().filter(pk=run.pk, owner="", outcome="").exists()
    start_worker(pool)
    wake(run.pk)  # the worker did so before it went, and the sweeper would
    wait_until(lambda: outcome(run) == "COMPLETED")
    assert submits(back_office) == 1
    assert not run.step_rows.filter(status="interrupted").exists()


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_asked_to_stop_does_not_wait_for_a_call_that_takes_too_long(
    start_worker: StartWorker, back_office: BackOffice, pool: str
) -> None:
    back_office.fault("B456", "slow", where="orders", seconds=9, times=1)
    worker = start_worker(pool, WORKER_STOP_WITHIN="1")
    run = start()
    wait_until(lambda: in_mid_call(run, "read_order"))

    worker.send(signal.SIGTERM)
    wait_until(lambda: ended(worker), within=30)

    assert worker.exit_code == GIVEN_UP
    assert in_mid_call(run, "read_order")  # its lease runs out


def test_a_sweeper_asked_to_stop_gives_back_the_run_that_it_carries(
    transactional_db: None, back_office: BackOffice, product_env: dict[str, str], tmp_path: Path
) -> None:
    back_office.fault("B456", "slow", where="orders", seconds=2, times=1)
    nobody = {"REDIS_URL": f"unix://{tmp_path}/nobody.sock"}
    sweeper = launch(processes.sweeper(product_env | nobody), tmp_path / "sweeper.log")
    run = start()
    wait_until(lambda: in_mid_call(run, "read_order"), within=30)

    sweeper.send(signal.SIGTERM)
    wait_until(lambda: ended(sweeper), within=30)

    assert sweeper.exit_code == 0
    assert row_of(sweeper).stopped_at
    assert [*run.step_rows.values_list("operation", "status")][-1] == ("read_order", "done")
    assert Run.objects.due().filter(pk=run.pk, owner="", outcome="").exists()


def test_what_a_dead_worker_left_behind_is_removed_after_a_while(transactional_db: None) -> None:
    gone, here = (Worker.objects.sign(name, kind=Worker.Kind.WORKER) for name in ("gone", "here"))
    Worker.objects.filter(pk=gone.pk).update(last_sign_at=gone.started_at - KEPT)
    broker = Broker().client
    for worker in (gone, here):
        canary.apply_async((worker.name,), queue=queue_of(worker.name))
    assert broker.keys("*canary.gone*")

    forget_the_gone()

    assert list(Worker.objects.all()) == [here]
    assert broker.keys("*canary.gone*") == []
    assert broker.keys("*canary.here*")
    broker.delete(*broker.keys("*canary.here*"))


def test_what_a_dead_worker_left_behind_waits_for_the_broker(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Worker.objects.sign("gone", kind=Worker.Kind.WORKER)
    Worker.objects.filter(pk=gone.pk).update(last_sign_at=gone.started_at - KEPT)
    nowhere = app.connection_for_write(f"redis+socket://{tmp_path}/nobody.sock")
    monkeypatch.setattr(app, "connection_for_write", lambda: nowhere)

    forget_the_gone()

    assert Worker.objects.get() == gone


def said(child: Child) -> str:
    assert child.marker
    return (child.marker.parent / f"{child.name}.log").read_text(errors="replace")


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """A broker that a test may kill; its address is REDIS_URL of its environment."""
    folder = tmp_path_factory.mktemp("b")
    env = dict(os.environ)
    child, env["REDIS_URL"] = valkey.server(folder, env)
    child.env = env
    yield launch(child, folder / "valkey.log")
    child.kill()


@contextmanager
def half_open(target: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """A way to the broker whose connections stay open, and carry nothing any more, once they are cut; new ones work."""
    address = f"{target}.proxy"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    opened: list[socket.socket] = []
    silent: set[socket.socket] = set()

    def carry(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source not in silent:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(target)
                opened.extend((client, server))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield address, lambda: silent.update(opened)
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        for end in (listener, *opened):
            end.close()
