"""An installation that is in use gets the amount at stake."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from runs.domain.states import StopReason
from runs.models import Run
from tests.console import rows
from tests.people import person

BEFORE, AFTER = ("runs", "0008_parts_of_the_queue"), ("runs", "0009_stake")


@pytest.mark.django_db
def test_of_runs_that_stopped_before_it_is_not_known_what_is_at_stake() -> None:
    alice = person("alice")
    runs = [rows.run("B456", alice, StopReason.NO_PROGRESS), rows.run("C881", alice, StopReason.CONTRACT_MET)]
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a table is not changed while checks of its rows are pending
    for target in (BEFORE, AFTER):
        MigrationExecutor(connection).migrate([target])
    assert [(run.pk in {known.pk for known in runs}, run.stake) for run in Run.objects.all()] == [(True, None)] * 2
