"""The tables, and the migrations from older versions.

SQLite and PostgreSQL differ in the names of types, and in how the end of a log is found. In
SQLite one writer at a time has the whole file, and looks at the last row. In PostgreSQL whoever
appends to a log first locks its row in ``rolf_heads``, which holds the number of the last row;
the procedure ``rolf_append`` does.
"""

from __future__ import annotations

from rolf.experiments.storage.contract import (
    CHANGE,
    CORRECTION,
    DECISION,
    DEFAULT,
    HISTORY,
    REQUEST,
    REWARD,
    SCHEMA,
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
    pseudo INTEGER NOT NULL,
    matched {boolean} NOT NULL,
    mark SMALLINT NOT NULL,
    features TEXT,
    reward {real},
    PRIMARY KEY (experiment, seq)
) {clustered}"""

#: As ``Row.place``. In PostgreSQL the experiment is an expression, so that the planner, whatever it
#: knows about the tables, cannot take the primary key to find a decision, and scan the whole log.
PLACES = f"""
CREATE UNIQUE INDEX rolf_places ON rolf_log ({{log}}, number, (CASE
    WHEN kind IN ({REQUEST}, {DECISION}, {CHANGE}, {HISTORY}) THEN kind
    WHEN kind = {CORRECTION} THEN kind + mark
    WHEN kind = {REWARD} AND mark > 0 THEN {DEFAULT} ELSE {REWARD} END))"""

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

#: updated with every append: there is room to do so in place
HEADS = """
CREATE TABLE rolf_heads (experiment BIGINT PRIMARY KEY, last BIGINT NOT NULL)
WITH (fillfactor = 10)"""

#: the columns of a row that are given, with their types in PostgreSQL
GIVEN = {
    "kind": "int2",
    "number": "int8",
    "time": "float8",
    "arm": "int4",
    "probability": "float8",
    "greedy": "int4",
    "pseudo": "int4",
    "matched": "bool",
    "mark": "int2",
    "features": "text",
    "reward": "float8",
}
#: Lock the head of a log, add rows and commit, which does not wait for the disk and releases the
#: lock. Then end a transaction that does wait: whatever was logged before is on the disk with it.
#: In between, end the turn of this session if it has one.
APPEND = f"""
CREATE OR REPLACE PROCEDURE rolf_append(log int8, count int8, after int8, rows json,
    turn int8, INOUT end_of_log int8 DEFAULT NULL)
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
        IF turn IS NOT NULL THEN
            PERFORM pg_advisory_unlock(turn);
        END IF;
        PERFORM pg_logical_emit_message(true, 'rolf', '');
    END IF;
END $$"""

#: Wait for one's turn, but not for long, and read what follows a row.
TURN = """
CREATE OR REPLACE FUNCTION rolf_turn(turn int8, log int8, after int8, most int8)
RETURNS SETOF rolf_log LANGUAGE plpgsql AS $$ BEGIN
    PERFORM set_config('lock_timeout', '200ms', true);
    PERFORM pg_advisory_lock(turn);
    RETURN QUERY SELECT * FROM rolf_log
    WHERE experiment = log AND seq > after ORDER BY seq LIMIT most;
END $$"""

SQLITE = {
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",  # never reuses the id of a deleted one
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

#: version -> the statements that lead to the next one
MIGRATIONS: dict[int, tuple[str, ...]] = {
    # had neither default rewards nor snapshots
    0: (
        "ALTER TABLE rolf_experiments ADD COLUMN default_reward {real}",
        "ALTER TABLE rolf_experiments ADD COLUMN reward_after {real}",
        SNAPSHOTS,
    ),
    1: (),
    # every kind of row had a place of its own
    2: ("DROP INDEX rolf_numbers", PLACES),
    # had neither history nor corrections
    3: ("DROP INDEX rolf_places", PLACES),
    # had neither requests nor API keys
    4: ("DROP INDEX rolf_places", PLACES, KEYS),
}
#: the same, for PostgreSQL only
MIGRATIONS_POSTGRES = {
    # every row held the number of its transaction
    1: ("ALTER TABLE rolf_log DROP COLUMN xid",),
    # rows were numbered by a sequence that all experiments shared, with gaps
    2: (
        "ALTER TABLE rolf_log ALTER COLUMN seq DROP DEFAULT",
        "DROP SEQUENCE IF EXISTS rolf_sequence",
        "ALTER TABLE rolf_log DROP CONSTRAINT rolf_log_pkey",
        "UPDATE rolf_log SET seq = numbered.place FROM (SELECT experiment, seq, row_number() "
        "OVER (PARTITION BY experiment ORDER BY seq) AS place FROM rolf_log) AS numbered "
        "WHERE numbered.experiment = rolf_log.experiment AND numbered.seq = rolf_log.seq",
        "ALTER TABLE rolf_log ADD PRIMARY KEY (experiment, seq)",
        "DELETE FROM rolf_snapshots",
        HEADS,
        "INSERT INTO rolf_heads SELECT id, coalesce((SELECT max(seq) FROM rolf_log "
        "WHERE experiment = id), 0) FROM rolf_experiments",
        APPEND,
        TURN,
    ),
}


def is_version(version: object) -> bool:
    """Whether this is the version of a layout: the current one, an older or a newer one."""
    return isinstance(version, int) and (version in MIGRATIONS or version >= SCHEMA)


def steps(version: int | None, types: dict[str, str]) -> list[str]:
    """The statements that lead from a version, or from nothing, to the current tables."""
    if version is None:
        statements = [*TABLES, f"INSERT INTO rolf_meta VALUES ({SCHEMA})"]
        statements += [HEADS, APPEND, TURN] if types is POSTGRES else []
    else:
        statements = []
        for old in range(version, SCHEMA):
            statements += MIGRATIONS[old]
            statements += MIGRATIONS_POSTGRES.get(old, ()) if types is POSTGRES else ()
        statements.append(f"UPDATE rolf_meta SET version = {SCHEMA}")
    return [statement.format(**types) for statement in statements]
