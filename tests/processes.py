"""The product's processes for tests: real ones, started when first asked for and standing still between tests."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import redis
from django.conf import settings
from django.db import connection
from django.db.models import F

from takeover.celery import app
from takeover.supervisor.children import CLONE, Child


def launch(child: Child, log: Path, within: float = 60) -> Child:
    with log.open("ab") as output:
        child.start(output)
    wait_until(lambda: child.ready or not child.running, within)
    assert child.ready, f"{child.name} did not start:\n{log.read_text(errors='replace')[-4000:]}"
    return child


def wait_until(happened: Callable[[], object], within: float = 15, every: float = 0.02) -> None:
    deadline = time.monotonic() + within
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"It did not happen within {within} seconds.")
        time.sleep(every)


def product_env(back_office_url: str, documents: Path) -> dict[str, str]:
    """What tells a process of the product to use this test process's database, broker and folder of documents."""
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "takeover.settings",
        "DATABASE_URL": database,
        "BACK_OFFICE_URL": back_office_url,
        "DOCUMENTS_FOLDER": str(documents),
        "WORKER": "1",
        "CELERY_SKIP_CHECKS": "1",
        "PYTHONWARNINGS": "default",
    }


def celery_worker(name: str, env: dict[str, str], folder: Path, pool: str, concurrency: int) -> Child:
    marker = folder / f"{name}.ready"
    command = ["-m", "celery", "--quiet", "-A", "takeover.celery", "worker", "-n", name, "-l", "INFO"]
    manners = ["-P", pool, "-c", str(concurrency), "--without-gossip", "--without-mingle", "--without-heartbeat"]
    return Child(
        name=name,
        argv=[sys.executable, *command, *manners],
        env=env | {"WORKER_READY_FILE": str(marker)},
        marker=marker,
        stop_signal=signal.SIGKILL,  # the only one that ends a process that stands still
    )


def sweeper(env: dict[str, str]) -> Child:
    command = [sys.executable, str(CLONE / "manage.py"), "sweep"]
    return Child("sweeper", command, env, stop_signal=signal.SIGKILL)


class Standing:
    """A process that outlives a test: it goes on while a test uses it, and stands still while tables are emptied."""

    def __init__(self, make: Callable[[], Child], log: Path) -> None:
        self.make, self.log = make, log
        self.child: Child | None = None

    @property
    def pid(self) -> int:
        assert self.child
        assert self.child.process
        return self.child.process.pid

    def go_on(self) -> None:
        if self.child and self.child.running:
            self._signal(signal.SIGCONT)
        else:
            self.child = launch(self.make(), self.log)

    def stand_still(self) -> None:
        """Between two statements: who stands still with a lock in hand would hold up the emptying of the tables."""

        def stands_free() -> bool:
            self._signal(signal.SIGSTOP)
            if nobody_is_in_a_transaction():
                time.sleep(0.05)  # what was on its way to the database when the process stopped still arrives
                if nobody_is_in_a_transaction():
                    return True
            self._signal(signal.SIGCONT)
            return False

        wait_until(stands_free)

    def _signal(self, signum: signal.Signals) -> None:
        if self.child and self.child.running:
            os.killpg(self.pid, signum)

    def kill(self) -> None:
        if self.child:
            self.child.kill()

    def said(self) -> str:
        return self.log.read_text(errors="replace")


class Broker:
    """The wake-ups that are on their way in this test process's broker database."""

    def __init__(self) -> None:
        self.client = redis.Redis.from_url(settings.REDIS_URL)
        prefix = settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"]
        self.keys = [f"{prefix}{key}" for key in ("celery", "unacked", "unacked_index")]

    def forget(self) -> None:
        self.client.delete(*self.keys)

    def is_empty(self) -> bool:
        return not self.client.exists(*self.keys)

    def send_listeners_away(self) -> None:
        """Nobody listens who stands still: the broker would hand the next wake-up to that process, and it would lie."""
        number = str(self.client.get_connection_kwargs().get("db", 0))
        for client in self.client.client_list():
            if client["db"] == number and "b" in client["flags"]:
                self.client.client_unblock(int(client["id"]))


EVERYBODY_ELSE = (
    "FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def nobody_is_in_a_transaction() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT NOT EXISTS (SELECT {EVERYBODY_ELSE} AND state <> 'idle')")
        return bool(cursor.fetchone()[0])


def disconnect_everybody_else() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_terminate_backend(pid, 5000) {EVERYBODY_ELSE}")


def abandon_runs() -> None:
    """Take every run from whoever holds it: the next commit of a worker finds its lease lost, and it stops."""
    from runs.models import Run

    Run.objects.update(token=F("token") + 1, owner="", due_at=None)


def is_idle(worker: Standing) -> bool:
    assert worker.child
    replies = app.control.inspect(destination=[worker.child.name], timeout=1, limit=1).active() or {}
    return not any(replies.values())


CREDENTIAL = {"Authorization": "Bearer demo-key"}


class BackOffice:
    """The oracle: what really happened, and the faults that make it hard to know."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx2.Client(base_url=url, timeout=10)

    def reset(self) -> None:
        self._post("/control/reset", {})

    def fault(self, order_id: str, name: str, **parameters: Any) -> None:
        self._post("/control/faults", {"order_id": order_id, "fault": name, **parameters})

    def clear(self, order_id: str) -> None:
        """Switch the faults of an order off."""
        self.client.delete("/control/faults", params={"order_id": order_id}).raise_for_status()

    def change_order(self, order_id: str, **fields: Any) -> None:
        self.change("orders", order_id, **fields)

    def change(self, controls: str, name: str, **fields: Any) -> None:
        """Changes, or creates, what the service knows: `controls` is orders, events, participants or bookings."""
        self.client.put(f"/control/{controls}/{name}", json=fields).raise_for_status()

    def settle(self, operation_key: str, state: str) -> None:
        """The service makes up its mind about a refund: accepted or rejected."""
        self.client.put(f"/control/refunds/{operation_key}", json={"state": state}).raise_for_status()

    def pay(self, request_id: str, state: str = "paid", **reason: str) -> None:
        """The bank says how the payment of an accepted refund stands: processing, paid or failed."""
        self.client.put(f"/control/payments/{request_id}", json={"state": state, **reason}).raise_for_status()

    def submit(self, order_id: str, operation_key: str, amount_minor: int) -> Any:
        """A refund that somebody else asks for, or a run that the test does not play."""
        body = {"order_id": order_id, "amount_minor": amount_minor, "currency": "EUR"}
        answer = self.client.post("/refunds", json=body, headers={"Idempotency-Key": operation_key, **CREDENTIAL})
        assert answer.is_success, answer.text
        return answer.json()

    def ledger(self, order_id: str) -> Any:
        answer = self.client.get("/control/ledger", params={"order_id": order_id})
        answer.raise_for_status()
        return answer.json()

    def _post(self, path: str, body: dict[str, Any]) -> None:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text


def start_back_office(folder: Path, port: int) -> Child:
    command = ["-m", "takeover.demo.backoffice", "--host", "127.0.0.1", "--port", str(port)]
    child = Child(
        "backoffice",
        [sys.executable, *command, "--data", str(folder / "backoffice.sqlite3")],
        dict(os.environ),
        is_ready=lambda: _is_healthy(port),
    )
    return launch(child, folder / "backoffice.log")


def _is_healthy(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health", timeout=2).is_success
    except httpx2.HTTPError:
        return False
