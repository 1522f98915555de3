"""`python -m takeover.demo.backoffice --host 127.0.0.1 --port 8801 --data back-office.sqlite3`"""

import argparse
import ipaddress
import os
import signal
import socket
import sqlite3
import sys
from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from takeover.demo.backoffice.app import application
from takeover.demo.backoffice.callbacks import Callbacks
from takeover.demo.backoffice.connection import CuttableProtocol
from takeover.demo.backoffice.store import NotOurFile, Store


class CannotStart(Exception):
    """Says in one sentence what is in the way and what to do about it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m takeover.demo.backoffice", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", type=loopback, help="a loopback address")
    parser.add_argument("--port", default=8801, type=port, help="0 picks a free one")
    parser.add_argument("--data", required=True, type=Path, help="the SQLite file, made when it is not there")
    parser.add_argument(
        "--callbacks-to",
        type=web_address,
        help="where to say that a pending refund was decided, signed with the secret in CALLBACK_SECRET; nowhere",
    )
    chosen = parser.parse_args()
    try:
        store = opened(chosen.data)
        callbacks = Callbacks(store, chosen.callbacks_to, signing_secret()) if chosen.callbacks_to else None
        listener = listening(chosen.host, chosen.port)
    except CannotStart as problem:
        parser.exit(1, f"back office: {problem}\n")
    address = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
    sys.stdout.write(f"back office: http://{address}:{listener.getsockname()[1]}/\n")
    sys.stdout.flush()
    # uvicorn raises the signal again once it has stopped in order; being asked to stop is not a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    config = uvicorn.Config(
        application(store, chosen.host, stopping=lambda: server.should_exit, callbacks=callbacks),
        http=CuttableProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=60,  # longer than clients keep an idle connection, or their next call may meet its end
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[listener])
    return 0


def loopback(host: str) -> str:
    address = "127.0.0.1" if host == "localhost" else host
    try:
        if ipaddress.ip_address(address).is_loopback:
            return address
    except ValueError:
        pass
    raise argparse.ArgumentTypeError("must be a loopback address: the controls have no sign-in")


def port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError("must be a number from 0 to 65535")
    return int(text)


def web_address(text: str) -> str:
    with suppress(ValueError):
        address = urlsplit(text)
        if address.scheme in {"http", "https"} and address.hostname and address.port != 0:
            return text
    raise argparse.ArgumentTypeError("must be an address such as http://127.0.0.1:8000/api/callbacks/back_office/")


def signing_secret() -> str:
    """From the environment, which no list of processes shows to others."""
    secret = os.environ.get("CALLBACK_SECRET", "")
    try:
        if secret.startswith("whsec_") and b64decode(secret.removeprefix("whsec_"), validate=True):
            return secret
    except ValueError:
        pass
    raise CannotStart("CALLBACK_SECRET must be whsec_ and the base64 of the secret that callbacks are signed with.")


def opened(file: Path) -> Store:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return Store(file)
    except (NotOurFile, sqlite3.DatabaseError, OSError) as problem:
        raise CannotStart(f"{file} cannot be used ({problem}); name another --data, or remove it.") from None


def listening(host: str, number: int) -> socket.socket:
    # asyncio switches Nagle's delay off only where the protocol is named; with it, each answer takes 40 ms longer.
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, number))
    except OSError as problem:
        raise CannotStart(f"cannot listen on {host}:{number} ({problem.strerror}); choose another --port.") from None
    listener.listen(128)
    return listener


if __name__ == "__main__":
    sys.exit(main())
