"""Tests that every store of experiments must pass.

To test a store of your own, subclass ``StorageContract`` in a test module and define the fixture
``url``. It gives the URL of an empty database, a new one for every test::

    import pytest
    from rolf.testing.storage import StorageContract

    class TestMyStore(StorageContract):
        @pytest.fixture
        def url(self, tmp_path):
            return f"mystore://{tmp_path}/experiments"

pytest then runs the inherited tests. A store is a subclass of ``Store`` in
``rolf.experiments.storage.base``, whose docstrings say what each method promises. The docstring of
``rolf.experiments.storage.urls`` says how an entry point makes ``mystore://`` URLs known to rolf.

The tests go through ``rolf.open_experiment`` and check what its users rely on: nothing is recorded
twice or half, every handle sees the same log in the same order, snapshots equal a fold of the log,
and an experiment continues where it stopped. They use handles and threads of one process. What
only a database with several processes can show is left to tests of your own: that an acknowledged
decision or reward survives a crash, and that processes do not disturb each other.

Needs pytest, hypothesis and pandas.
"""

from __future__ import annotations

import itertools
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rolf
from rolf.errors import (
    AlreadyTold,
    DifferentExperiment,
    ExperimentError,
    InvalidArgument,
    UnknownDecision,
    UnknownExperiment,
)
from rolf.experiments import live
from rolf.experiments.experiment import Experiment
from rolf.experiments.replica import Replica
from rolf.experiments.storage.base import (
    CHANGE,
    DECISION,
    DEFAULT,
    PART,
    REWARD,
    Row,
    Snapshot,
    import_name,
    log_rows,
)

ARMS = 6
FEATURES = np.random.default_rng(0).standard_normal((ARMS, 3))
MEANS = np.random.default_rng(1).uniform(-1, 1, ARMS)
NAMED_FEATURES = pandas.DataFrame(FEATURES, index=list("abcdef"))

_names = (f"experiment {number}" for number in itertools.count())


# --- helpers ---


def create_experiment(url: str, name: str = "one", **arguments: Any) -> Experiment:
    """Create or open an experiment; RoLF-Ridge with fixed features and seed by default."""
    arguments = {"features": FEATURES, "policy": "rolf-ridge", "seed": 4, **arguments}
    return rolf.open_experiment(url, name, **arguments)


def round_features(experiment: Experiment) -> dict[str, Any]:
    """The features to pass to ``ask``, if the policy takes any."""
    return {"features": FEATURES} if experiment._replica.policy.varying else {}


def accepted_reward(experiment: Experiment, reward: float) -> float:
    """The nearest reward that the policy accepts."""
    return float(np.clip(reward, *experiment._replica.policy.reward_range))


def decision_row(number: int) -> Row:
    """A decision for arm 1."""
    return Row.decision(number, 5.0, 1, 0.5, 1, 1, True, 1, None)


def play(experiment: Experiment, rounds: int, seed: int = 0) -> list[Any]:
    """Ask and tell for some rounds; returns the arms that were chosen."""
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        decision = experiment.ask(**round_features(experiment))
        arms.append(decision.arm)
        reward = MEANS[decision.arm] + 0.1 * rng.standard_normal()
        experiment.tell(decision, accepted_reward(experiment, reward))
    return arms


def current_state(experiment: Experiment) -> Snapshot:
    """The state of an experiment in this process, to the last bit."""
    experiment._live.sync()
    return experiment._replica.dump()


def folded_state(experiment: Experiment, upto: int | None = None) -> Snapshot:
    """The state that follows from the log in its canonical order, to the last bit."""
    replica = Replica(experiment.record)
    replica.apply(log_rows(experiment._store, experiment.record.id, 0, upto))
    return replica.dump()


# --- the contract ---


class StorageContract:
    """What every store promises; a subclass defines the fixture ``url``."""

    @pytest.fixture
    def url(self) -> str:
        """The URL of an empty database."""
        raise NotImplementedError("a subclass of StorageContract defines the fixture url")

    # --- decisions and rewards ---

    def test_ask_and_tell(self, url: str) -> None:
        with create_experiment(url) as experiment:
            decision = experiment.ask()
            assert decision.arm in range(ARMS)
            assert 0 < decision.probability <= 1
            experiment.tell(decision, 1.5)
            batch = experiment.ask(3)
            experiment.tell_many({batch[0].id: 0.0, batch[2].id: 1.0})
            status = experiment.status()
            assert (status.asked, status.told, status.waiting, status.defaults) == (4, 3, 1, 0)
            assert [arm.arm for arm in status.arms] == list(range(ARMS))
            assert sum(arm.plays for arm in status.arms) == 4
            assert len({each.id for each in [decision, *batch]}) == 4

    def test_telling_again_changes_nothing(self, url: str) -> None:
        experiment = create_experiment(url)
        one, two = experiment.ask(2)
        experiment.tell(one, 0.5)
        before = current_state(experiment)
        experiment.tell(one.id, 0.5)
        experiment.tell_many([(one, 0.5), (one, 0.5)])
        with pytest.raises(AlreadyTold, match=r"0\.5 already, not 0\.75"):
            experiment.tell(one, 0.75)
        with pytest.raises(AlreadyTold):
            experiment.tell_many([(two, 0.0), (one, 0.75)])
        with pytest.raises(AlreadyTold):
            experiment.tell_many([(two, 0.0), (two, 1.0)])
        tag = one.id.split("-")[0]
        for id in ("x", f"{one.id}0", one.id.replace("-", "+"), f"{tag}-99"):
            with pytest.raises(UnknownDecision, match="not issued"):
                experiment.tell(id, 0.5)
        with pytest.raises(UnknownDecision):
            experiment.tell_many([(two, 0.0), (f"{tag}-99", 0.5)])
        with pytest.raises(UnknownDecision):
            experiment.tell(create_experiment(url, "other").ask(), 0.5)
        wrong: Any
        for wrong in (float("nan"), "1", None):
            with pytest.raises(InvalidArgument, match="reward"):
                experiment.tell(two, wrong)
        assert current_state(experiment) == before
        experiment.tell(two, 0.0)

    def test_default_rewards(self, url: str) -> None:
        ten_seconds = timedelta(seconds=10)
        experiment = create_experiment(url, default_reward=0.25, reward_after=ten_seconds)
        now = 1000.0
        experiment._now = lambda: now
        late, told, lost = experiment.ask(3)
        experiment.tell(told, 1.0)
        now += 9.0
        assert experiment.status().waiting == 2
        now += 1.5
        young = experiment.ask()
        kinds = [row.kind for row in experiment.log()]
        assert kinds == [DECISION, DECISION, DECISION, REWARD, DEFAULT, DEFAULT, DECISION]
        status = experiment.status()
        assert (status.asked, status.told, status.defaults, status.waiting) == (4, 1, 2, 1)
        other = rolf.open_experiment(url, "one")
        other._now = lambda: now
        assert other.status() == status
        other.tell(late, 0.75)
        other.tell(late, 0.75)
        with pytest.raises(AlreadyTold):
            other.tell(late, 0.25)
        status = experiment.status()
        assert (status.told, status.defaults, status.waiting) == (2, 1, 1)
        assert current_state(experiment) == folded_state(other)
        counts = experiment._replica.state.belief.counts.sum()
        assert counts == sum(each.matched for each in (late, told, lost))
        now += 100.0
        assert experiment.status().waiting == 0
        experiment.tell(young, 0.25)
        assert experiment.status().defaults == 1
        rewards = [row for row in experiment.log() if row.number == 1][1:]
        assert [row.kind for row in rewards] == [DEFAULT, REWARD]
        assert [row.replaces_default for row in rewards] == [False, True]

    # --- experiments ---

    def test_experiments_are_found_by_name(self, url: str) -> None:
        create_experiment(url, "b").close()
        create_experiment(url, "a").close()
        assert rolf.list_experiments(url) == ["a", "b"]
        with pytest.raises(UnknownExperiment, match="'c'"):
            rolf.open_experiment(url, "c")
        one = rolf.open_experiment(url, "a")
        decision = one.ask()
        two = rolf.open_experiment(url, "a")
        with pytest.raises(InvalidArgument, match="confirm"):
            one.delete(confirm="b")
        one.delete(confirm="a")
        assert rolf.list_experiments(url) == ["b"]
        with pytest.raises(UnknownExperiment, match="deleted"):
            two.ask()
        with pytest.raises(UnknownExperiment, match="deleted"):
            two.tell(decision, 1.0)
        assert create_experiment(url, "a").status().asked == 0
        with pytest.raises(UnknownExperiment):
            two.ask()

    def test_an_experiment_continues_where_it_stopped(self, url: str) -> None:
        arguments: dict[str, Any] = {"policy": "rolf-bayes", "options": {"width": 2.0}}
        experiment = create_experiment(url, **arguments)
        play(experiment, 30)
        waiting = experiment.ask()
        experiment.close()
        again = rolf.open_experiment(url, "one")
        again.tell(waiting.id, 0.25)
        assert again.policy == "rolf-bayes"
        assert (again.status().asked, again.status().told) == (31, 31)
        assert current_state(again) == folded_state(again)
        create_experiment(url, **arguments)

    # --- logs ---

    def test_rows_are_appended_in_order_all_or_none(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, id = experiment._store, experiment.record.id
        rows = [decision_row(number) for number in (1, 2, 3)]
        assert store.append(id, rows[:2]) == 2
        assert store.append(id, rows[1:]) is None  # the number of the first is taken
        assert store.append(id, [rows[2], rows[2]]) is None
        assert store.append(id, rows[2:], after=1) is None  # there is a row that it does not know
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
        store, id = experiment._store, experiment.record.id
        one, two = decision_row(1), decision_row(2)
        change = Row(0, CHANGE, 1, 5.0, features='{"retire": [0]}')
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

    def test_values_come_back_to_the_last_bit(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, id = experiment._store, experiment.record.id
        numbers = [1e-300, -1e99, 0.1 + 0.2, float(np.nextafter(1.0, 2.0)), 2.0**-1074, 0.0]
        rows = [
            Row(0, DECISION, 2**53 - place, value, 5, 1 / 3, 4, 3, False, 3, 'ä"\\ \n{}', value)
            for place, value in enumerate(numbers)
        ]
        assert store.append(id, rows) == len(rows)
        for place, row in enumerate(store.read(id, 0)):
            assert Row(*row) == rows[place]._replace(seq=place + 1)
            assert isinstance(Row(*row).time, float)

    def test_a_long_log_is_read_part_by_part(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        decisions = experiment.ask(2 * PART + 3)
        experiment.tell_many({each.id: 1.0 for each in decisions})
        assert len(experiment._store.read(experiment.record.id, 0)) == PART
        rows = experiment.log()
        assert [row.seq for row in rows] == list(range(1, 4 * PART + 7))
        assert experiment.counts() == (2 * PART + 3, 2 * PART + 3)
        assert current_state(rolf.open_experiment(url, "one")) == folded_state(experiment)

    def test_names_are_unique_and_hidden_ones_do_not_show(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, record = experiment._store, experiment.record
        assert store.create(record) is None
        hidden = store.create(record._replace(name=import_name()))
        assert hidden is not None
        assert hidden.id != record.id
        assert store.names() == ["one"]
        assert not store.rename(hidden.id, "one")
        assert store.rename(hidden.id, "copy")
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
        names = rolf.backup(url, tmp_path / "all.db")
        assert names == ["one", "two"]
        with pytest.raises(InvalidArgument, match="does not exist yet"):
            rolf.backup(url, tmp_path / "all.db")
        before, rows = current_state(experiment), experiment.log()
        with pytest.raises(DifferentExperiment, match="'one', 'two'"):
            rolf.restore(tmp_path / "all.db", url)
        experiment.delete(confirm="one")
        assert rolf.restore(tmp_path / "all.db", url, ["one"]) == ["one"]
        again = rolf.open_experiment(url, "one")
        assert again.log() == rows
        assert current_state(again) == before
        again.tell(waiting, 1.0)  # decisions keep their ids
        alone = rolf.open_experiment(f"sqlite:///{tmp_path}/one.db", "one")
        assert alone.log() == rows
        with pytest.raises(UnknownExperiment, match="'three'"):
            rolf.restore(tmp_path / "all.db", url, ["three"])
        with pytest.raises(UnknownExperiment, match="'three'"):
            rolf.backup(url, tmp_path / "three.db", ["three"])
        assert rolf.list_experiments(url) == ["one", "two"]
        assert sorted(each.name for each in tmp_path.iterdir() if "-" not in each.name) == [
            "all.db",
            "one.db",
        ]

    # --- several handles ---

    def test_two_handles_share_one_experiment(self, url: str) -> None:
        one = create_experiment(url)
        two = rolf.open_experiment(url, "one")
        first, second = one.ask(), two.ask()
        assert first.id != second.id
        two.tell(first, 1.0)
        one.tell(second, 2.0)
        one.tell(first, 1.0)
        assert current_state(one) == current_state(two) == folded_state(one)
        play(one, 10)
        play(two, 10)
        assert one.status() == two.status()
        assert one.status().asked == 22

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(-2, 2))))
    def test_any_interleaving_of_two_handles(
        self, url: str, steps: list[tuple[bool, int, int]]
    ) -> None:
        name = next(_names)
        handles = [create_experiment(url, name, policy="ucb"), rolf.open_experiment(url, name)]
        asked: list[rolf.Decision] = []
        told: dict[str, int] = {}
        for second, action, value in steps:
            handle = handles[second]
            if action < 4 or not asked:
                asked += handle.ask(1 + action % 3)
                continue
            decision = asked[(action * 7 + value) % len(asked)]
            if told.setdefault(decision.id, value) == value:
                handle.tell(decision, value)
            else:
                with pytest.raises(AlreadyTold):
                    handle.tell(decision, value)
        assert len({decision.id for decision in asked}) == len(asked)
        first, second_state = (current_state(handle) for handle in handles)
        assert first == second_state == folded_state(handles[0])
        status = handles[0].status()
        assert (status.asked, status.told) == (len(asked), len(told))
        sums = np.zeros(ARMS)
        for decision in asked:
            sums[decision.arm] += told.get(decision.id, 0)
        assert (handles[0]._replica.state.belief.sums == sums).all()
        for handle in handles:
            handle.close()

    def test_threads_share_a_handle(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")

        def work() -> None:
            for _ in range(20):
                experiment.tell(experiment.ask(), 1.0)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert experiment.status().told == 80
        assert experiment._replica.state.belief.counts.sum() == 80

    # --- snapshots ---

    def test_a_snapshot_equals_the_fold_of_the_log(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live, "SNAPSHOT_INTERVAL", 25)
        experiment = create_experiment(url)
        play(experiment, 60)
        snapshot = experiment._store.snapshot(experiment.record.id)
        assert snapshot is not None
        assert folded_state(experiment, snapshot.upto) == snapshot
        again = rolf.open_experiment(url, "one")
        assert again._live.snapshot_upto == snapshot.upto
        assert current_state(again) == current_state(experiment) == folded_state(experiment)
        again.rebuild()
        assert current_state(again) == folded_state(experiment)

    def test_the_latest_snapshot_is_kept(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, id = experiment._store, experiment.record.id
        assert store.snapshot(id) is None
        for snapshot in (Snapshot(4, "3", "a"), Snapshot(6, "3", "b"), Snapshot(6, "4", "c")):
            store.save(id, snapshot)
            assert store.snapshot(id) == snapshot
        store.save(id, Snapshot(5, "3", "d"))
        assert store.snapshot(id) == Snapshot(6, "4", "c")
        store.forget(id)
        assert store.snapshot(id) is None

    # --- arms that come and go ---

    def test_arms_come_and_go(self, url: str) -> None:
        experiment = create_experiment(url, features=NAMED_FEATURES)
        rng = np.random.default_rng(3)
        for _ in range(40):
            experiment.tell(experiment.ask(), rng.normal())
        other = rolf.open_experiment(url, "one")
        in_flight = experiment.ask(available=["a"])
        belief = experiment._replica.state.belief
        counts, sums = belief.counts.copy(), belief.sums.copy()
        new = pandas.DataFrame(rng.normal(size=(2, 3)), index=["g", "h"])
        assert experiment.add_arms(new) == ["g", "h"]
        experiment.retire_arms(["a", "b"])
        belief = experiment._replica.state.belief
        assert (belief.counts[:ARMS] == counts).all()
        assert (belief.sums[:ARMS] == sums).all()
        assert (belief.counts[ARMS:] == 0).all()
        experiment.tell(in_flight, 5.0)
        asked = {other.ask().arm for _ in range(60)}
        assert not asked & {"a", "b"}
        assert asked & {"g", "h"}
        assert current_state(other) == current_state(experiment) == folded_state(experiment)
        assert [arm.active for arm in other.status().arms] == [False, False] + [True] * 6
        assert list(other.estimates().index) == list("abcdefgh")
        with pytest.raises(InvalidArgument, match="not retired"):
            other.ask(available=["a"])

    def test_arms_that_another_handle_changed(self, url: str) -> None:
        one, two = create_experiment(url, policy="ucb"), create_experiment(url, policy="ucb")
        (new,) = two.add_arms([[1.0, 2.0, 3.0]])
        decision = two.ask(available=[new])
        one.tell(decision, 1.0)
        assert one.status().told == two.status().told == 1
        (more,) = two.add_arms([[2.0, 2.0, 3.0]])
        assert one.ask(1, [more])[0].arm == more
        two.retire_arms(range(ARMS + 2))
        for handle in (one, two):
            with pytest.raises(ExperimentError, match="all arms are retired"):
                handle.ask()
        two.add_arms([[2.0, 1.0, 3.0]])
        assert one.ask().arm == ARMS + 2
        assert current_state(one) == folded_state(two)
        changes = [row for row in one.log() if row.kind == CHANGE]
        assert [row.number for row in changes] == [1, 2, 3, 4]
