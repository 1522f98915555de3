"""Reports, and what goes wrong with them. Reports RP-7 and RP-8 are for whoever tries the product."""

from collections.abc import Mapping
from typing import Any

from runs.domain.budget import Dimension
from runs.domain.states import Move, StopReason
from takeover.demo.scenario import Act, Scenario, approved, fault


def report(
    report_id: str, ends: StopReason, faults: tuple[Mapping[str, Any], ...] = (), acts: tuple[Act, ...] = ()
) -> Scenario:
    strikes = tuple({"order_id": report_id, **strike} for strike in faults)
    return Scenario("research_report", report_id, {"report_id": report_id}, ends, strikes, acts)


def granted(dimension: Dimension, by: int) -> Act:
    reason = "The review is right: this section has to be written again."
    return Act("supervisor", Move.BUDGET_EXTENDED, {"dimension": dimension, "by": by, "reason": reason})


READ = approved("Read, and held against the sources.")

SCENARIOS = (
    report("RP-11", StopReason.CONTRACT_MET, (fault("answer_lost", times=1),), (READ,)),
    # One section goes back. In one story a person has granted the second write already.
    report(
        "RP-12", StopReason.LIMIT_EXTERNAL_WRITES, (fault("review_blocks", section="findings", revisions=1),), (READ,)
    ),
    report(
        "RP-15",
        StopReason.CONTRACT_MET,
        (fault("review_blocks", section="gaps", revisions=1),),
        (READ, granted(Dimension.TOOL_ATTEMPTS, 4), granted(Dimension.EXTERNAL_WRITES, 1), READ),
    ),
    # What was found does not suffice, or does not fit together: nothing is written.
    report("RP-13", StopReason.SOURCES_EXHAUSTED),
    report("RP-14", StopReason.QUESTION_ASKED),
)
