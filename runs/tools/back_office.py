"""The back office's tools: who may act, orders, policies, and refunds with their look-up by operation key."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from runs.domain.effects import Answer, names, names_otherwise
from runs.domain.errors import Failure
from runs.domain.states import StepKind
from runs.domain.telling import QUOTABLE
from runs.tools.tool import Call, Result, Service, Tool, ToolFailed

SERVICE = "back_office"


def _field(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ToolFailed(Failure("invalid_output", f"The answer's field {name!r} is missing or of the wrong type."))
    return value


def _content(data: Mapping[str, Any]) -> dict[str, Any]:
    """What was answered, without when: the same facts read twice are no news."""
    return {name: value for name, value in data.items() if name != "as_of"}


def _check_authority(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "GET", "/authority", params={"user": call.params["user"], "order": call.params["order_id"]}, until=until
    )
    allowed = _field(data, "allowed", bool)
    says = f"{call.params['user']} {'may' if allowed else 'may not'} act on order {call.params['order_id']}"
    return Result(_content(data), says, reference=f"authority/{call.params['user']}/{call.params['order_id']}")


def _read_order(service: Service, call: Call, until: float) -> Result:
    order_id = call.params["order_id"]
    _, data = service.request("GET", f"/orders/{order_id}", until=until)
    if data.get("order_id") != order_id:
        raise ToolFailed(Failure("invalid_output", "The answer is about another order."))
    says = f"Order {order_id} read, version {data.get('version')}"
    return Result(_content(data), says, reference=f"orders/{order_id}")


def _read_policies(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "GET", "/policies", params={"kind": "refund", "order": call.params["order_id"]}, until=until
    )
    policies = _field(data, "policies", list)
    if not all(isinstance(policy, dict) for policy in policies):
        raise ToolFailed(Failure("invalid_output", "The answer's policies are not objects."))
    versions = ", ".join(str(policy.get("version")) for policy in policies) or "none"
    says = f"Refund policies in force on {data.get('business_date')}: {versions}"
    return Result(_content(data), says, reference=f"policies/refund/{versions}")


def _submit_refund(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST",
        "/refunds",
        body=dict(call.params),
        headers={"Idempotency-Key": call.operation_key},
        until=until,
    )
    return _what_it_means([data], call, data)


def _look_up_refund(service: Service, call: Call, until: float) -> Result:
    return _looked_up(service, call, until, _what_it_means)


def _read_refund(service: Service, call: Call, until: float) -> Result:
    """The refund as its own key finds it now, to judge whether it can still be undone."""
    _, data = service.request("GET", "/refunds", params=dict(call.params), until=until)
    records = _records(data)
    says = f"The refund request reads {_state(records[0]) if records else 'as unknown to the service'} now"
    return Result(_content(data), says, reference=f"refunds/{call.params['operation_key']}")


def _cancel_refund(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST",
        f"/refunds/{quote(str(call.params['request_id']), safe='')}/cancel",
        headers={"Idempotency-Key": call.operation_key},
        until=until,
    )
    return _what_a_cancellation_means([data], call, data)


def _look_up_cancellation(service: Service, call: Call, until: float) -> Result:
    return _looked_up(service, call, until, _what_a_cancellation_means)


Meaning = Callable[[list[Any], Call, Mapping[str, Any]], Result]


def _looked_up(service: Service, call: Call, until: float, meaning: Meaning) -> Result:
    """What the ledger has under this call's key; `meaning` says what its records mean."""
    _, data = service.request(
        "GET",
        "/refunds",
        params={"operation_key": call.operation_key, "order": call.params["order_id"]},
        until=until,
    )
    if records := _records(data):
        return meaning(records, call, data)
    if data.get("store") == "ledger" and not call.may_still_arrive:
        return Result(data, "The refund ledger has no such request, and it can no longer arrive", answer=Answer.ABSENT)
    where = "its ledger" if data.get("store") == "ledger" else "a copy that may lag behind"
    return Result(data, f"Not found yet in {where}; that is no proof", answer=Answer.NOT_FOUND_YET)


def _records(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    records = _field(data, "records", list)
    if not all(isinstance(record, dict) for record in records):
        raise ToolFailed(Failure("invalid_output", "The answer's records are not objects."))
    return list(records)


def _what_it_means(records: list[Any], call: Call, data: Mapping[str, Any]) -> Result:
    """Records of one key as one answer. A receipt counts only for this order, this key and these parameters."""
    if doubt := _doubt(records, call):
        return Result(data, doubt, answer=Answer.CONTRADICTORY, reason=doubt)
    record, named = records[0], _names_this(records[0], call)
    match _state(record):
        case "pending" | "queued":
            tracking = _identifier(record, "tracking_id")
            says = f"Received, not decided yet ({tracking or 'no tracking reference'})"
            return Result(data, says, tracking, Answer.PENDING, receipt=record)
        case "accepted" | "paid" if named and (number := _identifier(record, "request_id")):
            return Result(data, f"Accepted as {number}", number, Answer.ACCEPTED, receipt=record)
        case "rejected" if named:
            reason = str(record.get("reason") or record.get("message") or "no reason given")
            return Result(data, f"Refused: {reason}", answer=Answer.REJECTED, receipt=record, reason=reason)
        case "cancelled" if named:
            says = "The refund service says that it was cancelled there, and not by this run"
            return Result(data, says, answer=Answer.CONTRADICTORY, reason=says)
    raise ToolFailed(Failure("invalid_output", "The answer is no receipt: its state, its order or its key is missing."))


def _what_a_cancellation_means(records: list[Any], call: Call, data: Mapping[str, Any]) -> Result:
    """A cancellation's key answers with the refund it was for: nothing but "cancelled" says that it took effect."""
    if doubt := _doubt(records, call):
        return Result(data, doubt, answer=Answer.CONTRADICTORY, reason=doubt)
    record = records[0]
    match _state(record):
        case "cancelled" if _names_this(record, call):
            says = f"Refund request {call.params['request_id']} cancelled"
            return Result(data, says, str(call.params["request_id"]), Answer.ACCEPTED, receipt=record)
        case "rejected" if record.get("operation_key") == call.operation_key:
            reason = str(record.get("reason") or record.get("message") or "no reason given")
            return Result(data, f"Refused: {reason}", answer=Answer.REJECTED, receipt=record, reason=reason)
    raise ToolFailed(Failure("invalid_output", "The answer does not say that the refund was cancelled."))


def _state(record: Mapping[str, Any]) -> str:
    return str(record.get("submit_state") or record.get("status"))


def _names_this(record: Mapping[str, Any], call: Call) -> bool:
    return names(record, {"order_id": call.params["order_id"], "operation_key": call.operation_key})


def _doubt(records: list[Any], call: Call) -> str:
    """Why these records of one key are no one answer, as a sentence; empty where they are."""
    if strange := next((says for record in records if (says := _stranger(record, call))), ""):
        return strange
    states = {_state(record) for record in records}
    numbers = {str(record["request_id"]) for record in records if record.get("request_id")}
    for found, what in ((states, "answered"), (numbers, "gave the numbers")):
        if len(found) > 1:
            return f"The refund service {what} {' and '.join(sorted(found))} for one operation key"
    return ""


def _stranger(record: Mapping[str, Any], call: Call) -> str:
    """What a record names that is not this call's; empty when it fits, or names nothing."""
    wanted = {**call.params, "operation_key": call.operation_key}
    name = names_otherwise(record, wanted)
    what = name.removesuffix("_id").removesuffix("_minor").replace("_", " ")
    return f"The receipt names {what} {record[name]}, not {wanted[name]}" if name else ""


def _identifier(record: Mapping[str, Any], name: str) -> str:
    """A number or reference of the service's, which people will read and repeat. Raises ToolFailed for free text."""
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not QUOTABLE.fullmatch(value):
        raise ToolFailed(Failure("invalid_output", f"The answer's {name} is not a reference."))
    return value


CHECK_AUTHORITY = Tool(
    "check_authority", "Check authority", "authority service", SERVICE, StepKind.READ, _check_authority
)
READ_ORDER = Tool("read_order", "Read the order", "order service", SERVICE, StepKind.READ, _read_order)
READ_POLICIES = Tool("read_policies", "Read the policies", "policy service", SERVICE, StepKind.READ, _read_policies)
SUBMIT_REFUND = Tool(
    "submit_refund",
    "Submit refund request",
    "refund service",
    SERVICE,
    StepKind.WRITE,
    _submit_refund,
    look_up="look_up_refund",
)
LOOK_UP_REFUND = Tool(
    "look_up_refund", "Look the refund up", "refund service", SERVICE, StepKind.LOOK_UP, _look_up_refund
)

READ_REFUND = Tool("read_refund", "Read the refund", "refund service", SERVICE, StepKind.READ, _read_refund)
CANCEL_REFUND = Tool(
    "cancel_refund",
    "Cancel refund request",
    "refund service",
    SERVICE,
    StepKind.WRITE,
    _cancel_refund,
    look_up="look_up_cancellation",
)
LOOK_UP_CANCELLATION = Tool(
    "look_up_cancellation",
    "Look the cancellation up",
    "refund service",
    SERVICE,
    StepKind.LOOK_UP,
    _look_up_cancellation,
)
