"""A back office of one's own: a real process on a free port, and short words to talk to it."""

import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).resolve().parents[2]
AUTHORISED = {"Authorization": "Bearer demo-key"}


class Office:
    def __init__(self, data: Path, *more: str) -> None:
        self.data, self.more = data, more
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "takeover.demo.backoffice", "--port", "0", "--data", str(self.data), *self.more],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 20)
        line = self.process.stdout.readline() if ready else ""
        assert line.startswith("back office: http://"), line
        self.url = line.split()[-1].rstrip("/")
        self.host, _, port = self.url.removeprefix("http://").rpartition(":")
        self.port = int(port)
        self.client = httpx2.Client(base_url=self.url, headers=AUTHORISED, timeout=10, trust_env=False)

    def stop(self) -> tuple[int, str]:
        """Asks it to stop; its exit code, and what it complained about."""
        self.client.close()
        self.process.terminate()
        _, complaints = self.process.communicate(timeout=10)
        return self.process.returncode, complaints

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate(timeout=10)

    # The product's calls

    def get(self, path: str, **query: str) -> httpx2.Response:
        return self.client.get(path, params=query)

    def submit(
        self, key: str, order: str = "B456", amount: int = 59_00, *, currency: str = "EUR", timeout: float = 10
    ) -> httpx2.Response:
        body = {"order_id": order, "amount_minor": amount, "currency": currency}
        return self.client.post("/refunds", json=body, headers={"Idempotency-Key": key}, timeout=timeout)

    def look_up(self, key: str, **query: str) -> dict[str, Any]:
        response = self.get("/refunds", operation_key=key, **query)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    def state(self, key: str) -> str | None:
        records = self.look_up(key)["records"]
        return records[0]["submit_state"] if records else None

    def cancel(self, request_id: str, key: str) -> httpx2.Response:
        return self.client.post(f"/refunds/{request_id}/cancel", headers={"Idempotency-Key": key})

    # The controls

    def fault(self, name: str, order_id: str | None = "B456", **more: object) -> int:
        response = self.client.post("/control/faults", json={"fault": name, "order_id": order_id, **more})
        assert response.status_code == 201, response.text
        return int(response.json()["id"])

    def active(self) -> list[dict[str, Any]]:
        faults: list[dict[str, Any]] = self.get("/control/faults").json()["faults"]
        return faults

    def control(self, method: str, path: str, body: Mapping[str, object] | None = None) -> httpx2.Response:
        return self.client.request(method, f"/control/{path}", json=body)

    def calls(self, kind: str | None = None, **query: str) -> list[dict[str, Any]]:
        ledger = self.get("/control/ledger", **query).json()
        return [call for call in ledger["calls"] if kind in (None, call["kind"])]

    def effects(self, **query: str) -> list[dict[str, Any]]:
        effects: list[dict[str, Any]] = self.get("/control/ledger", **query).json()["effects"]
        return effects


def eventually(claim: Callable[[], object], seconds: float = 5) -> None:
    ends = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.02)
