"""Agents that propose what nobody can carry out: the run stops for a person with a sentence, and nothing is sent."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runs.agents.policies import POLICIES, scripted
from runs.domain.proposals import Ask, Claim, Write
from runs.models import Run
from runs.workflows.definition import Context, Workflow
from tests.engine.conftest import Engine, assert_sound

Answers = Callable[[Workflow, Context], Any]


def breaks(workflow: Workflow, context: Context) -> Any:
    raise RuntimeError("a secret of the agent")


def plan(**changes: Any) -> Answers:
    """The script's own plan, changed."""

    def proposes(workflow: Workflow, context: Context) -> Write:
        proposal = scripted(workflow, context)
        assert isinstance(proposal, Write)
        return Write(replace(proposal.plan, **changes))

    return proposes


def says(answer: Any) -> Answers:
    return lambda workflow, context: answer


def run_with(engine: Engine, monkeypatch: pytest.MonkeyPatch, policy: Answers) -> Run:
    monkeypatch.setitem(POLICIES, "odd", policy)
    return engine.run("B456", policy="odd")


# Each with the reason of the stop and what the question holds.
ODD: dict[str, tuple[Answers, str, str]] = {
    "a tool that nobody has": (plan(operation="transfer_money"), "question_asked", "“transfer_money”"),
    "a read as a write": (plan(operation="read_order"), "question_asked", "“read_order”"),
    "a number for a tool": (plan(operation=7), "question_asked", "“7”"),
    "a name that cannot be stored": (plan(operation="submit_refund\0"), "question_asked", "on record"),
    "parameters that are no data": (plan(params={"order_id": {1, 2}}), "question_asked", "on record"),
    "a number that is none": (plan(params={"amount_minor": float("nan")}), "question_asked", "on record"),
    "a list for parameters": (plan(params=["B456"]), "question_asked", "on record"),
    "no parameters": (plan(params=None), "question_asked", "on record"),
    "50 MB of parameters": (plan(params={"note": "x" * 50_000_000}), "question_asked", "on record"),
    "somebody else's order": (
        plan(params={"order_id": "A123"}),
        "question_asked",
        "order_id A123, and was asked for B456",
    ),
    "true for an order": (plan(params={"order_id": True}), "question_asked", "order_id True"),
    "it breaks": (breaks, "question_asked", "RuntimeError"),
    "nothing": (says(None), "question_asked", "a NoneType that is no proposal"),
    "a text": (says("All done!"), "question_asked", "a str that is no proposal"),
    "a hundred at once": (says([Claim("done")] * 100), "question_asked", "a list that is no proposal"),
    "a claim of nothing": (says(Claim(7)), "question_asked", "no proposal"),  # type: ignore[arg-type]
    "a write of nothing": (says(Write(None)), "question_asked", "no proposal"),  # type: ignore[arg-type]
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


def test_an_agent_that_changes_its_mind_with_every_look_sends_nothing_that_was_not_approved(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter(range(1000))

    def another_each_time(workflow: Workflow, context: Context) -> Write:
        return plan(expected=f"attempt {next(asked)}", needs_approval="this agent is watched")(workflow, context)  # type: ignore[no-any-return]

    run = run_with(engine, monkeypatch, another_each_time)
    assert run.stop_reason == "approval_required"
    for _ in range(3):
        run = engine.send(run, "approval_granted", "bob", run.effects.get().plan_digest)
        assert run.stop_reason == "approval_required"

    assert engine.calls("B456", "submit") == []
    assert run.budget["external_writes"][2] == 0
