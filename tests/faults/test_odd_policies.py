"""Agents that propose what nobody can carry out: the run stops for a person with a sentence, and nothing is sent."""

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from runs.agents.policies import POLICIES, scripted
from runs.domain.effects import WritePlan
from runs.domain.proposals import Act, Ask, Claim, Consult, Exhausted, HandOver
from runs.models import Run
from runs.tools.back_office import SUBMIT_REFUND
from runs.workflows.definition import Context, Workflow, Writing
from runs.workflows.refund_request import WORKFLOW, plan
from tests.engine.conftest import Engine, assert_sound

Answers = Callable[[Workflow, Context], Any]


def breaks(workflow: Workflow, context: Context) -> Any:
    raise RuntimeError("a secret of the agent")


def act(operation: Any = "submit_refund", arguments: Any = None, **more: Any) -> Answers:
    """The script's own proposal, with something else in it."""
    return lambda workflow, context: Act(operation, more if arguments is None else arguments)


def says(answer: Any) -> Answers:
    return lambda workflow, context: answer


def run_with(engine: Engine, monkeypatch: pytest.MonkeyPatch, policy: Answers) -> Run:
    monkeypatch.setitem(POLICIES, "odd", policy)
    return engine.run("B456", policy="odd")


# Each with the reason of the stop and what the question holds.
ODD: dict[str, tuple[Answers, str, str]] = {
    "a tool that nobody has": (act("transfer_money"), "question_asked", "“transfer_money”"),
    "a tool that is no operation": (act("read_order"), "question_asked", "“read_order”"),
    "undoing, which is for people": (act("cancel_refund"), "question_asked", "“cancel_refund”"),
    "a number for a tool": (act(7), "question_asked", "no proposal"),
    "a name that cannot be stored": (act("submit_refund\0"), "question_asked", "no operation"),
    "arguments that are no data": (act(note={1, 2}), "question_asked", "on record"),
    "a number that is none": (act(note=float("nan")), "question_asked", "on record"),
    "a list for arguments": (act(arguments=["B456"]), "question_asked", "on record"),
    "a text for arguments": (act(arguments="B456"), "question_asked", "on record"),
    "50 MB of arguments": (act(note="x" * 50_000_000), "question_asked", "on record"),
    "arguments that nobody declared": (act(note="hurry"), "question_asked", "as it must not be"),
    "an endless argument": (act(note="x" * 19_000), "question_asked", "as it must not be"),
    "somebody else's order": (act(order_id="A123"), "question_asked", "order_id A123, and was asked for B456"),
    "true for an order": (act(order_id=True), "question_asked", "order_id True"),
    "it breaks": (breaks, "question_asked", "RuntimeError"),
    "nothing": (says(None), "question_asked", "a NoneType that is no proposal"),
    "a text": (says("All done!"), "question_asked", "a str that is no proposal"),
    "a hundred at once": (says([Claim("done")] * 100), "question_asked", "a list that is no proposal"),
    "a claim of nothing": (says(Claim(7)), "question_asked", "no proposal"),  # type: ignore[arg-type]
    "an operation of nothing": (says(Act(None, {})), "question_asked", "no proposal"),  # type: ignore[arg-type]
    "a model that nobody has": (says(Consult("oracle", {}, {})), "question_asked", "no proposal"),
    "a source more": (says(Exhausted("Who else knows?")), "sources_exhausted", "Who else knows?"),
    "a question": (says(Ask("What now?")), "question_asked", "What now?"),
    "an endless question": (
        says(Ask("no \0 such \ud800 word" * 100_000)),
        "question_asked",
        "no \N{REPLACEMENT CHARACTER} such",
    ),
    "an endless claim": (says(Claim("done \0\ud800" * 100_000)), "no_progress", "keeps saying"),
}


@pytest.mark.parametrize("odd", ODD)
def test_it_stops_for_a_person_with_a_sentence(engine: Engine, monkeypatch: pytest.MonkeyPatch, odd: str) -> None:
    policy, reason, sentence = ODD[odd]

    run = run_with(engine, monkeypatch, policy)

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", reason)
    assert sentence in run.question
    assert "a secret of the agent" not in run.question
    assert len(run.question) < 700
    assert engine.calls("B456", "submit") == []
    assert run.budget["steps"][2] > 3  # three reads, and what came of them
    assert run.budget["external_writes"][2] == 0
    assert_sound(run.handoffs.get().package)


def test_an_agent_that_only_asks_uses_its_budget_up(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_with(engine, monkeypatch, says(Ask("What now?")))

    for _ in range(20):
        if run.outcome != "NEEDS_HUMAN":
            break
        run = engine.send(run, "resumed_after_review", "alice", reason="let it try")

    assert run.outcome == "LIMIT_REACHED"
    assert engine.calls("B456", "submit") == []


def test_an_agent_that_proposes_the_same_write_for_ever_has_it_made_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[Any] = []

    def the_same(workflow: Workflow, context: Context) -> Any:
        first.append(scripted(workflow, context))
        return first[0]

    run = run_with(engine, monkeypatch, the_same)

    assert run.outcome == "COMPLETED"
    assert len(engine.calls("B456", "submit")) == 1


def test_two_agents_that_pass_the_same_task_back_and_forth_are_stopped(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = cycle([("clerk", "analyst"), ("analyst", "clerk")])

    run = run_with(engine, monkeypatch, lambda workflow, context: HandOver("judge the case", *next(turns)))

    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "no_progress")
    passed = [event.text_row.content() for event in run.events.filter(kind="handed_over")]
    assert [(each["giver"], each["taker"]) for each in passed] == [("clerk", "analyst"), ("analyst", "clerk")]
    assert engine.calls("B456", "submit") == []


def test_a_plan_that_changes_with_every_look_is_never_sent_on_an_approval_of_another(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter(range(1000))
    submit = WORKFLOW.operations[SUBMIT_REFUND.name]
    assert isinstance(submit, Writing)

    def another_each_time(context: Context, given: Any) -> WritePlan:
        return replace(plan(context, given), expected=f"attempt {next(asked)}", needs_approval="this plan is watched")

    changing = replace(WORKFLOW, operations={SUBMIT_REFUND.name: replace(submit, plan=another_each_time)})
    monkeypatch.setattr("runs.workflows.registry.workflows", lambda: {changing.name: changing})
    run = engine.run("B456")
    assert run.stop_reason == "approval_required"
    for _ in range(3):
        run = engine.send(run, "approval_granted", "bob", run.effects.get().plan_digest)
        assert run.stop_reason == "approval_required"

    assert engine.calls("B456", "submit") == []
    assert run.budget["external_writes"][2] == 0
