"""The product's settings for a worker, with the benchmark's own workflows and the ledger that they write to."""

import os

os.environ["WORKER"] = "1"

from takeover.settings import *  # noqa: F403
from takeover.settings import CELERY_BROKER_TRANSPORT_OPTIONS, LOGGING, SERVICES

SERVICES = {**SERVICES, "ledger": {"url": os.environ.get("LEDGER_URL", "http://127.0.0.1:9"), "token": "bench"}}
WORKFLOWS = [f"bench.workflows.{name}" for name in ("reading", "writing", "effects", "sleeping", "glance")]
LOGGING["root"]["level"] = "CRITICAL"  # each lost lease is a line otherwise
CELERY_BROKER_TRANSPORT_OPTIONS = {**CELERY_BROKER_TRANSPORT_OPTIONS, "global_keyprefix": "bench:"}
