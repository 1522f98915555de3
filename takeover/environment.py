"""What the process environment and the data folder say, read once and refused loudly when it makes no sense.

Precedence: environment variable, then `up.json` (written by `manage.py up` into the data folder), then the default.
"""

import json
import os
import re
import secrets
import tempfile
from base64 import b64decode
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import make_conninfo

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("TAKEOVER_DATA_DIR") or BASE_DIR / ".data").resolve()
ESCAPED = "; in a password, / ? # and @ are written %2F %3F %23 and %40"


def _running_installation() -> dict[str, str]:
    try:
        return dict(json.loads((DATA_DIR / "up.json").read_text()))
    except (OSError, ValueError):
        return {}  # nothing is up in this folder; the defaults and the environment decide


_up = _running_installation()


def text(name: str, default: str = "") -> str:
    return os.environ.get(name) or _up.get(name) or default


def integer(name: str, default: int, low: int = 0) -> int:
    value = text(name, str(default))
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.") from None
    if number < low:
        raise ImproperlyConfigured(f"{name} must be at least {low}, not {number}.")
    return number


def number(name: str, default: float) -> float:
    value = text(name, str(default))
    try:
        found = float(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {value!r}.") from None
    if not 0 < found < float("inf"):
        raise ImproperlyConfigured(f"{name} must be above 0, not {value}.")
    return found


def flag(name: str, default: bool = False) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value not in {"0", "1", "true", "false", "yes", "no", "on", "off"}:
        raise ImproperlyConfigured(f"{name} must be yes or no, not {value!r}.")
    return value in {"1", "true", "yes", "on"}


def words(name: str, default: str = "") -> list[str]:
    return [word for word in text(name, default).replace(",", " ").split() if word]


MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
SERVICE = re.compile(r"[a-z][a-z0-9_]{0,39}")


def modules(name: str, shipped: list[str]) -> list[str]:
    """Python modules by their dotted names; the word `shipped` among them stands for those that come along."""
    given = words(name, "shipped")
    for word in given:
        if not MODULE.fullmatch(word):
            raise ImproperlyConfigured(f"{name}: {word!r} is no module's name, which looks like loans.workflow.")
    return [module for word in given for module in (shipped if word == "shipped" else [word])]


def services(name: str, known: Collection[str]) -> dict[str, dict[str, Any]]:
    """More services for tools: of each one that `name` lists, its address, credential and secrets of callbacks.

    They stand in variables of the service's own name: LIBRARY_URL, LIBRARY_TOKEN and LIBRARY_CALLBACK_SECRETS.
    """
    found: dict[str, dict[str, Any]] = {}
    for word in words(name):
        if not SERVICE.fullmatch(word):
            raise ImproperlyConfigured(f"{name}: {word!r} is no service's name, which looks like library_desk.")
        if word in known:
            raise ImproperlyConfigured(f"{name}: {word} is there already, with variables of its own: leave it out.")
        own = word.upper()
        for variable, what in ((f"{own}_URL", "address"), (f"{own}_TOKEN", "credential")):
            if not text(variable):
                raise ImproperlyConfigured(f"{name} lists {word}, and {variable} is not set: put its {what} in.")
        found[word] = {
            "url": web_address(f"{own}_URL"),
            "token": credential(f"{own}_TOKEN"),
            "callback_secrets": webhook_secrets(f"{own}_CALLBACK_SECRETS"),
        }
    return found


def credential(name: str, default: str = "") -> str:
    """What is sent in a header of each request: nothing that does not fit into one leaves us, or is repeated here."""
    value = text(name, default)
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise ImproperlyConfigured(
            f"{name} must be printable ASCII characters, with no space or line break before or after them."
        )
    return value


def webhook_secrets(name: str) -> list[str]:
    """What a service's callbacks are signed with: `whsec_` and base64, two of them while one replaces the other."""
    given = words(name)
    if len(given) > 2:
        raise ImproperlyConfigured(f"{name} must be one secret, or two while one replaces the other.")
    for number, secret in enumerate(given, 1):
        try:
            length = len(b64decode(secret.removeprefix("whsec_"), validate=True))
        except ValueError:
            length = 0
        # The library takes what is no base64 too, and signs with whatever is left of it.
        if not secret.startswith("whsec_") or not 24 <= length <= 64:
            raise ImproperlyConfigured(f"{name}: secret {number} must be whsec_ and the base64 of 24 to 64 bytes.")
    return given


def secret_key() -> str:
    """SECRET_KEY, else the one in the data folder, made on first use and readable by its owner only."""
    if given := text("SECRET_KEY"):
        return given
    from django.core.management.utils import get_random_secret_key

    return _kept_key(DATA_DIR / "secret-key", get_random_secret_key)


def audit_keys(make: bool = True) -> list[str]:
    """The keys of the record's seals: AUDIT_KEY, else the file in the data folder. The first signs, all verify.

    Several, separated by spaces, are one key and those it replaced. Where there is none, one is made, or with `make`
    off none is returned.
    """
    keys = words("AUDIT_KEY")
    if not keys:
        file = DATA_DIR / "audit-key"
        if not make and not os.path.exists(file):
            return []
        keys = _kept_key(file, lambda: secrets.token_hex(32)).split()
    if not keys or min(map(len, keys)) < 32:
        where = "AUDIT_KEY" if text("AUDIT_KEY") else DATA_DIR / "audit-key"
        raise ImproperlyConfigured(f"{where} must hold a key of at least 32 characters (openssl rand -hex 32).")
    return keys


def _kept_key(file: Path, make: Callable[[], str]) -> str:
    try:
        if not os.path.exists(file):
            DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=DATA_DIR, prefix=f"{file.name}-") as made:  # for its owner only
                made.write(make())
                made.flush()
                os.fsync(made.fileno())
                with suppress(FileExistsError):  # another process was first
                    os.link(made.name, file)  # whole or not at all, and never over another's
    except OSError as error:
        raise ImproperlyConfigured(
            f"The data folder {DATA_DIR} cannot be written to ({error.strerror}): "
            "choose another with --data-dir or TAKEOVER_DATA_DIR."
        ) from None
    return _read_key(file)


def _read_key(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{file} cannot be read ({error.strerror}): start as its owner.") from None


def days(name: str, default: int) -> timedelta | None:
    """A number of days; 0 is none at all."""
    given = integer(name, default)
    return timedelta(days=given) if given else None


def prices(name: str) -> tuple[str, str] | None:
    """What a million tokens cost that are put in and that are got out, as two numbers; None where nothing is said."""
    given = words(name)
    try:
        fits = len(given) == 2 and all(0 <= Decimal(price) < 10**6 for price in given)
    except InvalidOperation:  # also of what is no number that can be compared
        fits = False
    if given and not fits:
        raise ImproperlyConfigured(
            f"{name} must be two numbers, the prices of a million input and output tokens, not {' '.join(given)!r}."
        )
    return (given[0], given[1]) if given else None


def web_address(name: str, default: str = "") -> str:
    """An address to send to, or nothing."""
    value = text(name, default)
    parts = _parts(value)
    if value and (parts is None or parts.scheme not in {"http", "https"} or not parts.hostname):
        raise ImproperlyConfigured(f"{name} must look like https://host/path.")  # it may hold a secret: not repeated
    return value


# How soon a server out of reach is given up: at the start, and afterwards (over TCP). Seconds, and milliseconds.
REACHABLE = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


def database(url: str, name: str = "DATABASE_URL", limits: dict[str, Any] | None = None) -> dict[str, Any]:
    """`postgresql://user:password@host:port/name?host=/socket/folder` as Django's settings for one database.

    What else stands behind the question mark (`sslmode`, say) is libpq's, and goes before `limits`.
    """
    parts = _parts(url)
    if parts is None or parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise ImproperlyConfigured(f"{name} must look like postgresql://user:password@host:5432/name{ESCAPED}.")
    query = {option: values[-1] for option, values in parse_qs(parts.query, keep_blank_values=True).items()}
    host, port = query.pop("host", parts.hostname or ""), query.pop("port", "")
    try:
        make_conninfo("", **query)
    except ProgrammingError as problem:
        raise ImproperlyConfigured(f"{name}, after the question mark: {str(problem).strip()}.") from None
    return {
        "ENGINE": "takeover.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or port),
        "OPTIONS": REACHABLE | (limits or {}) | query,
    }


def answers_within(seconds: int) -> dict[str, Any]:
    """Options by which no statement takes longer: the server ends it, or, where the server does not, we let go."""
    on_the_server = f"-c statement_timeout={seconds}s -c idle_in_transaction_session_timeout={2 * seconds}s"
    return {"options": on_the_server, "answer_within": seconds + 5}


def broker(url: str) -> str:
    """kombu's spelling of a redis-py address: unix sockets are `redis+socket://`, their database a `virtual_host`."""
    parts = _parts(url)
    if parts is None or parts.scheme not in {"redis", "rediss", "unix"}:
        raise ImproperlyConfigured(f"REDIS_URL must look like redis://:password@host:6379/0 or unix:///path{ESCAPED}.")
    if parts.scheme != "unix":
        return url
    return "redis+socket://" + url.removeprefix("unix://").replace("?db=", "?virtual_host=")


def _parts(url: str) -> SplitResult | None:
    """None for what is no address. What Python says about it repeats a piece, which may be one of a password."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is read only when asked for
    except ValueError:
        return None
    return parts
