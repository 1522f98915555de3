"""PostgreSQL as Django knows it, except that nobody waits for its answer for ever (docs/database.md).

A server that stands still still takes packets, so keepalives and the kernel's own time-outs do not notice it, and on a
unix socket there are none. The server's `statement_timeout` needs a server that works. So the waiting is bounded here.
"""

from functools import partial
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.abc import RV, PQGen


class DatabaseWrapper(base.DatabaseWrapper):
    def get_connection_params(self) -> dict[str, Any]:
        parameters: dict[str, Any] = super().get_connection_params()
        parameters.pop("answer_within", None)
        return parameters

    def _configure_connection(self, connection: psycopg.Connection[Any]) -> bool:
        # Called for each new connection, whether Django or its pool made it: both make psycopg's own class.
        if within := self.settings_dict["OPTIONS"].get("answer_within"):
            setattr(connection, "wait", partial(_wait, connection, within))  # noqa: B010 - a method, to mypy
        configured: bool = super()._configure_connection(connection)  # type: ignore[misc]
        return configured


def _wait(
    connection: psycopg.Connection[Any],
    within: float,
    gen: PQGen[RV],
    interval: float = 0.1,
    timeout: float | None = None,
) -> RV:
    """`Connection.wait` for at most `within` seconds, unless its caller says for how long itself."""
    try:
        return psycopg.Connection.wait(connection, gen, interval, within if timeout is None else timeout)
    except psycopg.errors._WaitTimeout:
        if timeout is not None:
            raise
        connection.close()  # an answer that comes later must not be taken for the next one's
        raise psycopg.OperationalError(f"The database did not answer within {within:g} s.") from None
