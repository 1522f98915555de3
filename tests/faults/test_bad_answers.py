"""Workflows that are gone and services that answer with nothing of use: a run stops, and says so on the case page."""

from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from runs.models import Run
from runs.tools.back_office import LOOK_UP_REFUND, READ_ORDER, SUBMIT_REFUND
from runs.workflows import registry
from tests.engine.conftest import Engine
from tests.faults.proxy import Fate, Proxy
from tests.faults.test_lost_replies import assert_completed_once
from tests.people import person

# Workflows


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`installed()`: no workflow; `installed(version=2)`: the refund request, under that version."""
    known = registry.workflows()["refund_request"]

    def install(version: int | None = None) -> None:
        found = {} if version is None else {known.name: replace(known, version=version)}
        monkeypatch.setattr(registry, "workflows", lambda: found)

    return install


def page_of(run: Run) -> str:
    alice = Client()
    alice.force_login(person("alice"))
    return unescape(alice.get(reverse("case", args=[run.pk])).content.decode())


def test_a_run_whose_workflow_is_gone_is_parked_says_so_and_goes_on_once_it_is_back(
    engine: Engine, installed: Callable[..., None]
) -> None:
    run = engine.start("B456")
    installed()

    run = engine.carry_on(run)

    assert (run.state, run.outcome, run.stop_reason) == ("blocked", "NEEDS_HUMAN", "workflow_missing")
    assert "The workflow refund_request is not installed any more." in page_of(run)
    run = engine.send(run, "resumed_after_review", "alice", reason="try it")
    assert run.inbox.get().result_reason == "The run's workflow is not installed; nothing can be carried out for it."
    assert run.stop_reason == "workflow_missing"

    installed(version=1)
    run = engine.send(run, "resumed_after_review", "alice", reason="it is installed again")

    assert_completed_once(engine, run)


def test_a_run_in_the_middle_is_not_judged_by_a_later_version_of_its_workflow(
    engine: Engine, installed: Callable[..., None]
) -> None:
    engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", "lookup_down")
    run = engine.run("B456")
    before, asked = run.handoffs.get().package["contract"], len(engine.calls("B456", "lookup"))
    engine.back_office.clear("B456")
    installed(version=2)

    run = engine.later(run)

    assert (run.outcome, run.stop_reason, run.effects_at_risk) == ("NEEDS_HUMAN", "workflow_missing", 1)
    assert "Version 1 of refund_request is not installed any more." in page_of(run)
    assert len(engine.calls("B456", "lookup")) == asked  # nothing is done under rules that are not its own
    assert run.handoffs.order_by("version")[0].package["contract"] == before

    installed(version=1)
    run = engine.send(run, "reconcile_requested", "alice")
    assert_completed_once(engine, run)


# Services


@pytest.mark.parametrize(
    ("fault", "parameters", "sentence"),
    [
        ("huge", {}, "The answer was larger than 1000000 bytes."),
        ("malformed", {}, "The answer was not a JSON object."),
        ("empty", {}, "The answer was not a JSON object."),
        ("slow", {"seconds": 60}, "No answer within 0."),
    ],
)
@pytest.mark.parametrize("where", ["orders", "submit", "lookup"])
def test_an_answer_that_is_none_stops_the_run_with_a_sentence_and_never_ends_in_a_second_write(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    fault: str,
    parameters: dict[str, Any],
    sentence: str,
) -> None:
    if fault == "slow":
        in_a_hurry(monkeypatch, where)
    if where == "lookup":
        engine.back_office.fault("B456", "answer_lost")
    engine.back_office.fault("B456", fault, where=where, **parameters)

    run = engine.run("B456")

    submitted = len(engine.calls("B456", "submit"))
    match where:
        case "orders":
            assert (run.outcome, run.stop_reason) == ("LIMIT_REACHED", "same_error_repeated")
            assert submitted == 0
        case "lookup":
            assert (run.outcome, run.stop_reason) == ("WAITING", "effect_unknown")
            assert submitted == 1
        case "submit":
            assert submitted == 1
            assert run.step_rows.get(kind="write").status == "failed"
    assert sentence in page_of(run)
    assert run.budget["tool_attempts"][2] >= 3
    assert len(engine.effects("B456")) <= 1


TOOLS = {"orders": READ_ORDER, "submit": SUBMIT_REFUND, "lookup": LOOK_UP_REFUND}


def in_a_hurry(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The call that is too slow anyway has a third of a second; the others keep their time, on a busy machine too."""
    known, slow = registry.workflows()["refund_request"], TOOLS[where]
    tools = {**known.tools, slow.name: replace(slow, deadline=0.3)}
    monkeypatch.setattr(registry, "workflows", lambda: {known.name: replace(known, tools=tools)})


@pytest.mark.parametrize("answer", [b"\x00\xff\xfe\x80" * 100, b"HTTP/1.1 200 OK\r\n\r\n\x00\xff\xfe\x80"])
def test_bytes_that_are_no_answer_are_none(engine: Engine, settings: Settings, answer: bytes) -> None:
    run = engine.start("B456")
    with Proxy(urlsplit(engine.back_office.url).port or 0) as to_service:
        settings.SERVICES = {"back_office": {"url": f"http://127.0.0.1:{to_service.port}", "token": "demo-key"}}
        for _ in range(3):
            to_service.doom(b"GET /orders", Fate.REPLACED, answer=answer)
        run = engine.carry_on(run)

    assert (run.outcome, run.stop_reason) == ("LIMIT_REACHED", "same_error_repeated")
    page = page_of(run)
    assert "The connection ended before an answer came." in page or "The answer was not a JSON object." in page
