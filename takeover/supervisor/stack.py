"""The processes of one installation, in the order in which they need each other."""

import http.client
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from takeover.supervisor import CannotStart, postgres, valkey
from takeover.supervisor.children import CLONE, Child
from takeover.supervisor.installation import Installation
from takeover.supervisor.watch import StopRequested, Watch

HERE = "127.0.0.1"
THREADS = 16  # a worker mostly waits for services and models, so it can hold many runs at once


@dataclass(frozen=True)
class Options:
    folder: Path
    port: int
    workers: int
    demo: bool


def up(options: Options, welcome: Callable[[Mapping[str, str]], str]) -> None:
    """Start everything, print `welcome` once the site can be reached, and stay until asked to stop."""
    installation = Installation(options.folder)
    watch = Watch(installation)
    with installation.held():
        try:
            check_port(options.port)
            _run(Stack(options, installation, watch), welcome)
        except StopRequested:
            pass
        finally:
            watch.bring_down()


def _run(stack: "Stack", welcome: Callable[[Mapping[str, str]], str]) -> None:
    stack.start_servers()
    stack.prepare()
    stack.start_product()
    stack.watch.print(welcome(stack.env))
    stack.fill_the_demo()
    stack.watch.attend()


class Stack:
    def __init__(self, options: Options, installation: Installation, watch: Watch) -> None:
        self.options, self.installation, self.watch = options, installation, watch
        self.env = os.environ | {
            "TAKEOVER_DATA_DIR": str(options.folder),
            "SITE_URL": f"http://localhost:{options.port}",
            "PYTHONUNBUFFERED": "1",
        }
        self.owner = self.env.pop("OWNER_DATABASE_URL", "")  # for the migration alone
        self.audit_key = self.env.pop("AUDIT_KEY", "")  # for the sweeper alone: not for the database's server

    @property
    def job_env(self) -> dict[str, str]:
        """For every process that is not the web server: few connections, kept, instead of a pool."""
        return self.env | {"WORKER": "1"}

    def start_servers(self) -> None:
        folder, sockets = self.installation.folder, self.installation.sockets
        if os.environ.get("DATABASE_URL"):
            # The migration may have to make the application's role first.
            name = "OWNER_DATABASE_URL" if self.owner else "DATABASE_URL"
            _check_database(name, self.owner or self.env["DATABASE_URL"])
        else:
            if not os.path.lexists(folder / "postgres"):
                self.watch.say("up", f"making a database in {folder / 'postgres'}")
            server, self.owner = postgres.server(folder / "postgres", sockets, dict(self.env))
            self.env["DATABASE_URL"] = postgres.for_application(self.owner)
            self.watch.bring_up([server])
        if os.environ.get("REDIS_URL"):
            _check_broker(self.env["REDIS_URL"])
        else:
            server, self.env["REDIS_URL"] = valkey.server(sockets, dict(self.env))
            self.watch.bring_up([server])
        if self.options.demo and not os.environ.get("BACK_OFFICE_URL"):
            self.env["BACK_OFFICE_URL"] = f"http://{HERE}:{_free_port(self.options.port + 1)}"
            self.env.setdefault("BACK_OFFICE_CALLBACK_SECRETS", self.installation.callback_secret())
        if self.options.demo:
            self.env["DEMO"] = "1"  # the sign-in page names the demo's accounts
        self.installation.publish({name: self.env[name] for name in told_elsewhere(self.env) if name in self.env})

    def prepare(self) -> None:
        commands = [self._command("migrate", "migrate", "--verbosity=1", OWNER_DATABASE_URL=self.owner)]
        # Compressing takes seconds, so it is done again only when a file or a package has changed.
        folder, sources = self.options.folder, _fingerprint(CLONE / "static")
        stamp = folder / "static-sources"
        if not (folder / "static").is_dir() or not stamp.exists() or stamp.read_text() != sources:
            commands.append(self._command("static", "collectstatic", "--no-input", "--verbosity=0"))
        self._manage(*commands)
        if self.owner:
            _check_database("DATABASE_URL", self.env["DATABASE_URL"])
        stamp.write_text(sources)
        if self.options.demo and not self.installation.demo_done.exists():
            self._manage(self._command("accounts", "demo", "--accounts-only"))

    def start_product(self) -> None:
        own_back_office = self.options.demo and not os.environ.get("BACK_OFFICE_URL")
        services = [self._back_office()] if own_back_office else []
        workers = [self._worker(number) for number in range(1, self.options.workers + 1)]
        sweeper = Child("sweeper", _python("manage.py", "sweep"), self.job_env | {"AUDIT_KEY": self.audit_key})
        self.watch.bring_up(services, [*workers, sweeper], [self._web()])

    def fill_the_demo(self) -> None:
        done = self.installation.demo_done
        if not self.options.demo or done.exists():
            return
        demo = self._command("demo", "demo")
        self.watch.run(demo)
        if demo.exit_code == 0:
            done.touch()
        else:
            ended = f"the demo ended with {demo.exit_code}"
            self.watch.say("up", f"{ended}; the site stays up, and the next start tries again")

    def _command(self, name: str, *arguments: str, **env: str) -> Child:
        return Child(name, _python("manage.py", *arguments), self.job_env | env, restarts=False)

    def _manage(self, *commands: Child) -> None:
        self.watch.run(*commands)
        for command in commands:
            if command.exit_code:
                raise CannotStart(f"{command.name} ended with {command.exit_code}: see its lines above.")

    def _worker(self, number: int) -> Child:
        marker = self.installation.folder / f"worker-{number}.ready"
        command = ["celery", "--quiet", "-A", "takeover.celery", "worker", "-n", f"worker{number}@%h", "-l", "INFO"]
        pool = ["-P", "threads", "-c", str(THREADS)]
        # Nothing needs the workers' own chatter, and it is what has kept workers silent after a broker's restart.
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return Child(
            name=f"worker-{number}",
            argv=_python("-m", *command, *pool, *quiet),
            # The migration command has checked the installation already, and a worker needs no addresses of pages.
            env=self.job_env | {"WORKER_READY_FILE": str(marker), "CELERY_SKIP_CHECKS": "1"},
            marker=marker,
            patience=40,  # a little more than the soft shutdown that the settings allow
        )

    def _back_office(self) -> Child:
        address = urlsplit(self.env["BACK_OFFICE_URL"])
        place = ["--host", HERE, "--port", str(address.port), "--data", str(self.options.folder / "backoffice.sqlite3")]
        callbacks = ["--callbacks-to", f"http://{HERE}:{self.options.port}/api/callbacks/back_office/"]
        secret = self.env["BACK_OFFICE_CALLBACK_SECRETS"].split()[0]  # the first of two is the one that stays
        return Child(
            name="backoffice",
            argv=_python("-m", "takeover.demo.backoffice", *place, *callbacks),
            env=self.env | {"CALLBACK_SECRET": secret},
            is_ready=lambda: _answers(address.port or 0, "/health"),
        )

    def _web(self) -> Child:
        port = self.options.port
        place = ["--host", HERE, "--port", str(port)]
        # An open stream of live updates would hold the shutdown up for ever. The parser of requests is the tested one,
        # whatever else is installed.
        manners = ["--http", "h11", "--lifespan", "off", "--timeout-graceful-shutdown", "3", "--no-access-log"]
        return Child(
            name="web",
            argv=_python("-m", "uvicorn", "takeover.asgi:application", *place, *manners),
            env=self.env,
            is_ready=lambda: _answers(port, "/sign-in/"),
        )


def told_elsewhere(env: Mapping[str, str]) -> list[str]:
    """The variables that `manage.py` in another terminal has to know as well."""
    own = [name.upper() for name in env.get("SERVICES", "").replace(",", " ").split()]
    of_services = [f"{name}_{what}" for name in own for what in ("URL", "TOKEN", "CALLBACK_SECRETS")]
    of_demo = ["BACK_OFFICE_URL", "BACK_OFFICE_CALLBACK_SECRETS", "DEMO"]
    return ["DATABASE_URL", "REDIS_URL", "SITE_URL", *of_demo, "WORKFLOWS", "SERVICES", *of_services]


def _python(*arguments: str) -> list[str]:
    if arguments[0] == "manage.py":
        arguments = (str(CLONE / "manage.py"), *arguments[1:])
    return [sys.executable, *arguments]


def _fingerprint(folder: Path) -> str:
    files = [CLONE / "requirements.lock", *sorted(path for path in folder.rglob("*") if path.is_file())]
    return "\n".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HERE, port, timeout=5)
    try:
        connection.request("GET", path, headers={"Host": f"localhost:{port}"})
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HERE, port))
        except OSError:
            return False
    return True


def check_port(port: int) -> None:
    if not _is_free(port):
        reason = "needs root's rights" if port < 1024 and os.geteuid() else "is taken by another program"
        # The back office takes the port after the site's.
        free = (other for other in range(8000 + port % 1000 + 1, 65535) if _is_free(other) and _is_free(other + 1))
        raise CannotStart(f"Port {port} {reason}: choose another with --port, for example --port {next(free, 8000)}.")


def _free_port(wanted: int) -> int:
    if wanted < 65536 and _is_free(wanted):
        return wanted
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return int(probe.getsockname()[1])


def _check_database(name: str, address: str) -> None:
    import psycopg

    try:
        psycopg.connect(address, connect_timeout=5).close()
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise CannotStart(f"{name} leads to no database ({reason}): correct it, or unset it.") from None


def _check_broker(address: str) -> None:
    import redis

    try:
        with redis.Redis.from_url(address, socket_connect_timeout=5) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        raise CannotStart(f"REDIS_URL leads to no broker ({error}): correct it, or unset it.") from None
