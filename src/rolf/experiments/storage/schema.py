"""The tables, and the migrations from older versions.

SQLite and PostgreSQL differ only in the names of types and in how rows are numbered. SQLite's
writes follow one another, so a row's sequence number is one more than the last. PostgreSQL's
overlap, and the number comes from a sequence, after the transaction has its own number.
"""

from __future__ import annotations

from rolf.experiments.storage.base import SCHEMA

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
    seq BIGINT NOT NULL {sequence},
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

NUMBERS = "CREATE UNIQUE INDEX rolf_numbers ON rolf_log (experiment, number, kind)"

SNAPSHOTS = """
CREATE TABLE rolf_snapshots (
    experiment BIGINT PRIMARY KEY,
    upto BIGINT NOT NULL,
    version TEXT NOT NULL,
    state TEXT NOT NULL
)"""

NEXT_SEQ = "CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('rolf_sequence') END"

SQLITE = {
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",  # never reuses the id of a deleted one
    "real": "REAL",
    "boolean": "INTEGER",
    "sequence": "",
    "clustered": "WITHOUT ROWID",
}
POSTGRES = {
    "serial": "BIGSERIAL PRIMARY KEY",
    "real": "DOUBLE PRECISION",
    "boolean": "BOOLEAN",
    "sequence": f"DEFAULT {NEXT_SEQ}",
    "clustered": "",
}

TABLES = (META, EXPERIMENTS, LOG, NUMBERS, SNAPSHOTS)

#: version -> the statements that lead to the next one
MIGRATIONS = {
    # had neither default rewards nor snapshots
    0: (
        "ALTER TABLE rolf_experiments ADD COLUMN default_reward {real}",
        "ALTER TABLE rolf_experiments ADD COLUMN reward_after {real}",
        SNAPSHOTS,
    ),
    1: (),
}
#: the same, for PostgreSQL only
MIGRATIONS_POSTGRES = {
    # every row held the number of its transaction
    1: (
        "ALTER TABLE rolf_log DROP COLUMN xid",
        f"ALTER TABLE rolf_log ALTER COLUMN seq SET DEFAULT {NEXT_SEQ}",
    ),
}


def is_version(version: object) -> bool:
    """Whether this is the version of a layout: the current one, an older or a newer one."""
    return isinstance(version, int) and (version in MIGRATIONS or version >= SCHEMA)


def steps(version: int | None, types: dict[str, str]) -> list[str]:
    """The statements that lead from a version, or from nothing, to the current tables."""
    if version is None:
        statements = [*TABLES, f"INSERT INTO rolf_meta VALUES ({SCHEMA})"]
    else:
        statements = []
        for old in range(version, SCHEMA):
            statements += MIGRATIONS[old]
            statements += MIGRATIONS_POSTGRES.get(old, ()) if types is POSTGRES else ()
        statements.append(f"UPDATE rolf_meta SET version = {SCHEMA}")
    return [statement.format(**types) for statement in statements]
