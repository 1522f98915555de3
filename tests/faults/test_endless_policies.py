"""A policy that never returns keeps its thread and nothing else: the run ends with a person, the others go on."""

from collections.abc import Callable
from functools import partial

import pytest

from runs.agents.policies import POLICIES, scripted
from runs.engine.liveness import GIVEN_UP
from runs.engine.tasks import wake
from runs.interventions import starting
from runs.models import Run
from takeover.supervisor.children import Child
from tests.faults.test_liveness import HASTY, ended, said
from tests.faults.test_workers import outcome, start, submits, the_lease_runs_out
from tests.people import person
from tests.processes import BackOffice, wait_until

StartWorker = Callable[..., Child]
ENDLESS = {"DJANGO_SETTINGS_MODULE": "tests.faults.endless"}


@pytest.fixture
def endless_run(transactional_db: None, back_office: BackOffice, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setitem(POLICIES, "endless", scripted)  # it is there; in this process nobody asks it
    run, _ = starting.start("refund_request", {"order_id": "B456"}, person("support"), policy="endless")
    return run


def asked(worker: Child) -> int:
    return said(worker).count("The endless policy is asked")


def is_asked_again_or_stops(worker: Child, run: Run, times: int) -> bool:
    if Run.objects.due().filter(pk=run.pk).exists():
        wake(run.pk)  # as the sweeper would
    return asked(worker) == times or bool(outcome(run))


def test_the_run_is_parked_after_bounded_dispatches_and_other_runs_go_on(
    start_worker: StartWorker, back_office: BackOffice, endless_run: Run
) -> None:
    worker = start_worker("threads", concurrency=4, **ENDLESS, ENGINE_MAX_DISPATCHES="2", ENGINE_PACE="0.01")
    for times in range(1, 5):
        wait_until(partial(is_asked_again_or_stops, worker, endless_run, times))
        the_lease_runs_out(endless_run)
    another = start("F562")
    wait_until(lambda: outcome(another) == "COMPLETED")

    assert asked(worker) == 3  # the first time it got somewhere, and that one does not count
    assert (endless_run.outcome, endless_run.stop_reason) == ("NEEDS_HUMAN", "cannot_dispatch")
    assert "taken up 2 times" in endless_run.question
    assert (endless_run.owner, endless_run.due_at) == ("", None)
    assert submits(back_office) == 0
    assert submits(back_office, "F562") == 1
    assert worker.running


def test_where_such_runs_took_every_slot_the_worker_ends_itself_and_the_next_one_goes_on(
    start_worker: StartWorker, back_office: BackOffice, endless_run: Run
) -> None:
    limits = {"WORKER_STUCK_AFTER": "3", "WORKER_STOP_WITHIN": "1"}
    stuck = start_worker("threads", concurrency=1, **ENDLESS, **HASTY, **limits)
    wait_until(lambda: asked(stuck) == 1)
    another = start("F562")

    wait_until(lambda: ended(stuck), within=60)

    assert stuck.exit_code == GIVEN_UP
    assert "this worker is stuck" in said(stuck)
    start_worker("threads", concurrency=2, **ENDLESS)
    wake(another.pk)
    wait_until(lambda: outcome(another) == "COMPLETED")
    assert outcome(endless_run) == ""  # taken up again once its lease runs out
