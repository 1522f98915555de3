"""The research desk's tools: who may have a brief researched, the brief itself, the register of publishers, and the
notebook in which a finding is put down before it is checked."""

from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import quote

from runs.domain.errors import Failure
from runs.domain.states import StepKind
from runs.tools.back_office import SERVICE
from runs.tools.tool import Call, Result, Service, Tool, ToolFailed

MOST_PUBLISHERS, LONGEST = 1_000, 300  # entries of the register; characters of a name
TEXT, YES_NO = str, bool
BRIEF = {"product": TEXT, "city": TEXT, "topic": TEXT, "language": TEXT, "open": YES_NO, "version": int}
PUBLISHER = {"name": TEXT, "house": TEXT, "qualified": YES_NO, "because": TEXT}


def _fields(data: object, wanted: Mapping[str, type]) -> dict[str, Any]:
    """Exactly these fields of an answer. Raises ToolFailed naming the one that is not as it should be."""
    given = data if isinstance(data, dict) else {}
    for name, kind in wanted.items():
        value = given.get(name)
        if type(value) is not kind or (isinstance(value, str) and not 0 < len(value) <= LONGEST):
            raise ToolFailed(Failure("invalid_output", f"The answer's {name} is missing or not as it should be."))
    return {name: given[name] for name in wanted}


def _check_commission(service: Service, call: Call, until: float) -> Result:
    user, brief_id = str(call.params["user"]), str(call.params["brief_id"])
    _, data = service.request("GET", "/research/authority", params={"user": user, "about": brief_id}, until=until)
    content = _fields(data, {"user": TEXT, "brief_id": TEXT, "allowed": YES_NO, "reason": TEXT})
    if (content["user"], content["brief_id"]) != (user, brief_id):
        raise ToolFailed(Failure("invalid_output", "The answer is about another person or another brief."))
    says = f"{user} {'may' if content['allowed'] else 'may not'} have brief {brief_id} researched"
    return Result(content, says, reference=f"research/authority/{user}/{brief_id}")


def _read_brief(service: Service, call: Call, until: float) -> Result:
    brief_id = str(call.params["brief_id"])
    _, data = service.request("GET", f"/briefs/{quote(brief_id, safe='')}", until=until)
    content = _fields(data, {"brief_id": TEXT, **BRIEF})
    if content["brief_id"] != brief_id:
        raise ToolFailed(Failure("invalid_output", "The answer is about another brief."))
    return Result(content, f"Brief {brief_id} read, version {content['version']}", reference=f"briefs/{brief_id}")


def _read_publishers(service: Service, call: Call, until: float) -> Result:
    """The register, and the day on which it holds: what counts as recent is counted from there."""
    _, data = service.request("GET", "/publishers", params={"about": str(call.params["brief_id"])}, until=until)
    today = _fields(data, {"business_date": TEXT})["business_date"]
    rows = data.get("publishers")
    if not isinstance(rows, list) or len(rows) > MOST_PUBLISHERS:
        raise ToolFailed(Failure("invalid_output", f"The register is no list of up to {MOST_PUBLISHERS} publishers."))
    listed = [_fields(row, PUBLISHER) for row in rows]
    try:
        day = date.fromisoformat(today).isoformat()
    except ValueError:
        raise ToolFailed(Failure("invalid_output", "The answer's business_date is not a date.")) from None
    qualified = sum(publisher["qualified"] for publisher in listed)
    says = f"{qualified} of {len(listed)} publishers are qualified on {day}"
    return Result({"business_date": day, "publishers": listed}, says, reference=f"publishers/{day}")


def _note_finding(_: Service, call: Call, _until: float) -> Result:
    """Calls nobody: what was noted becomes a fact of this run, and is no evidence of anything but that it was noted."""
    quotations = call.params["quotations"]
    sources = ", ".join(dict.fromkeys(str(quotation["source_id"]) for quotation in quotations))
    says = f"Noted: {len(quotations)} quoted from {sources or 'nothing'}, not checked yet"
    return Result({"quotations": quotations}, says, reference="finding")


CHECK_COMMISSION = Tool(
    "check_commission", "Check the commission", "authority service", SERVICE, StepKind.READ, _check_commission
)
READ_BRIEF = Tool("read_brief", "Read the brief", "research desk", SERVICE, StepKind.READ, _read_brief)
READ_PUBLISHERS = Tool(
    "read_publishers", "Read the register of publishers", "research desk", SERVICE, StepKind.READ, _read_publishers
)
NOTE_FINDING = Tool("note_finding", "Note the finding", "this run's notes", SERVICE, StepKind.READ, _note_finding)
