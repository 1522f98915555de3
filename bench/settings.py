"""The product's settings for a worker, with the benchmark's own workflows and the ledger that they write to."""

import os

os.environ["WORKER"] = "1"

from takeover.settings import *  # noqa: E402, F403
from takeover.settings import SERVICES  # noqa: E402

SERVICES = {**SERVICES, "ledger": {"url": os.environ.get("LEDGER_URL", "http://127.0.0.1:9"), "token": "bench"}}
WORKFLOWS = [f"bench.workflows.{name}" for name in ("reading", "writing", "effects", "sleeping")]
LOGGING["root"]["level"] = "ERROR"  # noqa: F405 - a line for each lost lease is no news here
