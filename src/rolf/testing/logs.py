"""Tests of logs and their copies for every store; part of ``StorageContract``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rolf
from rolf.errors import DifferentExperiment, InvalidArgument, UnknownExperiment
from rolf.experiments.database import Database, open_experiment
from rolf.experiments.storage.contract import PART, import_name
from rolf.experiments.storage.rows import (
    CORRECTION,
    DECISION,
    DEFAULT,
    HISTORY,
    REWARD,
    ROSTER,
    Row,
)
from rolf.testing.experiments import (
    create_experiment,
    current_state,
    decision_row,
    folded_state,
    play,
    rows_of,
)


class LogContract:
    """Rows in order, each place taken once; subclasses define the fixture ``url``."""

    # --- logs ---

    def test_rows_are_appended_in_order_all_or_none(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, id = experiment.synced.store, experiment.record.id
        rows = [decision_row(number) for number in (1, 2, 3)]
        assert store.append(id, rows[:2]) == 2
        assert store.append(id, rows[1:]) is None  # the number of the first is taken
        assert store.append(id, [rows[2], rows[2]]) is None
        assert store.append(id, rows[2:], after=1) is None  # there is a row after row 1
        assert store.append(id, rows[2:], after=2) == 3
        store.settle()
        expected = [row._replace(seq=seq) for seq, row in enumerate(rows, 1)]
        assert [Row(*row) for row in store.read(id, 0)] == expected
        assert [row[0] for row in store.read(id, 1)] == [2, 3]
        assert [row[0] for row in store.read(id, 0, 2)] == [1, 2]
        assert [row[0] for row in store.read(id, 0, limit=1)] == [1]
        assert store.read(id, 3) == []
        experiment.delete(confirm="one")
        with pytest.raises(UnknownExperiment, match="deleted"):
            store.append(id, [decision_row(4)])

    def test_a_decision_gets_one_reward_and_one_more_for_the_default(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, id = experiment.synced.store, experiment.record.id
        one, two = decision_row(1), decision_row(2)
        change = Row(0, ROSTER, 1, 5.0, details='{"retire": [0]}')
        assert store.append(id, [one, two, change]) == 3
        assert store.append(id, [one.rewarded(DEFAULT, 0.5, 6.0)]) == 4
        late = one.rewarded(REWARD, 1.5, 7.0, replaces_default=True)
        for taken in (one.rewarded(REWARD, 1.0, 6.0), one.rewarded(DEFAULT, 0.5, 6.0), change):
            assert store.append(id, [taken]) is None
        assert store.append(id, [late, two.rewarded(REWARD, -1.0, 8.0)]) == 6
        for taken in (late, two.rewarded(REWARD, 1.0, 8.0), two.rewarded(DEFAULT, 1.0, 8.0)):
            assert store.append(id, [taken]) is None
        found = sorted(Row(*row) for row in store.find(id, [2, 1, 99]))
        assert [(row.number, row.kind, row.reward) for row in found] == [
            (1, DECISION, None),
            (2, DECISION, None),
            (1, DEFAULT, 0.5),
            (1, REWARD, 1.5),
            (2, REWARD, -1.0),
        ]
        assert found[3] == late._replace(seq=5)
        assert store.find(id, []) == []

    def test_histories_and_corrections_have_places_of_their_own(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, id = experiment.synced.store, experiment.record.id
        change = Row(0, ROSTER, 1, 5.0, details='{"retire": [0]}')
        history = Row(0, HISTORY, 1, 5.0, details="{}")
        reward = decision_row(1).rewarded(REWARD, 1.5, 6.0)
        assert store.append(id, [decision_row(1), change, history, reward]) == 4
        assert store.append(id, [history]) is None
        first = reward.corrected(2.5, "wrong", 7.0, refold=False)
        second = first.corrected(3.5, "wrong again", 8.0, refold=True)
        assert store.append(id, [first]) == 5
        assert store.append(id, [first._replace(reward=9.0)]) is None
        assert store.append(id, [second]) == 6
        found = sorted(Row(*row) for row in store.find(id, [1]))
        assert [(row.kind, row.reward) for row in found] == [
            (DECISION, None),
            (REWARD, 1.5),
            (CORRECTION, 2.5),
            (CORRECTION, 3.5),
        ]
        assert (found[3].ordinal, found[3].parsed["was"]) == (2, 2.5)

    def test_values_come_back_to_the_last_bit(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, id = experiment.synced.store, experiment.record.id
        numbers = [1e-300, -1e99, 0.1 + 0.2, float(np.nextafter(1.0, 2.0)), 2.0**-1074, 0.0]
        rows = [
            Row(0, DECISION, 2**53 - place, value, 5, 1 / 3, 4, 3, False, 3, 2, 'ä"\\ \n{}', value)
            for place, value in enumerate(numbers)
        ]
        assert store.append(id, rows) == len(rows)
        for place, row in enumerate(store.read(id, 0)):
            assert Row(*row) == rows[place]._replace(seq=place + 1)
            assert isinstance(Row(*row).time, float)

    def test_a_long_log_is_read_part_by_part(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        decisions = experiment.ask_many(2 * PART + 3)
        experiment.tell_many({each.id: 1.0 for each in decisions})
        assert len(experiment.synced.store.read(experiment.record.id, 0)) == PART
        rows = rows_of(experiment)
        assert [row.seq for row in rows] == list(range(1, 4 * PART + 7))
        assert experiment.counts() == (2 * PART + 3, 2 * PART + 3)
        assert current_state(open_experiment(url, "one")) == folded_state(experiment)

    def test_names_are_unique_and_hidden_ones_do_not_show(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, record = experiment.synced.store, experiment.record
        assert store.create(record) is None
        hidden = store.create(record._replace(name=import_name()))
        assert hidden is not None
        assert hidden.id != record.id
        assert store.names() == ["one"]
        other = store.create(record._replace(name=import_name()))
        assert other is not None
        assert not store.rename({hidden.id: "one"})
        assert not store.rename({other.id: "free", hidden.id: "one"})
        assert not store.rename({other.id: "free", 10**6: "gone"})
        assert store.names() == ["one"]
        store.delete(other.id)
        assert store.rename({hidden.id: "copy"})
        assert store.record("copy") == record._replace(name="copy", id=hidden.id)
        assert store.names() == ["copy", "one"]
        assert store.record("none") is None
        store.delete(hidden.id)
        assert store.names() == ["one"]

    # --- copies ---

    def test_a_backup_is_restored(self, url: str, tmp_path: Path) -> None:
        experiment = create_experiment(url, default_reward=0.5, reward_after=1000.0)
        play(experiment, 10)
        experiment.retire_arms([2])
        experiment.snapshot()
        waiting = experiment.ask()
        create_experiment(url, "two").ask()
        experiment.backup(tmp_path / "one.db")
        names = rolf.connect(url).backup(tmp_path / "all.db")
        assert names == ["one", "two"]
        with pytest.raises(InvalidArgument, match="does not exist yet"):
            rolf.connect(url).backup(tmp_path / "all.db")
        before, rows = current_state(experiment), rows_of(experiment)
        with pytest.raises(DifferentExperiment, match="'one', 'two'"):
            rolf.connect(url).restore(tmp_path / "all.db")
        experiment.delete(confirm="one")
        assert rolf.connect(url).restore(tmp_path / "all.db", ["one"]) == ["one"]
        again = open_experiment(url, "one")
        assert rows_of(again) == rows
        assert current_state(again) == before
        again.tell(waiting, 1.0)  # decisions keep their ids
        alone = open_experiment(f"sqlite:///{tmp_path}/one.db", "one")
        assert rows_of(alone) == rows
        with pytest.raises(UnknownExperiment, match="'three'"):
            rolf.connect(url).restore(tmp_path / "all.db", ["three"])
        with pytest.raises(UnknownExperiment, match="'three'"):
            rolf.connect(url).backup(tmp_path / "three.db", ["three"])
        assert Database(url).names() == ["one", "two"]
        assert sorted(each.name for each in tmp_path.iterdir() if "-" not in each.name) == [
            "all.db",
            "one.db",
        ]
