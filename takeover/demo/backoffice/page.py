"""The small page: what is on the books, and forms to switch faults on and off. No script, nothing inline."""

import json
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from takeover.demo.backoffice import booking_calls, booking_control, inputs, payment_calls, seed
from takeover.demo.backoffice.answers import Refusal, invalid
from takeover.demo.backoffice.control import books, fault_number, settled
from takeover.demo.backoffice.faults import CATALOGUE, read_new
from takeover.demo.backoffice.payments import Payments
from takeover.demo.backoffice.store import State, Store
from takeover.demo.backoffice.tables import button, cell, code, moment, money, table

HERE = Path(__file__).parent
CALLS_SHOWN = 50
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Typed as JSON in the form; everything else is text as it stands.
TYPED = {"times", "seconds", "lookups", "retry_after", "after_effect", "revisions"}

PARAMETERS = {parameter.name: parameter for fault in CATALOGUE.values() for parameter in fault.parameters}


async def front(request: Request) -> Response:
    return shown(request)


async def styles(_: Request) -> Response:
    return Response((HERE / "page.css").read_bytes(), headers=HEADERS, media_type="text/css")


async def icon(_: Request) -> Response:
    return Response((HERE / "icon.svg").read_bytes(), headers=HEADERS, media_type="image/svg+xml")


async def switch_on(request: Request) -> Response:
    try:
        filled = {name: typed(name, value.strip()) for name, value in (await form(request)).items() if value.strip()}
        books(request).switch_on(read_new(filled))
    except Refusal as refusal:
        return shown(request, refusal)
    return back("faults")


async def switch_off(request: Request) -> Response:
    try:
        number = fault_number((await form(request)).get("id", ""))
    except Refusal as refusal:
        return shown(request, refusal)
    books(request).switch_off(fault_id=number)  # one that is already gone is off as well
    return back("faults")


async def settle(request: Request) -> Response:
    try:
        filled = await form(request)
        state = State(inputs.one_of("state", filled.get("state"), (State.ACCEPTED, State.REJECTED)))
        settled(books(request), inputs.key("operation_key", filled.get("operation_key")), state, "not_refundable")
    except Refusal as refusal:
        return shown(request, refusal)
    return back("effects")


async def pay(request: Request) -> Response:
    try:
        filled = await form(request)
        payment_calls.settled(payment_calls.books(request), filled.get("request_id"), filled.get("state"))
    except Refusal as refusal:
        return shown(request, refusal)
    return back("effects")


async def booking(request: Request) -> Response:
    try:
        booking_control.filled(booking_calls.books(request), await form(request))
    except Refusal as refusal:
        return shown(request, refusal)
    return back("bookings")


async def form(request: Request) -> dict[str, str]:
    body = inputs.within_limit(await inputs.body_of(request))
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=50))
    except ValueError:
        raise invalid("body", "The form cannot be read.") from None


def typed(name: str, value: str) -> object:
    if name not in TYPED:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # refused by whoever reads it, with the field's name


def back(part: str) -> Response:
    return RedirectResponse(f"/#{part}", 303)


def shown(request: Request, refusal: Refusal | None = None) -> Response:
    store, bookings, payments = books(request), booking_calls.books(request), payment_calls.books(request)
    html = PAGE.substitute(
        day=seed.BUSINESS_DATE,
        problem=problem(refusal) if refusal else "",
        faults=faults(store),
        choices="".join(
            f'<option value="{fault.name}">{fault.name}: {escape(fault.meaning)}</option>'
            for fault in CATALOGUE.values()
        ),
        parameters="".join(field(name) for name in PARAMETERS),
        effects=effects(store, payments),
        calls=calls(store),
        shown=CALLS_SHOWN,
        orders=orders(store),
        bookings=booking_control.bookings_table(bookings),
        events=booking_control.events_table(bookings),
    )
    return HTMLResponse(html, refusal.answer.status if refusal else 200, HEADERS)


def problem(refusal: Refusal) -> str:
    said = refusal.said
    field_name = f"<code>{cell(said['field'])}</code>: " if "field" in said else ""
    return f'<p class="problem" role="alert">{field_name}{cell(said["message"])} Nothing was changed.</p>'


def field(name: str) -> str:
    users = ", ".join(
        fault.name for fault in CATALOGUE.values() if name in {parameter.name for parameter in fault.parameters}
    )
    hint = users if len(users) < 60 else "most faults"
    return f'<label>{name} <small>{escape(hint)}</small><input name="{name}" autocomplete="off"></label>'


def faults(store: Store) -> str:
    return table(
        "Faults that are switched on",
        ("Fault", "Order or event", "Action", "Key", "Strikes left", "Struck", "Parameters"),
        (
            (
                cell(fault["fault"]),
                cell(fault["order_id"], "all"),
                button("/switch-off", "Switch off", id=fault["id"]),
                code(fault["operation_key"], "all"),
                cell(fault["times"], "no end"),
                cell(fault["struck"]),
                cell(
                    ", ".join(
                        f"{name} {fault[name]}" for name in PARAMETERS if fault.get(name) is not None and name in fault
                    ),
                    "none",
                ),
            )
            for fault in store.faults()
        ),
        "No fault is on: every call is answered truthfully and at once.",
    )


def effects(store: Store, payments: Payments) -> str:
    return table(
        "Refunds that exist",
        ("Order", "Amount", "State", "Payment", "Receipt", "Action", "Key", "Since"),
        (
            (
                cell(refund.order_id),
                money(refund.amount_minor, refund.currency),
                cell(refund.state),
                cell(paid.state if paid else None, "none"),
                cell(refund.request_id or refund.tracking_id, "none"),
                "".join(
                    button("/settle", label, operation_key=refund.operation_key, state=state)
                    for label, state in DECISIONS.get(refund.state, ())
                )
                + (payment_calls.buttons(paid) if paid else ""),
                code(refund.operation_key),
                moment(refund.made_at),
            )
            for refund in reversed(store.effects())
            for paid in [payments.of(refund.request_id) if refund.request_id else None]
        ),
        "No refund exists.",
    )


DECISIONS = {
    State.PENDING: (("Accept", State.ACCEPTED), ("Reject", State.REJECTED)),
}


def calls(store: Store) -> str:
    return table(
        f"The last {CALLS_SHOWN} calls",
        ("At", "Call", "Path", "Order or event", "Key", "Fault", "Answer"),
        (
            (
                moment(row["at"]),
                cell(row["kind"]),
                code(f"{row['method']} {row['path']}"),
                cell(row["order_id"], "unknown"),
                code(row["operation_key"]),
                cell(row["fault"]),
                cell(row["status"]) if row["status"] else '<span class="bad">none left</span>',
            )
            for row in store.latest_calls(CALLS_SHOWN)
        ),
        "Nobody has called yet.",
    )


def orders(store: Store) -> str:
    return table(
        "Orders",
        ("Order", "Customer", "Item", "Delivered", "Opened", "Amount", "Version"),
        (
            (
                cell(order.order_id),
                cell(order.customer),
                cell(order.item),
                cell(order.delivered_on),
                "opened" if order.opened else "unopened",
                money(order.amount_minor, order.currency),
                cell(order.version),
            )
            for order in store.orders()
        ),
        "There are no orders.",
    )


PAGE = Template((HERE / "page.html").read_text(encoding="utf-8"))

routes = [
    Route("/", front),
    Route("/page.css", styles),
    Route("/icon.svg", icon),
    Route("/switch-on", switch_on, methods=["POST"]),
    Route("/switch-off", switch_off, methods=["POST"]),
    Route("/settle", settle, methods=["POST"]),
    Route("/pay", pay, methods=["POST"]),
    Route("/booking", booking, methods=["POST"]),
]
