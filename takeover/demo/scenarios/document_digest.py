"""Seven digests of the papers that `papers.py` lays out."""

from typing import Any

from runs.domain.states import StopReason
from takeover.demo.scenario import Act, Scenario, approved

RAIN, WELLS = "originals/rainfall-2025.md", "originals/wells-2025.md"


def digest(name: str, ends: StopReason, acts: tuple[Act, ...] = (), by: str = "support", **given: Any) -> Scenario:
    asked = {"digest": name, "first": RAIN, "second": WELLS, **given}
    return Scenario("document_digest", name, asked, ends, acts=acts, by=by)


SCENARIOS = (
    digest("water-2025.md", StopReason.CONTRACT_MET),
    digest("水位.md", StopReason.CONTRACT_MET, first=WELLS, second="originals/水位说明.md", by="support2"),
    digest(
        "for-the-press.md",
        StopReason.CONTRACT_MET,
        (approved("Read, and fit to leave the house."),),
        hand_over=True,
    ),
    digest("for-the-council.md", StopReason.APPROVAL_REQUIRED, hand_over=True),
    # Nobody has put it there; it was saved in another encoding; the name is taken by somebody's own.
    digest("harvest.md", StopReason.NOT_FOUND, second="originals/harvest-2025.md"),
    digest("walk.md", StopReason.INPUT_INVALID, first="originals/field-walk.md", by="support2"),
    digest("by-hand.md", StopReason.NOT_ELIGIBLE),
)
