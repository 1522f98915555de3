"""The web server's entry point (uvicorn, ASGI)."""

import gc
import os
import sys

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase
from django.urls import get_resolver

from takeover import checks
from takeover.api.bodies import ShortBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "takeover.settings")
django.setup(set_prefix=False)


class Handler(ASGIHandler):
    """Django's, but middleware and view answer in one thread, one after the other. Django's own goes back to the event
    loop between them, which takes longer than most of them do."""

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)


application = ShortBodies(Handler())
if problems := checks.at_start(is_worker=False):
    sys.exit(checks.sentence(problems[0]))

get_resolver().url_patterns  # noqa: B018 - everything that pages are made with is there now
gc.collect()
gc.freeze()  # it stays: looking through it again for rubbish would hold a page up for a tenth of a second
