"""The calls that the product makes: on record when they arrive, then struck by a fault or done as they ask."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from takeover.demo.backoffice import inputs, seed
from takeover.demo.backoffice.answers import Answer, Refusal, error, now
from takeover.demo.backoffice.connection import Cut, hang
from takeover.demo.backoffice.faults import CATALOGUE, Act, Kind
from takeover.demo.backoffice.store import (
    ACCEPT,
    Call,
    KeyReused,
    Refund,
    Refused,
    Ruling,
    State,
    Store,
    Strike,
    Submission,
    Unknown,
)

# What a call does once it has been understood, under a fault that changes the work or under none.
Work = Callable[[Strike | None], Answer]
Reader = Callable[[Request, bytes, Store], Work]
About = Callable[[Request, Kind, bytes, Store], tuple[str | None, str | None]]

LONGEST_ADDRESS = 500  # characters on record
STATUS = {State.ACCEPTED: 201, State.PENDING: 202, State.REJECTED: 409, State.CANCELLED: 200}


def endpoint(kind: Kind, read: Reader, about: About | None = None) -> Callable[[Request], Awaitable[Response]]:
    """1. read the body, 2. put the call on record, 3. check credential and input, 4. let a fault strike,
    5. do the work, 6. put the answer on record just before it leaves."""

    async def serve(request: Request) -> Response:
        store: Store = request.app.state.store
        try:
            body = await inputs.body_of(request)
        except ClientDisconnect:
            return Cut()  # it never arrived in full
        order_id, operation_key = (about or subject)(request, kind, body or b"", store)
        call = store.arrived(request.method, address(request, kind), kind, order_id, operation_key)
        try:
            credential = credential_of(request)
            work = of_these_books(store, read(request, inputs.within_limit(body), store))
        except Refusal as refusal:
            return await leave(request, call, refusal.answer)
        strike = store.strike(call, credential)
        answer = work(None) if strike is None else await struck(request, strike, work)
        return Cut() if answer is None else await leave(request, call, answer)

    return serve


def of_these_books(store: Store, work: Work) -> Work:
    """`work`, unless the books were begun anew meanwhile: a call that hangs must not land in the new ones."""
    begun = store.resets
    gone = error(503, "books_begun_anew", "The books were begun anew while this call was under way.")
    return lambda strike: work(strike) if store.resets == begun else gone


async def struck(request: Request, strike: Strike, work: Work) -> Answer | None:
    """The answer under this fault; None when the connection is to be cut instead."""
    fault, values = CATALOGUE[strike.fault], strike.values
    seconds = float(values.get("seconds") or 0)
    if not isinstance(fault.does, Act):
        if fault.takes_effect(values):
            work(None)
        return fault.does(values)
    match fault.does:
        case Act.WORK:
            return work(strike)
        case Act.DELAY:
            # A service does not notice that its caller gave up: what it was asked for lands all the same.
            return work(None) if await hang(request, seconds, even_alone=True) else None
        case Act.CUT:
            if fault.takes_effect(values):
                work(None)
            await hang(request, seconds, even_alone=False)
            return None


async def leave(request: Request, call: Call, answer: Answer) -> Response:
    if await request.is_disconnected():
        return Cut()
    store: Store = request.app.state.store
    store.answered(call, answer.status)
    return answer.response()


def credential_of(request: Request) -> str:
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or credential not in seed.CREDENTIALS:
        raise Refusal(error(401, "credential_refused", "The credential is missing or not accepted."))
    return credential


def address(request: Request, kind: Kind) -> str:
    """The path; of a search, what was searched for as well: that is what its ledger is read for."""
    asked = f"?{request.url.query}" if kind is Kind.SEARCH and request.url.query else ""
    return f"{request.url.path}{asked}"[:LONGEST_ADDRESS]


def subject(request: Request, kind: Kind, body: bytes, store: Store) -> tuple[str | None, str | None]:
    """Whom a call is about, as far as it can be told: also a call that is refused is put on the right record."""
    operation_key: object = None
    order_id: object = request.query_params.get("order") or request.query_params.get("about")
    match kind:
        case Kind.BRIEFS | Kind.SOURCES:
            (order_id,) = request.path_params.values()
        case Kind.ORDERS | Kind.REFUNDS:
            order_id = request.path_params["order_id"]
        case Kind.SUBMIT:
            operation_key = request.headers.get("idempotency-key")
            with suppress(Refusal):
                order_id = inputs.json_object(body).get("order_id")
        case Kind.LOOKUP:
            operation_key = request.query_params.get("operation_key")
            behind = store.behind(str(operation_key))
            order_id = behind.about if behind else order_id
        case Kind.CANCEL:
            operation_key = request.headers.get("idempotency-key")
            refund = store.by_request(request.path_params["request_id"])
            order_id = refund.order_id if refund else None
    return (
        str(order_id) if inputs.is_word(order_id) else None,
        str(operation_key) if inputs.is_key(operation_key) else None,
    )


def authority(request: Request, _body: bytes, store: Store) -> Work:
    user = inputs.word("user", request.query_params.get("user"))
    order_id = inputs.word("order", request.query_params.get("order"))

    def work(_: Strike | None) -> Answer:
        try:
            order = store.order(order_id)
        except Unknown:
            return order_unknown(order_id)
        reason = "desk" if user in seed.DESK else "owner" if user == order.customer else "not_owner"
        allowed = reason != "not_owner"
        return Answer(200, {"user": user, "order": order_id, "allowed": allowed, "reason": reason, "as_of": now()})

    return work


def order(request: Request, _body: bytes, store: Store) -> Work:
    order_id = inputs.word("order_id", request.path_params["order_id"])

    def work(strike: Strike | None) -> Answer:
        try:
            facts = {**asdict(store.order(order_id)), "as_of": now()}
        except Unknown:
            return order_unknown(order_id)
        if strike:  # order_incomplete
            del facts["delivered_on"], facts["opened"]
        return Answer(200, facts)

    return work


def policies(request: Request, _body: bytes, _store: Store) -> Work:
    kind = inputs.word("kind", request.query_params.get("kind"))
    if (order_id := request.query_params.get("order")) is not None:
        inputs.word("order", order_id)

    def work(strike: Strike | None) -> Answer:
        claiming = [policy for policy in seed.POLICIES if policy.claims(seed.BUSINESS_DATE)]
        match strike and strike.fault:
            case "policy_conflict":
                claiming = [*claiming, seed.CONFLICTING_POLICY]
            case "policy_missing":
                claiming = []
            case "policy_changed":
                claiming = [seed.SUCCEEDING_POLICY]
        of_kind = [asdict(policy) for policy in claiming if policy.kind == kind]
        return Answer(200, {"business_date": seed.BUSINESS_DATE, "policies": of_kind, "as_of": now()})

    return work


def submit(request: Request, body: bytes, store: Store) -> Work:
    fields = inputs.json_object(body)
    inputs.only(fields, ["order_id", "amount_minor", "currency"])
    wanted = Submission(
        inputs.key("Idempotency-Key", request.headers.get("idempotency-key")),
        inputs.word("order_id", fields.get("order_id")),
        inputs.amount("amount_minor", fields.get("amount_minor")),
        inputs.currency("currency", fields.get("currency")),
    )

    def work(strike: Strike | None) -> Answer:
        try:
            refund = store.submit(wanted, ruling(strike))
        except KeyReused:
            return key_reused()
        except Unknown:
            return order_unknown(wanted.order_id)
        return submitted(refund, misnamed(receipt(refund), strike))

    return work


def ruling(strike: Strike | None) -> Ruling:
    if strike is None:
        return ACCEPT
    lookups = strike.values.get("lookups")
    match strike.fault:
        case "refused":
            return Ruling(refuse=str(strike.values["reason"]))
        case "pending" | "queued":
            queued = strike.fault == "queued"
            return Ruling(pending=True, queued=queued, lookups=lookups if isinstance(lookups, int) else None)
    return ACCEPT


def submitted(refund: Refund, facts: Mapping[str, object]) -> Answer:
    if refund.state is State.REJECTED:
        return Answer(409, {"code": "refused", "message": "The refund is refused.", **facts})
    if refund.state is State.PENDING and refund.queued:
        return Answer(200, {"status": "queued", "tracking_id": refund.tracking_id})
    return Answer(STATUS[refund.state], facts)


def look_up(request: Request, _body: bytes, store: Store) -> Work:
    operation_key = inputs.key("operation_key", request.query_params.get("operation_key"))
    if (order_id := request.query_params.get("order")) is not None:
        inputs.word("order", order_id)

    def work(strike: Strike | None) -> Answer:
        if strike and strike.fault == "lookup_lags":
            return Answer(200, {"found": False, "records": [], "store": "index", "as_of": now()})
        refund = store.look_up(operation_key)
        records = [misnamed(receipt(refund), strike)] if refund else []
        if refund and strike and strike.fault == "contradictory":
            records.append(receipt(contradiction(refund)))
        return Answer(200, {"found": bool(records), "records": records, "store": "ledger", "as_of": now()})

    return work


def refunds(request: Request, _body: bytes, store: Store) -> Work:
    order_id = inputs.word("order_id", request.path_params["order_id"])

    def work(_: Strike | None) -> Answer:
        try:
            order, standing = store.of_order(order_id)
        except Unknown:
            return order_unknown(order_id)
        given = sum(refund.amount_minor for refund in standing)
        return Answer(
            200,
            {
                "order_id": order_id,
                "currency": order.currency,
                "cost_minor": order.amount_minor,
                "refunded_minor": given,
                "left_minor": max(0, order.amount_minor - given),
                "as_of": now(),
            },
        )

    return work


def cancel(request: Request, _body: bytes, store: Store) -> Work:
    request_id = inputs.word("request_id", request.path_params["request_id"])
    operation_key = inputs.key("Idempotency-Key", request.headers.get("idempotency-key"))

    def work(_: Strike | None) -> Answer:
        try:
            return Answer(200, receipt(store.cancel(request_id, operation_key)))
        except KeyReused:
            return key_reused()
        except Unknown:
            return error(404, "request_unknown", "There is no refund with this number.")
        except Refused as refused:
            return error(
                409,
                "refused",
                "Only an accepted refund that is neither paid nor being paid can be cancelled.",
                submit_state="rejected",
                reason=refused.reason,
                operation_key=operation_key,
            )

    return work


def capabilities(request: Request) -> Response:
    credential_of(request)
    return Answer(
        200,
        {
            "replay_guarantee_hours": seed.REPLAY_GUARANTEE_HOURS,
            "lookup_by_operation_key": True,
            "authoritative_store": "ledger",
            "cancel": True,
        },
    ).response()


def health(_: Request) -> Response:
    return Answer(200, {"status": "ok", "business_date": seed.BUSINESS_DATE}).response()


def order_unknown(order_id: str) -> Answer:
    return error(404, "order_unknown", f"There is no order {order_id}.")


def key_reused() -> Answer:
    return error(422, "key_reused", "This key belongs to another operation.")


def receipt(refund: Refund) -> dict[str, object]:
    """What the books say about a refund. Whether it was paid is another record: this is about acceptance only."""
    facts: dict[str, object] = {
        "submit_state": refund.state,
        "request_id": refund.request_id,
        "tracking_id": refund.tracking_id,
        "order_id": refund.order_id,
        "operation_key": refund.operation_key,
        "amount_minor": refund.amount_minor,
        "currency": refund.currency,
        "reason": refund.reason,
        "as_of": now(),
    }
    return {name: value for name, value in facts.items() if value is not None}


def contradiction(refund: Refund) -> Refund:
    if refund.state is State.REJECTED:
        return replace(refund, state=State.ACCEPTED, request_id="R001", reason=None)
    return replace(refund, state=State.REJECTED, request_id=None, tracking_id=None, reason="duplicate_request")


def misnamed(facts: Mapping[str, object], strike: Strike | None) -> dict[str, object]:
    if strike is None or strike.fault != "other_order":
        return dict(facts)
    other = str(strike.values["other"])
    return {**facts, "order_id": seed.STORY_ORDER if facts["order_id"] == other else other}


routes = [
    Route("/health", health),
    Route("/capabilities", capabilities),
    Route("/authority", endpoint(Kind.AUTHORITY, authority)),
    Route("/orders/{order_id}", endpoint(Kind.ORDERS, order)),
    Route("/orders/{order_id}/refunds", endpoint(Kind.REFUNDS, refunds)),
    Route("/policies", endpoint(Kind.POLICIES, policies)),
    Route("/refunds", endpoint(Kind.SUBMIT, submit), methods=["POST"]),
    Route("/refunds", endpoint(Kind.LOOKUP, look_up)),
    Route("/refunds/{request_id}/cancel", endpoint(Kind.CANCEL, cancel), methods=["POST"]),
]
