"""Runs made in bulk stand like those that they are copied from, as far as anybody can tell."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection

from bench import crowd
from runs.domain.redaction import digest
from runs.domain.states import StopReason
from runs.models import Effect, EventText, Run
from tests.console import rows
from tests.people import person
from tests.processes import product_env


@pytest.fixture
def alice(transactional_db: None) -> User:
    return person("alice")


def fill(folder: Path, runs: int, open_runs: int) -> None:
    address = product_env("", folder)["DATABASE_URL"]
    with crowd.begin(address) as database:
        crowd.fill(database, 1, runs, open_runs)


def test_a_crowd_has_the_states_and_the_record_of_the_runs_it_is_copied_from(alice: User, tmp_path: Path) -> None:
    lived = [
        rows.uncertain("B456", alice),
        rows.proposed("C881", alice),
        rows.run("D014", alice, StopReason.CONTRACT_MET),
    ]
    for run in lived:
        rows.event(run, "started", alice, order=run.input["order_id"], number=str(run.pk))

    fill(tmp_path, runs=60, open_runs=40)

    made = Run.objects.exclude(pk__in=[run.pk for run in lived])
    assert made.count() == 60
    assert made.unfinished().count() == 40
    assert {(run.state, run.outcome, run.stop_reason) for run in made} == {
        (run.state, run.outcome, run.stop_reason) for run in lived
    }
    assert len({run.subject for run in made}) == 60
    assert all(run.input["order_id"] in run.subject for run in made)
    for effect in Effect.objects.filter(run__in=made):
        assert effect.value().digest == effect.plan_digest
        assert effect.run.input["order_id"] in effect.operation_key
    for said in EventText.objects.filter(event__run__in=made).select_related("event__run"):
        assert digest(said.text) == said.event.digest
        assert said.content()["number"] == str(said.event.run_id)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM runs_run WHERE moves <> '{}'")
        assert cursor.fetchone() == (0,)
