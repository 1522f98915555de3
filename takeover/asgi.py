"""The web server's entry point (uvicorn, ASGI)."""

import os
import sys

from django.core.asgi import get_asgi_application

from takeover import checks
from takeover.api.bodies import ShortBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "takeover.settings")
application = ShortBodies(get_asgi_application())
if problems := checks.at_start(is_worker=False):
    sys.exit(checks.sentence(problems[0]))
