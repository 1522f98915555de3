"""procrastinate: each step is a job that records its step and defers the next one. Jobs of a worker whose heartbeat
stopped are found and put back, as its documentation shows for a periodic task."""

import asyncio
import os
import time
from collections.abc import Callable

import procrastinate

from bench.contenders import EFFECTS, RECORD, Lanes, connect, have_steps, make_effect, tell

WORKERS = True
BESIDE: tuple[str, ...] = ()
STALLED = 5.0  # seconds without a heartbeat; its default is 30
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ.get("DATABASE_URL", "")))
INSERT = RECORD.replace("%s, %s, %s", "'procrastinate', %(run)s, %(number)s")
KNOWN = "SELECT 1 AS known FROM bench_step WHERE contender = 'procrastinate' AND run = %(run)s AND step = %(number)s"


@app.task(name="step")
async def step(run: str, number: int, count: int, effects: bool) -> None:
    if effects and not await app.connector.execute_query_all_async(KNOWN, run=run, number=number):
        await asyncio.to_thread(make_effect, run, number)
    await app.connector.execute_query_async(INSERT, run=run, number=number)
    if number + 1 < count:
        await step.defer_async(run=run, number=number + 1, count=count, effects=effects)


def prepare() -> None:
    async def apply() -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    asyncio.run(apply())


def _defer(runs: list[str], count: int, effects: bool) -> None:
    async def defer() -> None:
        async with app.open_async():
            for run in runs:
                await step.defer_async(run=run, number=0, count=count, effects=effects)

    asyncio.run(defer())


def lanes(lanes: Lanes, count: int) -> Callable[[], None]:
    """A lane is one chain, as long as its runs together."""
    runs, length = [lane[0] for lane in lanes], count * len(lanes[0])

    def go() -> None:
        _defer(runs, length, effects=False)
        with connect() as database:
            last = "SELECT count(*) FROM bench_step WHERE contender = 'procrastinate' AND run = ANY(%s) AND step = %s"
            while (database.execute(last, (runs, length - 1)).fetchone() or [0])[0] < len(runs):
                time.sleep(0.005)

    return go


def work(slot: int, at_once: int) -> None:
    async def until_killed() -> None:
        async with app.open_async():
            rescue = asyncio.create_task(_put_back())
            tell(ready=True)
            await app.run_worker_async(
                name=f"slot-{slot}",
                concurrency=at_once,
                install_signal_handlers=False,
                update_heartbeat_interval=1,
                stalled_worker_timeout=STALLED * 4,
            )
            rescue.cancel()

    asyncio.run(until_killed())


async def _put_back() -> None:
    while True:
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED):
            await app.job_manager.retry_job(job)
        await asyncio.sleep(1)


def start(run: str, slot: int) -> None:
    _defer([run], EFFECTS, effects=True)


def finished() -> set[str]:
    return have_steps("procrastinate", EFFECTS)
