"""A service with effects and a ledger of its own: `python -m bench.ledger PORT [SECONDS]`. It counts what arrived.

An effect is there before its answer leaves, `SECONDS` later: whoever is killed meanwhile does not know of it. It does
not look at operation keys, because many services do not; a look-up by key is answered.

    POST /effects {"run", "step", "operation_key"}      the effect, as a receipt
    GET  /effects?operation_key=...                     {"records": [...]}
    GET  /summary?prefix=...                            {"effects": n, "duplicates": n, "by_run": {run: n different}}
"""

import json
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Ledger(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    takes = 0.0
    lock = threading.Lock()
    effects: list[dict[str, Any]] = []

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        effect = json.loads(content)
        with self.lock:
            self.effects.append(effect)
        time.sleep(self.takes)
        self._answer(effect)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        with self.lock:
            effects = list(self.effects)
        if asked.path == "/summary":
            prefix = parse_qs(asked.query)["prefix"][0]
            self._answer(_summary([effect for effect in effects if effect["run"].startswith(prefix)]))
            return
        key = parse_qs(asked.query)["operation_key"][0]
        self._answer({"records": [effect for effect in effects if effect["operation_key"] == key]})

    def _answer(self, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """A line for every call would be all that there is to read."""


def _summary(effects: list[dict[str, Any]]) -> dict[str, Any]:
    times = Counter((effect["run"], effect["step"]) for effect in effects)
    by_run = Counter(run for run, _ in times)
    return {"effects": len(effects), "duplicates": len(effects) - len(times), "by_run": by_run}


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Callers are killed in the middle of a call; that is what this is for."""


def main() -> None:
    Ledger.takes = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    Server(("127.0.0.1", int(sys.argv[1])), Ledger).serve_forever()


if __name__ == "__main__":
    main()
