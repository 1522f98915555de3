"""Market scans: one finds all it needs, one hears a single voice, one does without sales, two sources disagree, and of
one product the library holds nothing. Brief M106 is closed: it is for whoever wants to see a scan declined."""

from runs.domain.states import Move, StopReason
from takeover.demo.scenario import Act, Scenario, fault, taken

WORKFLOW = "market_scan"


def narrowed(who: str, scope: str, reason: str) -> Act:
    return Act(who, Move.SCOPE_NARROWED, {"scope": scope, "reason": reason})


SCENARIOS = (
    Scenario(
        WORKFLOW,
        "M101",
        {"brief_id": "M101", "client_id": "U-88"},
        StopReason.CONTRACT_MET,
        faults=(
            fault("rate_limited", order_id="M101", where="search", times=1, retry_after=1),
            fault("source_withdrawn", order_id="S-104", times=1),  # found and quoted, and gone when it is checked
        ),
    ),
    Scenario(WORKFLOW, "M102", {"brief_id": "M102"}, StopReason.SOURCES_EXHAUSTED, acts=(taken("support2"),)),
    Scenario(
        WORKFLOW,
        "M103",
        {"brief_id": "M103"},
        StopReason.CONTRACT_MET,
        acts=(
            narrowed("support2", "without_sales", "The client has sales figures of their own."),
            narrowed("support", "without_sales", "Confirmed with the client."),
        ),
    ),
    Scenario(WORKFLOW, "M104", {"brief_id": "M104"}, StopReason.QUESTION_ASKED, by="support2"),
    Scenario(WORKFLOW, "M105", {"brief_id": "M105"}, StopReason.NO_PROGRESS),
)
