"""What the console's pages take when the installation is full, beside the same pages of one that is nearly empty.

    .venv/bin/python bench/console.py [--quick] [--json] [--only pages,live,decisions] [--ports FROM]

Two installations are started by `manage.py up` and filled by `bench.crowd`: both with 10,000 open runs, one with 1,000
closed ones and one with 1,000,000. Their pages are asked for in turn over HTTP, as somebody who is signed in, and so is
Django's admin on the full one, so that what else the machine does falls on all of them alike. Everything is stopped and
removed at the end. Full size takes about a quarter of an hour and 12 GB of disk; --quick two minutes. With --json the
last line is one JSON object.
"""

import argparse
import json
import os
import platform
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import available_timezones

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from bench.desks import Desk, Visitor, clean_env, hidden, wait  # noqa: E402

PARTS = ("pages", "live", "decisions")
DEEP = 40  # pages into a part
HELD = 30  # cases that the person who asks has
ANEW = "queue, anew"  # asked for from another time zone each time, so that no row looks as one that was drawn before
ZONES = sorted(name for name in available_timezones() if "/" in name)
ADMIN = "/admin/runs/run/?outcome__exact=NEEDS_HUMAN&state__exact=blocked"  # what the queue's first part shows


@dataclass(frozen=True)
class Size:
    closed: tuple[int, int]
    open_runs: int
    rounds: int
    tabs: int
    nudges: int
    decisions: int


FULL = Size(closed=(1_000, 1_000_000), open_runs=10_000, rounds=60, tabs=200, nudges=60, decisions=40)
QUICK = Size(closed=(100, 2_000), open_runs=300, rounds=10, tabs=20, nudges=10, decisions=5)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the console's pages take in a full installation.")
    parser.add_argument("--quick", action="store_true", help="small numbers: within two minutes")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--ports", type=int, default=8300, metavar="FROM", help="the first of five free ports (8300)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then too
    parts = options.only.split(",")
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"--only: there is no part {unknown[0]!r}; there are {', '.join(PARTS)}.")
    found = _measure(QUICK if options.quick else FULL, parts, options.ports)
    if options.json:
        print(json.dumps(found))


def _measure(size: Size, parts: Sequence[str], port: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="bench-console-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        desks = []
        for number, closed in enumerate(size.closed):
            desks.append(
                Desk(folder / str(closed), port + 2 * number, closed, size.open_runs, workers=2 - (not number))
            )
            stack.callback(desks[-1].stop)
        for desk in desks:
            desk.wait_until_ready()
        found: dict[str, Any] = {"machine": _machine()}
        found["filled_in_s"] = {str(desk.closed): round(desk.fill(), 1) for desk in desks}
        full = Product(desks[-1])
        found["load"] = round(os.getloadavg()[0], 1)
        _tell_desks(found)
        if "pages" in parts:
            with _admin(full, port + 4) as admin:
                found |= _pages(desks, full, admin, size)
            _tell_pages(found)
        if "live" in parts:
            found |= full.live(size.tabs, size.nudges)
            _tell_live(found)
        if "decisions" in parts:
            found |= full.decisions(size.decisions)
            print(f"from a decision to a worker's commit: {found['decision_p50_ms']} ms ({found['decision_p95_ms']})")
        return found


def _machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {"cores": os.cpu_count(), "processor": model, "python": platform.python_version()}


# Pages


def _pages(desks: Sequence[Desk], full: "Product", admin: Visitor, size: Size) -> dict[str, Any]:
    screens = [Screens(desk) for desk in desks]
    times: dict[str, list[list[float]]] = {name: [[] for _ in desks] for name in screens[0].addresses}
    used: dict[str, list[float]] = {name: [] for name in times}
    of_admin: list[float] = []
    for number in range(size.rounds + 2):
        for name in times:
            before = full.desk.processor_ms()
            for screen, of_desk in zip(screens, times[name], strict=True):
                of_desk.append(screen.timed(name, number))
            used[name].append(full.desk.processor_ms() - before)
            if name == "queue":
                of_admin.append(admin.timed(ADMIN))
    warm = {name: [one[2:] for one in of_desks] for name, of_desks in times.items()}
    pages = {
        name: {str(desk.closed): _figures(ms) for desk, ms in zip(desks, of_desks, strict=True)}
        | {"ratio": round(_ratio(*of_desks), 2), "processor": round(statistics.median(used[name][2:]), 1)}
        for name, of_desks in warm.items()
    }
    queries = {name: full.queries(screens[-1].address(name, 0), screens[-1].person(name)) for name in warm}
    cases = [name for name in warm if name.startswith("case")]
    return {
        "queue_p95_ms": {str(desk.closed): pages["queue"][str(desk.closed)]["p95"] for desk in desks},
        "case_p95_ms": {
            str(desk.closed): max(pages[name][str(desk.closed)]["p95"] for name in cases) for desk in desks
        },
        "admin_p95_ms": _figures(of_admin[2:])["p95"],
        "admin_times_queue": round(statistics.median(of_admin[2:]) / statistics.median(warm["queue"][-1]), 1),
        "queries": queries | {"case": max(queries[name] for name in cases)},
        "pages": pages,
    }


def _figures(ms: Sequence[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(ms), 1), "p95": round(statistics.quantiles(ms, n=20)[-1], 1)}


def _ratio(small: Sequence[float], full: Sequence[float]) -> float:
    """Of the two asked for right after one another, so that what else the machine does weighs on neither more."""
    return statistics.median(later / before for before, later in zip(small, full, strict=True))


class Screens:
    """The addresses that are asked for, at one desk. Where there are several of a kind, each round takes another."""

    def __init__(self, desk: Desk) -> None:
        self.support = Visitor.signed_in(desk.port, "support")
        self.auditor = Visitor.signed_in(desk.port, "administrator")
        self.traveller = Visitor.signed_in(desk.port, "support")
        open_ones = desk.ids("state = 'blocked' AND outcome = 'NEEDS_HUMAN'", 500)
        for number in open_ones[:HELD]:
            form = hidden(self.support.get(f"/runs/{number}/"))
            self.support.post(f"/runs/{number}/claim/", form, expected=302)
        first_page = self.support.get("/")
        cases = {
            "case, proposed": desk.ids("state = 'awaiting_approval'", 50),
            "case, unknown": desk.ids("effects_at_risk > 0 AND state = 'blocked'", 50),
            "case, closed": desk.ids("state = 'completed'", 50),
        }
        parts = {
            f"queue, {tab}": [f"/?tab={tab}"] for tab in ("waiting", "limit", "approval", "mine", "open", "closed")
        }
        self.addresses: dict[str, list[str]] = {
            "queue": ["/"],
            ANEW: ["/"],
            **parts,
            "queue, deep": [self._deep("/?tab=open")],
            "closed, deep": [self._deep("/?tab=closed")],
            "one workflow": ["/?workflow=refund_request"],
            "search, 水位": ["/?tab=closed&" + urlencode({"q": "水位"})],
            "search, 临江": ["/?" + urlencode({"q": "临江"})],
            "search, run": [f"/?tab=open&q={number[:8]}" for number in open_ones[-20:]],
            "news": [self._news(first_page)],
            "counts": ["/queue/counts/?tabs=yes"],
            **{name: [f"/runs/{number}/" for number in ids] for name, ids in cases.items()},
            "approvals": ["/approvals/"],
            "outcomes": ["/outcomes/"],
        }

    def person(self, name: str) -> str:
        return "administrator" if name == "outcomes" else "support"

    def address(self, name: str, number: int) -> str:
        return self.addresses[name][number % len(self.addresses[name])]

    def timed(self, name: str, number: int) -> float:
        visitor = self.auditor if self.person(name) == "administrator" else self.support
        if name == ANEW:
            visitor = self.traveller
            visitor.cookies["timezone"] = ZONES[number % len(ZONES)]
        return visitor.timed(self.address(name, number))

    def _deep(self, address: str) -> str:
        for _ in range(DEEP):
            found = re.search(r'rel="next" href="([^"]+)"', self.support.get(address))
            if not found:
                break
            address = unescape(found[1])
        return address

    def _news(self, page: str) -> str:
        shown = re.findall(r'name="shown" value="([^"]+)"', page)
        since = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
        return "/queue/news/?" + urlencode([("since", since), *(("shown", one) for one in shown)])


@contextmanager
def _admin(full: "Product", port: int) -> Iterator[Visitor]:
    """A server of its own on the full database, as the product's is started, with somebody who may see everything."""
    place = ["--host", "127.0.0.1", "--port", str(port), "--http", "h11", "--lifespan", "off", "--no-access-log"]
    env = clean_env() | {"TAKEOVER_DATA_DIR": str(full.desk.folder), "DJANGO_SETTINGS_MODULE": "bench.admin_settings"}
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "takeover.asgi:application", *place],
        cwd=ROOT,
        env=env,
        stderr=subprocess.DEVNULL,
    )
    try:
        visitor = Visitor(port, full.session_of_admin())
        wait("The admin answers", lambda: server.poll() is not None or _answers(visitor), 60)
        if server.poll() is not None:
            raise RuntimeError("The server with the admin ended.")
        if "result_list" not in visitor.get(ADMIN):
            raise RuntimeError("The admin shows no change list.")
        yield visitor
    finally:
        server.kill()
        server.wait()


def _answers(visitor: Visitor) -> bool:
    try:
        visitor.get(ADMIN)
    except (OSError, RuntimeError):
        visitor.used_at = 0.0
        return False
    return True


# What is done to the full desk from within


class Product:
    """The full desk's own code on its database, in this process. Django is imported here, once there is one."""

    def __init__(self, desk: Desk) -> None:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "takeover.settings",
            "TAKEOVER_DATA_DIR": str(desk.folder),
            "LOG_LEVEL": "ERROR",
        }
        for name in ("DATABASE_URL", "REDIS_URL", "BACK_OFFICE_URL"):
            os.environ.pop(name, None)  # the folder says where they are
        import django

        django.setup()
        self.desk = desk

    def session_of_admin(self) -> dict[str, str]:
        from django.contrib.auth.models import User
        from django.test import Client

        user = User.objects.create_superuser("bench", password=secrets.token_urlsafe())
        client = Client(headers={"host": "localhost"})
        client.force_login(user)
        return {name: morsel.value for name, morsel in client.cookies.items()}

    def queries(self, address: str, name: str) -> int:
        from django.contrib.auth.models import User
        from django.db import connection
        from django.test import Client
        from django.test.utils import CaptureQueriesContext

        client = Client(headers={"host": "localhost"})
        client.force_login(User.objects.get(username=name))
        client.get(address)
        with CaptureQueriesContext(connection) as sent:
            client.get(address)
        return len(sent)

    def live(self, tabs: int, nudges: int) -> dict[str, Any]:
        from django.contrib.auth.models import User

        from bench import tabs as open_tabs

        visitor = Visitor.signed_in(self.desk.port, "supervisor")
        free = self.desk.ids("state = 'blocked' AND outcome = 'NEEDS_HUMAN' AND holder_id IS NULL", nudges)
        person = User.objects.get(username="support")
        ms, unheard = open_tabs.nudges(self.desk.port, visitor.cookie, tabs, free, person)
        figures = _figures(ms)
        return {"live_p95_ms": figures["p95"], "live": {"tabs": tabs, "p50": figures["p50"], "unheard": unheard}}

    def decisions(self, count: int) -> dict[str, Any]:
        """Milliseconds from pressing Approve until a worker has committed that it has the run, over HTTP and back."""
        import psycopg
        from django.contrib.auth.models import User

        from runs.interventions import starting
        from runs.models import Run
        from tests.processes import BackOffice

        office = BackOffice(self.desk.addresses["BACK_OFFICE_URL"])
        order = {"customer": "U-88", "item": "Lamp", "delivered_on": "2026-09-22", "opened": False, "currency": "EUR"}
        support, series = User.objects.get(username="support"), secrets.token_hex(3)
        runs = []
        for number in range(count):
            name = f"N{series}{number}"
            office.change_order(name, **order, amount_minor=150_00)
            runs.append(starting.start("refund_request", {"order_id": name}, support, request_key=name)[0].pk)
        waiting = Run.objects.awaiting_approval().filter(pk__in=runs)
        wait("All wait for a decision", lambda: waiting.count() == count, 60 + count)
        visitor, found = Visitor.signed_in(self.desk.port, "supervisor"), []
        with psycopg.connect(self.desk.database, autocommit=True) as database:
            for run in runs:
                address = f"/runs/{run}/events/approval_granted/"
                form = hidden(visitor.get(address).partition(f'action="{address}"')[2].partition("</form>")[0])
                token = Run.objects.get(pk=run).token
                found.append(_until_a_worker_has_it(database, visitor, address, form, (run, token)))
        figures = _figures(found)
        return {"decision_p50_ms": figures["p50"], "decision_p95_ms": figures["p95"]}


def _until_a_worker_has_it(
    database: Any, visitor: Visitor, address: str, form: Mapping[str, str], before: tuple[Any, int]
) -> float:
    began = time.perf_counter()
    visitor.post(address, dict(form), expected=302)
    while not database.execute("SELECT 1 FROM runs_run WHERE id = %s AND token > %s", before).fetchone():
        if time.perf_counter() - began > 30:
            raise TimeoutError("No worker took the decision up within 30 seconds.")
        time.sleep(0.001)
    return (time.perf_counter() - began) * 1000


# Telling


def _tell_desks(found: dict[str, Any]) -> None:
    machine = found["machine"]
    print(f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}; load {found['load']}")
    for size, seconds in found["filled_in_s"].items():
        print(f"filled with {int(size):,} closed runs in {seconds} s", flush=True)


def _tell_pages(found: dict[str, Any]) -> None:
    sizes = list(found["filled_in_s"])
    print(f"\n{'ms: median (95 %)':<20}" + "".join(f"{f'{int(size):,} closed':>20}" for size in sizes), end="")
    print(f"{'ratio':>8}{'processor':>11}{'queries':>9}")
    for name, page in found["pages"].items():
        cells = "".join(f"{page[size]['p50']:>11} ({page[size]['p95']:>6})" for size in sizes)
        print(f"{name:<20}{cells}{page['ratio']:>8}{page['processor']:>11}{found['queries'][name]:>9}")
    times = found["admin_times_queue"]
    print(f"admin's change list: {found['admin_p95_ms']} ms (95 %), {times} times the queue", flush=True)


def _tell_live(found: dict[str, Any]) -> None:
    live, p95 = found["live"], found["live_p95_ms"]
    print(f"\n{live['tabs']} tabs: {live['p50']} ms ({p95}) from a commit; unheard {live['unheard']}", flush=True)


if __name__ == "__main__":
    main()
