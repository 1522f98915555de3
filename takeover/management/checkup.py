"""What may be wrong with an installation, and what to do about it: one function a check, and a table of them.

A check looks and says in a sentence how things are. It may fail: then its line says that nothing is known.
"""

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from queue import Empty
from urllib.parse import urlsplit

import httpx2
import redis
from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Min
from django.db.models.functions import Now
from kombu.exceptions import OperationalError

from runs.domain.effects import UNRESOLVED
from runs.engine.seal import never_sealed, not_sealed
from runs.models import Effect, InboxEvent, Run, Seal, Worker
from runs.models.privileges import asleep, shortcomings
from runs.models.run import RunQuerySet
from runs.workflows import registry
from takeover import checks
from takeover.celery import app
from takeover.console.words import spell
from takeover.environment import text
from takeover.management import complaints

OLDEST_SERVER = 15  # of PostgreSQL: refusals are counted by a constraint that needs it
CLOCKS_MAY_DIFFER = timedelta(seconds=2)
TOO_LONG = timedelta(minutes=1)  # for anything that normally takes moments
FAR_TOO_LONG = timedelta(minutes=10)
LITTLE, TOO_LITTLE = 2 << 30, 200 << 20  # bytes free on the disk
WAIT = 5  # seconds for one answer
SHORTEST_KEY = 32  # characters
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
DEMO_KEY = "demo-key"  # of the back office, unless BACK_OFFICE_TOKEN is set


class Level(StrEnum):
    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    level: Level
    says: str


@dataclass(frozen=True)
class Check:
    name: str
    look: Callable[[], Finding]
    of_database: bool = False  # needs it, and says nothing without it


def examine() -> Iterator[tuple[Check, Finding]]:
    """Every check with what it found. One that fails says so, and the others are asked all the same."""
    answers = True
    for check in CHECKS:
        if check.of_database and not answers:
            yield check, unknown("The database does not answer.")
            continue
        try:
            finding = check.look()
        except Exception as problem:
            if isinstance(problem, Error):
                connection.close()
            finding = unknown(f"This could not be looked at: {first_line(problem)}")
        if check.look is database:
            answers = connection.connection is not None
        yield check, finding


def ok(says: str) -> Finding:
    return Finding(Level.OK, says)


def unknown(says: str) -> Finding:
    return Finding(Level.UNKNOWN, says)


def warning(says: str) -> Finding:
    return Finding(Level.WARNING, says)


def broken(says: str) -> Finding:
    return Finding(Level.BROKEN, says)


def first_line(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else type(problem).__name__


def count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


# What this process was told


def debug() -> Finding:
    if settings.DEBUG:
        return broken("DEBUG is on, so error pages show code and settings to everybody: unset it.")
    return ok("DEBUG is off.")


def secret_key() -> Finding:
    if len(settings.SECRET_KEY) < SHORTEST_KEY or settings.SECRET_KEY.startswith("django-insecure"):
        return broken(
            f"SECRET_KEY is an example or shorter than {SHORTEST_KEY} characters, so sign-ins can be forged: "
            "set a random one, or unset it and one is made in the data folder."
        )
    return ok("SECRET_KEY is long enough.")


def hosts() -> Finding:
    if not settings.ALLOWED_HOSTS:
        return broken("ALLOWED_HOSTS is empty, so every request is refused: name the site's host.")
    if "*" in settings.ALLOWED_HOSTS:
        return warning("ALLOWED_HOSTS takes any name, so links can be made to lead elsewhere: name the site's host.")
    return ok(f"The site answers to {', '.join(settings.ALLOWED_HOSTS)}.")


def connections() -> Finding:
    if problems := checks.connections():
        return broken(checks.sentence(problems[0]))
    return ok("The web server has a connection pool, and workers keep their connections.")


def pace() -> Finding:
    if settings.ENGINE_PACE >= 1:
        return ok("Waits have their full length.")
    says = f"ENGINE_PACE is {settings.ENGINE_PACE}, so margins are too short to prove that a write never arrived"
    return warning(f"{says}; in a demo that is meant.") if settings.DEMO else broken(f"{says}: unset it.")


def credentials() -> Finding:
    services = settings.SERVICES.items()
    known_to_all = {name: service["url"] for name, service in services if service.get("token") == DEMO_KEY}
    if settings.DEMO or not known_to_all:
        return ok("No service of yours is used with the demo's credential.")
    says = f"{', '.join(known_to_all)} is used with the demo's credential, which all know: set BACK_OFFICE_TOKEN."
    elsewhere = any(urlsplit(url).hostname not in LOOPBACK for url in known_to_all.values())
    return broken(says) if elsewhere else warning(f"{says} On this machine it may be the demo's own.")


def declarations() -> Finding:
    found, problems = registry.load(settings.WORKFLOWS)
    if problems:
        return broken(" ".join(problems.values()))
    wrong = [name for name, workflow in found.items() if complaints.look(workflow, found, settings.SERVICES)[0]]
    if wrong:
        return warning(f"Something is wrong with {', '.join(wrong)}: run manage.py workflows check.")
    return ok(f"Nothing is wrong with what {count(len(found), 'workflow')} declare.")


# The database


def database() -> Finding:
    try:
        connection.ensure_connection()
    except Error as problem:
        where = "DATABASE_URL leads to none" if text("DATABASE_URL") else f"Nothing runs in {settings.DATA_DIR}"
        cure = "correct it, or start the server" if text("DATABASE_URL") else "start it with bin/up"
        return broken(f"{where} ({first_line(problem)}): {cure}.")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean")
        if cursor.fetchone()[0]:
            return broken("It can only be read (a standby?): let DATABASE_URL lead to the server that takes writes.")
        cursor.execute("SHOW server_version_num")
        version = int(cursor.fetchone()[0]) // 10000
    if version < OLDEST_SERVER:
        return broken(f"It is PostgreSQL {version}: move to {OLDEST_SERVER} or newer.")
    return ok(f"PostgreSQL {version} answers.")


def now() -> datetime:
    """The database's clock, which all instants of runs come from."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        found: datetime = cursor.fetchone()[0]
    return found


def clock() -> Finding:
    before = time.time()
    theirs = now().timestamp()
    after = time.time()
    apart = timedelta(seconds=max(before - theirs, theirs - after, 0.0))
    if apart > CLOCKS_MAY_DIFFER:
        return warning(
            f"This machine's clock and the database's are {spell(apart)} apart: let both follow one time server."
        )
    return ok("This machine's clock and the database's agree.")


def isolation() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        level = cursor.fetchone()[0]
    if level != "read committed":
        return broken(f"Transactions are {level}, and every statement is written for read committed: set it so.")
    return ok("Transactions are read committed.")


def migrations() -> Finding:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        return broken(f"{count(len(plan), 'migration')} not applied: run manage.py migrate (bin/up does).")
    newer = set(executor.loader.applied_migrations) - set(executor.loader.disk_migrations)
    if ours := sorted(name for app_label, name in newer if app_label == "runs"):
        return warning(f"The database is newer than this code ({ours[-1]}): install the version that made it.")
    return ok("All migrations are applied.")


def sessions() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid, application_name, clock_timestamp() - state_change FROM pg_stat_activity"
            " WHERE datname = current_database() AND state LIKE 'idle in transaction%%'"
            " AND state_change < clock_timestamp() - make_interval(secs => %s) ORDER BY state_change",
            [TOO_LONG.total_seconds()],
        )
        idle = cursor.fetchall()
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query = '<insufficient privilege>'"
        )
        hidden = cursor.fetchone()[0]
    if hidden and not idle:
        return unknown(
            f"None of this role's sessions is idle in a transaction; what {count(hidden, 'session')} of other roles "
            "may hold open, only a role with pg_read_all_stats sees."
        )
    if not idle:
        return ok("Nobody holds a transaction open.")
    pid, name, since = idle[0]
    return warning(
        f"{count(len(idle), 'session')} idle in a transaction, the oldest for {spell(since)} (server process {pid}, "
        f"{name or 'no name'}), which holds locks and keeps old rows: end it with pg_terminate_backend({pid})."
    )


def protection() -> Finding:
    found = shortcomings()
    return warning(" ".join(found)) if found else ok("The record is kept from the application.")


def guards() -> Finding:
    if found := asleep():
        return broken(
            f"Missing or switched off: {', '.join(found)}. The database does not keep those rules any more: find out "
            "who did that, and ENABLE TRIGGER on the table as its owner, or restore the schema."
        )
    return ok("Every guard stands.")


def seals() -> Finding:
    if strays := never_sealed().count():
        first = never_sealed()[0]
        return broken(
            f"{count(strays, 'event')} (the first is {first.pk}, {first.kind}) will never be sealed: the transaction "
            "named there is one of the future. Who may switch guards off put it there: see who signs in as the owner."
        )
    oldest, last = not_sealed().first(), Seal.objects.latest_one()
    if oldest and (waits := now() - oldest.at) > TOO_LONG:
        return warning(
            f"An event of {spell(waits)} ago is not sealed yet: see whether a sweeper runs, what its log says of the "
            "key (AUDIT_KEY), and whether a session keeps a transaction open."
        )
    return ok(f"The record is sealed, up to seal {last.number}." if last else "There is nothing to seal yet.")


# What carries runs on


def broker() -> Finding:
    name = f"doctor.{secrets.token_hex(4)}"
    try:
        with app.connection_for_write() as link:
            link.ensure_connection(max_retries=1, timeout=WAIT)
            with closing(link.SimpleQueue(name, no_ack=True)) as queue:
                try:
                    queue.put({})
                    queue.get(timeout=WAIT)
                finally:
                    queue.queue.delete()
            waiting = link.default_channel.queue_declare("celery").message_count
    except Empty:
        return broken("It took a message and did not hand it out: restart it; nothing that matters is kept there.")
    except (OperationalError, redis.RedisError, OSError) as problem:
        return broken(
            f"It does not answer ({first_line(problem)}), so runs wait for the sweeper: start it, or correct REDIS_URL."
        )
    return ok(f"A message comes back; {count(waiting, 'wake-up')} waiting.")


def workers() -> Finding:
    lately = max(TOO_LONG, timedelta(seconds=3 * settings.WORKER_CANARY))
    here = list(Worker.objects.filter(kind=Worker.Kind.WORKER).heard_from(lately).order_by("started_at"))
    if not here:
        return broken("No worker is alive, so no run goes on: start one, or see the last lines of the one that ended.")
    as_of = now()
    for worker in here:
        waits = worker.canary_sent_at and not worker.heard and as_of - worker.canary_sent_at
        if waits and waits > lately and worker.in_hand < worker.slots:
            return warning(f"{worker} has not received its message for {spell(waits)}: it should end itself soon.")
    full = [worker for worker in here if worker.in_hand >= worker.slots]
    if len(full) == len(here):
        return warning(f"Every slot of {count(len(here), 'worker')} is in use, so runs wait: start more if it lasts.")
    lost = Worker.objects.filter(kind=Worker.Kind.WORKER, stopped_at=None).silent_for(lately).count()
    if lost:
        return warning(f"{count(len(here), 'worker')} alive; {lost} ended without a word lately: see its last lines.")
    return ok(f"{count(len(here), 'worker')} alive, {count(sum(worker.slots for worker in here), 'slot')}.")


def sweepers() -> Finding:
    lately = max(TOO_LONG, timedelta(seconds=3 * settings.ENGINE_SWEEP))
    here = Worker.objects.filter(kind=Worker.Kind.SWEEPER).heard_from(lately).count()
    if not here:
        return broken("No sweeper is alive, so timers and lost wake-ups are forgotten: start manage.py sweep.")
    return ok(f"{count(here, 'sweeper')} alive.")


def due_runs() -> Finding:
    oldest = Run.objects.due().aggregate(at=Min("due_at"))["at"]
    late = now() - oldest if oldest else timedelta()
    if late < TOO_LONG:
        return ok("No run waits to be taken.")
    waiting = count(Run.objects.due().count(), "run")
    says = f"{waiting} due and not taken, the first for {spell(late)}: see what is said of workers and the broker"
    return broken(f"{says}.") if late > FAR_TOO_LONG else warning(f"{says}, or start more workers.")


# Rows that stand still


def leases() -> Finding:
    return _none_of(
        Run.objects.filter(due_at__lt=Now() - TOO_LONG).exclude(owner=""),
        "No run is left in a dead worker's hands.",
        "in a dead worker's hands and taken up by nobody: see the lines on workers and sweepers.",
    )


def dispatches() -> Finding:
    return _none_of(
        Run.objects.unfinished().filter(dispatches__gte=max(2, settings.ENGINE_MAX_DISPATCHES)),
        "No run is taken up again and again.",
        "taken up again and again without getting on: see the workers' lines; it is set apart by itself.",
    )


def inbox() -> Finding:
    unread = InboxEvent.objects.filter(result="", received_at__lt=Now() - TOO_LONG)
    return _none_of(
        Run.objects.filter(inbox__in=unread).distinct(),
        "Every event that was received has been read.",
        "with an event that no worker has read: see the lines on workers and sweepers.",
    )


def unregistered() -> Finding:
    known = {(workflow.name, workflow.version) for workflow in registry.workflows().values()}
    used = Run.objects.unfinished().values_list("workflow", "workflow_version").distinct()
    missing = sorted(f"{name} v{version}" for name, version in set(used) - known)
    if missing:
        return warning(
            f"There are open runs of {', '.join(missing)}, not installed: put it into WORKFLOWS, or close the runs."
        )
    return ok(f"The workflow of every open run is installed ({', '.join(sorted(registry.workflows()))}).")


def open_writes() -> Finding:
    forgotten = Effect.objects.filter(
        state__in=UNRESOLVED, next_look_at=None, run__due_at=None, run__role="", run__holder=None
    )
    return _none_of(
        Run.objects.unfinished().filter(effects__in=forgotten).distinct(),
        "Every write of unknown outcome has a next look-up or somebody who answers for it.",
        "with a write of unknown outcome, no next look-up and nobody responsible: send manage.py runs reconcile.",
    )


def _none_of(runs: RunQuerySet, well: str, otherwise: str) -> Finding:
    found = runs.count()
    if not found:
        return ok(well)
    first = runs.order_by("created_at").values_list("pk", flat=True)[0]
    return warning(f"{count(found, 'run')} (the oldest is {first}) {otherwise}")


# What lies around it


def disk() -> Finding:
    free = shutil.disk_usage(settings.DATA_DIR).free
    says = f"{free / (1 << 30):.1f} GB free where {settings.DATA_DIR} lies"
    if free < TOO_LITTLE:
        return broken(f"{says}: the database will stop; make room.")
    return warning(f"{says}: make room soon.") if free < LITTLE else ok(f"{says}.")


def services() -> Finding:
    tools = [tool for workflow in registry.workflows().values() for tool in workflow.tools.values()]
    if missing := sorted({tool.service for tool in tools} - set(settings.SERVICES)):
        return broken(f"Workflows use {', '.join(missing)}, which SERVICES does not name: add the address.")
    silent = [
        problem
        for name, service in settings.SERVICES.items()
        if (problem := _no_folder(name, service["folder"]) if "folder" in service else _no_answer(name, service["url"]))
    ]
    if silent:
        return broken(f"{'; '.join(silent)}: start it, or correct its address. Runs that need it wait or stop.")
    return ok(
        f"Every service answers ({', '.join(settings.SERVICES)}); whether it takes our credential, a run will tell."
    )


def _no_folder(name: str, folder: str) -> str:
    usable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    return "" if usable else f"{name}: there is no folder {folder} that can be written in"


def _no_answer(name: str, url: str) -> str:
    parts = urlsplit(url)
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # what stands around the host may be a credential
    try:
        status = httpx2.get(url, timeout=WAIT, trust_env=False).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        return f"{name} at {where} does not answer ({first_line(problem)})"
    return f"{name} at {where} answers with {status}" if status >= 500 else ""


CHECKS = (
    Check("debug", debug),
    Check("secret key", secret_key),
    Check("hosts", hosts),
    Check("connections", connections),
    Check("pace", pace),
    Check("credentials", credentials),
    Check("declarations", declarations),
    Check("database", database),
    Check("clock", clock, of_database=True),
    Check("isolation", isolation, of_database=True),
    Check("migrations", migrations, of_database=True),
    Check("sessions", sessions, of_database=True),
    Check("record", protection, of_database=True),
    Check("guards", guards, of_database=True),
    Check("seals", seals, of_database=True),
    Check("broker", broker),
    Check("workers", workers, of_database=True),
    Check("sweepers", sweepers, of_database=True),
    Check("due runs", due_runs, of_database=True),
    Check("leases", leases, of_database=True),
    Check("dispatches", dispatches, of_database=True),
    Check("inbox", inbox, of_database=True),
    Check("workflows", unregistered, of_database=True),
    Check("open writes", open_writes, of_database=True),
    Check("disk", disk),
    Check("services", services),
)
SERVERS = {"database", "broker"}


def in_short(found: Sequence[tuple[Check, Finding]]) -> list[tuple[str, Finding]]:
    """What was found, by name. Where neither database nor broker answers, one sentence instead of all that follows."""
    silent = {check.name for check, finding in found if check.name in SERVERS and finding.level is Level.BROKEN}
    if silent != SERVERS:
        return [(check.name, finding) for check, finding in found]
    told = broken(
        f"Nothing runs here: neither the database nor the broker of {settings.DATA_DIR} answers. Start it with bin/up, "
        "or say where it is (--data-dir, or DATABASE_URL and REDIS_URL); --json says more."
    )
    apart = [(check.name, finding) for check, finding in found if not check.of_database and check.name not in SERVERS]
    return [
        ("installation", told),
        *((name, finding) for name, finding in apart if name != "services" and finding.level is not Level.OK),
    ]
