"""The controls of the editorial office: change assignments, decide pending writes, let a draft out of the house."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from takeover.demo.backoffice import inputs
from takeover.demo.backoffice.answers import Answer, Refusal, error, invalid
from takeover.demo.backoffice.control import asked
from takeover.demo.backoffice.draft_calls import books, draft_unknown, receipt
from takeover.demo.backoffice.library import KINDS
from takeover.demo.backoffice.store import Refused, State, Unknown


def several(read: Callable[[str, object], str]) -> Callable[[str, object], tuple[str, ...]]:
    def read_all(field: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not 1 <= len(value) <= MOST:
            raise invalid(field, f"Must be a list of 1 to {MOST}.")
        return tuple(read(field, one) for one in value)

    return read_all


MOST = 12  # of sections, and of publishers
READ_FIELD: dict[str, Callable[[str, object], object]] = {
    "question": inputs.text,
    "topic": inputs.text,
    "kind": lambda field, value: inputs.one_of(field, value, KINDS),
    "publishers": several(inputs.text),
    "sources": lambda field, value: inputs.whole(field, value, 1, MOST),
    "sections": several(inputs.word),
    "editor": inputs.word,
    "open": inputs.yes_no,
}
DECIDED = (State.ACCEPTED, State.REJECTED)


async def change_assignment(request: Request) -> Response:
    report_id = inputs.word("report_id", request.path_params["report_id"])
    fields = await asked(request)
    inputs.only(fields, READ_FIELD)
    values = {name: READ_FIELD[name](name, value) for name, value in fields.items()}
    return Answer(200, vars(books(request).change_assignment(report_id, values))).response()


async def decide(request: Request) -> Response:
    operation_key = inputs.key("operation_key", request.path_params["operation_key"])
    fields = await asked(request)
    inputs.only(fields, ["state", "reason"])
    state = State(inputs.one_of("state", fields.get("state"), DECIDED))
    reason = inputs.word("reason", fields.get("reason", "not_wanted"))
    try:
        return Answer(200, receipt(books(request).settle(operation_key, state, reason))).response()
    except Unknown:
        raise Refusal(error(404, "operation_unknown", "Nothing was written under this key.")) from None
    except Refused as refused:
        raise Refusal(error(409, "refused", "Only what is pending can be decided.", reason=refused.reason)) from None


async def release(request: Request) -> Response:
    draft_id = inputs.word("draft_id", request.path_params["draft_id"])
    try:
        return Answer(200, {"draft_id": draft_id, "state": books(request).release(draft_id).state}).response()
    except Unknown:
        raise Refusal(draft_unknown(draft_id)) from None
    except Refused as refused:
        message = "Only a draft that stands can be released."
        raise Refusal(error(409, "refused", message, reason=refused.reason)) from None


routes = [
    Route("/control/assignments/{report_id}", change_assignment, methods=["PUT"]),
    Route("/control/drafts/{draft_id}/release", release, methods=["POST"]),
    Route("/control/draft-writes/{operation_key:path}", decide, methods=["PUT"]),
]
