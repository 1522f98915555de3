"""The product's settings, with a broker database for each parallel test process (pytest-django makes the other one)."""

import os
from urllib.parse import urlsplit

_number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) + 1
_broker = os.environ.get("REDIS_URL", "redis://localhost:6379")
if _broker.startswith("unix://"):
    os.environ["REDIS_URL"] = f"{_broker.partition('?')[0]}?db={_number}"
else:
    os.environ["REDIS_URL"] = urlsplit(_broker)._replace(path=f"/{_number}").geturl()

from takeover.settings import *  # noqa: E402, F403
from takeover.settings import DATABASES, STATIC_ROOT  # noqa: E402

# Sixteen threads act at once in some tests, beside the site that browser tests ask in the same process.
DATABASES["default"]["OPTIONS"]["pool"]["max_size"] = 24
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # signing in is not what most tests measure
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = True
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns when it is missing
