"""Whatever stands in a field that somebody else filled, and whatever is typed into a form: on every page it is text."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import models
from django.test import Client
from django.utils import timezone
from django.utils.http import urlencode

from runs.domain.effects import EffectState
from runs.domain.interventions import FROM_PEOPLE
from runs.domain.states import StopReason
from runs.models import Glance, Handoff, InboxEvent, Run, StepPayload
from takeover.console.models import SavedView
from tests.console import rows
from tests.people import person

pytestmark = pytest.mark.django_db

# Whose text comes from a service, a model, a customer or a person, and whether some page always shows it.
FOREIGN = {
    "auth.User.username": True,
    "auth.User.first_name": True,
    "auth.User.last_name": True,
    "auth.Group.name": True,
    "console.SavedView.name": True,
    "console.SavedView.query": True,
    "runs.Effect.operation_key": True,
    "runs.Effect.plan": True,
    "runs.Effect.reason": True,
    "runs.Effect.receipt": True,
    "runs.EventText.text": True,
    "runs.Fact.data": False,
    "runs.Fact.source": True,
    "runs.Fact.reference": True,
    "runs.Glance.difference": True,
    "runs.Glance.says": True,
    "runs.Glance.target_version": True,
    "runs.Handoff.package": True,
    "runs.InboxEvent.payload": True,
    "runs.InboxEvent.result_reason": True,
    "runs.Run.acts_for": True,
    "runs.Run.input": True,
    "runs.Run.question": True,
    "runs.Run.role": True,
    "runs.Run.subject": False,
    "runs.Step.summary": True,
    "runs.StepPayload.request": True,
    "runs.StepPayload.response": True,
}
# Codes, keys and digests of our own, which the rules or the database hold to what they know; and what no page reads.
OURS = {
    *("auth.User.email", "auth.User.password", "console.Preferences.language", "console.Preferences.zone"),
    *("runs.Effect.operation", "runs.Effect.undoes", "runs.Effect.binding", "runs.Effect.state"),
    *("runs.Effect.plan_digest", "runs.Effect.approved_digest", "runs.Effect.last_answer"),
    *("runs.Event.kind", "runs.Event.digest", "runs.Fact.name", "runs.Glance.plan_digest", "runs.Glance.finding"),
    *("runs.InboxEvent.name", "runs.InboxEvent.answers", "runs.InboxEvent.dedupe_key", "runs.InboxEvent.result"),
    *("runs.Refusal.attempted", "runs.Refusal.code", "runs.Run.workflow", "runs.Run.policy", "runs.Run.first_input"),
    *(
        "runs.Run.stake_currency",
        "runs.Run.scope",
        "runs.Run.request_key",
        "runs.Run.asked_by",
        "runs.Run.state",
        "runs.Run.outcome",
    ),
    *("runs.Run.stop_reason", "runs.Run.acceptance", "runs.Run.recovery", "runs.Run.error_class", "runs.Run.owner"),
    *("runs.Run.budget", "runs.Run.progress", "runs.Step.kind", "runs.Step.operation", "runs.Step.operation_key"),
    *("runs.Step.expects", "runs.Step.charge", "runs.Step.status", "runs.Step.code", "runs.Step.error_class"),
    *("runs.Step.fingerprint", "runs.Step.gain", "runs.Seal.previous", "runs.Seal.events_hash", "runs.Seal.key_id"),
    *("runs.Seal.hash", "runs.Seal.signature", "runs.Worker.name", "runs.Worker.kind", "runs.Worker.host"),
    "runs.Worker.pool",
}
KINDS = (
    *("stopped", "noted", "write_sent", "effect_compensated", "claimed_completion", "proposal_refused", "handed_over"),
    *("approval_asked", "plan_replaced", "event_received", "event_proposed", "event_refused", "case_assigned"),
    *("soft_limit_crossed", "step_interrupted", "case_claimed", "started"),
)
LAST = 90
TURNS = "\u202e"  # turns what follows around
EVIL = f"<img src=x onerror=x()>\"'{TURNS}"


def evil(field: str) -> str:
    assert field in FOREIGN, field
    return f"{EVIL}{list(FOREIGN).index(field):03}"


class Page(HTMLParser):
    """What a browser makes of a page, as far as somebody else's text could have a hand in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.text: list[str] = []
        self._typed = False  # inside a field that gives back what was typed, to the letter
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._typed = tag == "textarea"
        self.wrong += [f"<{tag}>"] * (tag == "img")
        for name, value in attrs:
            self.text.append(value or "")
            turned = TURNS in (value or "") and name not in {"value", "href"}
            self.wrong += [f"<{tag} {name}={value}>"] * (turned or name.startswith("on"))

    def handle_endtag(self, tag: str) -> None:
        self._typed = False

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        self.wrong += [data.strip()] * (TURNS in data and not self._typed)


@pytest.fixture
def mallory() -> User:
    """Has every part of a name that can hold it."""
    made = person("support")
    names = {name: evil(f"auth.User.{name}") for name in ("username", "first_name", "last_name")}
    User.objects.filter(pk=made.pk).update(**names)
    group = Group.objects.create(name=evil("auth.Group.name"))
    made.groups.add(group)
    return User.objects.get(pk=made.pk)


@pytest.fixture
def cases(mallory: User) -> list[Run]:
    held = {"holder": mallory, "held_until": timezone.now() + timedelta(minutes=5)}
    written = {name: evil(f"runs.Run.{name}") for name in ("acts_for", "question", "role")}
    made = [
        rows.uncertain("B456", mallory, **held, **written),
        rows.proposed("B457", mallory, **written),
        rows.run("B458", mallory, StopReason.CONTRACT_MET, **written),
        rows.proposed("B459", mallory, **written),
        rows.proposed("B460", mallory, **written),
    ]
    rows.write(made[2], EffectState.REJECTED, operation_key=evil("runs.Effect.operation_key"))
    for run, finding in zip(made, ("", "changed", "", "not_now", "unreadable"), strict=True):
        _spoil(run, finding, mallory)
    SavedView.objects.create(
        owner=mallory,
        name=evil("console.SavedView.name"),
        query=urlencode({"q": evil("console.SavedView.query")}),
        shared=True,
    )
    return made


def _spoil(run: Run, finding: str, by: User) -> None:
    of_input = evil("runs.Run.input")
    subject = evil("runs.Run.subject") + str(run.pk)[:4]
    run.stretch = 2
    spoilt = {"input": {"order_id": of_input, of_input: of_input}, "subject": subject}
    Run.objects.filter(pk=run.pk).update(**spoilt, stretch=run.stretch)
    for effect in run.effects.all():
        plan: dict[str, Any] = {name: evil("runs.Effect.plan") for name in effect.plan}
        plan |= {"operation": effect.plan["operation"], "params": _spoilt(effect.plan["params"], "runs.Effect.plan")}
        effect.plan = plan | {"difference": [[evil("runs.Effect.plan")] * 3]}
        effect.reason, effect.receipt = evil("runs.Effect.reason"), _nested("runs.Effect.receipt")
        effect.plan_digest = effect.value().digest
        effect.save()
    for row in run.facts.all():
        row.data = _spoilt(row.data, "runs.Fact.data")
        row.source, row.reference = evil("runs.Fact.source"), evil("runs.Fact.reference")
        row.save()
    step = rows.step(run, LAST, "read", "read_order", evil("runs.Step.summary"))
    StepPayload.objects.create(
        step=step, **{name: _nested(f"runs.StepPayload.{name}") for name in ("request", "response")}
    )
    told = evil("runs.EventText.text")
    names = ("says", "text", "why", "giver", "taker", "task", "rule", "changed", "source", "to", "had_it", "dimension")
    for kind in KINDS:
        content: dict[str, Any] = dict.fromkeys((*names, "operation_key", "seq", "spent"), told)
        for name in ("evidence_supplied", "callback_received", told):
            payload = {"statement": told, "reference": told, told: told}
            rows.event(run, kind, by, **{**content, "name": name, "payload": payload})
    payload = dict.fromkeys(("reason", "reference", "scope", "statement"), evil("runs.InboxEvent.payload"))
    said = {"run": run, "payload": payload, "actor": by, "received_at": timezone.now(), "stretch": run.stretch}
    InboxEvent.objects.create(**said, name="closed_unresolved", result="proposed")
    InboxEvent.objects.create(
        **said,
        name="evidence_supplied",
        result="refused",
        result_reason=evil("runs.InboxEvent.result_reason"),
        settled_at=timezone.now(),
    )
    if finding:
        Glance.objects.create(
            run=run,
            plan_digest=run.effects.get().plan_digest,
            asked_at=timezone.now(),
            read_at=timezone.now(),
            finding=finding,
            difference=[[evil("runs.Glance.difference")] * 3],
            target_version=evil("runs.Glance.target_version"),
            says=evil("runs.Glance.says"),
        )
    for version in (1, 2):
        ended: dict[str, Any] = dict.fromkeys(("outcome", "stop_reason"), evil("runs.Handoff.package")) | {
            "budgets": []
        }
        Handoff.objects.create(run=run, version=version, package=ended, made_at=timezone.now())


def _spoilt(data: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: evil(field) if isinstance(value, str) else value for name, value in data.items()}


def _nested(field: str) -> dict[str, Any]:
    return {evil(field): [evil(field), {"url": f"javascript:{evil(field)}"}]}


def test_every_field_that_holds_text_is_on_one_of_the_lists() -> None:
    text = (models.CharField, models.TextField, models.JSONField)
    ours: list[type[models.Model]] = [
        *apps.get_app_config("runs").get_models(),
        *apps.get_app_config("console").get_models(),
        User,
        Group,
    ]
    fields = {
        f"{model._meta.label}.{field.name}" for model in ours for field in model._meta.fields if isinstance(field, text)
    }
    assert fields == {*FOREIGN, *OURS}


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_what_others_wrote_is_text_on_every_page(language: str, cases: list[Run], mallory: User) -> None:
    wrong: dict[str, list[str]] = {}
    seen = ""
    for who in (person("bob"), mallory):
        client = Client()
        client.force_login(who)
        client.cookies["language"] = language
        for address in _pages(cases):
            page = Page(client.get(address).content.decode())
            seen += "\n".join(page.text)
            if page.wrong:
                wrong[f"{address} as {who.pk}"] = page.wrong
    assert wrong == {}
    assert {field for field, shown in FOREIGN.items() if shown} - _shown(seen) == set()


def _shown(seen: str) -> set[str]:
    """Whose text stood on a page: with what hides spelt out, or given back to the letter."""
    found = re.findall(r"onerror=x\(\)>\\?\"'(?:\[U\+202E\]|\u202e)(\d{3})", seen)
    return {list(FOREIGN)[int(number)] for number in found}


def _pages(cases: list[Run]) -> list[str]:
    pages = [f"/runs/{run.pk}/{rest}" for run in cases for rest in ("", f"steps/{LAST}/")]
    pages += [f"/runs/{run.pk}/events/{move}/" for run in cases[:2] for move in FROM_PEOPLE]
    pages += [f"/runs/{run.pk}/glance/?of={run.effects.get().plan_digest}" for run in cases if run.effects.exists()]
    pages += [f"/?tab={tab}" for tab in ("human", "waiting", "limit", "approval", "mine", "open", "closed")]
    shown = urlencode([("shown", f"{run.pk}.0") for run in cases])
    pages += [f"/queue/news/?{shown}", f"/queue/list/?tab=open&q={EVIL}", f"/approvals/list/?{shown}"]
    pages.append("/?" + urlencode({"q": evil("console.SavedView.query")}))  # where a saved view leads
    return [*pages, "/queue/counts/", "/approvals/", "/outcomes/", "/outcomes/runs/", "/you/", "/kept/"]


def test_what_is_typed_into_an_address_is_text() -> None:
    client = Client()
    client.force_login(person("ada"))
    run = rows.proposed("B456", person("alice"))
    asked: tuple[str, ...] = (
        "q",
        "tab",
        "sort",
        "after",
        "workflow",
        "reason",
        "error",
        "effect",
        "holder",
        "age",
        "risk",
        "back",
    )
    asked += ("since", "shown", "days", "page", "day", "outcome", "show", "of", "field", "value", "statement", "next")
    screens: tuple[str, ...] = (
        "/",
        "/queue/list/",
        "/queue/news/",
        "/approvals/",
        "/approvals/list/",
        "/outcomes/",
        "/outcomes/runs/",
    )
    screens += (f"/runs/{run.pk}/", f"/runs/{run.pk}/glance/", f"/runs/{run.pk}/events/evidence_supplied/", "/you/")
    screens += (f"/runs/{run.pk}/events/plan_amended/", f"/runs/{run.pk}/events/approval_rejected/", "/kept/")
    for screen in screens:
        for name in asked:
            assert Page(client.get(screen, {name: EVIL}).content.decode()).wrong == [], (screen, name)
    assert Page(Client().get("/sign-in/", {"next": EVIL}).content.decode()).wrong == []


def test_what_is_typed_into_a_form_is_text_in_its_refusal() -> None:
    bob, alice = person("bob"), person("alice")
    run = rows.proposed("B456", alice)
    view = SavedView.objects.create(owner=bob, name="Lost facts")
    fields = {field for kind in FROM_PEOPLE.values() for field in kind.payload.get("properties", {})}
    fields |= {"text", "once", "to", "do", "run", "shown", "plan", "name", "query", "username", "password", "language"}
    fields |= {"zone", "next", "back", "seen", "answers", "reason", "comment", EVIL}
    forms = [f"/runs/{run.pk}/events/{move}/{form}" for move in FROM_PEOPLE for form in ("", "form/")]
    forms += [f"/runs/{run.pk}/{rest}/" for rest in ("claim", "release", "assign", "notes", "follow-ups/payment")]
    forms += ["/queue/take-next/", "/queue/bulk/", "/queue/views/", f"/queue/views/{view.pk}/rename/"]
    forms += ["/approvals/together/", "/language/", "/you/", "/sign-in/", f"/runs/{run.pk}/events/{EVIL[:10]}/"]
    for form in forms:
        for left_out in (set(), {"back", "answers", "seen"}, {"run", "shown"}, {"do", "query", "once"}):
            client = Client()
            if form != "/sign-in/":
                client.force_login(bob)
            answer = client.post(form, dict.fromkeys(fields - left_out, EVIL), follow=True)
            assert answer.status_code < 500
            assert Page(answer.content.decode()).wrong == [], form
