"""The back office's tools: who may act, orders, policies, and refunds with their look-up by operation key."""

import re
from collections.abc import Mapping
from typing import Any

from runs.domain.effects import Answer, names, names_otherwise
from runs.domain.errors import Failure
from runs.domain.states import StepKind
from runs.tools.tool import Call, Result, Service, Tool, ToolFailed

SERVICE = "back_office"
IDENTIFIER = re.compile(r"[\w.:-]{1,64}", re.ASCII)


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
    _, data = service.request(
        "GET",
        "/refunds",
        params={"operation_key": call.operation_key, "order": call.params["order_id"]},
        until=until,
    )
    records = _field(data, "records", list)
    if not all(isinstance(record, dict) for record in records):
        raise ToolFailed(Failure("invalid_output", "The answer's records are not objects."))
    if records:
        return _what_it_means(records, call, data)
    if data.get("store") == "ledger" and not call.may_still_arrive:
        return Result(data, "The refund ledger has no such request, and it can no longer arrive", answer=Answer.ABSENT)
    where = "its ledger" if data.get("store") == "ledger" else "a copy that may lag behind"
    return Result(data, f"Not found yet in {where}; that is no proof", answer=Answer.NOT_FOUND_YET)


def _what_it_means(records: list[Any], call: Call, data: Mapping[str, Any]) -> Result:
    """Records of one key as one answer. A receipt counts only for this order, this key and these parameters."""
    for record in records:
        if doubt := _stranger(record, call):
            return Result(data, doubt, answer=Answer.CONTRADICTORY, reason=doubt)
    states = {str(record.get("submit_state") or record.get("status")) for record in records}
    numbers = {str(record["request_id"]) for record in records if record.get("request_id")}
    for found, what in ((states, "answered"), (numbers, "gave the numbers")):
        if len(found) > 1:
            says = f"The refund service {what} {' and '.join(sorted(found))} for one operation key"
            return Result(data, says, answer=Answer.CONTRADICTORY, reason=says)
    record, state = records[0], states.pop()
    named = names(record, {"order_id": call.params["order_id"], "operation_key": call.operation_key})
    match state:
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
    if not isinstance(value, str) or not IDENTIFIER.fullmatch(value):
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
