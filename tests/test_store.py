"""The contract of every store: one class, on memory, SQLite and a real PostgreSQL."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rolf
from helpers import ARMS, FEATURES, LETTERS, MEANS
from rolf.errors import (
    AlreadyTold,
    DifferentExperiment,
    ExperimentError,
    InvalidArgument,
    UnknownDecision,
    UnknownExperiment,
)
from rolf.experiments import live
from rolf.experiments.replica import Replica
from stores import counter, create, frozen, play, state


class TestContract:
    def test_ask_and_tell(self, url):
        with create(url) as experiment:
            decision = experiment.ask()
            assert decision.arm in range(ARMS)
            assert 0 < decision.probability <= 1
            experiment.tell(decision, 1.5)
            batch = experiment.ask(3)
            experiment.tell_many({batch[0].id: 0.0, batch[2].id: 1.0})
            status = experiment.status()
            assert (status.asked, status.told, status.waiting, status.defaults) == (4, 3, 1, 0)
            assert [each.arm for each in status.arms] == list(range(ARMS))
            assert sum(each.plays for each in status.arms) == 4
            assert json.loads(json.dumps(status.to_dict()))["waiting"] == 1
            assert len({each.id for each in [decision, *batch]}) == 4
            assert experiment.estimates().shape == (ARMS,)

    def test_experiments_are_found_by_name(self, url):
        create(url, "b").close()
        create(url, "a").close()
        assert rolf.list_experiments(url) == ["a", "b"]
        with pytest.raises(UnknownExperiment, match="'c'"):
            rolf.open(url, "c")
        one = rolf.open(url, "a")
        decision = one.ask()
        two = rolf.open(url, "a")
        with pytest.raises(InvalidArgument, match="confirm"):
            one.delete(confirm="b")
        one.delete(confirm="a")
        assert rolf.list_experiments(url) == ["b"]
        with pytest.raises(UnknownExperiment, match="deleted"):
            two.ask()
        with pytest.raises(UnknownExperiment, match="deleted"):
            two.tell(decision, 1.0)
        again = create(url, "a")
        assert again.status().asked == 0
        with pytest.raises(UnknownExperiment):
            two.ask()

    def test_opening_again_goes_on(self, url):
        experiment = create(url, policy="rolf-bayes", options={"width": 2.0})
        play(experiment, 30)
        waiting = experiment.ask()
        experiment.close()
        again = rolf.open(url, "one")
        again.tell(waiting.id, 0.25)
        assert again.policy == "rolf-bayes"
        assert (again.status().asked, again.status().told) == (31, 31)
        assert state(again) == frozen(again)
        create(url, policy="rolf-bayes", options={"width": 2.0}, seed=4)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"policy": "ucb"}, "policy: 'rolf-ridge' there, 'ucb' here"),
            ({"options": {"p": 0.9}}, "options: p: 0.6 there, 0.9 here"),
            ({"seed": 5}, "seed: 4 there, 5 here"),
            ({"reward_after": 3.0}, "reward_after: None there, 3.0 here"),
            ({"features": FEATURES + np.eye(ARMS, 3)}, "arm 0, column 0"),
            ({"features": FEATURES[:4]}, "shape"),
            ({"features": LETTERS}, "no names"),
        ],
    )
    def test_what_contradicts_is_named(self, url, given, words):
        create(url)
        with pytest.raises(DifferentExperiment, match=words):
            create(url, **given)
        create(url).ask()

    def test_a_tell_is_idempotent(self, url):
        experiment = create(url)
        one, two = experiment.ask(2)
        experiment.tell(one, 0.5)
        before = state(experiment)
        experiment.tell(one.id, 0.5)
        experiment.tell_many([(one, 0.5), (one, 0.5)])
        with pytest.raises(AlreadyTold, match=r"0\.5 already, not 0\.75"):
            experiment.tell(one, 0.75)
        with pytest.raises(AlreadyTold):
            experiment.tell_many([(two, 0.0), (one, 0.75)])
        with pytest.raises(AlreadyTold):
            experiment.tell_many([(two, 0.0), (two, 1.0)])
        for wrong in ("x", f"{one.id}0", one.id.replace("-", "+"), f"{one.id.split('-')[0]}-99"):
            with pytest.raises(UnknownDecision, match="not issued"):
                experiment.tell(wrong, 0.5)
        with pytest.raises(UnknownDecision):
            experiment.tell_many([(two, 0.0), (f"{one.id.split('-')[0]}-99", 0.5)])
        for wrong in (float("nan"), "1", None):
            with pytest.raises(InvalidArgument, match="reward"):
                experiment.tell(two, wrong)
        assert state(experiment) == before
        experiment.tell(two, 0.0)
        experiment.tell_many([])

    def test_bad_asks_change_nothing(self, url):
        experiment = create(url)
        play(experiment, 5)
        before = state(experiment)
        for wrong in ({"n": 0}, {"available": [99]}, {"available": []}, {"features": FEATURES}):
            with pytest.raises(InvalidArgument):
                experiment.ask(**wrong)
        assert state(experiment) == before
        assert experiment.ask(available=iter([2])).arm == 2

    def test_draws_follow_seed_and_number_alone(self, url):
        """A restart neither repeats nor skips exploration."""
        steady = create(url, "steady")
        wanted = play(steady, 24)
        got = []
        rng = np.random.default_rng(0)
        for number in range(24):
            again = create(url, "restarted")
            decision = again.ask()
            again.tell(decision, MEANS[decision.arm] + 0.1 * rng.standard_normal())
            got.append(decision.arm)
            assert decision.id.endswith(f"-{number + 1}")
            again.close()
        assert got == wanted

    def test_two_handles_share_one_experiment(self, url):
        one = create(url)
        two = rolf.open(url, "one")
        mine, other = one.ask(), two.ask()
        assert mine.id != other.id
        two.tell(mine, 1.0)
        one.tell(other, 2.0)
        one.tell(mine, 1.0)
        assert state(one) == state(two) == frozen(one)
        play(one, 10)
        play(two, 10)
        assert one.status() == two.status()
        assert one.status().asked == 22

    def test_a_snapshot_equals_the_fold_of_the_log(self, url, monkeypatch):
        monkeypatch.setattr(live, "SNAPSHOT_INTERVAL", 25)
        experiment = create(url)
        play(experiment, 60)
        kept = experiment._store.snapshot(experiment._record.id)
        replica = Replica(experiment._record)
        replica.apply(experiment._store.log(experiment._record.id, 0, kept.upto))
        assert replica.dump() == kept
        again = rolf.open(url, "one")
        assert again._live.snapshot_upto == kept.upto
        assert state(again) == state(experiment) == frozen(experiment)
        again.rebuild()
        assert state(again) == frozen(experiment)

    @pytest.mark.parametrize("harm", ["{}", "no JSON", '{"format": 9}'])
    def test_a_damaged_or_old_snapshot_is_folded_anew(self, url, harm):
        experiment = create(url)
        play(experiment, 20)
        experiment.snapshot()
        kept = experiment._store.snapshot(experiment._record.id)
        for broken in (kept._replace(state=harm), kept._replace(version="0.0.1")):
            experiment._store.save(experiment._record.id, broken)
            assert state(rolf.open(url, "one")) == frozen(experiment)

    def test_default_rewards(self, url):
        experiment = create(url, default_reward=0.25, reward_after=timedelta(seconds=10))
        now = 1000.0
        experiment._now = lambda: now
        late, told, lost = experiment.ask(3)
        experiment.tell(told, 1.0)
        now += 9.0
        assert experiment.status().waiting == 2
        now += 1.5
        young = experiment.ask()
        status = experiment.status()
        assert (status.asked, status.told, status.defaults, status.waiting) == (4, 1, 2, 1)
        other = rolf.open(url, "one")
        other._now = lambda: now
        assert other.status() == status
        other.tell(late, 0.75)
        other.tell(late, 0.75)
        with pytest.raises(AlreadyTold):
            other.tell(late, 0.25)
        status = experiment.status()
        assert (status.told, status.defaults, status.waiting) == (2, 1, 1)
        assert state(experiment) == frozen(other)
        counts = experiment._replica.state.belief.counts.sum()
        expected = sum(each.matched for each in (late, told, lost))
        assert counts == expected
        now += 100.0
        assert experiment.status().waiting == 0
        experiment.tell(young, 0.25)
        assert experiment.status().defaults == 1

    def test_arms_come_and_go(self, url):
        experiment = create(url, features=LETTERS, policy="rolf-ridge")
        rng = np.random.default_rng(3)
        for _ in range(40):
            experiment.tell(experiment.ask(), rng.normal())
        other = rolf.open(url, "one")
        flying = experiment.ask(available=["a"])
        before = experiment._replica.state.belief
        counts, sums = before.counts.copy(), before.sums.copy()
        new = pandas.DataFrame(rng.normal(size=(2, 3)), index=["g", "h"])
        assert experiment.add_arms(new) == ["g", "h"]
        experiment.retire_arms(["a", "b"])
        after = experiment._replica.state.belief
        assert (after.counts[:ARMS] == counts).all()
        assert (after.sums[:ARMS] == sums).all()
        assert (after.counts[ARMS:] == 0).all()
        experiment.tell(flying, 5.0)
        asked = {other.ask().arm for _ in range(60)}
        assert not asked & {"a", "b"}
        assert asked & {"g", "h"}
        assert state(other) == state(experiment) == frozen(experiment)
        assert [each.active for each in other.status().arms] == [False, False] + [True] * 6
        assert list(other.estimates().index) == list("abcdefgh")
        with pytest.raises(InvalidArgument, match="not retired"):
            other.ask(available=["a"])
        for same in (LETTERS, pandas.concat([LETTERS, new]), pandas.concat([LETTERS, new])[2:]):
            rolf.open(url, "one", features=same)
        with pytest.raises(DifferentExperiment, match="'z' is new"):
            rolf.open(url, "one", features=LETTERS.rename(index={"a": "z"}))
        experiment.retire_arms(list("cdefgh"))
        for handle in (experiment, other):
            with pytest.raises(ExperimentError, match="all arms are retired"):
                handle.ask()
        experiment.add_arms(pandas.DataFrame([[1.0, 2.0, 3.0]], index=["i"]))
        assert other.ask().arm == "i"

    def test_arms_that_another_handle_changed(self, url):
        one, two = create(url, policy="ucb"), create(url, policy="ucb")
        (new,) = two.add_arms([[1.0, 2.0, 3.0]])
        decision = two.ask(available=[new])
        one.tell(decision, 1.0)
        assert one.status().told == two.status().told == 1
        (more,) = two.add_arms([[2.0, 2.0, 3.0]])
        assert one.ask(1, [more])[0].arm == more
        two.retire_arms(range(ARMS + 2))
        with pytest.raises(ExperimentError, match="all arms are retired"):
            one.ask()
        two.add_arms([[2.0, 1.0, 3.0]])
        assert one.ask().arm == ARMS + 2
        assert state(one) == frozen(two)

    def test_features_are_corrected(self, url):
        experiment = create(url, policy="linucb")
        play(experiment, 40)
        right = FEATURES.copy()
        right[2] = [1.0, 2.0, 3.0]
        experiment.update_features({2: right[2]})
        fresh = rolf.LinUCB(right)
        ridge = experiment._replica.state.belief
        fresh._state.belief.counts[:] = ridge.counts
        fresh._state.belief.sums[:] = ridge.sums
        rolf.policies.operations.rebuild(fresh.params, fresh._state)
        assert np.allclose(experiment.estimates(), fresh.estimates())
        assert state(rolf.open(url, "one")) == frozen(experiment)
        experiment.update_features(FEATURES)
        for wrong in ({9: [1, 2, 3]}, FEATURES[:3], FEATURES[:, :2], {1: [1, 2]}, {0: "x"}):
            with pytest.raises(InvalidArgument, match="features"):
                experiment.update_features(wrong)

    def test_arms_that_cannot_be(self, url):
        experiment = create(url, features=LETTERS)
        for wrong in (LETTERS, FEATURES, LETTERS.rename(columns={0: "q"}), [[1.0]], []):
            with pytest.raises(InvalidArgument, match="features"):
                experiment.add_arms(wrong)
        with pytest.raises(InvalidArgument, match="ids"):
            experiment.retire_arms("zz")
        varying = create(url, "two", policy="rolf-varying")
        with pytest.raises(InvalidArgument, match="every ask"):
            varying.update_features(FEATURES)
        for wrong in ("", " x", 3):
            with pytest.raises(InvalidArgument, match="name"):
                create(url, wrong)

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(-2, 2))))
    def test_any_interleaving_of_two_handles(self, url, steps):
        name = f"i{next(counter)}"
        handles = [create(url, name, policy="ucb"), rolf.open(url, name)]
        asked, told = [], {}
        for first, action, value in steps:
            handle = handles[first]
            if action < 4 or not asked:
                asked += handle.ask(1 + action % 3)
                continue
            decision = asked[(action * 7 + value) % len(asked)]
            if told.setdefault(decision.id, value) == value:
                handle.tell(decision, value)
            else:
                with pytest.raises(AlreadyTold):
                    handle.tell(decision, value)
        assert len({each.id for each in asked}) == len(asked)
        assert state(handles[0]) == state(handles[1]) == frozen(handles[0])
        status = handles[0].status()
        assert (status.asked, status.told) == (len(asked), len(told))
        sums = np.zeros(ARMS)
        for decision in asked:
            sums[decision.arm] += told.get(decision.id, 0)
        assert (handles[0]._replica.state.belief.sums == sums).all()
        for handle in handles:
            handle.close()

    def test_several_threads(self, url):
        experiment = create(url, policy="ucb")

        def work():
            for _ in range(20):
                experiment.tell(experiment.ask(), 1.0)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert experiment.status().told == 80
        assert experiment._replica.state.belief.counts.sum() == 80
