"""What people may change of a run: a narrower contract, one field of a write that waits, and a run that follows."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runs import case
from runs.domain.budget import Dimension
from runs.domain.contract import Judgement, met, unknown
from runs.domain.errors import Failure
from runs.domain.proposals import Act, Ask, Claim, Proposal
from runs.engine import commit as engine_commit
from runs.engine.advance import advance
from runs.interventions import sending, starting
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.timeline import timeline
from runs.tools.tool import Call, Result, ToolFailed
from runs.workflows import registry
from runs.workflows.definition import Context, FollowUp, Scope, Writing
from runs.workflows.refund_request import WORKFLOW as REFUND
from tests.engine.conftest import Engine
from tests.engine.library import Library, on, workflow
from tests.people import person

# A contract of two conditions, of which a narrower one drops the second


def found(c: Context) -> Judgement:
    fact = c.facts.get("shelf north")
    return met(fact.evidence("found")) if fact and on(c, "north") else unknown("nothing found")


def translated(c: Context) -> Judgement:
    return unknown("nobody has translated it")


CONTRACT = (
    replace(REFUND.contract[0], name="found", judge=found),
    replace(REFUND.contract[0], name="translated", judge=translated),
)
SCOPES = {"original": Scope("Without a translation", frozenset({"translated"}))}


def searches(c: Context) -> Proposal:
    return Ask("Who translates it?") if "shelf north" in c.facts else Act("search", {"shelf": "north"})


@pytest.fixture
def stuck(made: Callable[..., Run], library: Library) -> Run:
    library.answers = {"north": ["Emma"]}
    run = made(searches, contract=CONTRACT, scopes=SCOPES, checks=lambda c: ())
    assert (run.outcome, run.stop_reason) == ("NEEDS_HUMAN", "question_asked")
    return run


NARROW = {"scope": "original", "reason": "The customer reads English."}


def test_what_another_person_narrows_waits_for_whoever_asked_for_the_run(engine: Engine, stuck: Run) -> None:
    proposed = sending.send(stuck.pk, "scope_narrowed", person("alice"), NARROW)

    assert not advance(stuck.pk)
    stuck.refresh_from_db()
    assert (proposed.result, stuck.scope, stuck.contract_version) == ("proposed", "", 1)
    assert any("Whoever asked for the run has to confirm it." in line["says"] for line in timeline(stuck))
    run = engine.send(stuck, "scope_narrowed", "support", str(proposed.pk), **NARROW)

    assert (run.outcome, run.scope, run.contract_version) == ("COMPLETED", "original", 2)
    [narrowed] = run.events.filter(kind="scope_narrowed")
    said = narrowed.text_row.content()
    assert (said["version"], said["before"], said["after"]) == (2, ["found", "translated"], ["found"])


def test_whoever_asked_for_the_run_narrows_it_alone_and_the_budgets_stay(engine: Engine, stuck: Run) -> None:
    before = stuck.budget
    run = engine.send(stuck, "scope_narrowed", "support", **NARROW)

    assert (run.outcome, run.acceptance) == ("COMPLETED", "succeeded")
    assert [row["name"] for row in case.read(run)["contract"]] == ["found"]
    assert case.read(run)["scope"] == "Without a translation"
    assert {name: (line[0], line[2] >= before[name][2]) for name, line in run.budget.items()} == {
        name: (line[0], True) for name, line in before.items()
    }


def test_a_second_stranger_cannot_confirm_a_narrower_scope(engine: Engine, stuck: Run) -> None:
    proposed = sending.send(stuck.pk, "scope_narrowed", person("alice"), NARROW)

    with pytest.raises(Refused, match="Whoever asked for the run has to confirm it"):
        sending.send(stuck.pk, "scope_narrowed", person("ann"), NARROW, str(proposed.pk))


def test_a_confirmation_names_the_scope_that_was_proposed(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    scopes = {**SCOPES, "other": Scope("Only the translation", frozenset({"found"}))}
    library.answers = {"north": ["Emma"]}
    run = made(searches, contract=CONTRACT, scopes=scopes, checks=lambda c: ())
    proposed = sending.send(run.pk, "scope_narrowed", person("alice"), NARROW)

    with pytest.raises(Refused, match="'original' was proposed"):
        sending.send(run.pk, "scope_narrowed", person("support"), {**NARROW, "scope": "other"}, str(proposed.pk))


def test_a_scope_that_nobody_declared_is_refused_by_name(engine: Engine, stuck: Run) -> None:
    with pytest.raises(Refused, match="scope: must be one of original") as refused:
        sending.send(stuck.pk, "scope_narrowed", person("support"), {**NARROW, "scope": "nothing"})
    assert refused.value.field == "scope"


# A write that waits for approval


def lends(c: Context) -> Proposal:
    return Claim("Lent.") if c.effect and c.effect.receipt else Act("lend", {"book": "Emma"})


@pytest.fixture
def waiting(made: Callable[..., Run]) -> Run:
    run = made(lends)
    assert run.stop_reason == "approval_required"
    return run


def amend(engine: Engine, run: Run, by: str, field: str = "days", value: str = "7") -> Run:
    digest = run.effects.get().plan_digest
    return engine.send(run, "plan_amended", by, digest, field=field, value=value, reason="It is needed here.")


def test_a_changed_plan_is_another_plan_under_the_same_key_and_waits_anew(engine: Engine, waiting: Run) -> None:
    before = waiting.effects.get()

    run = amend(engine, waiting, "alice")

    after = run.effects.get()
    assert run.stop_reason == "approval_required"
    assert (after.operation_key, after.plan["params"]) == (before.operation_key, {"book": "Emma", "days": 7})
    assert after.plan_digest != before.plan_digest
    [replaced] = run.events.filter(kind="plan_replaced")
    assert "days: 14 became 7" in replaced.text_row.content()["changed"]


def test_whoever_changed_a_plan_does_not_approve_it_and_somebody_else_does(
    engine: Engine, waiting: Run, library: Library
) -> None:
    run = amend(engine, waiting, "bob")
    digest = run.effects.get().plan_digest

    with pytest.raises(Refused, match="somebody else has to decide"):
        sending.send(run.pk, "approval_granted", person("bob"), {}, digest)
    run = engine.send(run, "approval_granted", "supervisor", digest)

    assert list(library.lent.values()) == ["Emma"]
    assert run.effects.get().plan["params"]["days"] == 7


def test_an_approval_of_the_plan_before_the_change_does_not_count(
    engine: Engine, waiting: Run, library: Library
) -> None:
    old = waiting.effects.get().plan_digest
    run = amend(engine, waiting, "alice")

    with pytest.raises(Refused, match="about another plan"):
        sending.send(run.pk, "approval_granted", person("bob"), {}, old)
    assert library.lent == {}


def test_what_is_changed_is_what_was_typed_also_where_it_looks_like_a_secret(engine: Engine, waiting: Run) -> None:
    run = amend(engine, waiting, "alice", "book", "The password: a novel")

    assert run.effects.order_by("-planned_at")[0].plan["params"]["book"] == "The password: a novel"
    assert "a novel" not in str([event.text_row.content() for event in run.events.filter(kind="event_received")])


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("days", "31", "value: days: 31 is greater than the maximum of 30"),
        ("days", "soon", 'value: days: "soon" is not of type "integer"'),
        ("customer", "me", "field: must be one of book, days"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_with_its_field(
    engine: Engine, waiting: Run, field: str, value: str, says: str
) -> None:
    with pytest.raises(Refused) as refused:
        amend(engine, waiting, "alice", field, value)
    assert refused.value.message.startswith(says)
    assert waiting.effects.get().plan["params"] == {"book": "Emma"}


def test_a_change_that_fits_by_itself_and_not_with_the_rest_is_left_out_and_can_be_made_again(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    lending = workflow(library, lends).operations["lend"]
    assert isinstance(lending, Writing)
    longer_only_for = {
        "if": {"properties": {"book": {"const": "Emma"}}},
        "then": {"properties": {"days": {"maximum": 9}}},
    }
    run = made(lends, operations={"lend": replace(lending, arguments={**lending.arguments, **longer_only_for})})

    run = amend(engine, run, "alice", value="20")

    waiting = run.effects.get()
    assert (run.state, run.stop_reason) == ("awaiting_approval", "approval_required")
    assert "days" not in waiting.plan["params"]
    assert (
        "what alice changed does not fit the rest of what is proposed, and was left out"
        in waiting.plan["needs_approval"]
    )
    run = amend(engine, run, "alice", value="8")
    assert run.effects.get().plan["params"]["days"] == 8


def test_what_an_operation_does_not_declare_as_amendable_is_changed_by_nobody(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    lending = workflow(library, lends).operations["lend"]
    assert isinstance(lending, Writing)
    run = made(lends, operations={"lend": replace(lending, amendable=("days",))})

    with pytest.raises(Refused, match="field: must be one of days"):
        amend(engine, run, "alice", "book", "Persuasion")


def test_look_ups_may_be_extended_for_each_write_that_was_sent(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    def script(c: Context) -> Proposal:
        left = [title for title in ("Emma", "Persuasion") if title not in library.lent.values()]
        return Act("lend", {"book": left[0]}) if left else Ask("What else?")

    run = made(script, budgets={**REFUND.budgets, Dimension.EXTERNAL_WRITES: 2})
    for _ in range(2):
        waiting = run.effects.get(approved_digest="")
        run = engine.send(run, "approval_granted", "bob", waiting.plan_digest)
    run.budget["status_checks"] = [6, 0, 5, 0]  # as when the first write used most of its look-ups, and the second some
    run.save(update_fields=["budget"])

    run = engine.send(run, "budget_extended", "supervisor", dimension="status_checks", by=6, reason="Both are slow.")

    assert run.budget["status_checks"][0] == 12
    with pytest.raises(Refused, match="no further extension"):
        sending.send(
            run.pk, "budget_extended", person("supervisor"), {"dimension": "status_checks", "by": 1, "reason": "More."}
        )


# A run that follows


@pytest.fixture
def ended(engine: Engine, made: Callable[..., Run], library: Library, monkeypatch: pytest.MonkeyPatch) -> Run:
    library.answers = {"north": ["Emma"]}
    again = FollowUp("Refund it", "refund_request", lambda c: {"order_id": "C204"})
    run = made(searches, contract=CONTRACT[:1], checks=lambda c: (), follow_ups={"refund": again})
    assert run.outcome == "COMPLETED"
    both = {**registry.workflows(), REFUND.name: REFUND}
    monkeypatch.setattr("runs.workflows.registry.workflows", lambda: both)
    return run


def test_a_run_that_follows_names_the_one_it_came_out_of_and_changes_nothing_of_it(engine: Engine, ended: Run) -> None:
    before = {field: value for field, value in vars(ended).items() if not field.startswith("_")}

    following, is_new = starting.follow_up(ended.pk, "refund", person("support"))

    assert (is_new, following.follows_id, following.input) == (True, ended.pk, {"order_id": "C204"})
    [begun] = following.events.filter(kind="started")
    assert begun.text_row.content()["follows"] == str(ended.pk)
    ended.refresh_from_db()
    assert {field: value for field, value in vars(ended).items() if not field.startswith("_")} == before


def test_the_same_follow_up_twice_is_one_run(engine: Engine, ended: Run) -> None:
    first, _ = starting.follow_up(ended.pk, "refund", person("support"))
    second, is_new = starting.follow_up(ended.pk, "refund", person("support"))
    assert (second.pk, is_new) == (first.pk, False)


def test_a_follow_up_that_nobody_declared_and_one_of_a_run_that_goes_on_are_refused(engine: Engine, ended: Run) -> None:
    with pytest.raises(Refused, match="no follow-up 'undo'; there are refund"):
        starting.follow_up(ended.pk, "undo", person("support"))
    going_on = starting.start("library", {"order_id": "A123"}, person("support"))[0]
    with pytest.raises(Refused, match="Only a run that has ended"):
        starting.follow_up(going_on.pk, "refund", person("support"))


def test_what_a_workflow_says_against_a_follow_up_is_told(engine: Engine, ended: Run, monkeypatch: Any) -> None:
    workflow = registry.workflows()["library"]
    shut = replace(workflow.follow_ups["refund"], why_not=lambda c: "Nothing was paid.")
    monkeypatch.setattr(
        "runs.workflows.registry.workflows", lambda: {"library": replace(workflow, follow_ups={"refund": shut})}
    )
    with pytest.raises(Refused, match="Nothing was paid"):
        starting.follow_up(ended.pk, "refund", person("support"))


def test_what_a_second_person_confirmed_is_not_also_let_go(
    engine: Engine, made: Callable[..., Run], library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the run ends by it at once, with nothing read or written in between."""
    library.answers = {"north": ["Emma"]}

    def script(c: Context) -> Proposal:
        return Act("lend", {"book": "Emma"}) if "shelf north" in c.facts and not library.lent else searches(c)

    run = made(script, contract=CONTRACT, scopes=SCOPES, checks=lambda c: ())
    run = engine.send(run, "approval_granted", "bob", run.effects.get().plan_digest)
    assert run.stop_reason == "question_asked"
    settled: list[list[int]] = []
    commit = engine_commit.commit

    def committed(lease: Any, run: Run, pending: engine_commit.Pending, **how: Any) -> int:
        settled.append([event["id"] for event in pending.inbox])
        return commit(lease, run, pending, **how)

    monkeypatch.setattr(engine_commit, "commit", committed)
    proposed = sending.send(run.pk, "scope_narrowed", person("alice"), NARROW)
    run = engine.send(run, "scope_narrowed", "support", str(proposed.pk), **NARROW)

    assert (run.outcome, {event.result for event in run.inbox.all()}) == ("COMPLETED", {"applied"})
    assert all(len(ids) == len(set(ids)) for ids in settled), settled


def test_a_narrower_contract_that_is_met_completes_nothing_before_the_preconditions_are_read_again(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    """A write was put up and rejected, so none took effect: what permits the run has to hold now."""
    library.answers = {"north": ["Emma"]}

    def script(c: Context) -> Proposal:
        return Act("lend", {"book": "Emma"}) if "shelf north" in c.facts else Act("search", {"shelf": "north"})

    run = made(script, contract=CONTRACT, scopes=SCOPES, checks=lambda c: ())
    run = engine.send(run, "approval_rejected", "bob", run.effects.get().plan_digest, reason="Not today.")
    assert run.stop_reason == "approval_rejected"
    steps = run.steps

    run = engine.send(run, "scope_narrowed", "support", **NARROW)

    assert (run.outcome, run.steps) == ("COMPLETED", steps + len(REFUND.reads))


def test_who_changed_a_write_does_not_narrow_the_scope_alone(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    run = amend(engine, made(lends, contract=CONTRACT, scopes=SCOPES), "alice")
    run = engine.send(run, "approval_rejected", "bob", run.effects.get().plan_digest, reason="Not today.")

    proposed = sending.send(run.pk, "scope_narrowed", person("alice"), NARROW)

    assert proposed.result == "proposed"


def test_a_change_counts_for_a_write_that_had_to_be_made_anew(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    sent: list[Any] = []

    def busy(service: Any, call: Call, until: float) -> Result:
        sent.append(call.params)
        raise ToolFailed(Failure("rate_limited", "Busy.", executed=False))

    library.lend = busy  # type: ignore[method-assign]
    run = made(
        lambda c: Act("lend", {"book": "Emma", "days": 9} if sent else {"book": "Emma"}),
        budgets={**REFUND.budgets, Dimension.EXTERNAL_WRITES: 2},
        retry_after=timedelta(),
    )
    run = engine.send(run, "approval_granted", "bob", run.effects.get().plan_digest)
    run = engine.carry_on(run)
    anew = run.effects.get(state="planned")
    assert anew.plan["params"]["days"] == 9

    engine.send(run, "plan_amended", "alice", anew.plan_digest, field="days", value="7", reason="It is needed here.")

    anew.refresh_from_db()
    assert anew.plan["params"]["days"] == 7


def test_a_change_does_not_make_it_a_write_for_somebody_else(
    engine: Engine, made: Callable[..., Run], library: Library
) -> None:
    """What was read permits the write for the subject that the run is about, and for no other."""
    lending = workflow(library, lends).operations["lend"]
    assert isinstance(lending, Writing)
    properties = {"book": {"type": "string"}, "order_id": {"type": "string"}}
    arguments = {**lending.arguments, "properties": properties}
    operations = {"lend": replace(lending, arguments=arguments, amendable=("order_id",))}
    run = made(lends, operations=operations)

    with pytest.raises(Refused, match="value: B456 is what this run was asked for") as refused:
        amend(engine, run, "alice", "order_id", "D041")
    assert refused.value.field == "value"
