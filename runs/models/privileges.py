"""What the application's role may do in the database, table by table, and whether that is so (docs/database.md).

The owner makes the tables and changes them; the application signs in as another role. So nothing that goes wrong in the
application, and nobody who gets in through it, changes what is on record or switches a guard off.
"""

from django.db import DEFAULT_DB_ALIAS, IntegrityError, ProgrammingError, connections, transaction
from psycopg import sql

RECORD = ("runs_event", "runs_eventtext", "runs_handoff", "runs_seal")  # written once, and never changed
LAW = ("runs_transition", "runs_stopreason", "runs_effectchange", "django_migrations")
KEPT = ("runs_run", "runs_effect", "runs_fact", "runs_inboxevent", "runs_refusal", "runs_step", "runs_steppayload")
MAY = {
    **dict.fromkeys(RECORD, "SELECT, INSERT"),
    **dict.fromkeys(LAW, "SELECT"),
    **dict.fromkeys(KEPT, "SELECT, INSERT, UPDATE"),
}
BEYOND = {**dict.fromkeys(RECORD, "which is written once"), **dict.fromkeys(LAW, "which only migrations change")}
BEYOND_ITS_WORK = "which its work does not need"
ELSEWHERE = "SELECT, INSERT, UPDATE, DELETE"  # sessions, accounts and what is no part of a run
FORGETTING = ("runs_forget_texts", "runs_forget_payloads")  # for retention: they check what they are asked for

GUARDS = {
    "a_run_begins": "runs_run",
    "a_run_moves": "runs_run",
    "a_run_stops": "runs_run",
    "a_write_begins": "runs_effect",
    "a_write_changes": "runs_effect",
    "a_write_keeps_its_key": "runs_effect",
    "a_step_is_settled_once": "runs_step",
    "a_step_keeps_its_place": "runs_step",
    "an_event_names_its_transaction": "runs_event",
}

OWNED = """
SELECT relname, relkind FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'S')
   AND pg_has_role(current_user, relowner, 'USAGE')
"""
CAN = """
SELECT relname, pg_has_role(current_user, relowner, 'MEMBER'),
       array_remove(ARRAY[CASE WHEN has_any_column_privilege(oid, 'INSERT') THEN 'INSERT' END,
                          CASE WHEN has_any_column_privilege(oid, 'UPDATE') THEN 'UPDATE' END,
                          CASE WHEN has_table_privilege(oid, 'DELETE') THEN 'DELETE' END,
                          CASE WHEN has_table_privilege(oid, 'TRUNCATE') THEN 'TRUNCATE' END,
                          CASE WHEN has_table_privilege(oid, 'TRIGGER') THEN 'TRIGGER' END], NULL)
  FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(%s) ORDER BY relname
"""
AWAKE = """
SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
 WHERE relnamespace = current_schema()::regnamespace AND tgname = ANY(%s) AND tgenabled IN ('O', 'A')
"""


class NoSuchRole(Exception):
    """The application's role is not there, and the owner may not make it. The message says what to do."""


def make_role(name: str, password: str, owner: str) -> None:
    """Make the application's role, unless it is there, over the connection `owner`.

    Roles belong to the whole cluster. Where another database's migration is making the same one at this moment, this
    waits for it and is content.
    """
    connection = connections[owner]
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", [name])
        if cursor.fetchone()[0]:
            return
    make = sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name))
    if password:
        # As the server would store it, so that it stands in no log of statements.
        secret = connection.connection.pgconn.encrypt_password(password.encode(), name.encode())
        make += sql.SQL(" PASSWORD {}").format(sql.Literal(secret.decode()))
    try:
        with transaction.atomic(using=owner), connection.cursor() as cursor:
            cursor.execute(make)
    except (IntegrityError, ProgrammingError) as problem:
        if getattr(problem.__cause__, "sqlstate", "") == "42501":
            raise NoSuchRole(
                f"There is no role {name}, and {connection.settings_dict['USER']} may not make one: "
                f"CREATE ROLE {name} LOGIN PASSWORD '…', and migrate again."
            ) from None
        if getattr(problem.__cause__, "sqlstate", "") not in {"42710", "23505"}:  # somebody else was first
            raise


def grant(role: str, owner: str) -> None:
    """Let `role` do what `MAY` says in the owner's tables and no more; said anew after every migration, so that new
    tables are covered and what was granted by hand is gone, to `role` or to everybody.
    """
    connection, to = connections[owner], sql.Identifier(role)
    with transaction.atomic(using=owner), connection.cursor() as cursor:
        cursor.execute("SELECT current_database(), current_schema()")
        database, schema = map(sql.Identifier, cursor.fetchone())
        cursor.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, to))
        # Who may make functions there makes the owner's run them: the better match wins, not PostgreSQL's own.
        cursor.execute(sql.SQL("REVOKE CREATE ON SCHEMA {} FROM PUBLIC").format(schema))
        cursor.execute(sql.SQL("REVOKE ALL ON SCHEMA {} FROM {}").format(schema, to))
        cursor.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, to))
        cursor.execute(OWNED)
        for name, kind in cursor.fetchall():
            what = sql.SQL("SEQUENCE {}" if kind == "S" else "TABLE {}").format(sql.Identifier(name))
            may = sql.SQL("USAGE" if kind == "S" else MAY.get(name, ELSEWHERE))
            cursor.execute(sql.SQL("REVOKE ALL ON {} FROM {}, PUBLIC").format(what, to))
            cursor.execute(sql.SQL("GRANT {} ON {} TO {}").format(may, what, to))
        cursor.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname = ANY(%s)",
            [list(FORGETTING)],
        )
        for (name,) in cursor.fetchall():
            cursor.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(sql.Identifier(name), to))


def shortcomings(using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Why the record is not safe from the role that this process signs in as, in sentences; empty where it is."""
    with connections[using].cursor() as cursor:
        cursor.execute(
            "SELECT current_user, rolsuper, current_schema(), has_schema_privilege(current_schema(), 'CREATE')"
            " FROM pg_roles WHERE rolname = current_user"
        )
        role, is_superuser, schema, makes_objects = cursor.fetchone()
        cursor.execute(CAN, [list(MAY)])
        tables = cursor.fetchall()
    found = []
    if is_superuser or any(owns for _, owns, _ in tables):
        why = "may do anything" if is_superuser else "owns the tables"
        found.append(
            f"The application signs in to the database as {role}, who {why}: the record is not protected from the "
            "application. Give it a role of its own (docs/database.md)."
        )
    else:
        found += [
            f"The role {role} may {' and '.join(more)} on {table}, {BEYOND.get(table, BEYOND_ITS_WORK)}: "
            "run manage.py migrate with OWNER_DATABASE_URL, which puts that right."
            for table, _, verbs in tables
            if (more := [verb for verb in verbs if verb not in MAY[table]])
        ]
        if makes_objects:
            found.append(
                f"The role {role} may make functions in the schema {schema}, by which it can act as the owner: run "
                f"manage.py migrate with OWNER_DATABASE_URL, or REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC as the "
                "owner of the schema."
            )
    return found


def asleep(using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """The guards that are missing or switched off, each with its table: the database does not keep those rules."""
    with connections[using].cursor() as cursor:
        cursor.execute(AWAKE, [list(GUARDS)])
        awake = {name for (name,) in cursor.fetchall()}
    return [f"{name} on {table}" for name, table in GUARDS.items() if name not in awake]
