"""A TCP proxy that loses, cuts and holds up what it is told to, in front of PostgreSQL, Valkey or the back office."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from select import select
from typing import Self

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset instead of a farewell


class Fate(Enum):
    """What befalls a request, or the answer to it."""

    REQUEST_LOST = "cut before it arrives"
    ANSWER_LOST = "carried out, and cut before a byte of the answer"
    BROKEN_OFF = "carried out, and reset in the middle of the answer"
    HELD_UP = "carried out, and the answer is withheld while the connection stands"
    REPLACED = "carried out, and answered with something else"


@dataclass
class Doom:
    """The nth request from now on that holds these bytes meets its fate; `met` is set once it did."""

    request: bytes
    fate: Fate
    nth: int
    then: Callable[[], None]  # called at that moment, before anybody learns of it
    answer: bytes  # instead of the server's
    met: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Listens on a loopback port of its own. `target`: the path of a unix socket, or a loopback port."""

    def __init__(self, target: str | int) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.dooms: list[Doom] = []
        self.away = False  # whoever connects is cut off at once, as by a server that is not there
        self.passing = threading.Event()  # cleared: connections are taken and stand, and nothing comes through
        self.passing.set()
        self.pairs: set[tuple[socket.socket, socket.socket]] = set()  # client and server, connected

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)  # a plain close() would leave accept() waiting
        self.listener.close()
        self.passing.set()
        self.cut()

    def doom(
        self,
        request: bytes,
        fate: Fate,
        nth: int = 1,
        then: Callable[[], None] = lambda: None,
        answer: bytes = b"",
    ) -> Doom:
        self.dooms.append(doom := Doom(request, fate, nth, then, answer))
        return doom

    def cut(self) -> None:
        """Everybody who is connected, both ways. A plain close() would leave the other side waiting."""
        for pair in list(self.pairs):
            for end in pair:
                _shut(end)

    def reset(self) -> None:
        """Every client's connection, at once and without a farewell, as by a firewall that forgot it."""
        for client, server in list(self.pairs):
            with suppress(OSError):  # it may be over already
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            _shut(server)  # whoever carries this pair closes the client's end then

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, self._server() as server:
            self.pairs.add((client, server))
            try:
                self._pass_on(client, server)
            except OSError:
                pass  # one of the two left
            finally:
                self.pairs.discard((client, server))
                _shut(server)

    def _server(self) -> socket.socket:
        if self.away:
            return socket.socket()  # connected to nothing: the first use of it ends the matter
        if isinstance(self.target, int):
            return socket.create_connection(("127.0.0.1", self.target))
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.target)
        return server

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        doom, request = None, b""
        while True:
            ready, _, _ = select([client, server], [], [])
            self.passing.wait()
            if client in ready:
                if not (piece := client.recv(65536)):
                    return
                doom = doom or self._doomed(request, piece)
                request += piece
                if doom and doom.fate is Fate.REQUEST_LOST:
                    doom.then()
                    doom.met.set()
                    return
                server.sendall(piece)
            if server in ready:
                if not (answer := server.recv(65536)):
                    return
                if doom:
                    self._befall(doom, client, answer)
                    return
                client.sendall(answer)
                request = b""

    def _doomed(self, before: bytes, piece: bytes) -> Doom | None:
        """A request may come in pieces; it is counted with the one that completes what is looked for."""
        for doom in [doom for doom in self.dooms if doom.request in before + piece and doom.request not in before]:
            doom.nth -= 1
            if doom.nth == 0:
                self.dooms.remove(doom)
                return doom
        return None

    def _befall(self, doom: Doom, client: socket.socket, answer: bytes) -> None:
        doom.then()
        if doom.fate is Fate.BROKEN_OFF:
            client.sendall(answer[: len(answer) // 2])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if doom.fate is Fate.REPLACED:
            client.sendall(doom.answer)
        doom.met.set()
        if doom.fate is Fate.HELD_UP:
            select([client], [], [])  # until the client has had enough, or everybody is cut


def _shut(end: socket.socket) -> None:
    with suppress(OSError):  # it may be shut already
        end.shutdown(socket.SHUT_RDWR)
