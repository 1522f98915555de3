"""Everything dies at random while runs are under way; then it is counted what was done twice, lost, or is stuck.

    .venv/bin/python bench/chaos.py [--seed N] [--quick] [--json]

Two workers, the sweeper, the broker and the database are real processes of this program's own, and so is the back
office, whose ledger is the oracle. People approve, reject and withdraw meanwhile. It is played in two settings:
threads, and prefork with messages acknowledged early. With --json the last line is one JSON object; the exit code is 1
where anything is wrong. The seed draws who dies when; what else the machine does at that moment it does not draw.
"""

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from takeover.supervisor import postgres, valkey  # noqa: E402
from takeover.supervisor.children import Child, stop  # noqa: E402

LEASE, SWEEP, PACE = 2, 1, 0.02  # what the engine is told: seconds, seconds, and waits are a fiftieth
QUIET_WITHIN = 90.0  # seconds after the last blow; whoever is not through by then is stuck
WORKERS = ("worker-0", "worker-1")
BACK_AFTER = 0.5  # seconds until somebody notices that a process is gone, and starts it again
EVERY = 1.0  # seconds between two blows, about
TICK = 0.05
APPROVE, REJECT, WITHDRAW = 0.8, 0.9, 0.15  # shares of people's decisions, and of requests that are withdrawn
EXPENSIVE = 0.3  # share of orders whose refund needs a person
FAULTY = 0.6  # share of orders that meet one of these:
FAULTS: tuple[dict[str, Any], ...] = (
    {"fault": "answer_lost", "times": 1},
    {"fault": "timeout_before_effect", "times": 1, "seconds": 1},
    {"fault": "pending", "lookups": 1},
    {"fault": "queued", "lookups": 2},
    {"fault": "refused"},
    *[{"fault": "slow", "times": 1, "where": "submit", "seconds": 3}] * 6,  # so that many die just then
    {"fault": "slow", "times": 2, "where": "any", "seconds": 1},
    {"fault": "unavailable", "times": 1, "where": "any"},
    {"fault": "unavailable", "times": 1, "where": "submit", "after_effect": True},
    {"fault": "error_500", "times": 1, "where": "submit", "after_effect": True},
    {"fault": "rate_limited", "times": 1, "retry_after": 1},
    {"fault": "lookup_down", "times": 1},
    {"fault": "lookup_lags", "lookups": 1},
    {"fault": "malformed", "times": 1, "where": "submit"},
)


@dataclass(frozen=True)
class Setting:
    pool: str
    concurrency: int
    env: dict[str, str]


SETTINGS = {
    "threads": Setting("threads", 4, {"CELERY_ACKS_LATE": "1"}),
    "prefork, acknowledged early": Setting("prefork", 2, {"CELERY_ACKS_LATE": "0"}),
}


@dataclass
class World:
    """The processes. Whoever is gone comes back after a while, as under any supervisor."""

    folder: Path
    children: dict[str, Child] = field(default_factory=dict)
    watched: dict[str, Callable[[], None]] = field(default_factory=dict)  # how each is started again
    back_at: dict[str, float] = field(default_factory=dict)
    ended_by_themselves: Counter[str] = field(default_factory=Counter)
    due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def begin(self) -> None:
        self.sockets = self.folder / "sockets"
        self.sockets.mkdir(mode=0o700)
        self.watched = {"database": self.start_database, "broker": self.start_broker}
        for begin in self.watched.values():
            begin()
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "takeover.settings",
            "TAKEOVER_DATA_DIR": str(self.folder),
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.broker_url,
            "WORKER": "1",
            "ENGINE_LEASE": str(LEASE),
            "ENGINE_SWEEP": str(SWEEP),
            "ENGINE_PACE": str(PACE),
            "LOG_LEVEL": "ERROR",
        }
        self.wait(lambda: all(child.ready for child in self.children.values()))

    def start_database(self) -> None:
        # Not the tests' throw-away settings: with those, commits may be lost that were answered.
        child, self.database_url = postgres.server(self.folder / "postgres", self.sockets, os.environ)
        self.start("database", child)

    def start_broker(self) -> None:
        child, self.broker_url = valkey.server(self.sockets, os.environ)
        self.start("broker", child)

    def start(self, name: str, child: Child) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            child.start(log)
        self.children[name] = child

    def wait(self, happened: Callable[[], bool], within: float = 60) -> None:
        deadline = time.monotonic() + within
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"It did not happen within {within:.0f} s; the logs are in {self.folder}.")
            time.sleep(TICK)

    def strike_down(self, name: str, back_after: float = BACK_AFTER) -> bool:
        """Kill one, whole group; false where it is gone already."""
        if not self.children[name].running:
            return False
        self.children[name].kill()
        self.back_at[name] = time.monotonic() + back_after
        return True

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.due.append((time.monotonic() + seconds, act))

    def tick(self, all_of_it: bool = False) -> None:
        """Do what has come due."""
        ripe = [one for one in self.due if all_of_it or one[0] <= time.monotonic()]
        self.due = [one for one in self.due if one not in ripe]
        for _, act in ripe:
            act()
        for name, begin in self.watched.items():
            if self.children[name].running:
                continue
            if name not in self.back_at:
                self.ended_by_themselves[name] += 1
                self.back_at[name] = time.monotonic() + BACK_AFTER
            if all_of_it or self.back_at[name] <= time.monotonic():
                del self.back_at[name]
                begin()

    def end(self) -> None:
        self.watched = {}
        self.tick(all_of_it=True)  # nobody is left standing still
        servers = [self.children.pop(name) for name in ("broker", "database") if name in self.children]
        for child in self.children.values():
            child.kill()
        stop(servers)
        postgres.remove_what_is_apart(self.folder / "postgres")


class Nemesis:
    """Strikes at random. Each blow is named after what it does, and undone or made good within seconds."""

    def __init__(self, world: World, product: "Product", chance: random.Random) -> None:
        self.world, self.product, self.chance = world, product, chance
        self.struck: Counter[str] = Counter()
        self.bag: list[Callable[[], bool]] = []

    def strike(self) -> None:
        """The next blow that is possible now. All kinds have their turn before any comes again."""
        while True:
            if not self.bag:
                self.bag = [
                    *[self.kill_worker, self.kill_worker, self.kill_pool_child, self.kill_pool_child, self.stop_worker],
                    *[self.kill_sweeper, self.flush_broker, self.restart_broker, self.take_broker_away],
                    *[self.restart_database, self.end_sessions, self.publish_doubly, self.publish_doubly],
                ]
                self.chance.shuffle(self.bag)
            blow = self.bag.pop()
            if blow():
                self.struck[blow.__name__] += 1
                return

    def kill_worker(self) -> bool:
        return self.world.strike_down(self.chance.choice(WORKERS))

    def kill_pool_child(self) -> bool:
        worker = self.world.children[self.chance.choice(WORKERS)]
        if not worker.process or not worker.ready:
            return False
        children = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children").read_text().split()
        if not children:  # a pool of threads has none
            return False
        os.kill(int(self.chance.choice(children)), signal.SIGKILL)
        return True

    def stop_worker(self) -> bool:
        """Beyond every lease that it may hold: a call's is its deadline and a margin, ten seconds in all."""
        worker = self.world.children[self.chance.choice(WORKERS)]
        if not worker.process or not worker.ready:
            return False
        group = worker.process.pid
        os.killpg(group, signal.SIGSTOP)

        def go_on() -> None:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGCONT)

        self.world.later(self.chance.choice([3.0, 11.0]), go_on)
        return True

    def kill_sweeper(self) -> bool:
        return self.world.strike_down("sweeper")

    def flush_broker(self) -> bool:
        return self.product.ask_broker("flushall")

    def restart_broker(self) -> bool:
        return self.world.strike_down("broker", back_after=0)

    def take_broker_away(self) -> bool:
        return self.world.strike_down("broker", back_after=self.chance.uniform(2, 5))

    def restart_database(self) -> bool:
        database = self.world.children["database"]
        if not database.ready:
            return False
        database.send(signal.SIGQUIT)  # at once: no checkpoint, every session cut off; the next start recovers
        self.world.wait(lambda: not database.running)
        self.world.start_database()
        return True

    def end_sessions(self) -> bool:
        return self.product.end_sessions(self.chance.random())

    def publish_doubly(self) -> bool:
        return self.product.publish_three_times()


class Product:
    """The product's processes and people; Django is imported here, once there is a database to point it at."""

    def __init__(self, world: World, chance: random.Random) -> None:
        import django

        django.setup()
        from django.contrib.auth.models import User
        from django.core.management import call_command

        from takeover.demo.accounts import make_accounts
        from tests import processes

        self.world, self.chance, self.processes = world, chance, processes
        call_command("migrate", verbosity=0)
        make_accounts()
        self.clerk, self.decider = (User.objects.get(username=name) for name in ("support", "supervisor"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        world.children["back office"] = processes.start_back_office(world.folder, port)
        self.back_office = processes.BackOffice(f"http://127.0.0.1:{port}")
        self.env = processes.product_env(self.back_office.url, world.folder / "documents")
        os.environ["BACK_OFFICE_URL"] = self.back_office.url
        from django.conf import settings

        settings.SERVICES["back_office"]["url"] = self.back_office.url
        self.started: dict[str, Any] = {}  # by order: the run's number

    def play(self, setting: Setting, prefix: str, runs: int, seconds: float, every: float) -> dict[str, Any]:
        """One setting, from its first run until it is quiet again. What is counted is about its runs only."""
        self.setting = setting
        product = {name: partial(self.start_worker, name) for name in WORKERS} | {"sweeper": self.start_sweeper}
        for begin in product.values():
            begin()
        self.world.watched |= product
        self.world.ended_by_themselves.clear()
        self.world.wait(lambda: all(child.ready for child in self.world.children.values()))
        waiting = [self.order(f"{prefix}{number:04}") for number in range(runs)]
        nemesis = Nemesis(self.world, self, self.chance)
        began = time.monotonic()
        next_blow = began + 1.0
        while (now := time.monotonic()) < began + seconds or waiting:
            self.world.tick()
            if now < began + seconds and now >= next_blow:
                nemesis.strike()
                next_blow = now + self.chance.uniform(0.5, 1.5) * every
            if waiting and len(waiting) / runs > 1 - (now - began) / (0.8 * seconds):
                self.undisturbed(lambda: self.start_run(waiting))
            self.undisturbed(self.decide)
            time.sleep(TICK)
            if now > began + seconds + QUIET_WITHIN:
                break
        took = self.until_quiet()
        # Whoever waits for a timer must not wake up while it is being looked at.
        for name in product:
            del self.world.watched[name]
        self.world.children["sweeper"].kill()
        self.until_nobody_works()
        found = self.judge()
        for name in product:
            self.world.children.pop(name).kill()
        return {
            "runs": runs,
            "blows": dict(nemesis.struck),
            "kills": sum(
                count for name, count in nemesis.struck.items() if name.startswith(("kill", "restart", "take"))
            ),
            "ended_by_themselves": dict(self.world.ended_by_themselves),
            "quiet_after_s": took,
            **found,
        }

    # Processes

    def start_worker(self, name: str) -> None:
        worker = self.processes.celery_worker(
            f"{name}-{secrets.token_hex(2)}@chaos",
            self.env | self.setting.env,
            self.world.folder,
            self.setting.pool,
            self.setting.concurrency,
        )
        self.world.start(name, worker)

    def start_sweeper(self) -> None:
        self.world.start("sweeper", self.processes.sweeper(self.env))

    # People

    def order(self, order_id: str) -> str:
        """An order that may be refunded, and what will go wrong with it."""
        amount = 150_00 if self.chance.random() < EXPENSIVE else 50_00
        fields = {"customer": "U-88", "item": "Lamp", "delivered_on": "2026-09-22", "opened": False, "currency": "EUR"}
        self.back_office.change_order(order_id, **fields, amount_minor=amount)
        if self.chance.random() < FAULTY:
            fault = dict(self.chance.choice(FAULTS))
            self.back_office.fault(order_id, fault.pop("fault"), **fault)
        return order_id

    def start_run(self, waiting: list[str]) -> None:
        from runs.interventions import starting

        order = waiting[0]
        run, _ = starting.start("refund_request", {"order_id": order}, self.clerk, request_key=order)
        self.started[order] = run.pk
        waiting.pop(0)
        if self.chance.random() < WITHDRAW:
            self.world.later(self.chance.uniform(0, 3), lambda: self.undisturbed(lambda: self.withdraw(run.pk)))

    def withdraw(self, run: Any) -> None:
        from runs.interventions import sending

        sending.send(run, "cancel_requested", self.clerk, {"reason": "The customer withdrew."})

    def decide(self) -> None:
        from runs.interventions import sending
        from runs.models import Run

        run = Run.objects.awaiting_approval().exclude(inbox__result="").first()
        if run:
            digest, drawn = run.effects.latest("planned_at").plan_digest, self.chance.random()
            if drawn < APPROVE:
                sending.send(run.pk, "approval_granted", self.decider, {}, digest)
            elif drawn < REJECT:
                sending.send(run.pk, "approval_rejected", self.decider, {"reason": "Too much."}, digest)
            else:
                sending.send(run.pk, "cancel_requested", self.clerk, {"reason": "Too late."})

    def undisturbed(self, act: Callable[[], None]) -> bool:
        """People try again later where the database is away, and take no for an answer."""
        from django.db import DatabaseError, InterfaceError, connection

        from runs.interventions.refusals import Refused

        try:
            act()
        except (DatabaseError, InterfaceError):
            connection.close()
            return False
        except Refused:
            pass
        return True

    # What the nemesis needs the product for

    def ask_broker(self, command: str) -> bool:
        import redis

        try:
            redis.Redis.from_url(self.world.broker_url).execute_command(command)
        except redis.RedisError:
            return False
        return True

    def end_sessions(self, share: float) -> bool:
        from django.db import connection

        def end() -> None:
            with connection.cursor() as cursor:
                cursor.execute(
                    f"SELECT pg_terminate_backend(pid) {self.processes.EVERYBODY_ELSE} AND random() < %s",
                    [share],
                )

        return self.undisturbed(end)

    def publish_three_times(self) -> bool:
        from runs.engine.tasks import wake
        from runs.models import Run

        def publish() -> None:
            for run in Run.objects.unfinished().order_by("?").values_list("pk", flat=True)[:10]:
                if not all(wake(run) for _ in range(3)):
                    return

        return self.undisturbed(publish)

    # Afterwards

    def until_quiet(self) -> float | None:
        """Seconds until nothing moves any more; None where that takes too long."""
        self.world.tick(all_of_it=True)
        began = time.monotonic()
        while time.monotonic() < began + QUIET_WITHIN:
            self.world.tick()
            self.undisturbed(self.decide)
            quiet: list[bool] = []
            self.undisturbed(lambda quiet=quiet: quiet.append(not self.moving().exists()))  # type: ignore[misc]
            if quiet == [True]:
                return round(time.monotonic() - began, 1)
            time.sleep(TICK)
        return None

    def until_nobody_works(self) -> None:
        from runs.models import Run

        with suppress(TimeoutError):  # who works for ever will be seen
            self.world.wait(lambda: not Run.objects.exclude(owner="").exists(), within=LEASE + 10)

    def moving(self) -> Any:
        """Runs that are neither final, nor with a person, nor waiting for a timer that lies ahead."""
        from django.db.models import Q
        from django.utils import timezone

        from runs.models import Run

        at_work = Q(outcome="") | ~Q(owner="") | Q(inbox__result="") | Q(due_at__lte=timezone.now())
        return Run.objects.unfinished().filter(at_work | Q(state="awaiting_approval")).distinct()

    def judge(self) -> dict[str, Any]:
        from django.db import connection

        from runs.models import Run
        from tests.faults import invariants

        ledger = self.back_office.client.get("/control/ledger").raise_for_status().json()
        twice = invariants.duplicates(ledger)
        known = set(Run.objects.values_list("pk", flat=True))
        lost = sorted(order for order, run in self.started.items() if run not in known)
        stuck = [f"{run.subject} ({run.state}, {run.stop_reason or 'running'})" for run in self.moving()]
        stuck += [
            f"{run.subject} ({run.state}, {run.stop_reason}) waits for nothing"
            for run in Run.objects.filter(outcome="WAITING", due_at=None)
        ]
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) {self.processes.EVERYBODY_ELSE} AND state LIKE 'idle in transaction%'")
            idle = cursor.fetchone()[0]
        outcomes = Counter(Run.objects.filter(pk__in=self.started.values()).values_list("stop_reason", flat=True))
        self.started = {}
        return {
            "duplicates": len(twice),
            "lost": len(lost),
            "stuck": len(stuck),
            "idle_in_transaction": idle,
            "wrong": sorted({*invariants.violations(known, ledger), *lost, *stuck}),
            "stopped_for": dict(sorted(outcomes.items())),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description="What is done twice, lost or stuck once everything died at random.")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="draws who dies when")
    parser.add_argument("--runs", type=int, default=200, help="in both settings together")
    parser.add_argument("--seconds", type=float, default=90, help="for which it strikes, in both settings together")
    parser.add_argument("--setting", choices=SETTINGS, help="only this one")
    parser.add_argument("--quick", action="store_true", help="24 runs, 10 seconds")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.seconds = 24, 10
    played = {options.setting: SETTINGS[options.setting]} if options.setting else SETTINGS
    chance = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    found: dict[str, Any] = {"seed": options.seed, "settings": {}}
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    world = World(folder)
    try:
        world.begin()
        product = Product(world, chance)
        for number, (name, setting) in enumerate(played.items()):
            one = product.play(setting, f"S{number}", options.runs // len(played), options.seconds / len(played), EVERY)
            found["settings"][name] = one
            _tell(name, one)
    finally:
        world.end()
    failed = any(one["wrong"] or one["quiet_after_s"] is None for one in found["settings"].values())
    if failed:
        print(f"What the processes said is in {folder}.")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(found))
    return int(failed)


def _tell(name: str, one: dict[str, Any]) -> None:
    quiet = "never" if one["quiet_after_s"] is None else f"after {one['quiet_after_s']} s"
    print(f"\n{name}: {one['runs']} runs, {one['kills']} kills and restarts, quiet {quiet}")
    print("  " + ", ".join(f"{what.replace('_', ' ')} {count}" for what, count in sorted(one["blows"].items())))
    print(f"  duplicates {one['duplicates']}, lost {one['lost']}, stuck {one['stuck']}")
    print("  " + ", ".join(f"{reason or 'running'} {count}" for reason, count in one["stopped_for"].items()))
    for name, count in one["ended_by_themselves"].items():
        print(f"  {name} ended by itself {count} times and was started again")
    for wrong in one["wrong"]:
        print(f"  WRONG: {wrong}")


if __name__ == "__main__":
    sys.exit(main())
