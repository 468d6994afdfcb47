"""Databases with the tables of older versions."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

import rolf
from rolf.errors import AlreadyTold
from rolf.experiments.database import list_experiments
from rolf.testing.storage import create_experiment, current_state, folded_state, play
from support.stores import postgres_url, quick_folder

OLD = Path(__file__).parents[2] / "data" / "experiments_v0.sql"


@pytest.fixture
def path():
    return quick_folder("rolf-file") / "experiments.db"


def make_old(path):
    connection = sqlite3.connect(path)
    connection.executescript(OLD.read_text())
    connection.close()


def test_a_file_of_an_older_version_opens(path):
    make_old(path)
    url = f"sqlite:///{path}"
    assert list_experiments(url) == ["old"]
    experiment = rolf.open_experiment(url, "old")
    status = experiment.status()
    assert (status.asked, status.told, status.pending) == (2, 1, 1)
    assert status.arms[2].estimate == 0.75
    experiment.tell("cafe0123-2", 0.5)
    with pytest.raises(AlreadyTold):
        experiment.tell("cafe0123-1", 0.5)
    assert experiment.ask().id == "cafe0123-3"
    experiment.snapshot()
    assert current_state(rolf.open_experiment(url, "old")) == folded_state(experiment)
    create_experiment(url, "new", reward_after=5.0, policy="ucb").ask()


LAYOUT_4 = """
DROP TABLE rolf_keys;
DROP INDEX rolf_places;
CREATE UNIQUE INDEX rolf_places ON rolf_log ({log}, number, (CASE
    WHEN kind IN (1, 4, 5) THEN kind WHEN kind = 6 THEN kind + mark
    WHEN kind = 2 AND mark > 0 THEN 3 ELSE 2 END));
UPDATE rolf_meta SET version = 4"""
LAYOUT_3 = """
DROP INDEX rolf_places;
CREATE UNIQUE INDEX rolf_places ON rolf_log ({log}, number, (CASE
    WHEN kind = 1 THEN 1 WHEN kind = 4 THEN 4 WHEN kind = 2 AND mark > 0 THEN 3 ELSE 2 END));
UPDATE rolf_meta SET version = 3"""
LAYOUT_2 = """
DROP INDEX rolf_places;
CREATE UNIQUE INDEX rolf_numbers ON rolf_log (experiment, number, kind);
CREATE SEQUENCE rolf_sequence;
ALTER TABLE rolf_log ALTER COLUMN seq SET DEFAULT
    CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('rolf_sequence') END;
UPDATE rolf_log SET seq = -seq;
UPDATE rolf_log SET seq = 2 - 5 * seq;
DROP PROCEDURE rolf_append;
DROP TABLE rolf_heads;
UPDATE rolf_meta SET version = 2"""
LAYOUT_1 = """
ALTER TABLE rolf_log ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE rolf_log ALTER COLUMN seq SET DEFAULT nextval('rolf_sequence');
CREATE INDEX rolf_transactions ON rolf_log (experiment, xid);
UPDATE rolf_meta SET version = 1"""
LAYOUT_0 = """
ALTER TABLE rolf_experiments DROP COLUMN default_reward;
ALTER TABLE rolf_experiments DROP COLUMN reward_after;
DROP TABLE rolf_snapshots;
UPDATE rolf_meta SET version = 0"""


def layout_of(url):
    """Columns with their defaults, and indexes."""
    schema = url.rpartition("%3D")[2]
    with psycopg.connect(url) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, column_default FROM "
            "information_schema.columns WHERE table_schema = %s ORDER BY 1, 2",
            (schema,),
        ).fetchall()
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1", (schema,)
        ).fetchall()
    return columns, indexes


@pytest.mark.parametrize("version", [4, 3, 2, 1, 0])
def test_tables_of_an_older_version_open_in_postgresql(version):
    url = postgres_url()
    experiment = create_experiment(url, policy="ucb")
    play(experiment, 30)
    waiting = experiment.ask_many(2)
    before = current_state(experiment)
    today = layout_of(url)
    with psycopg.connect(url, autocommit=True) as connection:
        layouts = [LAYOUT_4, LAYOUT_3, LAYOUT_2, LAYOUT_1, LAYOUT_0]
        for old, layout in zip((4, 3, 2, 1, 0), layouts, strict=True):
            if old >= version:
                connection.execute(layout.replace("{log}", "(experiment + 0)"))
    assert layout_of(url) != today
    experiment.close()
    experiment = rolf.open_experiment(url, "one")
    assert layout_of(url) == today
    assert current_state(experiment) == before
    experiment.tell(waiting[1], 1.0)
    play(experiment, 5)
    experiment.snapshot()
    assert current_state(rolf.open_experiment(url, "one")) == folded_state(experiment)
    create_experiment(url, "two", reward_after=3.0).ask()
    check_newer_rows(experiment, waiting[0])


def check_newer_rows(experiment, waiting):
    """Rows that older layouts have no place for."""
    experiment.tell(waiting, 5.0)
    for reward in (0.25, 0.5):
        experiment.correct(waiting, reward, "wrong")
    for _ in range(2):
        experiment.learn([0, 1], [1.0, 1.0])
    assert experiment.status().history == 4
    assert experiment.ask(idempotency_key="again") == experiment.ask(idempotency_key="again")
    assert current_state(experiment) == folded_state(experiment)


@pytest.mark.parametrize("layouts", [[LAYOUT_4], [LAYOUT_4, LAYOUT_3]])
def test_a_file_of_an_earlier_layout_opens(path, layouts):
    url = f"sqlite:///{path}"
    with create_experiment(url, policy="ucb") as experiment:
        play(experiment, 30)
        waiting = experiment.ask()
        before = current_state(experiment)
    connection = sqlite3.connect(path)
    for layout in layouts:
        connection.executescript(layout.replace("{log}", "experiment"))
    connection.close()
    experiment = rolf.open_experiment(url, "one")
    assert current_state(experiment) == before
    check_newer_rows(experiment, waiting)
