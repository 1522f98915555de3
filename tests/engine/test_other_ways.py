"""A policy that chooses what it reads: a way that fails for good is closed, and the run goes on where there is another.

The sources are functions in this process; the engine, the rules and the record are the real ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import case
from runs.agents.policies import MODELS, POLICIES
from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Evidence, Judgement, met, unknown, unmet
from runs.domain.effects import Answer
from runs.domain.errors import Failure
from runs.domain.proposals import Act, Ask, Claim, Consult, Exhausted, Proposal, Wait
from runs.domain.states import StepKind
from runs.engine.advance import advance
from runs.models import Run
from runs.tools.tool import Call, Result, Tool, ToolFailed
from runs.workflows.definition import Context, Reading, Workflow, Writing
from runs.workflows.refund_request import WORKFLOW as REFUND
from tests.engine.conftest import Engine
from tests.engine.library import SHELVES, Library, on, workflow


def one_after_the_other(c: Context) -> Proposal:
    """Each shelf that is open and was not searched; then the claim, or no source left."""
    for shelf in SHELVES:
        if f"shelf {shelf}" not in c.facts and not c.is_closed("search", {"shelf": shelf}) and shelf not in c.closed:
            return Act("search", {"shelf": shelf})
    return Claim("Found.") if any(on(c, shelf) for shelf in SHELVES) else Exhausted("Where else can one look?")


GONE = Failure("not_found", "No such shelf.")
BUSY = Failure("server_error", "Busy.")
ODD = Failure("invalid_output", "No shelf that anybody could read.")


def test_what_is_definitely_not_there_closes_that_way_and_the_run_goes_on(
    made: Callable[..., Run], library: Library
) -> None:
    library.answers = {"north": [GONE], "south": ["Emma"], "east": []}
    run = made(one_after_the_other)

    assert (run.outcome, library.asked) == ("COMPLETED", ["north", "south", "east", "check Emma"])


def test_a_closed_way_that_is_proposed_once_more_stops_the_run_for_what_it_failed_of(
    made: Callable[..., Run], library: Library
) -> None:
    library.answers = {"north": [GONE, GONE]}
    run = made(lambda c: Act("search", {"shelf": "north"}))

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "not_found")
    assert library.asked == ["north"]


def test_an_operation_s_own_attempts_used_up_close_that_operation_only(
    made: Callable[..., Run], library: Library
) -> None:
    # Not the same error each time: that has a limit of its own, which stops the run.
    library.answers = {"north": [BUSY, ODD, BUSY]}

    def script(c: Context) -> Proposal:
        return Ask("Where else?") if c.is_closed("search", {"shelf": "south"}) else Act("search", {"shelf": "north"})

    run = made(script, retries=3, retry_after=timedelta())

    assert library.asked == ["north"] * 3
    assert (run.stop_reason, run.question.startswith("Where else?")) == ("question_asked", True)


def test_the_same_call_with_the_same_result_is_no_progress_and_closes_that_way(
    made: Callable[..., Run], library: Library
) -> None:
    library.answers = {"north": []}
    run = made(lambda c: Act("search", {"shelf": "north"}))

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "no_progress")
    assert library.asked == ["north", "north"]


def test_after_a_repetition_one_way_that_was_not_tried_is_allowed(made: Callable[..., Run], library: Library) -> None:
    library.answers = {"north": [], "south": ["Emma"]}

    def script(c: Context) -> Proposal:
        if on(c, "south"):
            return Claim("Found.")
        return Act("search", {"shelf": "south" if c.is_closed("search", {"shelf": "north"}) else "north"})

    run = made(script)

    assert (run.outcome, library.asked) == ("COMPLETED", ["north", "north", "south", "check Emma"])


def test_a_kind_of_attempt_that_brings_nothing_is_closed_and_all_closed_are_no_progress(
    made: Callable[..., Run], library: Library
) -> None:
    def script(c: Context) -> Proposal:
        open_ones = [shelf for shelf in SHELVES[:2] if shelf not in c.closed]
        return Act("search", {"shelf": open_ones[0], "again": len(library.asked)})

    run = made(script, fruitless={"north": 2, "south": 1})

    assert library.asked == ["north", "north", "south"]
    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "no_progress")
    assert run.progress["fruitless"] == {"north": 2, "south": 1}


def test_a_claim_is_checked_by_a_read_of_its_own_before_it_counts(made: Callable[..., Run], library: Library) -> None:
    library.answers = {"north": ["Invented"], "check": False}
    run = made(one_after_the_other)

    assert library.asked[-1] == "check Invented"
    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "no_progress")  # it claims the same for ever
    assert run.acceptance == "failed"
    step = run.step_rows.get(operation="check")
    assert step.status == "done"
    moves = [event.text_row.content()["move"] for event in run.events.filter(kind="transition")]
    assert moves.index("validation_due") < moves.index("contract_not_met")


# What a person rejected


def lends(*titles: str) -> Callable[[Context], Proposal]:
    """Proposes the first loan that nobody rejected, and the last one for ever."""

    def script(c: Context) -> Proposal:
        return Act("lend", {"book": titles[min(len(c.rejected), len(titles) - 1)]})

    return script


def decided(engine: Engine, run: Run, event: str, **payload: Any) -> Run:
    waiting = run.effects.order_by("-planned_at", "-pk").first()
    assert waiting
    return engine.send(run, event, "bob", waiting.plan_digest, **payload)


def test_after_a_rejection_the_policy_is_asked_for_another_way(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    run = made(lends("Emma", "Persuasion"))
    assert run.stop_reason == "approval_required"

    run = decided(engine, run, "approval_rejected", reason="Not that one.")

    assert run.stop_reason == "approval_required"
    assert run.effects.order_by("-planned_at").first().plan["target"] == "Persuasion"  # type: ignore[union-attr]
    run = decided(engine, run, "approval_granted")
    assert list(library.lent.values()) == ["Persuasion"]


def test_a_policy_with_no_other_way_than_the_rejected_one_stops_and_reads_nothing_for_it(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    run = made(lends("Emma"))
    steps = run.steps

    run = decided(engine, run, "approval_rejected", reason="Not that one.")

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "approval_rejected")
    assert "Not that one." in run.question
    assert (run.steps, library.lent) == (steps, {})


def test_what_was_rejected_is_put_up_again_when_a_person_says_so(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    run = decided(engine, made(lends("Emma")), "approval_rejected", reason="Not today.")

    run = engine.send(run, "resumed_after_review", "alice", reason="It is tomorrow.")

    assert run.stop_reason == "approval_required"
    decided(engine, run, "approval_granted")
    assert list(library.lent.values()) == ["Emma"]


def test_each_write_of_a_run_has_a_key_an_approval_and_look_ups_of_its_own(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    def script(c: Context) -> Proposal:
        lent = {effect.plan.target for effect in c.effects if effect.receipt}
        left = [title for title in ("Emma", "Persuasion") if title not in lent]
        return Act("lend", {"book": left[0]}) if left else Ask("Anything else?")

    run = made(script, budgets={**REFUND.budgets, Dimension.EXTERNAL_WRITES: 2})
    run = decided(engine, run, "approval_granted")
    assert run.stop_reason == "approval_required"
    run = decided(engine, run, "approval_granted")

    assert run.stop_reason == "question_asked"
    assert sorted(library.lent.values()) == ["Emma", "Persuasion"]
    assert len(library.lent) == run.effects.count() == 2
    assert run.ledger.left(Dimension.STATUS_CHECKS) == 3


# A model's turn as a step


class Oracle:
    def __init__(self, *answers: Any) -> None:
        self.answers, self.turns = list(answers), 0

    def perform(self, service: Any, call: Call, until: float) -> Result:
        self.turns += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Failure):
            raise ToolFailed(answer)
        used: Charge = {Dimension.MODEL_TURNS: 1, Dimension.INPUT_TOKENS: 90, Dimension.OUTPUT_TOKENS: 10}
        return Result(answer, "the model answered", used=used)


ASKED: Charge = {Dimension.MODEL_TURNS: 1, Dimension.INPUT_TOKENS: 500, Dimension.OUTPUT_TOKENS: 200}
LIMITS: Mapping[Dimension, Any] = {
    **REFUND.budgets,
    Dimension.MODEL_TURNS: 4,
    Dimension.INPUT_TOKENS: 2_000,
    Dimension.OUTPUT_TOKENS: 800,
}


def as_proposed(workflow: Workflow, c: Context) -> Proposal:
    if c.answer is None:
        return Consult("oracle", {}, ASKED)
    if "claims" in c.answer:
        return Claim(c.answer["claims"])
    return Act(c.answer["operation"], c.answer["arguments"])


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Oracle]:
    def answers(*given: Any) -> Oracle:
        asked = Oracle(*given)
        tool = Tool("oracle", "Ask the model", "model", "back_office", StepKind.TURN, asked.perform)
        monkeypatch.setitem(MODELS, "oracle", tool)
        monkeypatch.setitem(POLICIES, "oracular", as_proposed)
        return asked

    return answers


def searches(shelf: str) -> dict[str, Any]:
    return {"operation": "search", "arguments": {"shelf": shelf}}


def test_a_turn_is_a_step_that_is_paid_for_by_what_it_used(
    made: Callable[..., Run], library: Library, oracle: Callable[..., Oracle]
) -> None:
    library.answers = {"north": ["Emma"]}
    asked = oracle(searches("north"), {"claims": "Found."})

    run = made(lambda c: Ask(""), policy="oracular", budgets=LIMITS)

    assert (run.outcome, asked.turns, library.asked) == ("COMPLETED", 2, ["north", "check Emma"])
    spent = {name: figures[2] for name, figures in run.budget.items()}
    assert (spent["model_turns"], spent["input_tokens"], spent["output_tokens"]) == (2, 180, 20)
    assert [step.kind for step in run.step_rows.order_by("seq")][-4:] == ["turn", "read", "turn", "read"]


def test_a_proposal_that_cannot_be_considered_is_told_to_the_model_and_moves_nothing(
    made: Callable[..., Run], library: Library, oracle: Callable[..., Oracle]
) -> None:
    library.answers = {"north": ["Emma"]}
    oracle({"operation": "burn", "arguments": {}}, searches("north"), {"claims": "Found."})

    run = made(lambda c: Ask(""), policy="oracular", budgets=LIMITS)

    assert run.outcome == "COMPLETED"
    [refused] = run.events.filter(kind="proposal_refused")
    assert "“burn”" in refused.text_row.content()["why"]


def test_a_model_that_proposes_the_same_nonsense_twice_gets_no_further(
    made: Callable[..., Run], library: Library, oracle: Callable[..., Oracle]
) -> None:
    asked = oracle(*[{"operation": "burn", "arguments": {}}] * 4)
    run = made(lambda c: Ask(""), policy="oracular", budgets=LIMITS)

    assert (run.outcome, run.stop_reason, asked.turns) == ("NEEDS_HUMAN", "no_progress", 2)
    assert library.asked == []


def test_without_a_turn_left_the_run_stops_with_what_it_has(
    made: Callable[..., Run], library: Library, oracle: Callable[..., Oracle]
) -> None:
    library.answers = {"north": [], "south": [], "east": []}
    oracle(*[searches(shelf) for shelf in (*SHELVES, "north")])

    run = made(lambda c: Ask(""), policy="oracular", budgets=LIMITS)

    assert (run.outcome, run.stop_reason) == ("LIMIT_REACHED", "limit_model_turns")
    assert library.asked == [*SHELVES, "north"]


def test_what_a_model_proposed_outlasts_a_retry_and_is_not_asked_for_again(
    made: Callable[..., Run], engine: Engine, library: Library, oracle: Callable[..., Oracle]
) -> None:
    library.answers = {"north": [BUSY, ["Emma"]]}
    asked = oracle(searches("north"), {"claims": "Found."})

    run = made(lambda c: Ask(""), policy="oracular", budgets=LIMITS, retry_after=timedelta())

    assert (run.outcome, asked.turns, library.asked) == ("COMPLETED", 2, ["north", "north", "check Emma"])


def test_what_was_approved_is_what_the_model_proposed_before(
    made: Callable[..., Run], engine: Engine, library: Library, oracle: Callable[..., Oracle]
) -> None:
    asked = oracle({"operation": "lend", "arguments": {"book": "Emma"}}, {"claims": "Lent."}, {"claims": "Lent."})
    library.answers = {"north": ["Emma"]}
    run = made(lambda c: Ask(""), policy="oracular", budgets=LIMITS)
    assert (run.stop_reason, asked.turns) == ("approval_required", 1)

    decided(engine, run, "approval_granted")

    assert list(library.lent.values()) == ["Emma"]


# What takes its time elsewhere


def until_found(c: Context) -> Proposal:
    found = c.facts.get("shelf north")
    if found and found.stretch == c.stretch:
        return Claim("Found.") if on(c, "north") else Wait("The book is on its way.")
    return Act("search", {"shelf": "north"})


def test_a_policy_may_wait_for_the_world_and_looks_again_by_itself(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    library.answers = {"north": [[], ["Emma"]]}
    run = made(until_found, look_up_after=(timedelta(hours=6),))

    assert (run.outcome, run.stop_reason) == ("WAITING", "result_pending")
    assert run.due_at == datetime.fromisoformat(run.progress["look_again_at"])
    assert timedelta(hours=5) < run.due_at - timezone.now() < timedelta(hours=7)
    assert not advance(run.pk)  # not before that
    Run.objects.filter(pk=run.pk).update(due_at=timezone.now())
    advance(run.pk)
    run.refresh_from_db()
    assert (run.outcome, library.asked) == ("WAITING", ["north"])  # whatever woke it, it is not time yet

    run.progress["look_again_at"] = timezone.now().isoformat()
    run.save(update_fields=["progress"])
    Run.objects.filter(pk=run.pk).update(due_at=timezone.now())
    engine.carry_on(run, until=lambda run: run.outcome == "COMPLETED")

    assert library.asked == ["north", "north", "check Emma"]
    assert Run.objects.get().budget["status_checks"][2] == 1


def test_whoever_waits_for_ever_uses_the_look_ups_up_and_comes_to_a_person(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    run = made(until_found, look_up_after=(timedelta(),))
    for _ in range(10):
        if run.outcome != "WAITING":
            break
        run = engine.carry_on(run, until=lambda run: run.progress.get("waits", 0) == len(library.asked))

    assert (run.outcome, run.stop_reason) == ("LIMIT_REACHED", "limit_status_checks")
    assert library.asked == ["north"] * 4
    [*_, last] = run.events.filter(kind="stopped").order_by("id")
    assert last.text_row.content()["says"] == "The budget for status checks is used up."


def test_a_person_may_have_it_looked_at_before_its_time(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    library.answers = {"north": [[], ["Emma"]]}
    run = made(until_found, look_up_after=(timedelta(hours=6),))

    run = engine.send(run, "resumed_after_review", "alice", reason="It came in this morning.")

    assert (run.outcome, library.asked) == ("COMPLETED", ["north", "north", "check Emma"])


@pytest.mark.parametrize("own", ["proposal", "amendment of loan-1-Emma", "standing of loan-1-Emma"])
def test_what_a_source_answers_never_stands_in_the_place_of_what_the_engine_keeps_itself(
    own: str, made: Callable[..., Run], library: Library
) -> None:
    searching = workflow(library, one_after_the_other).operations["search"]
    assert isinstance(searching, Reading)

    run = made(one_after_the_other, operations={"search": replace(searching, fact=lambda c, given: own)})

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "unforeseen_error")
    assert (library.asked, run.facts.filter(name=own).exists()) == ([], False)


# What was rejected, lapsed or broke down stays so until a person says otherwise


def puts_up(run: Run) -> str:
    """The target of the write that waits for a person."""
    waiting = run.effects.filter(approved_digest="").order_by("-approval_expires_at")
    return str(waiting.exclude(approval_expires_at=None)[0].plan["target"])


def test_a_second_rejection_does_not_put_up_again_what_was_rejected_first(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    run = made(lends("Emma", "Persuasion", "Sanditon"))
    for title in ("Emma", "Persuasion"):
        assert puts_up(run) == title
        run = decided(engine, run, "approval_rejected", reason="Not that one.")

    assert (run.stop_reason, puts_up(run), library.lent) == ("approval_required", "Sanditon", {})
    assert len(run.progress["rejected"]) == 2


def test_a_change_of_another_plan_does_not_put_up_again_what_was_rejected(
    made: Callable[..., Run], engine: Engine
) -> None:
    run = decided(engine, made(lends("Emma", "Persuasion")), "approval_rejected", reason="Not that one.")

    run = decided(engine, run, "plan_amended", field="days", value="7", reason="It is needed here.")

    assert (run.stop_reason, puts_up(run)) == ("approval_required", "Persuasion")


def test_what_is_put_up_after_another_plan_lapsed_is_what_people_decide_about(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    titles = ["Emma"]
    run = made(lambda c: Act("lend", {"book": titles[-1]}) if not library.lent else Ask("What else?"))
    run.effects.update(approval_expires_at="2000-01-02T00:00Z")
    run = engine.carry_on(run, until=lambda run: run.stop_reason == "approval_expired")
    titles.append("Persuasion")

    run = engine.send(run, "evidence_supplied", "alice", statement="It is Persuasion.", reference="letter 4")

    assert (run.stop_reason, puts_up(run)) == ("approval_required", "Persuasion")
    assert run.due_at
    assert run.due_at > timezone.now()
    decided(engine, run, "approval_granted")
    assert list(library.lent.values()) == ["Persuasion"]


def test_the_latest_write_is_the_same_one_before_and_after_a_run_is_read_back(
    made: Callable[..., Run], engine: Engine
) -> None:
    latest: list[str] = []

    def script(c: Context) -> Proposal:
        if c.effect and any(effect.receipt for effect in c.effects):
            latest.append(c.effect.plan.target)
            return Ask("What else?")
        return Act("lend", {"book": "Persuasion" if c.rejected else "Emma"})

    run = decided(engine, made(script), "approval_rejected", reason="Not that one.")
    run = decided(engine, run, "approval_granted")
    engine.send(run, "resumed_after_review", "alice", reason="Go on.")  # which forgets what was put up and not sent

    assert set(latest) == {"Persuasion"}


def test_what_a_model_proposed_and_nobody_could_plan_does_not_stop_the_run_for_ever(
    made: Callable[..., Run], engine: Engine, library: Library, oracle: Callable[..., Oracle]
) -> None:
    library.answers = {"north": ["Emma"]}
    asked = oracle({"operation": "lend", "arguments": {"book": "Emma"}}, searches("north"), {"claims": "Found."})
    operations = workflow(library, lambda c: Ask("")).operations
    lending = operations["lend"]
    assert isinstance(lending, Writing)
    broken = replace(lending, plan=lambda c, given: given["no such"])
    run = made(lambda c: Ask(""), policy="oracular", budgets=LIMITS, operations={**operations, "lend": broken})
    assert run.stop_reason == "unforeseen_error"

    run = engine.send(run, "resumed_after_review", "alice", reason="The model may do better.")

    assert (run.outcome, asked.turns) == ("COMPLETED", 3)


def test_what_a_model_proposed_and_nobody_decided_in_time_is_asked_of_it_anew(
    made: Callable[..., Run], engine: Engine, library: Library, oracle: Callable[..., Oracle]
) -> None:
    library.answers = {"north": ["Emma"]}
    asked = oracle({"operation": "lend", "arguments": {"book": "Emma"}}, searches("north"), {"claims": "Found."})
    run = made(lambda c: Ask(""), policy="oracular", budgets=LIMITS)
    run.effects.update(approval_expires_at="2000-01-02T00:00Z")
    run = engine.carry_on(run, until=lambda run: run.stop_reason == "approval_expired")

    run = engine.send(run, "resumed_after_review", "alice", reason="Go on.")

    assert (run.outcome, asked.turns, library.lent) == ("COMPLETED", 3, {})


def test_the_contract_is_judged_anew_once_a_way_is_closed(made: Callable[..., Run], library: Library) -> None:
    library.answers = {"north": [GONE]}

    def searched(c: Context) -> Judgement:
        closed = c.is_closed("search", {"shelf": "north"})
        return met(Evidence(closed, "library", c.now)) if closed else unknown("not searched yet")

    run = made(
        lambda c: Ask("What else?") if c.closed else Act("search", {"shelf": "north"}),
        contract=(replace(REFUND.contract[0], name="searched", judge=searched),),
    )

    assert run.outcome == "COMPLETED"


def test_a_first_write_finds_its_look_ups_whatever_was_waited_for_before(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    def lost(service: Any, call: Call, until: float) -> Result:
        raise ToolFailed(Failure("no_answer", "Nobody answered."))

    def not_yet(service: Any, call: Call, until: float) -> Result:
        return Result({}, "looked up", answer=Answer.NOT_FOUND_YET)

    library.lend, library.found = lost, not_yet  # type: ignore[method-assign]

    def script(c: Context) -> Proposal:
        return Wait("It is on its way.") if c.left["status_checks"] else Act("lend", {"book": "Emma"})

    run = made(script, look_up_after=(timedelta(),))
    run = engine.carry_on(run, until=lambda run: run.outcome != "WAITING")
    run = decided(engine, run, "approval_granted")
    engine.carry_on(run, until=lambda run: run.due_at is None)

    spent = {name: figures[2] for name, figures in Run.objects.get().budget.items()}
    assert (spent["status_checks"], spent["follow_up_checks"]) == (6, 0)


def test_a_second_write_needs_no_budget_of_look_ups(made: Callable[..., Run], engine: Engine, library: Library) -> None:
    def script(c: Context) -> Proposal:
        left = [title for title in ("Emma", "Persuasion") if title not in library.lent.values()]
        return Act("lend", {"book": left[0]}) if left else Ask("What else?")

    budgets = {d: limit for d, limit in REFUND.budgets.items() if d is not Dimension.STATUS_CHECKS}
    run = made(script, budgets={**budgets, Dimension.EXTERNAL_WRITES: 2})
    for _ in range(2):
        run = decided(engine, run, "approval_granted")

    assert (run.stop_reason, len(library.lent)) == ("question_asked", 2)


def test_a_policy_may_claim_before_anything_was_read(made: Callable[..., Run]) -> None:
    def sure(c: Context) -> Judgement:
        return met(Evidence("always", "library", c.now))

    run = made(lambda c: Claim("Done."), reads=(), authorised=sure, eligible=sure, checks=lambda c: ())
    assert run.stop_reason == "no_progress"
    done = (replace(REFUND.contract[0], name="sure", judge=sure),)
    open_and_shut = {"reads": (), "authorised": sure, "eligible": sure, "checks": lambda c: (), "contract": done}
    again = made(lambda c: Claim("Done."), name="other", **open_and_shut)
    assert again.outcome == "COMPLETED"


def test_an_assertion_that_is_judged_with_no_judgement_is_unknown(made: Callable[..., Run], library: Library) -> None:
    library.answers = {"north": ["Emma"]}
    hasty = (replace(REFUND.contract[0], name="hasty", judge=lambda c: True),)  # type: ignore[arg-type, return-value]

    run = made(lambda c: Ask("What else?"), contract=hasty)

    assert (run.stop_reason, run.acceptance) == ("question_asked", "unknown")
    assert "could not be judged (bool)" in case.read(run)["contract"][0]["says"]


def test_what_is_not_permitted_any_more_once_half_of_it_is_done_goes_to_a_person(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    def eligible(c: Context) -> Judgement:
        evidence = c.facts["order"].evidence("one loan at a time")
        return unmet(evidence) if library.lent else met(evidence)

    def script(c: Context) -> Proposal:
        return Act("lend", {"book": "Persuasion" if library.lent else "Emma"})

    run = made(script, eligible=eligible, budgets={**REFUND.budgets, Dimension.EXTERNAL_WRITES: 2})
    run = decided(engine, run, "approval_granted")

    assert (run.outcome, run.stop_reason, run.recovery) == ("NEEDS_HUMAN", "half_done", "manual")
    assert "one loan at a time" in run.question
    assert list(library.lent.values()) == ["Emma"]
    assert "compensation_approved" in {event["name"] for event in case.read(run)["forbidden_events"]}


def test_what_another_version_remembers_besides_does_not_keep_a_run_from_being_carried_on(
    made: Callable[..., Run], engine: Engine, library: Library
) -> None:
    library.answers = {"north": ["Emma"]}
    run = made(lambda c: Ask("Which shelf?") if "shelf north" not in c.facts and not c.claims else Claim("Found."))
    Run.objects.filter(pk=run.pk).update(progress={**run.progress, "of_another_version": [1]})

    run = engine.send(run, "resumed_after_review", "alice", reason="Look again.")

    assert run.stop_reason == "question_asked"
