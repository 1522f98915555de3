"""Rules that the database keeps by itself, whatever the program does (docs/database.md).

Plain SQL: half a dozen triggers, of which each is one condition. Their tables are data, frozen here as every migration
freezes its schema; `tests/models/test_guards.py` holds them against `runs.domain`, so a change of the rules needs a
migration that changes these rows too.
"""

from django.db import migrations

STOP_REASONS = {
    "COMPLETED": ["contract_met"],
    "WAITING": ["effect_pending", "effect_unknown", "result_pending", "cancellation_unverified"],
    "DECLINED": ["not_authorised", "not_eligible", "refused_by_service"],
    "NEEDS_HUMAN": [
        "approval_required",
        "approval_rejected",
        "approval_expired",
        "facts_missing",
        "facts_in_conflict",
        "receipts_contradict",
        "credential_refused",
        "access_refused",
        "input_invalid",
        "not_found",
        "tool_missing",
        "no_progress",
        "sources_exhausted",
        "not_worth_going_on",
        "question_asked",
        "outcome_unconfirmed",
        "half_done",
        "cancelled_too_late",
        "not_reversible",
        "paused",
        "cannot_dispatch",
        "unforeseen_error",
        "workflow_missing",
    ],
    "LIMIT_REACHED": [
        "limit_steps",
        "limit_model_turns",
        "limit_tokens",
        "limit_tool_attempts",
        "limit_external_writes",
        "limit_status_checks",
        "limit_wall_time",
        "limit_cost",
        "same_error_repeated",
    ],
    "CANCELLED": ["cancelled_unsent", "cancelled_absent", "cancelled_compensated"],
}

# A move, where it leads to (empty: the run stays where it is), and the states from which it may be taken.
MOVES = [
    ("started", "planning", "received"),
    ("proposal_accepted", "executing", "planning"),
    ("validation_due", "validating", "planning executing blocked"),
    ("contract_met", "completed", "validating"),
    ("contract_not_met", "needs_revision", "validating"),
    ("revision_begun", "executing", "needs_revision"),
    ("approval_required", "awaiting_approval", "planning executing"),
    ("approval_granted", "executing", "awaiting_approval"),
    ("approval_rejected", "planning", "awaiting_approval"),
    ("approval_lapsed", "blocked", "awaiting_approval"),
    ("approval_revoked", "planning", "blocked"),
    ("approval_revoked", "", "planning executing validating needs_revision awaiting_approval"),
    ("plan_amended", "planning", "awaiting_approval blocked"),
    ("reconcile_requested", "validating", "blocked"),
    ("reconcile_requested", "", "planning validating"),
    ("evidence_supplied", "validating", "blocked"),
    ("evidence_supplied", "", "planning validating"),
    ("effect_confirmed", "validating", "blocked"),
    ("effect_confirmed", "", "planning validating"),
    ("effect_refuted", "validating", "blocked"),
    ("effect_refuted", "", "planning validating"),
    ("callback_received", "validating", "blocked"),
    ("callback_received", "", "planning executing validating needs_revision"),
    ("late_result", "validating", "blocked"),
    ("late_result", "", "received planning executing validating needs_revision awaiting_approval"),
    ("credential_replaced", "planning", "blocked"),
    ("access_granted", "planning", "blocked"),
    ("input_corrected", "planning", "blocked"),
    ("policy_confirmed", "planning", "blocked"),
    ("scope_narrowed", "planning", "blocked"),
    ("budget_extended", "planning", "blocked"),
    ("budget_extended", "", "planning validating"),
    ("resumed_after_review", "planning", "blocked"),
    ("unpaused", "planning", "blocked"),
    ("compensation_approved", "executing", "blocked"),
    ("retry_scheduled", "", "received planning executing validating needs_revision"),
    ("cancel_requested", "", "received planning executing validating needs_revision awaiting_approval blocked"),
    ("paused", "blocked", "received planning executing validating needs_revision"),
    ("stopped_short", "blocked", "received planning executing validating needs_revision awaiting_approval blocked"),
    ("declined", "failed", "received planning executing validating needs_revision awaiting_approval blocked"),
    ("withdrawn", "cancelled", "received planning executing validating needs_revision awaiting_approval blocked"),
    ("closed_unresolved", "failed", "blocked"),
]
# What a write may have become from one commit to the next. Its intent is one of them: from `planned` and `approved`
# there is no way to an answer but by way of `sent`. Nothing leads out of `rejected` and `compensated`.
EFFECT_CHANGES = [
    ("planned", "approved sent"),
    ("approved", "planned sent"),
    ("sent", "acknowledged unknown confirmed rejected absent"),
    ("acknowledged", "unknown confirmed rejected absent"),
    ("unknown", "acknowledged confirmed rejected absent"),
    ("absent", "sent"),
    ("confirmed", "compensated"),
]

TRANSITION_ROWS = [(state, move, leads_to or state) for move, leads_to, states in MOVES for state in states.split()]
REASON_ROWS = [(reason, outcome) for outcome, reasons in STOP_REASONS.items() for reason in reasons]
CHANGE_ROWS = [(before, after) for before, states in EFFECT_CHANGES for after in states.split()]

# Functions look names up in the schema of these tables and nowhere else: otherwise a temporary table of the same name,
# which anybody may make, would come first. Holds for the rest of this migration's transaction.
IN_THIS_SCHEMA = "SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)"

TABLES = """
CREATE TABLE runs_transition (
    state    varchar(20) NOT NULL,
    move     varchar(40) NOT NULL,
    leads_to varchar(20) NOT NULL,
    PRIMARY KEY (state, move)
);
CREATE TABLE runs_stopreason (
    reason  varchar(40) PRIMARY KEY,
    outcome varchar(20) NOT NULL
);
CREATE TABLE runs_effectchange (
    before varchar(14) NOT NULL,
    after  varchar(14) NOT NULL,
    PRIMARY KEY (before, after)
);
"""

GUARDS = """
-- For triggers whose condition says it all. The argument is the sentence.
CREATE FUNCTION runs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = TG_ARGV[0], SCHEMA = TG_TABLE_SCHEMA,
        TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END $$;

-- Walks from where the run stood through the moves that the update names, and refuses unless it arrives where the
-- update says the run stands. The moves are then put away, so that no later update can lean on them.
CREATE FUNCTION runs_walk() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    stands text := OLD.state;
    taken text;
    next_one text;
BEGIN
    FOREACH taken IN ARRAY NEW.moves LOOP
        SELECT leads_to INTO next_one FROM runs_transition WHERE state = stands AND move = taken;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
                MESSAGE = format('%s is not possible while a run is %s.', taken, stands);
        END IF;
        stands := next_one;
    END LOOP;
    IF stands <> NEW.state THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = format('The moves %s lead a run from %s to %s, and not to %s.',
                             NEW.moves, OLD.state, stands, NEW.state);
    END IF;
    NEW.moves := '{}';
    RETURN NEW;
END $$;

-- No check constraint: with forty reasons it costs a third of a plain update, and this only where one changes.
CREATE FUNCTION runs_reason_belongs() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF (NEW.outcome, NEW.stop_reason) <> ('', '') AND NOT EXISTS (
        SELECT FROM runs_stopreason WHERE reason = NEW.stop_reason AND outcome = NEW.outcome
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = format('A run does not stop as "%s" for "%s".', NEW.outcome, NEW.stop_reason);
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION runs_effect_may_become() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM runs_effectchange WHERE before = OLD.state AND after = NEW.state) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
            MESSAGE = format('A write that is %s does not become %s.', OLD.state, NEW.state);
    END IF;
    RETURN NEW;
END $$;

-- After the insert: before it, the trigger would also see rows that ON CONFLICT turns into updates.
CREATE TRIGGER a_run_begins AFTER INSERT ON runs_run FOR EACH ROW
    WHEN (NEW.state <> 'received' OR NEW.moves <> '{}' OR NEW.outcome <> '' OR NEW.stop_reason <> '')
    EXECUTE FUNCTION runs_refuse('A run begins as received; it has made no move and has not stopped.');
CREATE TRIGGER a_run_moves BEFORE UPDATE ON runs_run FOR EACH ROW
    WHEN (OLD.state <> NEW.state OR NEW.moves <> '{}')
    EXECUTE FUNCTION runs_walk();
CREATE TRIGGER a_run_stops BEFORE UPDATE ON runs_run FOR EACH ROW
    WHEN (OLD.outcome <> NEW.outcome OR OLD.stop_reason <> NEW.stop_reason)
    EXECUTE FUNCTION runs_reason_belongs();

CREATE TRIGGER a_write_begins AFTER INSERT ON runs_effect FOR EACH ROW
    WHEN (NEW.state NOT IN ('planned', 'approved', 'sent'))
    EXECUTE FUNCTION runs_refuse('A write begins as planned, approved or sent: its answer comes later.');
CREATE TRIGGER a_write_changes BEFORE UPDATE ON runs_effect FOR EACH ROW
    WHEN (OLD.state <> NEW.state)
    EXECUTE FUNCTION runs_effect_may_become();
CREATE TRIGGER a_write_keeps_its_key BEFORE UPDATE ON runs_effect FOR EACH ROW
    WHEN (OLD.operation_key <> NEW.operation_key OR OLD.run_id <> NEW.run_id)
    EXECUTE FUNCTION runs_refuse('A write keeps its operation key, and its run.');

CREATE TRIGGER a_step_is_settled_once BEFORE UPDATE ON runs_step FOR EACH ROW
    WHEN (OLD.status <> 'intent')
    EXECUTE FUNCTION runs_refuse('A step that is settled does not change.');
CREATE TRIGGER a_step_keeps_its_place BEFORE UPDATE ON runs_step FOR EACH ROW
    WHEN (OLD.seq <> NEW.seq OR OLD.run_id <> NEW.run_id)
    EXECUTE FUNCTION runs_refuse('A step keeps its number, and its run.');
"""

# The application may not delete from the record. What retention takes away, it takes by these two: only of runs that
# have ended, and nothing younger than a day, whoever asks.
FORGETTING = """
CREATE FUNCTION runs_may_forget(older_than interval, at_most integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF older_than IS NULL OR older_than < interval '1 day' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'older_than: nothing younger than a day is forgotten.';
    END IF;
    IF at_most IS NULL OR at_most NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'at_most: from 1 to 100000 rows at a time.';
    END IF;
END $$;

-- Each looks at the next so many rows past one, in order, and no further: so what is kept makes it no slower.
-- `reached` is the last row that was old enough, whether it could go or not; null where there was none.
CREATE FUNCTION runs_forget_texts(older_than interval, past bigint, at_most integer,
                                     OUT gone bigint, OUT reached bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM runs_may_forget(older_than, at_most);
    WITH looked_at AS MATERIALIZED (
        SELECT t.event_id AS id, e.at < now() - older_than AS is_old,
               r.id IS NULL OR r.state IN ('completed', 'failed', 'cancelled') AS may_go
          FROM runs_eventtext t
          JOIN runs_event e ON e.id = t.event_id
          LEFT JOIN runs_run r ON r.id = e.run_id
         WHERE t.event_id > past ORDER BY t.event_id LIMIT at_most
    ), taken AS (
        DELETE FROM runs_eventtext t USING looked_at l
         WHERE t.event_id = l.id AND l.is_old AND l.may_go RETURNING t.event_id
    )
    SELECT (SELECT count(*) FROM taken), (SELECT max(id) FROM looked_at WHERE is_old) INTO gone, reached;
END $$;

CREATE FUNCTION runs_forget_payloads(older_than interval, past bigint, at_most integer,
                                     OUT gone bigint, OUT reached bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM runs_may_forget(older_than, at_most);
    WITH looked_at AS MATERIALIZED (
        SELECT p.step_id AS id, s.started_at < now() - older_than AS is_old,
               r.state IN ('completed', 'failed', 'cancelled') AS may_go
          FROM runs_steppayload p
          JOIN runs_step s ON s.id = p.step_id
          JOIN runs_run r ON r.id = s.run_id
         WHERE p.step_id > past ORDER BY p.step_id LIMIT at_most
    ), taken AS (
        DELETE FROM runs_steppayload p USING looked_at l
         WHERE p.step_id = l.id AND l.is_old AND l.may_go RETURNING p.step_id
    )
    SELECT (SELECT count(*) FROM taken), (SELECT max(id) FROM looked_at WHERE is_old) INTO gone, reached;
END $$;

REVOKE EXECUTE ON FUNCTION runs_forget_texts, runs_forget_payloads FROM PUBLIC;
"""

UNDO = """
DROP FUNCTION runs_forget_texts, runs_forget_payloads, runs_may_forget;
DROP FUNCTION runs_walk, runs_reason_belongs, runs_effect_may_become, runs_refuse CASCADE;
DROP TABLE runs_transition, runs_stopreason, runs_effectchange;
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_roles")]

    operations = [
        migrations.RunSQL(TABLES, UNDO),
        migrations.RunSQL(
            [
                *[("INSERT INTO runs_transition VALUES (%s, %s, %s)", row) for row in TRANSITION_ROWS],
                *[("INSERT INTO runs_stopreason VALUES (%s, %s)", row) for row in REASON_ROWS],
                *[("INSERT INTO runs_effectchange VALUES (%s, %s)", row) for row in CHANGE_ROWS],
            ],
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL(IN_THIS_SCHEMA, migrations.RunSQL.noop),
        migrations.RunSQL(GUARDS + FORGETTING, migrations.RunSQL.noop),
    ]
