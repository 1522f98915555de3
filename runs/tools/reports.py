"""The editorial office's tools: assignments, drafts with their look-up by operation key, reading back, withdrawing."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from runs.domain.effects import names, names_otherwise
from runs.domain.states import StepKind
from runs.tools import receipts
from runs.tools.tool import Call, Result, Service, Tool

SERVICE = "back_office"
SOURCE = "editorial office"
# A receipt counts only for this report, this section where there is one, and exactly this text.
DRAFTS = receipts.Keeper(
    who="The editorial office",
    ledger="the ledger of drafts",
    what="draft",
    number="draft_id",
    state="submit_state",
    subject=("report_id", "section", "digest"),
    done={"accepted": "Written as"},
    undone="withdrawn",
)


def digest_of(sections: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of sections as the office counts it: canonical JSON, keys in order, no spaces, UTF-8."""
    text = json.dumps(list(sections), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read_assignment(service: Service, call: Call, until: float) -> Result:
    report_id, user = call.params["report_id"], call.params["user"]
    _, data = service.request("GET", f"/assignments/{_segment(report_id)}", params={"user": user}, until=until)
    if not names(data, {"report_id": report_id}) or names_otherwise(data, {"user": user}):
        raise receipts.invalid_output("The answer is about another person or another report.")
    allowed = receipts.field(data, "allowed", bool)
    says = f"{user} {'may' if allowed else 'may not'} write report {report_id}"
    return Result(receipts.content(data), says, reference=f"assignments/{report_id}")


def _create_draft(service: Service, call: Call, until: float) -> Result:
    return _write(service, call, until, "POST", "/drafts", call.params)


def _revise_section(service: Service, call: Call, until: float) -> Result:
    path = f"/drafts/{_segment(call.params['draft_id'])}/sections/{_segment(call.params['section'])}"
    return _write(service, call, until, "PUT", path, _without(call.params, "draft_id"))


def _write(service: Service, call: Call, until: float, method: str, path: str, body: Mapping[str, Any]) -> Result:
    headers = {"Idempotency-Key": call.operation_key}
    _, data = service.request(method, path, body=body, headers=headers, until=until)
    return DRAFTS.submitted([dict(data)], call, data)


def _look_up_draft(service: Service, call: Call, until: float) -> Result:
    return DRAFTS.looked_up(service, call, until, "/drafts", {"report": call.params["report_id"]}, DRAFTS.submitted)


def _read_draft(service: Service, call: Call, until: float) -> Result:
    """The draft as it stands, and the office's review of it as it stands."""
    draft_id = call.params["draft_id"]
    _, data = service.request("GET", f"/drafts/{_segment(draft_id)}", until=until)
    if not names(data, {"draft_id": draft_id}):
        raise receipts.invalid_output("The answer is about another draft.")
    if wrong := what_is_no_draft(data):
        raise receipts.invalid_output(wrong)
    blocked = ", ".join(dict.fromkeys(finding["section"] for finding in data["review"]["findings"]))
    review = f"the review blocks {blocked}" if blocked else "the review blocks nothing"
    says = f"Draft {draft_id} reads back in version {data['version']}, {data['state']}; {review}"
    return Result(receipts.content(data), says, reference=f"drafts/{draft_id}/{data['version']}")


def _withdraw_draft(service: Service, call: Call, until: float) -> Result:
    _, data = service.request(
        "POST",
        f"/drafts/{_segment(call.params['draft_id'])}/withdraw",
        body={"report_id": call.params["report_id"]},
        headers={"Idempotency-Key": call.operation_key},
        until=until,
    )
    return DRAFTS.taken_back([dict(data)], call, data)


def _look_up_withdrawal(service: Service, call: Call, until: float) -> Result:
    return DRAFTS.looked_up(service, call, until, "/drafts", {"report": call.params["report_id"]}, DRAFTS.taken_back)


# What a draft looks like


def what_is_no_draft(data: Mapping[str, Any]) -> str:
    """Which parts of an answer are not a draft's, as a sentence; empty where all of them are."""
    fits: dict[str, Callable[[Any], bool]] = {
        "sections": lambda given: isinstance(given, list) and bool(given) and all(map(is_section, given)),
        "digest": lambda given: isinstance(given, str),
        "version": lambda given: type(given) is int,
        "state": lambda given: isinstance(given, str),
        "review": _is_review,
    }
    wrong = [name for name, fit in fits.items() if not fit(data.get(name))]
    return f"The draft that was read back has no usable {' and no usable '.join(wrong)}." if wrong else ""


def is_section(given: object) -> bool:
    """Whether this is `{"name": str, "text": str, "cites": [str, …]}`, and nothing else."""
    return (
        isinstance(given, dict)
        and given.keys() == {"name", "text", "cites"}
        and all(isinstance(given[name], str) for name in ("name", "text"))
        and isinstance(given["cites"], list)
        and all(isinstance(source, str) for source in given["cites"])
    )


def _is_review(given: object) -> bool:
    """Passed means that nothing was found, and only that: a review that says both is none."""
    return (
        isinstance(given, dict)
        and isinstance(given.get("findings"), list)
        and all(map(_is_finding, given["findings"]))
        and given.get("passed") is (not given["findings"])
    )


def _is_finding(given: object) -> bool:
    return isinstance(given, dict) and all(isinstance(given.get(name), str) for name in ("section", "rule", "message"))


def _without(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key != name}


def _segment(value: object) -> str:
    """One segment of a path, whatever stands in it."""
    return quote(str(value), safe="")


READ_ASSIGNMENT = Tool("read_assignment", "Read the assignment", SOURCE, SERVICE, StepKind.READ, _read_assignment)
CREATE_DRAFT = Tool(
    "create_draft", "Create the draft", SOURCE, SERVICE, StepKind.WRITE, _create_draft, look_up="look_up_draft"
)
REVISE_SECTION = Tool(
    "revise_section", "Revise one section", SOURCE, SERVICE, StepKind.WRITE, _revise_section, look_up="look_up_draft"
)
LOOK_UP_DRAFT = Tool("look_up_draft", "Look the draft up", SOURCE, SERVICE, StepKind.LOOK_UP, _look_up_draft)
READ_DRAFT = Tool("read_draft", "Read the draft back", SOURCE, SERVICE, StepKind.READ, _read_draft)
WITHDRAW_DRAFT = Tool(
    "withdraw_draft",
    "Withdraw the draft",
    SOURCE,
    SERVICE,
    StepKind.WRITE,
    _withdraw_draft,
    look_up="look_up_withdrawal",
)
LOOK_UP_WITHDRAWAL = Tool(
    "look_up_withdrawal", "Look the withdrawal up", SOURCE, SERVICE, StepKind.LOOK_UP, _look_up_withdrawal
)
