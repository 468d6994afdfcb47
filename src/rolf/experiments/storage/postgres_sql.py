"""The statements of the PostgreSQL store."""

from __future__ import annotations

from rolf.experiments.storage.base import COLUMNS, DECISION, DEFAULT, REWARD, Row

WRITTEN = ", ".join(Row._fields[1:])
KINDS = (
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
#: all statements find their rows by an index, whatever the planner knows of the tables
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
XMIN = "pg_snapshot_xmin(pg_current_snapshot())::text"
XID = "pg_current_xact_id()::text"
LOG = f"""
SELECT {COLUMNS} FROM rolf_log
WHERE experiment = %s::int8 AND seq > %s::int8 AND seq <= %s::int8 ORDER BY seq"""
RECENT = LOG.replace(" FROM", f", {XMIN} FROM", 1)
ADD = f"""
INSERT INTO rolf_log (experiment, {WRITTEN})
SELECT id, {", ".join(f"%s::{kind}" for kind in KINDS)} FROM rolf_experiments
WHERE id = %s::int8 RETURNING seq, {XID}, {XMIN}"""
ADD_ALONE = ADD.replace(
    " RETURNING",
    " AND (SELECT count(*) FROM rolf_log WHERE experiment = %s::int8 AND seq > %s::int8)"
    " = %s::int8 AND pg_try_advisory_xact_lock(%s::int4, %s::int4) RETURNING",
)
#: to read and then add rows, without waiting for the disk: asks of one experiment take turns
BEGIN = "BEGIN; SET LOCAL synchronous_commit = off"
TURN = (
    f"{BEGIN}; SET LOCAL lock_timeout = '{{patience}}ms'; "
    "SELECT pg_advisory_xact_lock({space}, {turn})"
)
READ = "; EXECUTE rolf_recent({}, {}, {})"
#: to end it, and to wait for the disk
DONE = "; COMMIT; SELECT pg_logical_emit_message(true, 'rolf', '')"


def rewarded(number: str, reward: str, source: str = "") -> str:
    """To add rewards of decisions that have none."""
    return f"""
INSERT INTO rolf_log (experiment, {WRITTEN})
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


REWARDED_ONE = rewarded("%(number)s::int8", "%(reward)s::float8")
REWARDED_ONE += f""" RETURNING {COLUMNS}, {XID}, (SELECT count(*) FROM rolf_log AS other
    WHERE other.experiment = %(experiment)s::int8 AND other.seq > %(base)s::int8)"""
REWARDED = rewarded(
    "given.number",
    "given.reward",
    "unnest(%(numbers)s::int8[], %(rewards)s::float8[]) AS given (number, reward), ",
)
REWARDED += " ON CONFLICT DO NOTHING"
HELD = f"""
SELECT 1 FROM rolf_log
WHERE experiment = %s::int8 AND number = ANY(%s::int8[]) AND kind = {DECISION}
ORDER BY number FOR UPDATE"""
KNOWN = f"""
SELECT number, reward FROM rolf_log
WHERE experiment = %s::int8 AND number = ANY(%s::int8[]) AND kind = {REWARD}"""
TOP = f"SELECT coalesce(max(seq), 0), {XID} FROM rolf_log WHERE experiment = %s::int8"
ENDED = "SELECT pg_snapshot_xmin(pg_current_snapshot()) > %s::text::xid8"
#: transactions that write to the log, but for imports: nobody waits for rows of those
WRITERS = """
SELECT virtualtransaction FROM pg_locks AS writer
WHERE relation = 'rolf_log'::regclass AND mode = 'RowExclusiveLock' AND pid <> pg_backend_pid()
    AND NOT EXISTS (SELECT 1 FROM pg_locks AS import WHERE import.pid = writer.pid
        AND import.locktype = 'advisory' AND import.classid = %s)"""


def prepared(name: str, sql: str, *values: str) -> str:
    """A statement under a name; its values by place, or by these names."""
    for place, value in enumerate(values, 1):
        sql = sql.replace(f"%({value})s", f"${place}")
    for place in range(1, sql.count("%s") + 1):
        sql = sql.replace("%s", f"${place}", 1)
    return f"PREPARE {name} AS {sql}"


PREPARED = (
    prepared("rolf_recent", RECENT),
    prepared("rolf_add", ADD),
    prepared("rolf_add_alone", ADD_ALONE),
    prepared("rolf_reward", REWARDED_ONE, "experiment", "kind", "number", "reward", "time", "base"),
)
