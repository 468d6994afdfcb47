"""The tables, and how those of an older version become those of today.

The same in SQLite and PostgreSQL but for the names of types and for the log's order: in
SQLite writes follow each other, so a row's sequence number is one more than the last; in
PostgreSQL they overlap, and the number comes from a sequence after the transaction has its own
number.
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

NEXT = "CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('rolf_sequence') END"

SQLITE = {
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",  # the id of a deleted one never comes again
    "real": "REAL",
    "boolean": "INTEGER",
    "sequence": "",
    "clustered": "WITHOUT ROWID",
}
POSTGRES = {
    "serial": "BIGSERIAL PRIMARY KEY",
    "real": "DOUBLE PRECISION",
    "boolean": "BOOLEAN",
    "sequence": f"DEFAULT {NEXT}",
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
    1: (),
}
#: the same, in PostgreSQL alone
MIGRATIONS_POSTGRES = {
    # every row had the number of its transaction
    1: (
        "ALTER TABLE rolf_log DROP COLUMN xid",
        f"ALTER TABLE rolf_log ALTER COLUMN seq SET DEFAULT {NEXT}",
    ),
}


def known(version: object) -> bool:
    """Whether this can be the version of a layout, of today, older or newer."""
    return isinstance(version, int) and (version in MIGRATIONS or version >= SCHEMA)


def steps(version: int | None, types: dict[str, str]) -> list[str]:
    """The statements that lead from a version, or from nothing, to the tables of today."""
    if version is None:
        moves, last = list(TABLES), f"INSERT INTO rolf_meta VALUES ({SCHEMA})"
    else:
        moves, last = [], f"UPDATE rolf_meta SET version = {SCHEMA}"
        for old in range(version, SCHEMA):
            moves += MIGRATIONS[old]
            moves += MIGRATIONS_POSTGRES.get(old, ()) if types is POSTGRES else ()
    return [each.format(**types) for each in [*moves, last]]
