"""The web server's entry point (uvicorn, ASGI)."""

import gc
import os
import sys

from django.core.asgi import get_asgi_application
from django.urls import get_resolver

from takeover import checks
from takeover.api.bodies import ShortBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "takeover.settings")
application = ShortBodies(get_asgi_application())
if problems := checks.at_start(is_worker=False):
    sys.exit(checks.sentence(problems[0]))

get_resolver().url_patterns  # noqa: B018 - everything that pages are made with is there now
gc.collect()
gc.freeze()  # it stays: looking through it again for rubbish would hold a page up for a tenth of a second
