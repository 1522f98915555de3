"""The controls: switch faults on and off, change orders, settle refunds, and read what really happened."""

from sqlite3 import Row

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from takeover.demo.backoffice import inputs, seed
from takeover.demo.backoffice.answers import Answer, Refusal, error, invalid
from takeover.demo.backoffice.faults import read_new
from takeover.demo.backoffice.store import Decision, Refund, Refused, State, Store, Unknown

READ_ORDER_FIELD = {
    "customer": inputs.word,
    "item": inputs.text,
    "delivered_on": inputs.day,
    "opened": inputs.yes_no,
    "amount_minor": inputs.amount,
    "currency": inputs.currency,
}
SETTLED = (State.ACCEPTED, State.REJECTED)


async def asked(request: Request) -> dict[str, object]:
    return inputs.json_object(inputs.within_limit(await inputs.body_of(request)))


async def switch_on(request: Request) -> Response:
    fault = read_new(await asked(request))
    return Answer(201, {"id": books(request).switch_on(fault)}).response()


async def faults(request: Request) -> Response:
    return Answer(200, {"faults": books(request).faults()}).response()


async def switch_off(request: Request) -> Response:
    inputs.only(request.query_params, ["id", "order_id"])
    order_id, fault_id = request.query_params.get("order_id"), request.query_params.get("id")
    if order_id is not None:
        inputs.word("order_id", order_id)
    removed = books(request).switch_off(fault_id=fault_number(fault_id), order_id=order_id)
    if fault_id is not None and not removed:
        return error(404, "fault_unknown", "There is no such fault; it may have used up its strikes.").response()
    return Answer(200, {"removed": removed}).response()


def fault_number(value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 16):
        raise invalid("id", "Must be the number of a fault.")
    return int(value)


async def reset(request: Request) -> Response:
    books(request).reset()
    return Answer(200, {"orders": len(seed.ORDERS)}).response()


async def change_order(request: Request) -> Response:
    order_id = inputs.word("order_id", request.path_params["order_id"])
    fields = await asked(request)
    inputs.only(fields, READ_ORDER_FIELD)
    values = {name: READ_ORDER_FIELD[name](name, value) for name, value in fields.items()}
    return Answer(200, vars(books(request).change_order(order_id, values))).response()


async def settle(request: Request) -> Response:
    fields = await asked(request)
    inputs.only(fields, ["state", "reason"])
    state = State(inputs.one_of("state", fields.get("state"), SETTLED))
    reason = inputs.word("reason", fields.get("reason", "not_refundable"))
    operation_key = inputs.key("operation_key", request.path_params["operation_key"])
    return Answer(200, effect(settled(books(request), operation_key, state, reason))).response()


def settled(store: Store, operation_key: str, state: State, reason: str) -> Refund:
    try:
        refund = store.settle(operation_key, state, reason)
        store.decided(Decision(operation_key, refund.order_id, refund.request_id or refund.reason))
        return refund
    except Unknown:
        raise Refusal(error(404, "operation_unknown", "No refund was submitted under this key.")) from None
    except Refused as refused:
        raise Refusal(error(409, "refused", "Only a pending refund can be decided.", reason=refused.reason)) from None


async def ledger(request: Request) -> Response:
    inputs.only(request.query_params, ["order_id"])
    if (order_id := request.query_params.get("order_id")) is not None:
        inputs.word("order_id", order_id)
    store = books(request)
    return Answer(
        200,
        {
            "calls": [call(row) for row in store.calls(order_id)],
            "effects": [
                *(effect(refund) for refund in store.effects(order_id)),
                *(line for service in store.services for line in service.effects(order_id)),
            ],
        },
    ).response()


def call(row: Row) -> dict[str, object]:
    shown = ("at", "method", "path", "kind", "order_id", "operation_key", "fault", "status")
    return {name: row[name] for name in shown}


def effect(refund: Refund) -> dict[str, object]:
    return {
        "operation_key": refund.operation_key,
        "order_id": refund.order_id,
        "request_id": refund.request_id,
        "amount_minor": refund.amount_minor,
        "state": refund.state,
        "at": refund.made_at,
    }


def books(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


routes = [
    Route("/control/faults", switch_on, methods=["POST"]),
    Route("/control/faults", faults),
    Route("/control/faults", switch_off, methods=["DELETE"]),
    Route("/control/reset", reset, methods=["POST"]),
    Route("/control/orders/{order_id}", change_order, methods=["PUT"]),
    Route("/control/refunds/{operation_key:path}", settle, methods=["PUT"]),
    Route("/control/ledger", ledger),
]
