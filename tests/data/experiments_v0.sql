-- A SQLite file as layout 0 had it: no default rewards, no snapshots.
PRAGMA application_id = 1380928582;
CREATE TABLE rolf_meta (version INTEGER NOT NULL);
INSERT INTO rolf_meta VALUES (0);
CREATE TABLE rolf_experiments (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, tag TEXT NOT NULL,
    policy TEXT NOT NULL, options TEXT NOT NULL, features TEXT NOT NULL, seed BIGINT NOT NULL,
    created REAL NOT NULL
);
INSERT INTO rolf_experiments VALUES (1, 'old', 'cafe0123', 'ucb', '{"setting": "tuned"}',
    '{"features": [[1.0], [2.0], [4.0]], "labels": ["a", "b", "c"], "columns": ["x"], "active": [true, true, true]}',
    7, 1700000000.0);
CREATE TABLE rolf_log (
    experiment BIGINT NOT NULL, seq BIGINT NOT NULL, kind SMALLINT NOT NULL,
    number BIGINT NOT NULL, time REAL NOT NULL, arm INTEGER NOT NULL, probability REAL,
    greedy INTEGER NOT NULL, pseudo INTEGER NOT NULL, matched INTEGER NOT NULL,
    mark SMALLINT NOT NULL, features TEXT, reward REAL, PRIMARY KEY (experiment, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX rolf_numbers ON rolf_log (experiment, number, kind);
INSERT INTO rolf_log VALUES (1, 1, 1, 1, 1700000001.0, 2, 0.3333333333333333, 0, 2, 1, 1, NULL, NULL);
INSERT INTO rolf_log VALUES (1, 2, 1, 2, 1700000002.0, 0, 0.3333333333333333, 0, 0, 1, 1, NULL, NULL);
INSERT INTO rolf_log VALUES (1, 3, 2, 1, 1700000003.0, 2, 0.3333333333333333, 0, 2, 1, 0, NULL, 0.75);
