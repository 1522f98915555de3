"""Runs that stand still: stopped, in no worker's hands, and with nothing in the inbox that could move them on."""

from collections.abc import Iterable
from uuid import UUID

from runs.models import InboxEvent, Run


def reached(runs: Iterable[Run]) -> set[UUID]:
    """Those of `runs`, as they were read, that stand still."""
    stopped = {run.pk for run in runs if run.outcome and not run.owner}
    return stopped - set(InboxEvent.objects.filter(run__in=stopped, result="").values_list("run_id", flat=True))
