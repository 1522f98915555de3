"""Runs in bulk: an installation is filled until it holds as many as a desk sees in years.

Each run made is a copy of one that the engine lived, so none stands where the product could not lead it: of the demo's
stories, which cover every workflow and every way of stopping, some of them in Chinese. A copy has an identity and times
of its own throughout; only what a handoff's package quotes keeps the old times, and what people sent (the inbox) is not
copied. Rows come by INSERT, runs and writes as they begin, and then make their moves: all of it as the application's
role, with every trigger, check and foreign key awake.

Open runs carry all of their rows, and so does one in `history_of` of the closed ones; the others have their row in
runs_run alone, because forty million rows of history take an hour and no list reads them. Nobody works on the copies:
their next look-up is due in days. The same seed makes the same runs, but for the clock.
"""

import json
from collections.abc import Mapping
from datetime import timedelta

import psycopg

AT_ONCE = 20_000  # runs made in one transaction
ENDED = {"COMPLETED": 0.74, "DECLINED": 0.18, "CANCELLED": 0.08}  # shares of the closed
STANDING = {"NEEDS_HUMAN": 0.6, "approval": 0.13, "WAITING": 0.17, "LIMIT_REACHED": 0.1}  # and of the open
CLOSED_WITHIN, OPEN_FOR = timedelta(days=365), timedelta(days=4)
SEED, HISTORY_OF = 6, 20

PROTOTYPES = """
CREATE TEMP TABLE prototype AS
WITH lived AS (
    SELECT id, state, stopped_at, state IN ('completed', 'failed', 'cancelled') AS is_final,
           CASE state WHEN 'awaiting_approval' THEN 'approval' ELSE outcome END AS kind,
           -- What the run is about, as its input names it.
           (SELECT value FROM jsonb_each_text(input) WHERE strpos(subject, value) > 0
             ORDER BY length(value) DESC LIMIT 1) AS thing
      FROM runs_run WHERE outcome <> ''
), weighed AS (
    SELECT lived.*, of_kind / count(*) OVER (PARTITION BY is_final, kind) AS share
      FROM lived JOIN unnest(%(kinds)s::text[], %(shares)s::float[]) AS kinds (kind, of_kind) USING (kind)
     WHERE thing <> ''
), ranged AS (
    SELECT *, sum(share) OVER (PARTITION BY is_final ORDER BY id) AS high FROM weighed
)
SELECT id, is_final, state, stopped_at, thing, replace(id::text, '-', '') AS hex, high - share AS low,
       CASE WHEN high = max(high) OVER (PARTITION BY is_final) THEN 2 ELSE high END AS high
  FROM ranged
"""
# The shortest ways by which a run, and a write that has been sent, come to stand where they stand.
WAYS = """
CREATE TEMP TABLE way AS
WITH RECURSIVE walk (state, moves) AS (
    VALUES ('received'::text, '{}'::text[])
    UNION ALL
    SELECT leads_to::text, moves || move::text FROM walk JOIN runs_transition USING (state)
     WHERE leads_to <> state AND cardinality(moves) < 4
)
SELECT DISTINCT ON (state) state, moves FROM walk ORDER BY state, cardinality(moves);
CREATE TEMP TABLE way_of_write AS
WITH RECURSIVE walk (state, changes) AS (
    VALUES ('sent'::text, '{}'::text[])
    UNION ALL
    SELECT after::text, changes || after::text FROM walk JOIN runs_effectchange ON before = state
     WHERE cardinality(changes) < 3
)
SELECT DISTINCT ON (state) state, changes FROM walk ORDER BY state, cardinality(changes);
CREATE TEMP TABLE canonical (effect_id bigint PRIMARY KEY, plan text);
CREATE FUNCTION pg_temp.drawn(n bigint, what bigint) RETURNS float LANGUAGE sql IMMUTABLE AS
    'SELECT (hashint8extended(n, what) & 2147483647) / 2147483648.0';
"""
CROWD = """
CREATE TEMP TABLE crowd ON COMMIT DROP AS
WITH drawn AS (
    SELECT n, n <= %(open_runs)s AS is_open, pg_temp.drawn(n, %(seed)s) AS like_draw,
           pg_temp.drawn(n, %(seed)s + 1) AS age_draw, pg_temp.drawn(n, %(seed)s + 2) AS due_draw,
           -- An identifier of version 4, as the product's own.
           overlay(overlay(md5(%(seed)s || ' ' || n) PLACING '4' FROM 13) PLACING '8' FROM 17) AS new_hex
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
)
SELECT n, new_hex::uuid AS id, new_hex, prototype.id AS like_id, hex, thing, is_open,
       -- A file keeps its ending.
       regexp_replace(thing, '(\\.\\w+)?$', '-' || to_hex(n) || '\\1') AS new_thing,
       now() - stopped_at - CASE WHEN is_open THEN %(open_for)s * age_draw ^ 2 ELSE %(closed_within)s * age_draw END
           AS later,
       interval '20 hours' * due_draw AS answer_later,
       now() + interval '1 day' + interval '3 days' * due_draw AS due_at,
       is_open OR n %% %(history_of)s = 0 AS with_history
  FROM drawn JOIN prototype ON is_final <> is_open AND low <= like_draw AND like_draw < high
"""
# New numbers for the rows of each run, in the order of the old ones.
NUMBERED = """
CREATE TEMP TABLE {table}_new ON COMMIT DROP AS
SELECT nextval('runs_{table}_id_seq') AS new_id, * FROM (
    SELECT crowd.*, old.id AS old_id FROM crowd JOIN runs_{table} AS old ON old.run_id = crowd.like_id
     WHERE with_history ORDER BY n, old.id
) AS ordered
"""
ARRIVE = """
UPDATE runs_run AS run
   SET state = old.state, moves = way.moves, outcome = old.outcome, stop_reason = old.stop_reason,
       acceptance = old.acceptance, due_at = CASE WHEN old.due_at IS NOT NULL THEN crowd.due_at END
  FROM crowd JOIN runs_run AS old ON old.id = crowd.like_id JOIN way ON way.state = old.state
 WHERE run.id = crowd.id
"""
ANSWERED = """
UPDATE runs_effect AS effect SET state = changes[%(change)s]
  FROM effect_new AS new
  JOIN runs_effect AS old ON old.id = new.old_id
  JOIN way_of_write AS way ON way.state = old.state
 WHERE effect.id = new.new_id AND cardinality(changes) >= %(change)s
"""
# Columns whose words may name what a run is about, beside all JSON.
NAMING = {"subject", "question", "operation_key", "undoes", "summary", "expects", "text", "reason", "reference"}


def renamed(words: str) -> str:
    """`words` of the old run as the new one has them. Keys of writes hold the beginning of its number."""
    for old, new in (
        ("new.like_id::text", "new.id::text"),
        *((f"left(new.hex, {size})", f"left(new.new_hex, {size})") for size in (20, 16)),
        ("new.thing", "new.new_thing"),
    ):
        words = f"replace({words}, {old}, {new})"
    return words


def digest(words: str) -> str:
    return f"encode(sha256(convert_to({renamed(words)}, 'UTF8')), 'hex')"


DIGEST_OF_PLAN = digest("(SELECT plan FROM canonical WHERE effect_id = old.id)")
NUMBERS = {"id": "new.new_id", "run_id": "new.id"}
OF_RUN = {"run_id": "new.id"}
# Which tables are filled from what, and the columns that are neither copied nor renamed nor merely later.
TABLES: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    (
        "runs_run",
        "crowd AS new JOIN runs_run AS old ON old.id = new.like_id",
        {
            "id": "new.id",
            "state": "'received'",
            "moves": "'{}'",
            "outcome": "''",
            "stop_reason": "''",
            "acceptance": "'unknown'",
            "due_at": "NULL",
            "follows_id": "NULL",
            "request_key": "''",
            "holder_id": "NULL",
            "held_until": "NULL",
            "asked_by": "old.asked_by",
            "budget": "old.budget",
            "answer_by": "old.answer_by + new.later + new.answer_later",
        },
    ),
    ("runs_step", "step_new AS new JOIN runs_step AS old ON old.id = new.old_id", NUMBERS),
    (
        "runs_steppayload",
        "step_new AS new JOIN runs_steppayload AS old ON old.step_id = new.old_id",
        {"step_id": "new.new_id"},
    ),
    (
        "runs_event",
        """event_new AS new
           JOIN runs_event AS old ON old.id = new.old_id
           LEFT JOIN runs_eventtext AS said ON said.event_id = old.id""",
        NUMBERS
        | {
            "transaction_id": "pg_current_xact_id()::text::bigint",
            "digest": f"coalesce({digest('said.text')}, old.digest)",
        },
    ),
    (
        "runs_eventtext",
        "event_new AS new JOIN runs_eventtext AS old ON old.event_id = new.old_id",
        {"event_id": "new.new_id"},
    ),
    ("runs_fact", "fact_new AS new JOIN runs_fact AS old ON old.id = new.old_id", NUMBERS),
    (
        "runs_effect",
        "effect_new AS new JOIN runs_effect AS old ON old.id = new.old_id",
        NUMBERS
        | {
            "state": "CASE WHEN old.state IN ('planned', 'approved') THEN old.state ELSE 'sent' END",
            "plan_digest": DIGEST_OF_PLAN,
            "approved_digest": f"CASE old.approved_digest WHEN old.plan_digest THEN {DIGEST_OF_PLAN} ELSE '' END",
            "approval_expires_at": "CASE WHEN new.is_open THEN new.due_at ELSE old.approval_expires_at + new.later END",
            "next_look_at": "CASE WHEN old.next_look_at IS NOT NULL THEN new.due_at END",
        },
    ),
    ("runs_handoff", "handoff_new AS new JOIN runs_handoff AS old ON old.id = new.old_id", NUMBERS),
)


def begin(address: str) -> psycopg.Connection:
    """A connection on which `fill` works: it knows the runs that are there now as the ones to copy."""
    database = psycopg.connect(address, autocommit=True, cursor_factory=psycopg.ClientCursor)
    shares = ENDED | STANDING
    database.execute(PROTOTYPES, {"kinds": list(shares), "shares": list(shares.values())})
    database.execute(WAYS)
    plans = database.execute("SELECT id, operation_key, plan FROM runs_effect").fetchall()
    for number, key, plan in plans:
        canonical = json.dumps({"key": key, **plan}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        database.execute("INSERT INTO canonical VALUES (%s, %s)", (number, canonical))
    database.execute("ANALYZE prototype, canonical, way, way_of_write")
    return database


def fill(database: psycopg.Connection, first: int, last: int, open_runs: int) -> None:
    """Make the runs numbered so, of which those up to `open_runs` are open and all others closed."""
    inserts = [_insert(database, *table) for table in TABLES]
    numbered = [NUMBERED.format(table=table) for table in ("step", "event", "fact", "effect", "handoff")]
    for begins in range(first, last + 1, AT_ONCE):
        given = {"first": begins, "last": min(last, begins + AT_ONCE - 1), "open_runs": open_runs}
        given |= {"seed": SEED, "history_of": HISTORY_OF}
        with database.transaction():
            database.execute(CROWD, given | {"open_for": OPEN_FOR, "closed_within": CLOSED_WITHIN})
            for statement in (*numbered, *inserts, ARRIVE):
                database.execute(statement)
            for change in (1, 2):
                database.execute(ANSWERED, {"change": change})


def _insert(database: psycopg.Connection, table: str, source: str, given: Mapping[str, str]) -> str:
    columns = database.execute(
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = current_schema() AND table_name = %s AND is_generated = 'NEVER'",
        (table,),
    ).fetchall()

    def value(name: str, kind: str) -> str:
        if name in given:
            return given[name]
        if kind == "timestamp with time zone":
            return f"old.{name} + new.later"
        if kind == "jsonb":
            return f"{renamed(f'old.{name}::text')}::jsonb"
        return renamed(f"old.{name}") if name in NAMING else f"old.{name}"

    names = ", ".join(name for name, _kind in columns)
    values = ", ".join(value(*column) for column in columns)
    return f"INSERT INTO {table} ({names}) SELECT {values} FROM {source}"  # noqa: S608 - our own names
