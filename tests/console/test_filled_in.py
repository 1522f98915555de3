"""Forms open with what is likely filled in, say what may be changed, and show what it would come to."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from runs.domain.contract import met, unknown
from runs.domain.effects import Effect as Write
from runs.domain.effects import EffectState, WritePlan
from runs.domain.states import StopReason
from runs.models import Effect, InboxEvent, Run
from runs.workflows.definition import Context, Scope, Writing
from runs.workflows.refund_request import WORKFLOW
from tests.console import rows
from tests.states import bring_write

SignIn = Callable[[User], Client]


def address(run: Run, name: str, form: bool = False) -> str:
    return f"/runs/{run.pk}/events/{name}/" + ("form/" if form else "")


# A change of what is proposed


def loan(c: Context, given: Mapping[str, Any]) -> WritePlan:
    changes = (("days", "none", str(given["days"])), ("shelf", "north", given["shelf"]))
    return WritePlan("submit_refund", "Emma", dict(given), changes, "1", "lent", "none", "little", "all loans")


LENDING = Writing(
    says="Lends a book.",
    arguments={
        "type": "object",
        "properties": {
            "days": {"type": "integer", "minimum": 1, "maximum": 30, "title": "Days"},
            "shelf": {"type": "string", "title": "Shelf"},
        },
        "required": ["days", "shelf"],
        "additionalProperties": False,
    },
    plan=loan,
    amendable=("days",),
    key=lambda c, given: f"loan-{c.run_id[:8]}",
)


@pytest.fixture
def lent(alice: User, monkeypatch: pytest.MonkeyPatch) -> Run:
    declared = replace(WORKFLOW, operations={"submit_refund": LENDING})
    monkeypatch.setattr("runs.workflows.registry.workflows", lambda: {declared.name: declared})
    run = rows.proposed("B456", alice)
    effect = run.effects.get()
    plan = loan(None, {"days": 14, "shelf": "north"})  # type: ignore[arg-type]
    digest = Write(effect.operation_key, EffectState.PLANNED, plan, timezone.now()).digest
    Effect.objects.update(plan={name: getattr(plan, name) for name in plan.__dataclass_fields__}, plan_digest=digest)
    return run


def test_a_change_opens_with_what_is_proposed_and_says_what_may_be_changed(
    lent: Run, alice: User, signed_in: SignIn
) -> None:
    page = signed_in(alice).get(address(lent, "plan_amended")).content.decode()
    assert '<option value="days" selected>Days</option>' in page
    assert ">14</textarea>" in page
    assert "Change Days</a>" in page
    assert re.search(r"<bdi>Shelf</bdi></th><td><bdi>north</bdi></td><td>no</td>", page)


def test_what_a_change_comes_to_is_shown_before_it_is_sent(lent: Run, alice: User, signed_in: SignIn) -> None:
    typed = {"field": "days", "value": "21", "preview": "1"}
    for form in (False, True):
        answer = signed_in(alice).post(address(lent, "plan_amended", form), typed)
        page = answer.content.decode()
        assert answer.status_code == 200
        assert "With this change it would come to:" in page
        assert 'data-label="Then"><bdi>21</bdi></td>' in page
        assert ">21</textarea>" in page
    assert not InboxEvent.objects.exists()


def test_a_change_that_would_not_fit_is_said_beforehand(lent: Run, alice: User, signed_in: SignIn) -> None:
    typed = {"field": "days", "value": "500", "preview": "1"}
    page = signed_in(alice).post(address(lent, "plan_amended"), typed).content.decode()
    assert "With this change nothing could be put up:" in page


def test_what_cannot_be_told_beforehand_is_not_guessed(lent: Run, alice: User, signed_in: SignIn) -> None:
    effect = lent.effects.get()
    Effect.objects.update(plan=effect.plan | {"risk": "made on something else"})
    typed = {"field": "days", "value": "21", "preview": "1"}
    page = signed_in(alice).post(address(lent, "plan_amended"), typed).content.decode()
    assert "cannot be told beforehand" in page


def test_a_change_can_be_sent_from_the_list_of_approvals(lent: Run, bob: User, signed_in: SignIn) -> None:
    page = signed_in(bob).get("/approvals/").content.decode()
    assert f'href="/runs/{lent.pk}/events/plan_amended/?back=%2Fapprovals%2F"' in page


# More of a budget


@pytest.mark.parametrize(
    ("dimension", "stopped_for"), [("steps", "limit_steps"), ("tool_attempts", "limit_tool_attempts")]
)
def test_an_extension_opens_with_the_budget_that_is_used_up_and_half_of_what_was_planned(
    dimension: str, stopped_for: str, bob: User, alice: User, signed_in: SignIn
) -> None:
    run = rows.run("B456", alice, StopReason(stopped_for))
    limit = run.budget[dimension][0]
    run.budget[dimension][2] = limit
    run.save()
    page = signed_in(bob).get(address(run, "budget_extended")).content.decode()
    assert re.search(rf'<option value="{dimension}" selected>[^<]*: {limit} of {limit} spent', page)
    assert f'name="by" type="text" value="{limit // 2}"' in page


def test_an_extension_proposes_no_more_than_may_be_had(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.LIMIT_STEPS)
    planned = run.budget["steps"][0]
    run.budget["steps"][0] = run.budget["steps"][2] = 2 * planned - 1
    run.save()
    page = signed_in(bob).get(address(run, "budget_extended")).content.decode()
    assert 'name="by" type="text" value="1"' in page
    run.budget["steps"][0] = run.budget["steps"][2] = 2 * planned
    run.save()
    page = signed_in(bob).get(address(run, "budget_extended")).content.decode()
    assert "cannot be raised any further" in page
    assert 'name="by" type="text" value=""' in page


# Less than was asked for


@pytest.fixture
def narrowable(alice: User, monkeypatch: pytest.MonkeyPatch) -> Run:
    found = replace(WORKFLOW.contract[0], name="found", judge=lambda c: met(c.facts["order"].evidence("found")))
    lacking = replace(WORKFLOW.contract[0], name="lacking", judge=lambda c: unknown("nobody has it"))
    scopes = {
        "helps": Scope("Without what is <lacking>", frozenset({"lacking"})),
        "no_use": Scope("Without what is found", frozenset({"found"})),
    }
    declared = replace(WORKFLOW, contract=(found, lacking), scopes=scopes)
    monkeypatch.setattr("runs.workflows.registry.workflows", lambda: {declared.name: declared})
    run = rows.run("B456", alice, StopReason.QUESTION_ASKED)
    rows.facts(run)
    return run


def test_only_a_narrower_scope_that_helps_is_offered(narrowable: Run, alice: User, signed_in: SignIn) -> None:
    page = signed_in(alice).get(address(narrowable, "scope_narrowed")).content.decode()
    assert '<option value="helps" selected>Without what is &lt;lacking&gt;</option>' in page
    assert "no_use" not in page


def test_where_no_narrower_scope_helps_none_is_offered(
    narrowable: Run, alice: User, signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runs.workflows import registry

    (declared,) = registry.workflows().values()
    useless = replace(declared, scopes={"no_use": declared.scopes["no_use"]})
    monkeypatch.setattr("runs.workflows.registry.workflows", lambda: {declared.name: useless})
    page = signed_in(alice).get(f"/runs/{narrowable.pk}/").content.decode()
    assert 'id="act-scope_narrowed"' not in page
    assert "leaves out only what holds already" in page


def test_whoever_confirms_a_narrower_scope_sees_which(
    narrowable: Run, alice: User, bob: User, signed_in: SignIn
) -> None:
    typed = {"scope": "helps", "reason": "It will do."}
    assert signed_in(bob).post(address(narrowable, "scope_narrowed"), typed).status_code == 302
    for page in (address(narrowable, "scope_narrowed"), f"/runs/{narrowable.pk}/"):
        assert "<b>Without what is &lt;lacking&gt;</b>" in signed_in(alice).get(page).content.decode()


# Undoing


def test_who_undoes_sees_what_is_undone_and_how(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.CANCELLED_TOO_LATE)
    effect = bring_write(rows.write(run, EffectState.SENT), EffectState.CONFIRMED, receipt={"request_id": "R1"})
    page = signed_in(bob).get(address(run, "compensation_approved")).content.decode()
    assert "What would be undone: 1 write" in page
    for said in (effect.operation_key, "59.00 EUR", "cancel the request at the refund service by its number"):
        assert said in page, said


def test_what_is_withheld_is_not_told_where_somebody_undoes(bob: User, alice: User, signed_in: SignIn) -> None:
    run = rows.run("B456", alice, StopReason.NOT_AUTHORISED)
    bring_write(rows.write(run, EffectState.SENT), EffectState.CONFIRMED, receipt={"request_id": "R1"})
    answer = signed_in(bob).get(address(run, "compensation_approved"))
    assert answer.status_code == 200
    assert "59.00 EUR" not in answer.content.decode()
