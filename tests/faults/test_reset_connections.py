"""A worker whose connections to the broker are reset (celery#10205) goes on by itself, in the same process."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial

import pytest
from django.conf import settings as product
from redis import Redis

from runs.engine.tasks import wake
from runs.models import Worker
from tests.faults.proxy import Fate, Proxy
from tests.faults.test_liveness import HASTY, POOLS, StartWorker, pid_of, said
from tests.faults.test_workers import outcome, start, submits
from tests.processes import BackOffice, wait_until

SWEEP = b"unacked_index"  # what Celery asks for when it looks for messages that a dead worker kept


@pytest.fixture
def own_way(transactional_db: None) -> Iterator[tuple[Proxy, str]]:
    """A worker's own way to the broker, and its address; everybody else has the usual one."""
    known = Redis.from_url(product.REDIS_URL).get_connection_kwargs()
    with Proxy(known.get("path") or known["port"]) as proxy:
        yield proxy, f"redis://127.0.0.1:{proxy.port}/{known['db']}"


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_whose_connections_are_reset_hears_again_and_a_new_run_finishes(
    start_worker: StartWorker, back_office: BackOffice, own_way: tuple[Proxy, str], pool: str
) -> None:
    proxy, address = own_way
    worker = start_worker(pool, **HASTY | {"WORKER_DEAF_AFTER": "60"}, REDIS_URL=address)

    def heard() -> datetime | None:
        assert worker.running, said(worker)
        row = Worker.objects.filter(pid=pid_of(worker)).first()
        return row.canary_seen_at if row else None

    def has_heard_since(before: datetime | None) -> bool:
        return heard() != before

    wait_until(heard)
    for _ in range(3):
        again = proxy.doom(SWEEP, Fate.BROKEN_OFF)  # and once more in the middle of what it does on coming back
        proxy.reset()
        wait_until(again.met.is_set, within=60)
        wait_until(partial(has_heard_since, heard()), within=60)
    run = start()
    wake(run.pk)

    wait_until(lambda: outcome(run) == "COMPLETED", within=60)
    assert submits(back_office) == 1
    assert worker.running
