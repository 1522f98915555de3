"""A report under any faults, with anybody doing anything that is offered: no wrong completion, no second effect, and
always somebody's.

Hypothesis draws the faults of one report, and what happens next: a person sends an event, time passes, the office makes
up its mind, or the faults are over. After each step the ten invariants of `tests.faults.invariants` are held against
the run's rows and the office's own books. FUZZ_EXAMPLES=500 goes on for longer.
"""

import os
from collections.abc import Mapping
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runs.domain.budget import Dimension
from runs.domain.states import FINAL, Move, State
from runs.interventions.refusals import Refused
from runs.models import Run
from tests.faults.invariants import violations
from tests.workflows.anybody import anything, somebody_acts
from tests.workflows.reports import Reports, values

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "8"))
ROUNDS = 12  # what happens to one report at the most
NUMBERS = count(1)
READS = ("assignments", "search", "drafts")

Fault = tuple[str, str, Mapping[str, Any]]  # about what ("" is the report), which, with which parameters

# Of each kind one, or none.
FAULTS: dict[str, list[Fault]] = {
    "of a read": [
        *[
            ("", name, {"where": where, "times": 1})
            for name in ("unavailable", "malformed", "empty")
            for where in READS
        ],
        ("", "credential_refused", {"times": 1}),
        ("", "access_denied", {"where": "drafts", "times": 1}),
        ("S-102", "source_withdrawn", {}),
        ("S-103", "source_replaced", {"times": 1}),
    ],
    "of a write": [
        *[("", "unavailable", {"where": "submit", "times": 1, "after_effect": landed}) for landed in (True, False)],
        *[("", name, {"where": "submit", "times": 1}) for name in ("malformed", "rate_limited", "error_500")],
        *[("", "answer_lost", {"times": times}) for times in (1, 2)],
        ("", "timeout_before_effect", {"times": 1, "seconds": 0}),
        *[("", name, {"lookups": lookups}) for name in ("pending", "queued") for lookups in (0, 1)],
        ("", "pending", {}),
        ("", "refused", {"times": 1}),
    ],
    "of a look-up": [
        ("", "lookup_lags", {"lookups": 1}),
        ("", "lookup_down", {"times": 1}),
        ("", "contradictory", {"times": 1}),
        ("", "other_order", {"times": 1}),
        ("", "answer_lost", {"where": "cancel", "times": 1}),
    ],
    "of the draft": [
        ("", "draft_altered", {"times": 1}),
        *[("", "review_blocks", {"section": name, "revisions": 1}) for name in ("findings", "gaps", "summary")],
        ("", "review_blocks", {}),
    ],
}
POLICIES = st.sampled_from(["scripted", "scripted", "scripted", "overconfident", "stubborn"])


OFTEN = {Move.APPROVAL_GRANTED: 12, Move.BUDGET_EXTENDED: 8, Move.CANCEL_REQUESTED: 1, Move.PAUSED: 1}
KNOWN = {
    "dimension": st.sampled_from([Dimension.TOOL_ATTEMPTS, Dimension.EXTERNAL_WRITES, Dimension.STEPS]),
    "by": st.sampled_from([1, 4, 8]),
    "scope": st.just("disputed"),
    "field": st.just("editor_id"),
    "value": st.just("U-88"),
}


def the_office_decides(editors: Reports, run: Run, draw: Any) -> None:
    office = editors.back_office.client
    for effect in editors.effects(run.input["report_id"]):
        if effect["state"] == "pending":
            state = draw(st.sampled_from(["accepted", "rejected"]), "decides")
            office.put(f"/control/draft-writes/{effect['operation_key']}", json={"state": state})
        elif draw(st.integers(0, 3), "releases") == 0:
            office.post(f"/control/drafts/{effect['request_id']}/release")


@anything(EXAMPLES)
@given(data=st.data())
def test_whatever_happens_a_report_is_never_wrongly_complete_never_written_twice_and_always_somebodys(
    editors: Reports, data: st.DataObject
) -> None:
    draw, report_id = data.draw, f"K{next(NUMBERS):05}"
    editors.back_office.reset()
    editors.change_assignment(report_id)
    for kind, faults in FAULTS.items():
        if struck := draw(st.sampled_from([None, *faults]), kind):
            about, fault, parameters = struck
            editors.back_office.fault(about or report_id, fault, **parameters)
    try:
        run = editors.run(report_id, policy=draw(POLICIES, "policy"))
    except Refused:
        return  # nobody could be asked at the door whether the report exists
    for _ in range(ROUNDS):
        the_laws_hold(editors, run)
        if run.state in FINAL:
            break
        match draw(
            st.sampled_from(["somebody acts"] * 6 + ["time passes", "the office decides", "faults end"]), "then"
        ):
            case "somebody acts":
                somebody_acts(run, draw, OFTEN, KNOWN)
            case "the office decides":
                the_office_decides(editors, run, draw)
            case "faults end":
                editors.back_office.clear(report_id)
        run = editors.later(run)
    the_laws_hold(editors, run)


def the_laws_hold(editors: Reports, run: Run) -> None:
    report_id = run.input["report_id"]
    assert violations([run.pk], editors.back_office.ledger(report_id)) == []
    if run.state != State.COMPLETED:
        return
    assert set(values(run).values()) == {"MET"}
    editors.back_office.clear(report_id)  # what is read now is the truth
    created, *revised = [effect for effect in editors.effects(report_id) if effect["state"] != "cancelled"]
    draft = editors.draft(created["request_id"])
    assert draft["review"]["passed"]
    wrote = {
        section["name"]: section for section in run.effects.get(operation="create_draft").plan["params"]["sections"]
    }
    for effect in run.effects.filter(operation="revise_section", state="confirmed").order_by("sent_at"):
        params = effect.plan["params"]
        wrote[params["section"]] = {"name": params["section"], "text": params["text"], "cites": params["cites"]}
    assert draft["sections"] == list(wrote.values())
    assert len(revised) == draft["version"] - 1
