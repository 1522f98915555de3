"""DBOS Transact: a step's result is a row of its system tables. A worker that comes back under the name of its executor
takes up again what that one had under way."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.contenders import EFFECTS, Lanes, connect, hand_over, handed_over, make_effect, tell

WORKERS = False
BESIDE: tuple[str, ...] = ()


def _launch(executor: str) -> None:
    DBOS(
        config=DBOSConfig(
            name="bench",
            system_database_url=os.environ["DATABASE_URL"],
            run_admin_server=False,
            executor_id=executor,
            log_level="CRITICAL",
        )
    )
    DBOS.launch()


@DBOS.step()
def step(number: int) -> int:
    return number


@DBOS.workflow()
def steps(count: int) -> int:
    return sum(step(number) for number in range(count))


@DBOS.step()
def effect(run: str, number: int) -> int:
    make_effect(run, number)
    return number


@DBOS.workflow()
def effects(run: str) -> int:
    return sum(effect(run, number) for number in range(EFFECTS))


def prepare() -> None:
    _launch("prepares")
    DBOS.destroy()


def lanes(lanes: Lanes, count: int) -> Callable[[], None]:
    _launch(f"lanes-{os.getpid()}")

    def lane(runs: list[str]) -> None:
        for run in runs:
            with SetWorkflowID(run):
                steps(count)

    def go() -> None:
        with ThreadPoolExecutor(len(lanes)) as pool:
            list(pool.map(lane, lanes))

    return go


def work(slot: int, at_once: int) -> None:
    _launch(f"slot-{slot}")
    database, known = connect(), set[str]()
    tell(ready=True)
    while True:
        # What this slot had under way before is taken up by DBOS itself, under the same numbers.
        for run in handed_over(database, "dbos", slot):
            if run not in known:
                known.add(run)
                with SetWorkflowID(run):
                    DBOS.start_workflow(effects, run)
        time.sleep(0.1)


def start(run: str, slot: int) -> None:
    hand_over("dbos", run, slot)


def finished() -> set[str]:
    with connect() as database:
        rows = database.execute("SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'SUCCESS'")
        return {run for (run,) in rows}
