"""The product's settings with Django's admin, which the product does not have, for `bench.console` to compare with."""

from copy import deepcopy

from takeover.settings import *  # noqa: F403
from takeover.settings import INSTALLED_APPS, STORAGES, TEMPLATES

INSTALLED_APPS = [*INSTALLED_APPS, "django.contrib.admin"]
ROOT_URLCONF = "bench.admin_urls"
TEMPLATES = deepcopy(TEMPLATES)
TEMPLATES[0]["OPTIONS"]["loaders"][0][1][0][1].append("django.template.loaders.app_directories.Loader")
STORAGES = STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
