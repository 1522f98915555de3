"""Runs carried on in this process, by the same `advance` that workers call, against the real back office."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from django.conf import settings as product
from pytest_django.fixtures import Settings

from runs.domain.package import LIMIT, SCHEMA, size
from runs.domain.proposals import Proposal
from runs.engine.advance import advance
from runs.interventions import sending, starting
from runs.models import Handoff, Run
from runs.workflows.definition import Context
from tests.engine.library import Library, workflow
from tests.people import person
from tests.processes import BackOffice


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else takes the run: these tests look at every step themselves."""
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)


PACKAGE = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)
# Secrets as services and people may write them, with what of each must never be in a package.
PLANTED = {
    "the product's token": ("the token is demo-key", "demo-key"),
    "the token in base64": ("Basic eDpkZW1vLWtleTp5", "RlbW8ta2V5"),
    "an API key": ("sk-live-Zx81kqPa77LmT0Qw", "Zx81kqPa77LmT0Qw"),
    "a signed token": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJVLTg4In0.c2lnbmVkLWhlcmU", "eyJzdWIiOiJVLTg4In0"),
    "a private key": ("-----BEGIN PRIVATE KEY-----\nMIIBVQIBADANBg\n-----END PRIVATE KEY-----", "MIIBVQIBADANBg"),
    "a named value": ('{"password": "correct horse 42"}', "correct horse"),
    "an address with credentials": ("redis://:winter-of-79@cache:6379/0", "winter-of-79"),
    "a card's number": ("5500 0000 0000 0004", "0000 0000 0004"),
    "an account's number": ("DE89 3704 0044 0532 0130 00", "3704 0044 0532"),
}


def assert_sound(package: dict[str, Any]) -> None:
    """A package is what its schema says, no larger than its limit, and holds no secret."""
    wrong = [f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in PACKAGE.iter_errors(package)]
    assert not wrong, "\n".join(wrong)
    assert size(package) <= LIMIT
    text = json.dumps(package, ensure_ascii=False)
    secrets = {"the secret key": product.SECRET_KEY, **{name: needle for name, (_, needle) in PLANTED.items()}}
    assert not [name for name, needle in secrets.items() if needle in text]


@pytest.fixture(autouse=True)
def _every_package_is_sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of whatever a test is about: all packages that it left are looked at, before the tables are emptied."""
    has_tables = "transactional_db" in request.fixturenames
    if has_tables:
        request.getfixturevalue("transactional_db")
    yield
    if has_tables:
        for handoff in Handoff.objects.all():
            assert_sound(handoff.package)


@pytest.fixture
def engine(transactional_db: None, back_office: BackOffice, settings: Settings) -> "Engine":
    settings.SERVICES = {"back_office": {"url": back_office.url, "token": "demo-key"}}
    settings.ENGINE_PACE = 1.0
    return Engine(back_office)


class Engine:
    def __init__(self, back_office: BackOffice) -> None:
        self.back_office = back_office

    def start(self, order_id: str, by: str = "support", **given: Any) -> Run:
        policy = given.pop("policy", "")
        run, _ = starting.start("refund_request", {"order_id": order_id, **given}, person(by), policy=policy)
        return run

    def carry_on(self, run: Run, until: Callable[[Run], bool] = lambda run: bool(run.outcome)) -> Run:
        """Advance now, and again while the run only waits for a retry."""
        for _ in range(20):
            Run.objects.filter(pk=run.pk, owner="", due_at__isnull=False).update(due_at="2000-01-01T00:00Z")
            advance(run.pk)
            run.refresh_from_db()
            if until(run):
                break
        return run

    def later(self, run: Run) -> Run:
        """The timer that the stopped run waits for goes off: everything that was planned lies in the past."""
        run.effects.update(next_look_at="2000-01-01T00:00Z", sent_at="2000-01-01T00:00Z")
        return self.carry_on(run)

    def run(self, order_id: str, **given: Any) -> Run:
        return self.carry_on(self.start(order_id, **given))

    def send(self, run: Run, event: str, sender: str, answers: str = "", /, **payload: Any) -> Run:
        sending.send(run.pk, event, person(sender), payload, answers)
        return self.carry_on(run, until=lambda run: bool(run.outcome) and not run.inbox.filter(result="").exists())

    def calls(self, order_id: str, kind: str) -> list[dict[str, Any]]:
        return [call for call in self.back_office.ledger(order_id)["calls"] if call["kind"] == kind]

    def effects(self, order_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.back_office.ledger(order_id)["effects"]
        return found


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def made(engine: Engine, library: Library, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Starts a run that a script drives through the library, and carries it on until it stops."""

    def start(script: Callable[[Context], Proposal], policy: str = "", **more: Any) -> Run:
        declared = workflow(library, script, **more)
        monkeypatch.setattr("runs.workflows.registry.workflows", lambda: {declared.name: declared})
        run, _ = starting.start(declared.name, {"order_id": "B456"}, person("support"), policy=policy)
        return engine.carry_on(run)

    return start
