"""The SQL statements of the PostgreSQL store."""

from __future__ import annotations

from rolf.experiments.storage.base import COLUMNS, DECISION, DEFAULT, REWARD, Row

INSERTED_COLUMNS = ", ".join(Row._fields[1:])
COLUMN_TYPES = (
    "int2",
    "int8",
    "float8",
    "int4",
    "float8",
    "int4",
    "int4",
    "bool",
    "int2",
    "text",
    "float8",
)
#: Commits wait for the disk, and every statement finds its rows by an index, whatever the planner
#: knows about the tables.
SETTINGS = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off;
SET extra_float_digits = 1;
SET lock_timeout = '30s';
SET default_transaction_isolation = 'read committed'"""
OLDEST_RUNNING = "pg_snapshot_xmin(pg_current_snapshot())::text"
TRANSACTION = "pg_current_xact_id()::text"
LOG = f"""
SELECT {COLUMNS} FROM rolf_log
WHERE experiment = %s::int8 AND seq > %s::int8 AND seq <= %s::int8 ORDER BY seq"""
RECENT = LOG.replace(" FROM", f", {OLDEST_RUNNING} FROM", 1)
INSERT = f"""
INSERT INTO rolf_log (experiment, {INSERTED_COLUMNS})
SELECT id, {", ".join(f"%s::{type}" for type in COLUMN_TYPES)} FROM rolf_experiments
WHERE id = %s::int8 RETURNING seq, {TRANSACTION}, {OLDEST_RUNNING}"""
INSERT_IF_ALL_SEEN = INSERT.replace(
    " RETURNING",
    " AND (SELECT count(*) FROM rolf_log WHERE experiment = %s::int8 AND seq > %s::int8)"
    " = %s::int8 AND pg_try_advisory_xact_lock(%s::int4, %s::int4) RETURNING",
)
#: to read and then add rows without waiting for the disk; in turn with other asks
BEGIN = "BEGIN; SET LOCAL synchronous_commit = off"
BEGIN_TURN = (
    f"{BEGIN}; SET LOCAL lock_timeout = '{{timeout}}ms'; "
    "SELECT pg_advisory_xact_lock({key}, {turn})"
)
READ = "; EXECUTE rolf_recent({}, {}, {})"
#: to end it, and then wait for the disk
COMMIT_AND_FLUSH = "; COMMIT; SELECT pg_logical_emit_message(true, 'rolf', '')"


def insert_rewards(number: str, reward: str, source: str = "") -> str:
    """A statement that adds rewards to decisions without one."""
    return f"""
INSERT INTO rolf_log (experiment, {INSERTED_COLUMNS})
SELECT experiment, %(kind)s::int2, decision.number, %(time)s::float8, arm, probability, greedy,
    pseudo, matched, (%(kind)s::int2 = {REWARD} AND EXISTS (SELECT 1 FROM rolf_log AS other
        WHERE other.experiment = %(experiment)s::int8 AND other.number = {number}
        AND other.kind = {DEFAULT}))::int,
    (features::json -> arm)::text, {reward}
FROM {source}rolf_log AS decision
WHERE experiment = %(experiment)s::int8 AND decision.number = {number} AND kind = {DECISION}
    AND NOT EXISTS (SELECT 1 FROM rolf_log AS other
        WHERE other.experiment = %(experiment)s::int8 AND other.number = {number}
        AND other.kind IN ({REWARD}, %(kind)s::int2))"""


INSERT_REWARD = insert_rewards("%(number)s::int8", "%(reward)s::float8")
INSERT_REWARD += f""" RETURNING {COLUMNS}, {TRANSACTION}, (SELECT count(*) FROM rolf_log AS other
    WHERE other.experiment = %(experiment)s::int8 AND other.seq > %(base)s::int8)"""
INSERT_REWARDS = insert_rewards(
    "told.number",
    "told.reward",
    "unnest(%(numbers)s::int8[], %(rewards)s::float8[]) AS told (number, reward), ",
)
INSERT_REWARDS += " ON CONFLICT DO NOTHING"
LOCK_DECISIONS = f"""
SELECT 1 FROM rolf_log
WHERE experiment = %s::int8 AND number = ANY(%s::int8[]) AND kind = {DECISION}
ORDER BY number FOR UPDATE"""
RECORDED_REWARDS = f"""
SELECT number, reward FROM rolf_log
WHERE experiment = %s::int8 AND number = ANY(%s::int8[]) AND kind = {REWARD}"""
HIGHEST_ROW = (
    f"SELECT coalesce(max(seq), 0), {TRANSACTION} FROM rolf_log WHERE experiment = %s::int8"
)
TRANSACTIONS_ENDED = "SELECT pg_snapshot_xmin(pg_current_snapshot()) > %s::text::xid8"
#: other transactions that write to the log, except imports: nobody waits for their rows
OTHER_WRITERS = """
SELECT virtualtransaction FROM pg_locks AS writer
WHERE relation = 'rolf_log'::regclass AND mode = 'RowExclusiveLock' AND pid <> pg_backend_pid()
    AND NOT EXISTS (SELECT 1 FROM pg_locks AS import WHERE import.pid = writer.pid
        AND import.locktype = 'advisory' AND import.classid = %s)"""


def prepared(name: str, sql: str, *values: str) -> str:
    """Prepare a statement; its values are positional, or have these names."""
    for place, value in enumerate(values, 1):
        sql = sql.replace(f"%({value})s", f"${place}")
    for place in range(1, sql.count("%s") + 1):
        sql = sql.replace("%s", f"${place}", 1)
    return f"PREPARE {name} AS {sql}"


REWARD_VALUES = ("experiment", "kind", "number", "reward", "time", "base")
PREPARED = (
    prepared("rolf_recent", RECENT),
    prepared("rolf_add", INSERT),
    prepared("rolf_add_alone", INSERT_IF_ALL_SEEN),
    prepared(
        "rolf_reward", INSERT_REWARD, "experiment", "kind", "number", "reward", "time", "base"
    ),
)
