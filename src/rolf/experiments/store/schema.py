"""The tables, and how those of an older version become those of today.

The same in SQLite and PostgreSQL but for the names of types and for the log's order: in
SQLite writes follow each other, so a row's sequence number is one more than the last; in
PostgreSQL they overlap, so a row also says in which transaction it came.
"""

from __future__ import annotations

from rolf.experiments.store.base import SCHEMA

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
    {transaction}
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

SQLITE = {
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",  # the id of a deleted one never comes again
    "real": "REAL",
    "boolean": "INTEGER",
    "sequence": "",
    "transaction": "",
    "clustered": "WITHOUT ROWID",
}
POSTGRES = {
    "serial": "BIGSERIAL PRIMARY KEY",
    "real": "DOUBLE PRECISION",
    "boolean": "BOOLEAN",
    "sequence": "DEFAULT nextval('rolf_sequence')",
    "transaction": "xid xid8 NOT NULL DEFAULT pg_current_xact_id(),",
    "clustered": "",
}

TABLES = (META, EXPERIMENTS, LOG, NUMBERS, SNAPSHOTS)

#: version -> what makes the next one of it
MIGRATIONS = {
    # no default rewards, no snapshots
    0: (
        "ALTER TABLE rolf_experiments ADD COLUMN default_reward {real}",
        "ALTER TABLE rolf_experiments ADD COLUMN reward_after {real}",
        SNAPSHOTS,
    ),
}


def steps(version: int | None) -> list[str]:
    """The statements that lead from a version, or from nothing, to the tables of today."""
    if version is None:
        return [*TABLES, f"INSERT INTO rolf_meta VALUES ({SCHEMA})"]
    moves = [each for old in range(version, SCHEMA) for each in MIGRATIONS[old]]
    return [*moves, f"UPDATE rolf_meta SET version = {SCHEMA}"]
