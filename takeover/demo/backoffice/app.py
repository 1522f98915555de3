"""The application: the product's calls, the controls, and the page."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import cast
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from takeover.demo.backoffice import (
    booking_calls,
    booking_control,
    calls,
    control,
    draft_calls,
    draft_control,
    page,
    payment_calls,
    research,
)
from takeover.demo.backoffice.answers import Refusal, error
from takeover.demo.backoffice.bookings import Bookings
from takeover.demo.backoffice.callbacks import Callbacks
from takeover.demo.backoffice.drafts import Drafts
from takeover.demo.backoffice.payments import Payments
from takeover.demo.backoffice.store import Store


class SameHost:
    """The controls have no sign-in, so other people's web pages must not reach them through a browser:
    neither by a name that they point at this machine, nor by a form that they post."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self.app = app
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        host = headers.get("host", "")
        if _host_name("//" + host) not in self.names:
            answer = error(403, "host_refused", "The back office answers under its own address only.")
        elif origin is not None and origin != f"http://{host}":
            answer = error(403, "cross_site", "The back office takes nothing from other sites' pages.")
        else:
            await self.app(scope, receive, send)
            return
        await answer.response()(scope, receive, send)


def _host_name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # such as an unclosed bracket
        return None


async def refused(_: Request, refusal: Exception) -> Response:
    return cast(Refusal, refusal).answer.response()


async def no_such_page(_: Request, raised: Exception) -> Response:
    problem = cast(HTTPException, raised)
    code = {404: "not_found", 405: "method_not_allowed"}.get(problem.status_code, "bad_request")
    response = error(problem.status_code, code, f"{problem.detail}.").response()
    response.headers.update(problem.headers or {})
    return response


async def caller_left(_request: Request, _problem: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


async def broken(_request: Request, _problem: Exception) -> Response:
    return error(500, "internal_error", "The back office itself failed; its log says how.").response()


def application(
    store: Store, host: str, stopping: Callable[[], bool] = lambda: False, callbacks: Callbacks | None = None
) -> Starlette:
    @contextlib.asynccontextmanager
    async def books_open(_: Starlette) -> AsyncIterator[None]:
        try:
            async with callbacks or contextlib.nullcontext():
                yield
        finally:
            store.close()

    app = Starlette(
        routes=[
            *calls.routes,
            *booking_calls.routes,
            *research.routes,
            *draft_calls.routes,
            *control.routes,
            *booking_control.routes,
            *payment_calls.routes,
            *draft_control.routes,
            *page.routes,
        ],
        middleware=[Middleware(SameHost, names=frozenset({"127.0.0.1", "localhost", "::1", host}))],
        exception_handlers={
            Refusal: refused,
            HTTPException: no_such_page,
            ClientDisconnect: caller_left,
            Exception: broken,
        },
        lifespan=books_open,
    )
    app.state.store = store
    app.state.bookings = Bookings(store)
    app.state.payments = Payments(store)
    app.state.drafts = Drafts(store)
    app.state.stopping = stopping
    return app
