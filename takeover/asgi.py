"""The web server's entry point (uvicorn, ASGI)."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "takeover.settings")
application = get_asgi_application()
