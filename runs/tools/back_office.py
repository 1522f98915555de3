"""The back office's tools: who may act, orders, policies, and refunds with their look-up by operation key."""

from urllib.parse import quote

from runs.domain.effects import names_otherwise
from runs.domain.errors import Failure
from runs.domain.states import StepKind
from runs.tools.receipts import Keeper, content, field, records
from runs.tools.tool import Call, Result, Service, Tool, ToolFailed

SERVICE = "back_office"


REFUNDS = Keeper(
    who="The refund service",
    ledger="the refund ledger",
    what="refund request",
    number="request_id",
    state="submit_state",
    subject=("order_id",),
    done={"accepted": "Accepted as", "paid": "Accepted as"},
)


def _check_authority(service: Service, call: Call, until: float) -> Result:
    about = {"user": call.params["user"], "order": call.params["order_id"]}
    _, data = service.request("GET", "/authority", params=about, until=until)
    if names_otherwise(data, about):
        raise ToolFailed(Failure("invalid_output", "The answer is about another person or another order."))
    allowed = field(data, "allowed", bool)
    says = f"{call.params['user']} {'may' if allowed else 'may not'} act on order {call.params['order_id']}"
    return Result(content(data), says, reference=f"authority/{call.params['user']}/{call.params['order_id']}")


def _read_order(service: Service, call: Call, until: float) -> Result:
    order_id = call.params["order_id"]
    _, data = service.request("GET", f"/orders/{order_id}", until=until)
    if data.get("order_id") != order_id:
        raise ToolFailed(Failure("invalid_output", "The answer is about another order."))
    says = f"Order {order_id} read, version {data.get('version')}"
    return Result(content(data), says, reference=f"orders/{order_id}")


def _read_policies(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "GET", "/policies", params={"kind": "refund", "order": call.params["order_id"]}, until=until
    )
    policies = field(data, "policies", list)
    if not all(isinstance(policy, dict) for policy in policies):
        raise ToolFailed(Failure("invalid_output", "The answer's policies are not objects."))
    versions = ", ".join(str(policy.get("version")) for policy in policies) or "none"
    says = f"Refund policies in force on {data.get('business_date')}: {versions}"
    return Result(content(data), says, reference=f"policies/refund/{versions}")


def _submit_refund(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST",
        "/refunds",
        body=dict(call.params),
        headers={"Idempotency-Key": call.operation_key},
        until=until,
    )
    return REFUNDS.submitted([dict(data)], call, data)


def _look_up_refund(service: Service, call: Call, until: float) -> Result:
    return REFUNDS.looked_up(service, call, until, "/refunds", {"order": call.params["order_id"]}, REFUNDS.submitted)


def _read_refund(service: Service, call: Call, until: float) -> Result:
    """The refund as its own key finds it now, to judge whether it can still be undone."""
    _, data = service.request("GET", "/refunds", params=dict(call.params), until=until)
    found = records(data)
    says = f"The refund request reads {REFUNDS.state_of(found[0]) if found else 'as unknown to the service'} now"
    return Result(content(data), says, reference=f"refunds/{call.params['operation_key']}")


def _cancel_refund(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST",
        f"/refunds/{quote(str(call.params['request_id']), safe='')}/cancel",
        headers={"Idempotency-Key": call.operation_key},
        until=until,
    )
    return REFUNDS.taken_back([dict(data)], call, data)


def _look_up_cancellation(service: Service, call: Call, until: float) -> Result:
    return REFUNDS.looked_up(service, call, until, "/refunds", {"order": call.params["order_id"]}, REFUNDS.taken_back)


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
