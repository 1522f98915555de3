"""The loop around the children: passes their lines on, waits for readiness, restarts who died, stops in order."""

import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from takeover.supervisor import CannotStart
from takeover.supervisor.children import Child, stop
from takeover.supervisor.installation import Installation

READY_WITHIN = 120
LONGEST_PAUSE = 30
STEADY = 60  # seconds a child must have run for its next death to count as the first
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92)


class StopRequested(Exception):
    """Somebody pressed Ctrl-C, or sent SIGTERM, while we were waiting for something else."""


@dataclass
class _Life:
    """What the watch knows of one child beside the child itself."""

    colour: int
    started: float = 0
    deaths: int = 0
    restart_at: float | None = None
    unfinished_line: bytes = b""
    last_line: str = ""


class Watch:
    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.groups: list[list[Child]] = []  # in order of readiness; stopped in reverse
        self.requests = 0  # to stop; the second one hurries
        self.stopping = False
        self._lives: dict[str, _Life] = {}
        self._pipes = selectors.DefaultSelector()
        self._colours = sys.stdout.isatty()
        signal.signal(signal.SIGINT, self._request_stop)
        signal.signal(signal.SIGTERM, self._request_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, self._request_stop)

    def bring_up(self, *groups: list[Child]) -> None:
        """All at once, because starting takes each of them seconds; they stop group by group, the last one first."""
        self.groups.extend(groups)
        children = [child for group in groups for child in group]
        for child in children:
            self._start(child)
        deadline = time.monotonic() + READY_WITHIN
        for child in children:
            while not child.ready:
                if not child.running:
                    self._hear_out()
                    raise CannotStart(f"{child.name} ended before it was ready: {self._lives[child.name].last_line}")
                if time.monotonic() > deadline:
                    raise CannotStart(f"{child.name} was not ready within {READY_WITHIN} seconds: see its lines above.")
                self._listen(0.02)

    def run(self, *children: Child) -> None:
        """Commands that end by themselves, side by side."""
        self.groups.append(list(children))
        for child in children:
            self._start(child)
        while any(child.running for child in children):
            self._attend()
        self._hear_out()
        self.groups.remove(list(children))

    def attend(self) -> None:
        """Until somebody asks to stop."""
        while True:
            self._attend()

    def bring_down(self) -> None:
        self.stopping = True
        already_asked = min(self.requests, 1)
        if self.groups:
            self.say("up", "stopping; press Ctrl-C again to hurry")
        for group in reversed(self.groups):
            stop(group, idle=self._listen, hurried=lambda: self.requests > already_asked)
        self._hear_out()

    def say(self, name: str, line: str) -> None:
        prefix = f"{name:<10} | "
        if self._colours and name in self._lives:
            prefix = f"\033[{self._lives[name].colour}m{prefix}\033[0m"
        self.print(prefix + line)

    def print(self, text: str) -> None:
        try:
            print(text, flush=True)
        except OSError:  # whoever read our output has gone, so stop, and stop talking
            self.requests = self.requests or 1
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115

    def _request_stop(self, *_: object) -> None:
        self.requests += 1

    def _start(self, child: Child) -> None:
        life = self._lives.setdefault(child.name, _Life(COLOURS[len(self._lives) % len(COLOURS)]))
        life.started, life.restart_at = time.monotonic(), None
        child.start(subprocess.PIPE)
        if child.process and child.process.stdout:
            os.set_blocking(child.process.stdout.fileno(), False)
            self._pipes.register(child.process.stdout, selectors.EVENT_READ, child.name)
        self.installation.record([child for group in self.groups for child in group])

    def _attend(self) -> None:
        self._listen(0.2)
        for child in (child for group in self.groups for child in group):
            life = self._lives[child.name]
            if child.running or not child.restarts:
                continue
            if life.restart_at is None:
                life.deaths = 1 if time.monotonic() - life.started > STEADY else life.deaths + 1
                pause = min(2 ** (life.deaths - 1), LONGEST_PAUSE)
                life.restart_at = time.monotonic() + pause
                self.say("up", f"{child.name} ended with {child.exit_code}; starting it again in {pause} s")
            elif time.monotonic() >= life.restart_at:
                self._start(child)

    def _listen(self, seconds: float) -> None:
        """Pass on what the children say for up to this long, or find that we are to stop."""
        if self._pipes.get_map():
            for key, _ in self._pipes.select(seconds):
                self._pass_on(key)
        else:
            time.sleep(seconds)
        if self.requests and not self.stopping:
            raise StopRequested

    def _hear_out(self) -> None:
        """What is still in the pipes of children that have ended."""
        while self._pipes.get_map() and (waiting := self._pipes.select(0)):
            for key, _ in waiting:
                self._pass_on(key)

    def _pass_on(self, key: selectors.SelectorKey) -> None:
        name, life = key.data, self._lives[key.data]
        data = os.read(key.fd, 65536)
        *lines, life.unfinished_line = (life.unfinished_line + data).split(b"\n")
        if not data:
            self._pipes.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
            if life.unfinished_line:
                lines, life.unfinished_line = [life.unfinished_line], b""
        for line in lines:
            text = line.decode(errors="replace").rstrip()
            if text:
                life.last_line = text
                self.say(name, text)
