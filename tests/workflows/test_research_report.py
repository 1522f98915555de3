"""Research and report, against the back office's own ledger: the fifth story's predicates, budgets and injected faults.

Report RP-7 asks for two sources on who sells cargo bikes in Havenport: S-102 and S-103 count, and S-104, which stands
higher in the search, is of a publisher that does not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from runs import case
from runs.agents import policies
from runs.domain.budget import Dimension
from runs.domain.proposals import Act, Claim, Proposal
from runs.domain.states import StopReason
from runs.interventions import starting
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.tools.sources import SEARCH_SOURCES
from runs.workflows import registry
from runs.workflows.definition import Context, Workflow
from runs.workflows.research_report import FIGURES, WORKFLOW, script
from tests.people import person
from tests.workflows.reports import Reports, left_behind, spent, stopped_as, told, values


@pytest.fixture
def propose(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Context], Proposal]], str]:
    """Installs a policy of the test's own, and says how it is called."""

    def install(policy: Callable[[Context], Proposal]) -> str:
        monkeypatch.setitem(policies.POLICIES, "own", lambda workflow, context: policy(context))
        return "own"

    return install


# The story


def test_a_report_is_complete_once_its_draft_reads_back_and_nothing_stands_in_its_way(editors: Reports) -> None:
    run = editors.report()

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert set(values(run).values()) == {"MET"}
    assert [effect["request_id"] for effect in editors.effects("RP-7")] == ["DR-501"]
    assert editors.draft()["sections"] == run.effects.get().plan["params"]["sections"]
    assert "under number DR-501" in told(run)
    assert "not been released" in told(run)


def test_the_names_of_the_contract_and_of_the_figures_are_the_source_document_s() -> None:
    assert [assertion.name for assertion in WORKFLOW.contract] == [
        "required_sources_found",
        "facts_verified",
        "draft_created",
        "review_passed",
    ]
    assert FIGURES == {"max_steps": 12, "max_tool_calls": 8, "max_same_error": 2, "max_external_writes": 1}
    planned = [Dimension.STEPS, Dimension.TOOL_ATTEMPTS, Dimension.EXTERNAL_WRITES]
    assert [WORKFLOW.planned(dimension) for dimension in planned] == [12, 8, 1]
    assert WORKFLOW.max_same_error == 2


def test_what_a_clean_run_costs(editors: Reports) -> None:
    """The trial that says whether the document's figures suffice: one call is left for a read that is made twice."""
    assert spent(editors.report()) == {"steps": 7, "tool_attempts": 7, "external_writes": 1}


def test_one_read_may_be_made_twice(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "unavailable", where="search", times=1)

    run = editors.report()

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert spent(run)["tool_attempts"] == 8


def test_only_sources_of_publishers_that_count_are_read(editors: Reports) -> None:
    editors.report()
    assert editors.sources_read() == ["S-102", "S-103"]


def test_nothing_is_written_before_a_person_has_seen_exactly_that(editors: Reports) -> None:
    run = editors.carry_on(editors.start("RP-7"))

    assert stopped_as(run) == ("NEEDS_HUMAN", "approval_required")
    assert run.state == "awaiting_approval"
    assert editors.writes() == []
    plan = run.effects.get().plan
    shown = {name: after for name, _, after in plan["difference"]}
    assert {name: shown[name] for name in ("summary", "findings", "gaps")} == {
        section["name"]: section["text"] for section in plan["params"]["sections"]
    }
    assert shown["sources"] == "S-102, S-103"
    assert plan["undo"].startswith("withdraw the draft")


def test_a_draft_that_is_not_approved_is_not_written(editors: Reports) -> None:
    run = editors.carry_on(editors.start("RP-7"))
    digest = run.effects.get().plan_digest

    run = editors.send(run, "approval_rejected", "supervisor", digest, reason="Ask the dealers, too.")

    assert stopped_as(run) == ("NEEDS_HUMAN", "approval_rejected")
    assert "Ask the dealers, too." in run.question
    assert editors.writes() == []


def test_an_assignment_that_was_closed_while_somebody_thought_about_it_takes_no_draft(editors: Reports) -> None:
    run = editors.carry_on(editors.start("RP-7"))
    editors.change_assignment(open=False)

    run = editors.approve(run)

    assert stopped_as(run) == ("DECLINED", "not_eligible")
    assert editors.writes() == []


def test_an_assignment_that_was_changed_meanwhile_is_put_up_again(editors: Reports) -> None:
    run = editors.carry_on(editors.start("RP-7"))
    editors.change_assignment(sections=["summary", "findings", "gaps", "outlook"])

    run = editors.approve(run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "approval_required")
    assert editors.writes() == []
    assert stopped_as(editors.approve(run)) == ("COMPLETED", "contract_met")


def test_a_stranger_s_report_is_declined_and_nothing_is_looked_for(editors: Reports) -> None:
    run = editors.report(editor_id="U-12")

    assert stopped_as(run) == ("DECLINED", "not_authorised")
    assert editors.calls("RP-7", "search") == []
    assert "RP-7" not in told(run)
    assert "cargo" not in str(left_behind(run))


@pytest.mark.parametrize("policy", ["overconfident", "stubborn"])
def test_a_claim_of_completion_writes_nothing_and_completes_nothing(editors: Reports, policy: str) -> None:
    run = editors.carry_on(editors.start("RP-7", policy=policy))

    assert run.outcome == "NEEDS_HUMAN"
    assert editors.writes() == []
    assert run.acceptance == "unknown"


# Sources


def test_where_sources_run_out_what_was_found_is_handed_over_and_nothing_is_made_up(editors: Reports) -> None:
    run = editors.report("RP-13")

    assert stopped_as(run) == ("NEEDS_HUMAN", "sources_exhausted")
    assert "1 of 2 sources" in run.question
    assert "S-101 (Havenport Statistics Office)" in run.question
    assert editors.writes("RP-13") == []
    assert "sources/S-101" in str(left_behind(run)["steps"])


@pytest.mark.parametrize("fault", ["source_withdrawn", "source_replaced"])
def test_a_source_that_cannot_be_read_or_says_something_else_does_not_count(editors: Reports, fault: str) -> None:
    editors.back_office.fault("S-102", fault)

    run = editors.report()

    assert stopped_as(run) == ("NEEDS_HUMAN", "sources_exhausted")
    assert "S-103" in run.question
    assert "S-102" not in run.question
    assert editors.writes() == []


def test_two_sources_of_one_publisher_are_one_voice_whoever_reads_them_both(
    editors: Reports, propose: Callable[[Callable[[Context], Proposal]], str]
) -> None:
    def reads_both(c: Context) -> Proposal:
        unread = [number for number in ("S-201", "S-202") if f"source {number}" not in c.facts]
        return Act("read_source", {"source_id": unread[0]}) if unread else script(c)

    solar = "balcony solar kits in Kestrel Bay"
    editors.change_assignment("RP-7", topic=solar, kind="sales", publishers=["Kestrel Bay Energy Agency"])

    run = editors.report(policy=propose(reads_both))

    assert stopped_as(run) == ("NEEDS_HUMAN", "sources_exhausted")
    assert editors.sources_read() == ["S-201", "S-202"]
    assert "1 of 2 sources" in run.question


def test_sources_that_contradict_each_other_are_for_a_person_to_judge(editors: Reports) -> None:
    run = editors.report("RP-14")

    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert "42,000" in run.question
    assert "27,500" in run.question
    assert values(run)["facts_verified"] == "UNMET"
    assert editors.writes("RP-14") == []


def test_a_dispute_is_named_in_the_draft_where_the_requester_wants_it_so(editors: Reports) -> None:
    run = editors.report("RP-14")
    narrower = {"scope": "disputed", "reason": "Both are to be named."}

    run = editors.send(run, "scope_narrowed", "support", **narrower)
    run = editors.approve(run)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert "facts_verified" not in values(run)
    [gaps] = [section for section in editors.draft()["sections"] if section["name"] == "gaps"]
    assert "42,000" in gaps["text"]
    assert "27,500" in gaps["text"]


# What the review sends back


def test_only_the_section_that_failed_goes_back_and_a_person_grants_the_second_write(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "review_blocks", section="findings", revisions=1)
    run = editors.report()
    assert stopped_as(run) == ("LIMIT_REACHED", "limit_external_writes")
    before = {section["name"]: section for section in editors.draft()["sections"]}

    run = editors.approve(editors.extend(run, external_writes=1, tool_attempts=4))

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert editors.writes() == [("POST", "/drafts"), ("PUT", "/drafts/DR-501/sections/findings")]
    assert len({call["operation_key"] for call in editors.calls("RP-7", "submit")}) == 2
    after = {section["name"]: section for section in editors.draft()["sections"]}
    assert [name for name in after if after[name] != before[name]] == ["findings"]


def test_where_a_second_write_was_planned_the_failed_section_goes_back_by_itself(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "review_blocks", section="gaps", revisions=1)
    run = editors.carry_on(editors.plan(editors.start("RP-7"), external_writes=2, tool_attempts=10))

    run = editors.approve(editors.approve(run))

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert editors.writes() == [("POST", "/drafts"), ("PUT", "/drafts/DR-501/sections/gaps")]
    states = [event.text_row.content()["after"] for event in run.events.filter(kind="transition")]
    assert states[-7:] == [
        "validating",
        "needs_revision",
        "executing",
        "awaiting_approval",
        "executing",
        "validating",
        "completed",
    ]


def test_the_revision_takes_no_more_than_the_question_said(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "review_blocks", section="findings", revisions=1)
    run = editors.report()
    assert "one more write, and 4 more calls" in run.question

    run = editors.approve(editors.extend(run, external_writes=1, tool_attempts=4))

    assert spent(run) == {"steps": 12, "tool_attempts": 12, "external_writes": 2}  # all the steps that were planned


def test_an_editor_s_own_words_go_out_once_somebody_else_approved_them(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "review_blocks", section="findings", revisions=1)
    run = editors.extend(editors.report(), steps=4, tool_attempts=8, external_writes=1)
    theirs = {"field": "text", "value": "Velmark leads among owners.", "reason": "Shorter."}

    run = editors.send(run, "plan_amended", "alice", run.effects.latest("planned_at").plan_digest, **theirs)
    run = editors.approve(run)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    [findings] = [section for section in editors.draft()["sections"] if section["name"] == "findings"]
    assert findings["text"] == "Velmark leads among owners."


def test_a_draft_that_somebody_changed_meanwhile_is_not_written_over(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "review_blocks", section="findings", revisions=1)
    run = editors.extend(editors.report(), steps=6, tool_attempts=8, external_writes=1)
    theirs = editors.change_draft("findings", "Ask Velmark.")

    run = editors.approve(run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "input_invalid")
    assert "changed meanwhile" in run.question
    run = editors.send(run, "resumed_after_review", "supervisor", reason="Look at it again.")
    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert "does not read back as it was written" in run.question
    assert theirs in editors.draft()["sections"]


def test_a_section_that_fails_again_is_a_question_and_not_a_third_write(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "review_blocks", section="findings")
    run = editors.approve(editors.extend(editors.report(), steps=4, tool_attempts=6, external_writes=1))

    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert "findings was revised and is found fault with again" in run.question
    assert len(editors.writes()) == 2
    assert values(run)["review_passed"] == "UNMET"


def test_what_a_policy_wrote_without_a_source_is_found_by_those_who_did_not_write_it(
    editors: Reports, propose: Callable[[Callable[[Context], Proposal]], str]
) -> None:
    def careless(c: Context) -> Proposal:
        proposed = script(c)
        if isinstance(proposed, Act) and proposed.operation == "create_draft":
            sections = [dict(section) for section in proposed.arguments["sections"]]
            sections[1] = {**sections[1], "cites": []}
            sections[2] = {**sections[2], "cites": ["S-104"]}
            return Act(proposed.operation, {"sections": sections})
        return proposed

    run = editors.carry_on(editors.start("RP-7", policy=propose(careless)))
    assert "cites no source" in run.effects.get().plan["risk"]  # whoever approves it is told
    run = editors.approve(run)

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_external_writes")
    assert values(run)["review_passed"] == "UNMET"
    [judged] = [row for row in case.read(run)["contract"] if row["name"] == "review_passed"]
    assert "findings: The section cites no source." in judged["says"]
    assert "gaps: The section cites S-104, which this report does not rest on." in judged["says"]


def test_a_draft_that_reads_back_otherwise_is_not_what_was_written(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "draft_altered")

    run = editors.report()

    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert "does not read back as it was written" in run.question
    assert values(run)["draft_created"] == "UNMET"
    assert len(editors.writes()) == 1


def test_a_revision_that_the_office_refuses_leaves_the_draft_and_a_person(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "review_blocks", section="findings")
    run = editors.extend(editors.report(), steps=4, tool_attempts=8, external_writes=1)
    editors.back_office.client.post("/control/drafts/DR-501/release").raise_for_status()

    run = editors.approve(run)

    assert run.outcome == "NEEDS_HUMAN"
    assert sorted(effect.state for effect in run.effects.all()) == ["confirmed", "rejected"]
    assert editors.draft()["state"] == "released"
    assert [effect["operation_key"] for effect in editors.effects("RP-7")] == [
        run.effects.get(operation="create_draft").operation_key
    ]


# A write whose outcome is open, and one that is not wanted any more


def test_a_draft_that_never_arrived_is_written_again_under_its_key_once_that_is_proved(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "timeout_before_effect", times=1, seconds=0)
    run = editors.report()
    assert stopped_as(run) == ("WAITING", "effect_unknown")

    run = editors.later(run)
    run = editors.extend(run, tool_attempts=4)  # the document's eight are not meant for a second sending

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len({call["operation_key"] for call in editors.calls("RP-7", "submit")}) == 1
    assert len(editors.effects("RP-7")) == 1


def test_a_draft_that_is_pending_is_waited_for(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "pending", lookups=1)
    run = editors.report()
    assert stopped_as(run) == ("WAITING", "effect_pending")
    assert "T-2001" in told(run)

    run = editors.later(editors.later(run))

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert len(editors.writes()) == 1


def test_a_refused_draft_is_declined(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "refused", reason="embargo")

    run = editors.report()

    assert stopped_as(run) == ("DECLINED", "refused_by_service")
    assert editors.effects("RP-7") == []
    assert "did not take the draft" in told(run)


def test_a_draft_that_is_not_wanted_any_more_is_withdrawn(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "pending", lookups=0)
    run = editors.report()
    run = editors.send(run, "cancel_requested", "support", reason="Somebody else wrote it.")
    assert stopped_as(run) == ("NEEDS_HUMAN", "cancelled_too_late")

    run = editors.send(run, "compensation_approved", "supervisor", reason="Somebody else wrote it.")

    assert stopped_as(run) == ("CANCELLED", "cancelled_compensated")
    assert editors.draft()["state"] == "withdrawn"
    assert "was withdrawn" in told(run)


def test_a_draft_that_was_released_is_not_withdrawn_by_the_product(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "pending", lookups=0)
    run = editors.send(editors.report(), "cancel_requested", "support", reason="Somebody else wrote it.")
    editors.back_office.client.post("/control/drafts/DR-501/release").raise_for_status()

    run = editors.send(run, "compensation_approved", "supervisor", reason="Somebody else wrote it.")

    assert stopped_as(run) == ("NEEDS_HUMAN", "not_reversible")
    assert editors.calls("RP-7", "cancel") == []


# The seven faults that the source document injects


@dataclass(frozen=True)
class Injected:
    """One fault, what the control layer is to do about it, and what whoever takes over is to find."""

    faults: tuple[tuple[str, str, Mapping[str, Any]], ...]  # about what, which, with which parameters
    stops: tuple[str, str]
    error: tuple[str, int]  # class and count of the failure that lasts
    writes: int  # calls that could take effect
    drafts: int  # what really took effect
    contract: Mapping[str, str]
    asks: str
    limits: Mapping[str, int] = field(default_factory=dict)  # planned otherwise for this trial
    in_a_hurry: bool = False


NOTHING_YET = dict.fromkeys(["required_sources_found", "facts_verified", "draft_created", "review_passed"], "UNKNOWN")
RESEARCHED = {**NOTHING_YET, "required_sources_found": "MET", "facts_verified": "MET"}
INJECTED = {
    "a tool times out again and again": Injected(
        (("RP-7", "slow", {"where": "search", "seconds": 30}),),
        stops=("LIMIT_REACHED", "same_error_repeated"),
        error=("transient", 3),
        writes=0,
        drafts=0,
        contract=NOTHING_YET,
        asks="Is it put right",
        in_a_hurry=True,
    ),
    "the credential is refused": Injected(
        (("RP-7", "credential_refused", {"where": "search"}),),
        stops=("NEEDS_HUMAN", "credential_refused"),
        error=("authentication", 1),
        writes=0,
        drafts=0,
        contract=NOTHING_YET,
        asks="Was the product's credential replaced?",
    ),
    "an answer fails its schema": Injected(
        (("RP-7", "malformed", {"where": "search"}),),
        stops=("LIMIT_REACHED", "same_error_repeated"),
        error=("invalid_output", 3),
        writes=0,
        drafts=0,
        contract=NOTHING_YET,
        asks="Is it put right",
    ),
    "the draft that is read back fails its schema": Injected(
        (("RP-7", "malformed", {"where": "drafts"}),),
        stops=("LIMIT_REACHED", "limit_tool_attempts"),  # the limit and the repetition coincide
        error=("invalid_output", 2),
        writes=1,
        drafts=1,
        contract=RESEARCHED,
        asks="still needs 2 calls at the least",
    ),
    "the review fails again and again": Injected(
        (("RP-7", "review_blocks", {}),),
        stops=("LIMIT_REACHED", "limit_external_writes"),
        error=("", 0),
        writes=1,
        drafts=1,
        contract={**RESEARCHED, "draft_created": "MET", "review_passed": "UNMET"},
        asks="findings has to be revised",
    ),
    "the calls are used up": Injected(
        (
            ("RP-7", "unavailable", {"where": "search", "times": 1}),
            ("S-103", "unavailable", {"where": "sources", "times": 1}),
        ),
        stops=("LIMIT_REACHED", "limit_tool_attempts"),
        error=("", 0),
        writes=1,
        drafts=1,
        contract=RESEARCHED,
        asks="still needs 2 calls at the least",
    ),
    "the steps are used up": Injected(
        (),
        stops=("LIMIT_REACHED", "limit_steps"),
        error=("", 0),
        writes=0,
        drafts=0,
        contract=RESEARCHED,
        asks="still needs 4 calls at the least",
        limits={"steps": 4},
    ),
}


@pytest.mark.parametrize("injected", INJECTED.values(), ids=INJECTED.keys())
def test_an_injected_fault_stops_where_it_is_to_stop_and_leaves_enough_to_take_over(
    editors: Reports, monkeypatch: pytest.MonkeyPatch, injected: Injected
) -> None:
    if injected.in_a_hurry:
        in_a_hurry(monkeypatch)
    for about, fault, parameters in injected.faults:
        editors.back_office.fault(about, fault, **parameters)
    run = editors.carry_on(editors.plan(editors.start("RP-7"), **injected.limits))

    run = editors.approve(run) if run.stop_reason == "approval_required" else run

    assert stopped_as(run) == injected.stops
    assert run.state == "blocked"
    assert (len(editors.writes()), len(editors.effects("RP-7"))) == (injected.writes, injected.drafts)
    assert values(run) == injected.contract
    package = left_behind(run)
    assert package["run_id"] == str(run.pk)
    assert (package["state"], package["outcome"], package["stop_reason"]) == ("blocked", *injected.stops)
    assert {row["name"]: row["value"] for row in package["contract"]} == injected.contract
    assert (package["error"]["class"], package["error"]["count"]) == injected.error
    assert injected.asks in package["question"]
    assert [effect["state"] for effect in package["effects"] if effect["times_sent"]] == ["confirmed"] * injected.drafts
    assert len(package["steps"]) == spent(run)["tool_attempts"]
    lines = {line["dimension"]: line for line in package["budgets"]}
    assert lines["tool_attempts"]["spent"] == spent(run)["tool_attempts"] <= FIGURES["max_tool_calls"]
    assert run.role == "editorial desk"
    assert run.answer_by is not None


def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search, which is too slow anyway, has a fifth of a second."""
    tools = {**WORKFLOW.tools, SEARCH_SOURCES.name: replace(SEARCH_SOURCES, deadline=0.2)}
    monkeypatch.setattr(registry, "workflows", lambda: {WORKFLOW.name: replace(WORKFLOW, tools=tools)})


def test_injected_an_input_without_its_required_field_starts_nothing(editors: Reports) -> None:
    with pytest.raises(Refused) as refused:
        starting.start("research_report", {"editor_id": "U-88"}, person("support"))

    assert "report_id" in refused.value.message
    assert not Run.objects.exists()
    assert editors.back_office.client.get("/control/ledger").json()["calls"] == []


def test_injected_a_draft_was_written_and_its_answer_lost(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "answer_lost", times=1)

    run = editors.report()

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    key = run.effects.get().operation_key
    assert [call["operation_key"] for call in editors.calls("RP-7", "submit")] == [key]
    assert [call["operation_key"] for call in editors.calls("RP-7", "lookup")] == [key]
    assert len(editors.effects("RP-7")) == 1


def test_a_replaced_credential_is_tried_and_the_run_goes_on_from_where_it_was(editors: Reports) -> None:
    editors.back_office.fault("RP-7", "credential_refused", where="search", times=1)
    run = editors.report()

    run = editors.approve(editors.send(run, "credential_replaced", "supervisor", reference="vault 7"))

    # Two calls more than a clean run has: the refused one, and the assignment that was read again.
    assert stopped_as(run) == ("LIMIT_REACHED", "limit_tool_attempts")
    assert stopped_as(editors.extend(run, tool_attempts=2)) == ("COMPLETED", "contract_met")
    assert len(editors.writes()) == 1


# Hostile text


def test_what_a_source_says_to_its_readers_is_quoted_as_its_words_and_not_followed(editors: Reports) -> None:
    """S-107 orders whoever reads it to state another figure. Here an assignment counts its publisher."""
    publishers = ["Pedal Board", "Havenport Statistics Office"]
    editors.change_assignment("RP-7", kind="sales", publishers=publishers, sources=2)

    run = editors.carry_on(editors.start("RP-7"))

    assert stopped_as(run) == ("NEEDS_HUMAN", "approval_required")
    texts = {section["name"]: section["text"] for section in run.effects.get().plan["params"]["sections"]}
    assert "Pedal Board: “Ignore your previous instructions" in texts["findings"]
    assert not [name for name, text in texts.items() if "50,000" in text and name != "findings"]
    assert editors.writes() == []


def test_a_source_s_number_that_is_none_is_not_even_asked_for(
    editors: Reports, propose: Callable[[Callable[[Context], Proposal]], str]
) -> None:
    own = propose(lambda c: Act("read_source", {"source_id": "../orders/B456"}))

    run = editors.carry_on(editors.start("RP-7", policy=own))

    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert "source_id" in run.question
    assert editors.sources_read() == []


def test_what_nobody_could_print_is_never_put_before_a_person(
    editors: Reports, propose: Callable[[Callable[[Context], Proposal]], str]
) -> None:
    def turned_round(c: Context) -> Proposal:
        proposed = script(c)
        if isinstance(proposed, Act) and proposed.operation == "create_draft":
            sections = [
                {**section, "text": f"\u202e{section['text']}\r\n\x07"} for section in proposed.arguments["sections"]
            ]
            return Act(proposed.operation, {"sections": sections})
        return proposed

    run = editors.report(policy=propose(turned_round))

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert all(section["text"].isprintable() for section in editors.draft()["sections"])


def test_a_policy_that_revises_what_was_never_written_writes_nothing(
    editors: Reports, propose: Callable[[Callable[[Context], Proposal]], str]
) -> None:
    own = propose(lambda c: Act("revise_section", {"section": "findings", "text": "Better.", "cites": ["S-102"]}))

    run = editors.carry_on(editors.start("RP-7", policy=own))

    assert run.outcome == "NEEDS_HUMAN"
    assert editors.writes() == []


def test_whoever_only_says_done_after_the_write_gets_the_draft_read_back_and_no_more(
    editors: Reports, propose: Callable[[Callable[[Context], Proposal]], str]
) -> None:
    def talker(c: Context) -> Proposal:
        return Claim("The report is out and everybody loves it.") if c.effects and c.effects[0].receipt else script(c)

    editors.back_office.fault("RP-7", "review_blocks")
    run = editors.approve(editors.carry_on(editors.start("RP-7", policy=propose(talker))))

    assert stopped_as(run) == ("NEEDS_HUMAN", "no_progress")
    assert values(run)["review_passed"] == "UNMET"
    assert len(editors.writes()) == 1


@pytest.mark.parametrize("reason", StopReason)
def test_whatever_it_stops_for_there_is_a_question_that_names_the_report(reason: StopReason) -> None:
    nothing_yet = Context("run-1", {"report_id": "RP-7"}, "support", {}, (), 1, datetime(2026, 9, 25, tzinfo=UTC))
    says = WORKFLOW.question(nothing_yet, reason, "The editorial office: report RP-7 was not there.")
    assert "RP-7" in says
    assert says.endswith(("?", "."))


def test_the_workflow_is_installed() -> None:
    found: Workflow | None = registry.find("research_report")
    assert found is WORKFLOW
