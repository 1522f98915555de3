"""Telling workers and screens that there is something new in a run, once it is committed."""

from uuid import UUID

from django.db import connection, transaction

from runs.engine.advance import nudge
from runs.engine.tasks import wake
from runs.models import Run


def ring(run: Run, *, takes_it_away: bool = False) -> None:
    """Say that something new is in the inbox; `takes_it_away` from whoever holds the run, who has to claim it again."""
    # The cure for a lost race is the counter: a holder that commits after us sees it and looks into the inbox.
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE runs_run
                  SET inbox_seq = inbox_seq + 1,
                      token = token + CASE WHEN %(take)s THEN 1 ELSE 0 END,
                      owner = CASE WHEN %(take)s THEN '' ELSE owner END,
                      due_at = CASE WHEN owner = '' OR %(take)s THEN clock_timestamp() ELSE due_at END
                WHERE id = %(run)s""",
            {"run": run.pk, "take": takes_it_away},
        )


def wake_after_commit(run_id: UUID) -> None:
    def wake_and_nudge() -> None:
        wake(run_id)
        nudge(run_id)

    # Robust: the event is committed, and a broker that is away must not turn that into an error. The sweeper finds it.
    transaction.on_commit(wake_and_nudge, robust=True)


def nudge_after_commit(run_id: UUID) -> None:
    transaction.on_commit(lambda: nudge(run_id), robust=True)
