"""The statements of the PostgreSQL store."""

from __future__ import annotations

from rolf.experiments.store.base import COLUMNS, DECISION, DEFAULT, REWARD, Row

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
LOG = f"""
SELECT {COLUMNS} FROM rolf_log WHERE experiment = %s AND seq > %s AND seq <= %s ORDER BY seq"""
RECENT = f"""
SELECT {COLUMNS}, pg_snapshot_xmin(pg_current_snapshot())::text FROM rolf_log
WHERE experiment = %s AND xid >= %s::text::xid8 AND seq > %s AND seq <= %s ORDER BY seq"""
HOLD = "SELECT id FROM rolf_experiments WHERE id = %s FOR UPDATE"
ADD = f"""
INSERT INTO rolf_log (experiment, {WRITTEN})
SELECT id, {", ".join(f"%s::{kind}" for kind in KINDS)} FROM rolf_experiments WHERE id = %s
ON CONFLICT DO NOTHING RETURNING seq"""
AT_ONCE = "WITH at_once AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))"
ADD_AT_ONCE = AT_ONCE + ADD.replace("FROM rolf_experiments", "FROM at_once, rolf_experiments")
FLUSH = "SELECT pg_logical_emit_message(true, 'rolf', '')"
REWARDED = f"""
INSERT INTO rolf_log (experiment, {WRITTEN})
SELECT experiment, %(kind)s, number, %(time)s, arm, probability, greedy, pseudo, matched,
    (%(kind)s = {REWARD} AND EXISTS (SELECT 1 FROM rolf_log WHERE experiment = %(experiment)s
        AND number = %(number)s AND kind = {DEFAULT}))::int,
    (features::json -> arm)::text, %(reward)s
FROM rolf_log AS decision
WHERE experiment = %(experiment)s AND number = %(number)s AND kind = {DECISION}
    AND NOT EXISTS (SELECT 1 FROM rolf_log WHERE experiment = %(experiment)s
        AND number = %(number)s AND kind IN ({REWARD}, %(kind)s))
ON CONFLICT DO NOTHING"""
HELD = f"""
SELECT 1 FROM rolf_log WHERE experiment = %s AND number = ANY(%s) AND kind = {DECISION}
ORDER BY number FOR UPDATE"""
KNOWN = f"""
SELECT number, reward FROM rolf_log
WHERE experiment = %s AND number = ANY(%s) AND kind = {REWARD}"""
