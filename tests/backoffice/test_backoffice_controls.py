"""The controls: switching, resetting, changing, settling; and what a restart keeps."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.processes import wait_until

from .office import ROOT, Office


def test_a_fault_is_listed_and_switched_off_by_number(office: Office) -> None:
    number = office.fault("slow", seconds=0.5, where="orders")
    (fault,) = office.active()
    assert fault.pop("at")
    assert fault == {
        "id": number,
        "fault": "slow",
        "order_id": "B456",
        "operation_key": None,
        "times": None,
        "struck": 0,
        "where": "orders",
        "seconds": 0.5,
    }
    assert office.client.delete("/control/faults", params={"id": number}).json() == {"removed": 1}
    assert office.client.delete("/control/faults", params={"id": number}).status_code == 404
    assert office.client.delete("/control/faults", params={"id": "x"}).status_code == 422
    assert office.active() == []


def test_faults_are_switched_off_by_order_or_all_at_once(office: Office) -> None:
    office.fault("lookup_down")
    office.fault("refused")
    office.fault("refused", "C881")
    assert office.client.delete("/control/faults", params={"order_id": "B456"}).json() == {"removed": 2}
    assert [fault["order_id"] for fault in office.active()] == ["C881"]
    assert office.client.delete("/control/faults").json() == {"removed": 1}


def test_a_reset_brings_back_the_first_day(office: Office) -> None:
    office.fault("policy_missing")
    office.submit("k1")
    office.control("PUT", "orders/B456", {"opened": True})
    assert office.control("POST", "reset").status_code == 200
    assert (office.active(), office.effects(), office.calls()) == ([], [], [])
    assert office.get("/orders/B456").json()["opened"] is False
    assert office.submit("k1").json()["request_id"] == "R789"


def test_what_is_under_way_when_the_books_are_begun_anew_does_not_land_in_the_new_ones(office: Office) -> None:
    office.fault("slow", where="submit", seconds=1)
    with ThreadPoolExecutor(1) as somebody:
        late = somebody.submit(office.submit, "k1")
        wait_until(office.calls)
        office.control("POST", "reset")
        answer = late.result()
    assert (answer.status_code, answer.json()["code"]) == (503, "books_begun_anew")
    assert office.effects() == []


def test_each_change_of_an_order_is_a_version(office: Office) -> None:
    order = office.control("PUT", "orders/B456", {"opened": True, "delivered_on": "2026-09-01"}).json()
    assert (order["opened"], order["delivered_on"], order["amount_minor"], order["version"]) == (
        True,
        "2026-09-01",
        5900,
        2,
    )
    assert office.get("/orders/B456").json()["version"] == 2


def test_an_order_can_be_made_up(office: Office) -> None:
    assert office.control("PUT", "orders/T001", {"customer": "U-99", "amount_minor": 100}).json()["version"] == 1
    assert office.get("/authority", user="U-99", order="T001").json()["reason"] == "owner"
    assert office.submit("k1", "T001", 100).status_code == 201


def test_a_pending_refund_is_settled_by_hand(office: Office) -> None:
    office.fault("pending", None, times=2)
    office.submit("k1")
    office.submit("k2", "C881", 42_50)
    assert office.control("PUT", "refunds/k1", {"state": "accepted"}).json()["request_id"] == "R789"
    assert office.control("PUT", "refunds/k2", {"state": "rejected", "reason": "fraud"}).status_code == 200
    assert office.look_up("k1")["records"][0]["request_id"] == "R789"
    assert office.look_up("k2")["records"][0]["reason"] == "fraud"
    assert [effect["order_id"] for effect in office.effects()] == ["B456"]


def test_only_what_is_open_can_be_settled(office: Office) -> None:
    office.submit("k1")
    refused = office.control("PUT", "refunds/k1", {"state": "rejected"})
    assert (refused.status_code, refused.json()["reason"]) == (409, "already_accepted")
    assert office.control("PUT", "refunds/nothing", {"state": "accepted"}).status_code == 404
    assert office.control("PUT", "refunds/k1", {"state": "gone"}).json()["field"] == "state"


def test_it_opens_with_orders_of_every_sort(office: Office) -> None:
    page = office.get("/").text
    assert page.count("U-") >= 45
    assert office.get("/orders/Q018").json()["delivered_on"] < "2026-09-18"


@pytest.mark.parametrize("gently", [True, False])
def test_a_restart_keeps_the_books(own_office: Office, gently: bool) -> None:
    own_office.submit("k1")
    own_office.fault("policy_missing")
    own_office.control("PUT", "orders/C881", {"opened": True})
    if gently:
        assert own_office.stop() == (0, "")
    else:
        own_office.kill()
    own_office.start()
    assert own_office.submit("k1").json()["request_id"] == "R789"
    assert own_office.get("/policies", kind="refund", order="B456").json()["policies"] == []
    assert [fault["fault"] for fault in own_office.active()] == ["policy_missing"]
    assert own_office.get("/orders/C881").json()["opened"] is True
    assert own_office.calls()[0]["kind"] == "submit"


def test_it_stops_promptly_while_calls_hang(own_office: Office) -> None:
    own_office.fault("timeout_before_effect", seconds=60)
    with pytest.raises(Exception, match="timed out"):
        own_office.submit("k1", timeout=0.3)
    own_office.fault("slow", "C881", seconds=60)
    with pytest.raises(Exception, match="timed out"):
        own_office.submit("k2", "C881", timeout=0.3)
    assert own_office.stop() == (0, "")


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "takeover.demo.backoffice", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)


def test_a_taken_port_is_told_in_one_sentence(office: Office, tmp_path: Path) -> None:
    done = start("--port", str(office.port), "--data", str(tmp_path / "other.sqlite3"))
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{office.port}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_that_is_not_its_own_is_told_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "letter.sqlite3"
    file.write_text("Dear Sir or Madam, " * 200)
    done = start("--port", "0", "--data", str(file))
    assert done.returncode == 1
    assert str(file) in done.stderr
    assert done.stderr.count("\n") == 1
    assert file.read_text().startswith("Dear Sir")


def test_it_only_listens_to_its_own_machine(tmp_path: Path) -> None:
    done = start("--host", "192.0.2.1", "--port", "0", "--data", str(tmp_path / "a.sqlite3"))
    assert done.returncode == 2
    assert "loopback" in done.stderr


def test_it_imports_nothing_of_the_product() -> None:
    program = (
        "import sys, takeover.demo.backoffice.__main__\n"
        "ours = {name for name in sys.modules if name.split('.')[0] in ('runs', 'takeover', 'django', 'celery')}\n"
        "print(*sorted(name for name in ours if not name.startswith('takeover.demo.backoffice')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["takeover", "takeover.demo"]
