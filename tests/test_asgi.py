"""The web server's process, once it can answer."""

import gc
import threading
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from takeover import edge


def test_what_the_server_is_made_of_is_not_looked_through_for_rubbish_while_it_answers() -> None:
    import takeover.asgi  # noqa: F401

    assert gc.get_freeze_count() > 10_000


def test_a_request_stays_in_one_thread_from_the_middleware_to_the_error_page(
    live_site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **more: Any) -> Any:
            threads.append(threading.get_ident())
            return function(*given, **more)

        return called

    monkeypatch.setattr(edge, "_refusal", noted(edge._refusal))
    monkeypatch.setattr("takeover.edge.render", noted(getattr(edge, "render")))  # noqa: B009 - it is Django's
    with closing(HTTPConnection(urlsplit(live_site).netloc, timeout=10)) as connection:
        connection.request("GET", "/nowhere/")
        assert connection.getresponse().status == 404
    assert len(threads) == 2
    assert len(set(threads)) == 1
