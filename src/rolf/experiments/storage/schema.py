"""The tables.

SQLite and PostgreSQL differ in the names of types and in how the end of a log is found. In SQLite
one writer at a time has the whole file and looks up the last row. In PostgreSQL, the procedure
``rolf_append`` first locks the log's row in ``rolf_heads``, which holds the number of its last row.
"""

from __future__ import annotations

from rolf.experiments.storage.contract import SCHEMA
from rolf.experiments.storage.rows import (
    CORRECTION,
    DECISION,
    DEFAULT,
    HISTORY,
    IDEMPOTENCY,
    REWARD,
    ROSTER,
)

META = "CREATE TABLE rolf_meta (version INTEGER NOT NULL)"

EXPERIMENTS = """
CREATE TABLE rolf_experiments (
    id {serial},
    name TEXT NOT NULL UNIQUE,
    tag TEXT NOT NULL,
    policy TEXT NOT NULL,
    options TEXT NOT NULL,
    features TEXT NOT NULL,
    seed BIGINT NOT NULL,
    default_reward {real},
    reward_after {real},
    created {real} NOT NULL
)"""

LOG = """
CREATE TABLE rolf_log (
    experiment BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    kind SMALLINT NOT NULL,
    number BIGINT NOT NULL,
    time {real} NOT NULL,
    arm INTEGER NOT NULL,
    probability {real},
    greedy INTEGER NOT NULL,
    pseudo_action INTEGER NOT NULL,
    matched {boolean} NOT NULL,
    clock_steps SMALLINT NOT NULL,
    ordinal SMALLINT NOT NULL,
    details TEXT,
    reward {real},
    PRIMARY KEY (experiment, seq)
) {clustered}"""

#: Mirrors ``Row.place``. In PostgreSQL the experiment is an expression, so that the planner never
#: uses the primary key to find a decision, which would scan the whole log.
PLACES = f"""
CREATE UNIQUE INDEX rolf_places ON rolf_log ({{log}}, number, (CASE
    WHEN kind IN ({IDEMPOTENCY}, {DECISION}, {ROSTER}, {HISTORY}) THEN kind
    WHEN kind = {CORRECTION} THEN kind + ordinal
    WHEN kind = {REWARD} AND ordinal > 0 THEN {DEFAULT} ELSE {REWARD} END))"""

SNAPSHOTS = """
CREATE TABLE rolf_snapshots (
    experiment BIGINT PRIMARY KEY,
    upto BIGINT NOT NULL,
    version TEXT NOT NULL,
    state TEXT NOT NULL
)"""

KEYS = """
CREATE TABLE rolf_keys (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    scope TEXT NOT NULL,
    experiment TEXT,
    note TEXT NOT NULL,
    created {real} NOT NULL,
    revoked {real}
)"""

#: updated with every append; the low fill factor leaves room to do so in place
HEADS = """
CREATE TABLE rolf_heads (experiment BIGINT PRIMARY KEY, last BIGINT NOT NULL)
WITH (fillfactor = 10)"""

#: the columns passed to ``rolf_append``, with their types in PostgreSQL
GIVEN = {
    "kind": "int2",
    "number": "int8",
    "time": "float8",
    "arm": "int4",
    "probability": "float8",
    "greedy": "int4",
    "pseudo_action": "int4",
    "matched": "bool",
    "clock_steps": "int2",
    "ordinal": "int2",
    "details": "text",
    "reward": "float8",
}
#: Lock the head of a log, add rows and commit without waiting for the disk; this unlocks the head.
#: Release this session's advisory lock, if any. Then commit a transaction that does wait: with it,
#: everything logged before is on disk.
APPEND = f"""
CREATE OR REPLACE PROCEDURE rolf_append(log int8, count int8, after int8, rows json,
    lock int8, INOUT end_of_log int8 DEFAULT NULL)
LANGUAGE plpgsql AS $$ BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE rolf_heads SET last = last + count
    WHERE experiment = log AND last = coalesce(after, last) RETURNING last INTO end_of_log;
    IF end_of_log IS NOT NULL THEN
        INSERT INTO rolf_log (experiment, seq, {", ".join(GIVEN)})
        SELECT log, end_of_log - count + row_number() OVER (), given.*
        FROM json_to_recordset(rows) AS given
            ({", ".join(f"{name} {type}" for name, type in GIVEN.items())});
        COMMIT;
        IF lock IS NOT NULL THEN
            PERFORM pg_advisory_unlock(lock);
        END IF;
        PERFORM pg_logical_emit_message(true, 'rolf', '');
    END IF;
END $$"""

#: Wait briefly for the lock, and read the rows after a row.
LOCK = """
CREATE OR REPLACE FUNCTION rolf_lock(lock int8, log int8, after int8, most int8)
RETURNS SETOF rolf_log LANGUAGE plpgsql AS $$ BEGIN
    PERFORM set_config('lock_timeout', '200ms', true);
    PERFORM pg_advisory_lock(lock);
    RETURN QUERY SELECT * FROM rolf_log
    WHERE experiment = log AND seq > after ORDER BY seq LIMIT most;
END $$"""

SQLITE = {
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",  # never reuses a deleted id
    "real": "REAL",
    "boolean": "INTEGER",
    "clustered": "WITHOUT ROWID",
    "log": "experiment",
}
POSTGRES = {
    "serial": "BIGSERIAL PRIMARY KEY",
    "real": "DOUBLE PRECISION",
    "boolean": "BOOLEAN",
    "clustered": "",
    "log": "(experiment + 0)",
}

TABLES = (META, EXPERIMENTS, LOG, PLACES, SNAPSHOTS, KEYS)


def is_version(version: object) -> bool:
    """Whether this is a valid layout version, current or newer."""
    return isinstance(version, int) and version >= SCHEMA


def statements(types: dict[str, str]) -> list[str]:
    """The statements that create the tables."""
    created = [*TABLES, f"INSERT INTO rolf_meta VALUES ({SCHEMA})"]
    created += [HEADS, APPEND, LOCK] if types is POSTGRES else []
    return [statement.format(**types) for statement in created]
