"""Workflows for the benchmark: so many reads, then so many writes, and complete once the last of them is confirmed.

They use every guard that a shipped workflow has: authority first, a contract, budgets, a plan and an operation key for
each write, and a look-up for what was left open.
"""

from datetime import timedelta

from runs.domain.budget import Charge, Dimension
from runs.domain.contract import Evidence, Fact, Judgement, met, unknown
from runs.domain.decision import FactsState
from runs.domain.effects import EffectState, WritePlan
from runs.domain.proposals import Act, Ask, Proposal
from runs.domain.telling import LANGUAGES, Quote, Statement, Wording, needs
from runs.tools.tool import Tool
from runs.workflows.definition import Assertion, Context, Read, Workflow, Writing

PLENTY = 1_000_000_000


def made(name: str, read: Tool, reads: int, write: Tool, look_up: Tool, writes: int) -> Workflow:
    def authorised(c: Context) -> Judgement:
        return _met(c.facts.get("fact 0"), "may act")

    def done(c: Context) -> Judgement:
        if writes:
            confirmed = [effect for effect in c.effects if effect.state is EffectState.CONFIRMED]
            says = f"{len(confirmed)} of {writes}"
            if len(confirmed) < writes:
                return unknown(says)
            return met(Evidence(says, write.source, confirmed[-1].answered_at))
        return _met(c.facts.get(f"fact {reads - 1}"), "all is read")

    def script(c: Context) -> Proposal:
        return Act(write.name, {}) if writes else Ask("What else?")

    def remaining(c: Context) -> Charge:
        return {}

    return Workflow(
        name=name,
        version=1,
        title=name,
        role="bench",
        input_schema={"type": "object", "required": ["item"], "properties": {"item": {"type": "string"}}},
        subject=lambda given: str(given["item"]),
        headline=lambda given: str(given["item"]),
        goal=lambda given: f"{reads} reads and {writes} writes",
        acts_for=lambda given, starter: starter,
        exists=lambda given, acts_for: (read.name, {}, "item"),
        tools={tool.name: tool for tool in (read, write, look_up)},
        reads=tuple(_read(read, number) for number in range(reads)),
        authorised=authorised,
        eligible=authorised,
        contract=(Assertion("authorised", "May act", authorised), Assertion("done", "All is done", done)),
        script=script,
        operations={
            write.name: Writing(
                says="Makes the next effect.",
                plan=lambda c, given: _plan(write, c),
                # One key for each write: the one that is under way, or the next.
                key=lambda c, given: f"{c.input['item']}-{_confirmed(c):04}",
            )
        },
        budgets={dimension: PLENTY for dimension in Dimension if dimension != Dimension.COST},
        remaining=remaining,
        question=lambda c, reason, found: f"{reason}: {found}",
        customer_says=Wording("item", {quote: quote for quote in Quote}, {each: _says(each) for each in Statement}),
        # By then a request of a dead worker can no longer arrive.
        look_up_after=(timedelta(seconds=7),),
    )


def _read(tool: Tool, number: int) -> Read:
    return Read(
        fact=f"fact {number}",
        tool=tool.name,
        params=lambda c: {"item": c.input["item"], "number": number},
        check=lambda fact: (FactsState.COMPLETE, ""),
        expects="one fact",
        opens=number == 0,
    )


def _met(fact: Fact | None, says: str) -> Judgement:
    return met(fact.evidence(says)) if fact else unknown("not read yet")


def _says(statement: Statement) -> dict[str, str]:
    quotes = needs(statement).quotes
    return dict.fromkeys(LANGUAGES, f"Being done {{{quotes}}}." if quotes else "Being done.")


def _confirmed(c: Context) -> int:
    return sum(effect.state is EffectState.CONFIRMED for effect in c.effects)


def _plan(write: Tool, c: Context) -> WritePlan:
    number = _confirmed(c)
    return WritePlan(
        operation=write.name,
        target=f"{c.input['item']} {number}",
        params={"run": c.input["item"], "step": number},
        difference=(("effect", "none", "made"),),
        target_version="1",
        expected="made",
        undo="none",
        risk="none",
    )
