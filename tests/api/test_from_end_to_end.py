"""The back office decides, calls back over HTTP, and a worker in another process completes the run."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from runs.interventions import starting
from runs.models import Run
from takeover.supervisor.children import Child
from tests.api.service import SECRET
from tests.backoffice.office import ROOT, Office
from tests.people import person
from tests.processes import wait_until


@pytest.fixture(autouse=True)
def _no_broker() -> None:
    """Here wake-ups go through the broker, as they really do."""


@pytest.fixture
def calling(live_site: str, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    """A back office that calls this site back."""
    monkeypatch.setenv("CALLBACK_SECRET", SECRET)
    office = Office(tmp_path / "books.sqlite3", "--callbacks-to", f"{live_site}/api/callbacks/back_office/")
    settings.SERVICES = {"back_office": {"url": office.url, "token": "demo-key", "callback_secrets": [SECRET]}}
    yield office
    office.kill()


@pytest.fixture
def pending(calling: Office, start_worker: Callable[..., Child]) -> Run:
    start_worker(BACK_OFFICE_URL=calling.url)
    calling.fault("pending")
    run, _ = starting.start("refund_request", {"order_id": "B456"}, person("support"))
    wait_until(lambda: stopped(run) == "WAITING")
    return run


def stopped(run: Run) -> str:
    run.refresh_from_db()
    return run.outcome


def answers(office: Office) -> list[object]:
    return [call["status"] for call in office.calls("callback")]


@pytest.mark.parametrize(("fault", "delivered"), [("", 1), ("callback_twice", 2), ("callback_late", 1)])
def test_what_the_service_decided_completes_the_run_at_once(
    calling: Office, pending: Run, fault: str, delivered: int
) -> None:
    if fault:
        calling.control("POST", "faults", {"fault": fault, **({"seconds": 0.5} if fault == "callback_late" else {})})

    calling.control("PUT", f"refunds/{pending.effects.get().operation_key}", {"state": "accepted"})

    wait_until(lambda: stopped(pending) == "COMPLETED")
    assert pending.budget["callback_checks"][2] == 1
    assert pending.budget["status_checks"][2] == 0  # no timer had a part in it
    wait_until(lambda: answers(calling) == [202] * delivered)
    assert pending.inbox.count() == 1
    assert len(calling.calls("submit")) == len(calling.effects()) == 1


def test_a_forged_callback_moves_nothing(calling: Office, pending: Run) -> None:
    calling.fault("callback_forged")

    calling.control("PUT", f"refunds/{pending.effects.get().operation_key}", {"state": "accepted"})

    wait_until(lambda: answers(calling) == [401])
    assert stopped(pending) == "WAITING"
    assert not pending.inbox.exists()
    assert calling.calls("lookup") == []


def test_the_example_in_the_manual_works(calling: Office, pending: Run, live_site: str) -> None:
    text = (ROOT / "docs" / "callbacks.md").read_text(encoding="utf-8")
    example: dict[str, Any] = {}
    exec(text.split("```python\n")[1].split("```")[0], example)  # noqa: S102 - our own page

    key = pending.effects.get().operation_key
    url = f"{live_site}/api/callbacks/back_office/"
    assert example["call_back"](url, SECRET, "msg_1", key, "R789") == 202

    wait_until(lambda: calling.calls("lookup"))


def test_the_manual_knows_every_code_that_callbacks_are_refused_with() -> None:
    view, door = (
        (ROOT / path).read_text() for path in ("takeover/api/callbacks.py", "runs/interventions/callbacks.py")
    )
    codes = set(re.findall(r'Refused\(\s*"(\w+)"', view + door)) | {"unavailable"}
    rows = [line for line in (ROOT / "docs" / "callbacks.md").read_text().splitlines() if re.match(r"\| \d{3} ", line)]
    documented = set(re.findall(r"`(\w+)`", " ".join(row.split("|")[2] for row in rows)))

    assert codes == documented
