"""The web server's entry point (uvicorn, ASGI)."""

import os

from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

from takeover import checks
from takeover.api.bodies import ShortBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "takeover.settings")
application = ShortBodies(get_asgi_application())
if problems := checks.unfit(is_worker=False):
    raise ImproperlyConfigured(checks.sentence(problems[0]))
