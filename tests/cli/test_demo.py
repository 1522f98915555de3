"""`manage.py demo`: accounts for every role, and runs in every outcome that were really run."""

from collections.abc import Callable
from importlib import import_module
from io import StringIO

import pytest
from django.apps import apps
from django.contrib.auth import authenticate
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Coalesce
from pytest_django.fixtures import Settings

from runs.domain.interventions import ROLES
from runs.domain.states import Outcome
from runs.models import Run
from runs.workflows import registry
from takeover.demo import scenarios
from takeover.demo.accounts import ACCOUNTS, PASSWORD, make_accounts
from takeover.demo.scenarios import refund_request
from takeover.management.commands import demo
from takeover.supervisor.children import Child
from tests.processes import BackOffice, Standing


def play(*words: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("demo", *words, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.fixture
def office(back_office: BackOffice, product_env: dict[str, str], settings: Settings) -> BackOffice:
    settings.BACK_OFFICE_URL = back_office.url
    settings.SERVICES = {
        "back_office": {"url": back_office.url, "token": "demo-key"},
        "documents": {"folder": product_env["DOCUMENTS_FOLDER"]},
    }
    return back_office


def permissions_of(role: str) -> set[str]:
    return set(Group.objects.get(name=role).permissions.values_list("codename", flat=True))


def test_every_role_has_an_account_with_its_permissions(db: None) -> None:
    assert make_accounts() == list(ACCOUNTS)
    for name, account in ACCOUNTS.items():
        user = authenticate(username=name, password=PASSWORD)
        assert isinstance(user, User)
        assert user.get_full_name() == account.full_name
        assert user.get_all_permissions() == {f"runs.{permission}" for permission in ROLES[account.role][1]}


def test_an_account_that_is_there_is_left_as_it_is(db: None) -> None:
    make_accounts()
    support = User.objects.get(username="support")
    support.set_password("changed by its owner")
    support.groups.clear()
    support.save()
    assert make_accounts() == []
    support.refresh_from_db()
    assert support.check_password("changed by its owner")
    assert not support.groups.exists()


def test_an_installation_without_the_demo_has_the_roles_too(db: None) -> None:
    Group.objects.all().delete()
    Permission.objects.filter(content_type__app_label="runs").delete()
    migration = import_module("runs.migrations.0002_roles")
    for _ in range(2):
        with connection.schema_editor() as editor:
            migration.make_roles(apps, editor)
    assert {role: permissions_of(role) for role in ROLES} == {
        role: {permission.value for permission in permissions} for role, (_, permissions) in ROLES.items()
    }
    before = Permission.objects.filter(content_type__app_label="runs").count()
    create_permissions(apps.get_app_config("runs"), verbosity=0)  # what Django does after all migrations
    assert Permission.objects.filter(content_type__app_label="runs").count() == before == len(migration.PERMISSIONS)


def test_every_outcome_is_reached_by_really_running(
    start_worker: Callable[..., Child], sweeper: Standing, office: BackOffice, settings: Settings
) -> None:
    settings.ENGINE_PACE = 0.3  # "not there" is proof the sooner, and the demo knows when
    start_worker(ENGINE_PACE="0.3")
    code, out, err = play()
    assert (code, err) == (0, "")
    stories = scenarios.of(registry.workflows())
    expected = {(story.workflow, f"demo-{story.name}", story.ends.value) for story in stories}
    played = Run.objects.values_list("workflow", Coalesce("follows__request_key", "request_key"), "stop_reason")
    assert set(played) == expected
    assert set(Run.objects.values_list("outcome", flat=True)) == set(Outcome)
    assert f"{len(stories)} of {len(stories)}: " in out
    assert set(Run.objects.exclude(holder=None).values_list("holder__username", flat=True)) == {"support", "support2"}
    taken_effect = {effect["order_id"] for effect in office.client.get("/control/ledger").json()["effects"]}
    refunded = Run.objects.filter(workflow="refund_request", outcome=Outcome.COMPLETED)
    assert set(refunded.values_list("input__order_id", flat=True)) <= taken_effect

    assert play() == (0, "The demo's runs are there already. (--again runs the stories once more.)\n", "")
    assert Run.objects.count() == len(stories)


def test_every_workflow_that_ships_has_its_stories_and_no_two_have_one_name() -> None:
    for workflow in registry.workflows():
        names = [story.name for story in scenarios.of([workflow]) if story.workflow == workflow]
        assert len(names) == len(set(names)) > 0


def test_a_workflow_without_stories_is_left_out() -> None:
    assert scenarios.of(["somebody_elses"]) == []


def test_the_stories_leave_the_tour_s_orders_alone() -> None:
    orders = [story.input["order_id"] for story in refund_request.SCENARIOS]
    assert len(orders) == len(set(orders)) >= 40
    assert not {"B456", "A123", "C204"} & set(orders)


def test_without_workers_it_says_so(
    transactional_db: None, office: BackOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "FIRST_MOVE_WITHIN", 0.5)
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)
    code, _, err = play()
    assert code == 1
    assert err.startswith("No worker took up a run within 0.5 seconds")


def test_without_its_back_office_it_says_so(db: None, settings: Settings) -> None:
    settings.BACK_OFFICE_URL = "http://127.0.0.1:1"
    code, _, err = play()
    assert code == 1
    assert err == "The back office at http://127.0.0.1:1 does not answer: start bin/up.\n"
    assert not Run.objects.exists()


def test_accounts_can_be_made_alone(db: None) -> None:
    code, out, _ = play("--accounts-only")
    assert (code, out) == (0, "Accounts made: support, support2, supervisor, administrator\n")
    assert play("--accounts-only") == (0, "", "")
    assert not Run.objects.exists()
