"""Tests that every store of experiments must pass.

To test your own store, subclass ``StorageContract`` in a test module and define the fixture
``url``, which returns the URL of an empty database, a new one for every test::

    import pytest
    from rolf.testing.storage import StorageContract

    class TestMyStore(StorageContract):
        @pytest.fixture
        def url(self, tmp_path):
            return f"mystore://{tmp_path}/experiments"

pytest then runs the inherited tests. A store is a subclass of ``Store`` in
``rolf.experiments.storage.contract``, whose docstrings define each method. The docstring of
``rolf.experiments.storage.urls`` explains how an entry point registers ``mystore://`` URLs.

The tests use ``rolf.open_experiment`` and check what its users rely on: nothing is recorded twice
or in part, every open experiment sees the same log in the same order, snapshots equal a fold of the
log, and an experiment continues where it stopped. They run in threads of one process. Write your
own tests for what needs several processes: an acknowledged decision or reward survives a crash, and
processes do not disturb each other.

Needs pytest, hypothesis and pandas.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rolf
from rolf.errors import (
    AlreadyTold,
    ExperimentError,
    InvalidArgument,
    UnknownDecision,
    UnknownExperiment,
)
from rolf.experiments.database import Database, open_experiment
from rolf.experiments.log import synced as live
from rolf.experiments.storage.rows import DECISION, DEFAULT, REWARD, ROSTER, Snapshot
from rolf.testing.experiments import (
    ARMS,
    FEATURES,
    MEANS,
    NAMED_FEATURES,
    accepted_reward,
    create_experiment,
    current_state,
    decision_row,
    folded_state,
    new_name,
    play,
    round_features,
    rows_of,
)
from rolf.testing.logs import LogContract

__all__ = [
    "ARMS",
    "FEATURES",
    "MEANS",
    "NAMED_FEATURES",
    "StorageContract",
    "accepted_reward",
    "create_experiment",
    "current_state",
    "decision_row",
    "folded_state",
    "play",
    "round_features",
]


class StorageContract(LogContract):
    """Tests for every store; subclasses define the fixture ``url``."""

    @pytest.fixture
    def url(self) -> str:
        """The URL of an empty database."""
        raise NotImplementedError("subclasses of StorageContract must define the fixture url")

    # --- decisions and rewards ---

    def test_ask_and_tell(self, url: str) -> None:
        with create_experiment(url) as experiment:
            decision = experiment.ask()
            assert decision.arm in range(ARMS)
            assert 0 < decision.probability <= 1
            experiment.tell(decision, 1.5)
            batch = experiment.ask_many(3)
            experiment.tell_many({batch[0].id: 0.0, batch[2].id: 1.0})
            status = experiment.status()
            assert (status.asked, status.told, status.pending, status.defaults) == (4, 3, 1, 0)
            assert [arm.arm for arm in status.arms] == list(range(ARMS))
            assert sum(arm.plays for arm in status.arms) == 4
            assert len({each.id for each in [decision, *batch]}) == 4

    def test_telling_again_changes_nothing(self, url: str) -> None:
        experiment = create_experiment(url)
        one, two = experiment.ask_many(2)
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
        experiment.synced.now = lambda: now
        late, told, lost = experiment.ask_many(3)
        experiment.tell(told, 1.0)
        now += 9.0
        assert experiment.status().pending == 2
        now += 1.5
        young = experiment.ask()
        kinds = [row.kind for row in rows_of(experiment)]
        assert kinds == [DECISION, DECISION, DECISION, REWARD, DEFAULT, DEFAULT, DECISION]
        status = experiment.status()
        assert (status.asked, status.told, status.defaults, status.pending) == (4, 1, 2, 1)
        other = open_experiment(url, "one")
        other.synced.now = lambda: now
        assert other.status() == status
        other.tell(late, 0.75)
        other.tell(late, 0.75)
        with pytest.raises(AlreadyTold):
            other.tell(late, 0.25)
        status = experiment.status()
        assert (status.told, status.defaults, status.pending) == (2, 1, 1)
        assert current_state(experiment) == folded_state(other)
        counts = experiment.synced.replica.state.belief.counts.sum()
        assert counts == sum(each.matched for each in (late, told, lost))
        now += 100.0
        assert experiment.status().pending == 0
        experiment.tell(young, 0.25)
        assert experiment.status().defaults == 1
        rewards = [row for row in rows_of(experiment) if row.number == 1][1:]
        assert [row.kind for row in rewards] == [DEFAULT, REWARD]
        assert [row.replaces_default for row in rewards] == [False, True]

    # --- experiments ---

    def test_experiments_are_found_by_name(self, url: str) -> None:
        create_experiment(url, "b").close()
        create_experiment(url, "a").close()
        assert Database(url).names() == ["a", "b"]
        with pytest.raises(UnknownExperiment, match="'c'"):
            open_experiment(url, "c")
        one = open_experiment(url, "a")
        decision = one.ask()
        two = open_experiment(url, "a")
        with pytest.raises(InvalidArgument, match="confirm"):
            one.delete(confirm="b")
        one.delete(confirm="a")
        assert Database(url).names() == ["b"]
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
        again = open_experiment(url, "one")
        again.tell(waiting.id, 0.25)
        assert again.policy == "rolf-bayes"
        assert (again.status().asked, again.status().told) == (31, 31)
        assert current_state(again) == folded_state(again)
        create_experiment(url, **arguments)

    # --- open more than once ---

    def test_an_experiment_that_is_open_twice_is_one(self, url: str) -> None:
        one = create_experiment(url)
        two = open_experiment(url, "one")
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
    def test_any_interleaving_of_an_experiment_that_is_open_twice(
        self, url: str, steps: list[tuple[bool, int, int]]
    ) -> None:
        name = new_name()
        handles = [create_experiment(url, name, policy="ucb"), open_experiment(url, name)]
        asked: list[rolf.Decision] = []
        told: dict[str, int] = {}
        for second, action, value in steps:
            handle = handles[second]
            if action < 4 or not asked:
                asked += handle.ask_many(1 + action % 3)
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
        assert (handles[0].synced.replica.state.belief.sums == sums).all()
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
        assert experiment.synced.replica.state.belief.counts.sum() == 80

    # --- snapshots ---

    def test_a_snapshot_equals_the_fold_of_the_log(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live, "SNAPSHOT_INTERVAL", 25)
        experiment = create_experiment(url)
        play(experiment, 60)
        snapshot = experiment.synced.store.snapshot(experiment.record.id)
        assert snapshot is not None
        assert folded_state(experiment, snapshot.upto) == snapshot
        again = open_experiment(url, "one")
        assert again.synced.snapshot_upto == snapshot.upto
        assert current_state(again) == current_state(experiment) == folded_state(experiment)
        again.rebuild()
        assert current_state(again) == folded_state(experiment)

    def test_the_latest_snapshot_is_kept(self, url: str) -> None:
        experiment = create_experiment(url, policy="ucb")
        store, id = experiment.synced.store, experiment.record.id
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
        other = open_experiment(url, "one")
        in_flight = experiment.ask(available=["a"])
        belief = experiment.synced.replica.state.belief
        counts, sums = belief.counts.copy(), belief.sums.copy()
        new = pandas.DataFrame(rng.normal(size=(2, 3)), index=["g", "h"])
        assert experiment.add_arms(new) == ["g", "h"]
        experiment.retire_arms(["a", "b"])
        belief = experiment.synced.replica.state.belief
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
        assert one.ask(available=[more]).arm == more
        two.retire_arms(range(ARMS + 2))
        for handle in (one, two):
            with pytest.raises(ExperimentError, match="all arms are retired"):
                handle.ask()
        two.add_arms([[2.0, 1.0, 3.0]])
        assert one.ask().arm == ARMS + 2
        assert current_state(one) == folded_state(two)
        changes = [row for row in rows_of(one) if row.kind == ROSTER]
        assert [row.number for row in changes] == [1, 2, 3, 4]
