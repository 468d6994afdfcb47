"""Damaged states are refused, or give a policy that works; the interpreter survives all of them."""

from __future__ import annotations

import faulthandler
import json
import math
import random
import warnings

import numpy as np
import pytest

import rolf
from rolf.errors import IncompatibleState, InvalidArgument, RolfWarning
from rolf.policies.registry import option_names
from rolf.policies.state.arrays import find, pack, unpack
from rolf.policies.state.saving import check_state
from support.damage import NUMBERS, OTHERS, as_text, damaged
from support.helpers import FEATURES, every_policy, extra, make, play

pytestmark = pytest.mark.compiled


@pytest.fixture(autouse=True)
def _no_endless_loop():
    """Compiled code cannot be interrupted: the process ends, and says where it was."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def good_states(name, **options):
    """Saved states of a policy: before the first reward, in the middle, with decisions open."""
    policy = make(name, **options)
    yield policy.to_dict()
    play(policy, 40)
    policy.ask_many(3, **extra(policy))
    yield json.loads(json.dumps(policy.to_dict()))


def survives(data):
    """Whether a state is taken; a policy from it must work."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RolfWarning)
        try:
            policy = rolf.Policy.from_dict(data)
        except IncompatibleState:
            return False
        for key in policy.pending:
            policy.tell(key, reward_of_position(policy, key))
        for _ in range(20):
            decision = policy.ask(**extra(policy))
            policy.tell(decision, 0.5)
        policy.estimates(**extra(policy))
        policy.probabilities(draws=10, **extra(policy))
        json.dumps(policy.to_dict())
    return True


def reward_of_position(policy, key):
    return 0.25 if policy.decisions.by_id[key].choice.arm % 2 else 0.75


def storm(name, rounds, seed, **options):
    taken = 0
    for start, state in enumerate(good_states(name, **options)):
        for turn in range(rounds):
            number = f"{name} {start} {seed} {turn}"
            try:
                taken += survives(damaged(state, random.Random(number)))
            except Exception as error:
                raise AssertionError(f"damage {number!r}: {error!r}") from error
    assert 0 < taken < 2 * rounds  # some of the damage does not matter, and most does


@every_policy
def test_some_damage(name):
    storm(name, 15, "some")


@pytest.mark.slow
@every_policy
@pytest.mark.parametrize("seed", range(4))
def test_much_damage(name, seed):
    storm(name, 400, seed)


@every_policy
def test_options_of_any_size_are_refused_or_work(name):
    for option in option_names(rolf.policy_class(name)):
        for value in (*NUMBERS, *OTHERS, 1e-99, 1e99):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", RolfWarning)
                try:
                    policy = make(name, **{option: value})
                except InvalidArgument:
                    continue
                play(policy, 20)
                assert np.isfinite(policy.estimates(**extra(policy))).all(), (option, value)


# --- what each kind of damage is refused with --------------------------------------------------


def with_generator(kind, **numbers):
    state = make("beta-ts").to_dict()
    rng = as_text(getattr(np.random, kind)(3).state)
    for name, value in numbers.items():
        holder = rng["state"] if name in rng["state"] else rng
        holder[name] = value
    return {**state, "rng": rng}


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_are_saved_and_read(kind):
    policy = rolf.BetaTS(FEATURES, seed=np.random.Generator(getattr(np.random, kind)(3)))
    play(policy, 5)
    again = rolf.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert play(policy, 20) == play(again, 20)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("PCG64", {"state": str(2**128)}),
        ("PCG64", {"inc": "4"}),
        ("PCG64", {"inc": "-1"}),
        ("PCG64", {"has_uint32": "2"}),
        ("PCG64", {"uinteger": str(2**32)}),
        ("PCG64", {"uinteger": 1.5}),
        ("PCG64DXSM", {"inc": str(2**130 + 1)}),
        ("PCG64DXSM", {"state": None}),
        ("Philox", {"buffer_pos": "100000000"}),
        ("Philox", {"buffer_pos": "5"}),
        ("Philox", {"buffer_pos": "-1"}),
        ("Philox", {"buffer": ["1"] * 3}),
        ("Philox", {"buffer": ["1"] * 3 + [str(2**64)]}),
        ("Philox", {"counter": []}),
        ("Philox", {"key": "12"}),
        ("MT19937", {"pos": "625"}),
        ("MT19937", {"pos": "9" * 5000}),
        ("MT19937", {"key": ["0"] * 624}),
        ("MT19937", {"key": ["1"] * 623}),
        ("MT19937", {"key": [str(2**32)] * 624}),
        ("SFC64", {"state": ["1"] * 5}),
        ("SFC64", {"has_uint32": "yes"}),
    ],
)
def test_generators_out_of_range_are_refused(kind, numbers):
    rolf.Policy.from_dict(with_generator(kind))
    with pytest.raises(IncompatibleState, match=r"generator|integer string"):
        rolf.Policy.from_dict(with_generator(kind, **numbers))


def with_entry(state, path, value, place=0):
    array = unpack(state["state"][path]).copy()
    array.ravel()[place] = value
    return {**state, "state": {**state["state"], path: pack(array)}}


@every_policy
@pytest.mark.parametrize("value", [-1, 2**60])
def test_clocks_out_of_range_are_refused(name, value):
    state = list(good_states(name))[1]
    with pytest.raises(IncompatibleState, match="clock"):
        rolf.Policy.from_dict(with_entry(state, "clock", value))
    with pytest.raises(IncompatibleState, match="clock"):
        rolf.Policy.from_dict(with_entry(state, "clock", value, place=-1))


@every_policy
def test_totals_that_no_rewards_have_are_refused(name):
    state = list(good_states(name))[1]
    policy = rolf.Policy.from_dict(state)
    for path in policy.totals[1:]:
        for value in (math.nan, math.inf, 1e300, -1e300):
            with pytest.raises(IncompatibleState, match="damaged"):
                rolf.Policy.from_dict(with_entry(state, path, value))
        if path.endswith("counts"):
            for value in (-1.0, 0.5, 2.0**54):
                with pytest.raises(IncompatibleState, match="counts"):
                    rolf.Policy.from_dict(with_entry(state, path, value))


@every_policy
def test_what_was_saved_is_kept_to_the_last_bit(name):
    for state in good_states(name):
        again = rolf.Policy.from_dict(state).to_dict()
        assert again["state"] == state["state"]


@every_policy
def test_what_does_not_follow_from_the_totals_is_computed_again(name):
    state = list(good_states(name))[1]
    whole = rolf.Policy.from_dict(state)
    paths = [p for p in state["state"] if p not in (*whole.totals, *whole.common, "pending")]
    for path in paths:
        if path == "belief.last":
            continue
        for value in (99.0, 1e-3):
            policy = rolf.Policy.from_dict(with_entry(state, path, value))
            values, expected = (each.estimates(**extra(each)) for each in (policy, whole))
            assert np.allclose(values, expected, atol=1e-4), path


@every_policy
@pytest.mark.parametrize(
    "damage",
    [
        {"arm": 6},
        {"arm": -1},
        {"arm": 1.0},
        {"greedy": 6},
        {"pseudo": -2},
        {"probability": 0.0},
        {"probability": 1.5},
        {"probability": math.nan},
        {"row": [1.0]},
        {"row": [1.0, math.nan, 1.0]},
        {"row": [1.0, 1e80, 1.0]},
        {"row": 1.0},
    ],
)
def test_decisions_out_of_range_are_refused(name, damage):
    state = list(good_states(name))[1]
    key = next(iter(state["pending"]))
    pending = {**state["pending"], key: {**state["pending"][key], **damage}}
    with pytest.raises(IncompatibleState, match="damaged"):
        rolf.Policy.from_dict({**state, "pending": pending})


@pytest.mark.parametrize("value", [-1, 10**6])
def test_what_cannot_be_computed_again_is_refused(value):
    state = list(good_states("rolf-lasso"))[1]
    with pytest.raises(IncompatibleState, match="last"):
        rolf.Policy.from_dict(with_entry(state, "belief.last", value))


@pytest.mark.parametrize(
    "names",
    [
        {"columns": ["x"]},
        {"columns": [*"abcd"]},
        {"labels": [*"abcde"]},
        {"labels": [*"abcdefa"]},
        {"labels": "abcdef"},
        {"labels": [[]] * 6},
    ],
)
def test_names_that_do_not_fit_are_refused(names):
    with pytest.raises(IncompatibleState, match="damaged"):
        rolf.Policy.from_dict({**make("rolf-varying").to_dict(), **names})


def test_arrays_that_the_state_does_not_have_are_refused():
    state = make("ucb").to_dict()
    for path in ("clock.T", "belief", "__class__", "belief.counts.base", "nothing"):
        more = {**state["state"], path: pack(np.zeros(2))}
        with pytest.raises(IncompatibleState, match="has no"):
            rolf.Policy.from_dict({**state, "state": more})


def test_a_decision_is_not_issued_twice():
    state = list(good_states("ucb"))[1]
    with pytest.raises(IncompatibleState, match="issued"):
        rolf.Policy.from_dict({**state, "issued": 40})


def test_a_policy_that_weighs_by_chances_needs_them():
    state = list(good_states("drlasso"))[1]
    for each in state["pending"].values():
        each["probability"] = None
    with pytest.raises(IncompatibleState, match="no probability"):
        rolf.Policy.from_dict(state)


@every_policy
def test_states_are_checked_before_they_are_added(name):
    state = list(good_states(name))[1]
    policy = rolf.Policy.from_dict(state)
    path = policy.totals[1]
    for value in (math.nan, 1e300):
        with pytest.raises(IncompatibleState, match="damaged"):
            rolf.Policy.merge(with_entry(state, path, value), seed=1)
    short = {**state["state"], path: pack(np.zeros((1,)))}
    with pytest.raises(IncompatibleState, match="shape"):
        rolf.Policy.merge({**state, "state": short}, seed=1)
    for field in ("pending", "tag", "options", "labels"):
        without = {key: each for key, each in state.items() if key != field}
        with pytest.raises(IncompatibleState, match="damaged"):
            rolf.Policy.merge(without, seed=1)


# --- states that experiments load: nothing is computed again ----------------------------------


def at(policy, path):
    return find(policy.state, path)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("rolf-lasso", "belief.last", 10**6),
        ("rolf-lasso", "belief.imputation.signs", 0.5),
        ("rolf-lasso", "belief.imputation.half", -1.0),
        ("rolf-lasso", "belief.imputation.gram", 1e6),
        ("rolf-lasso", "belief.main.gram", 1e6),
        ("rolf-ridge", "belief.seen", -1),
        ("rolf-bayes", "belief.components.evidence.alive", 2),
        ("rolf-bayes", "belief.components.evidence.weights", -1.0),
        ("rolf-bayes", "belief.components.evidence.seen", 3.0),
        ("rolf-bayes", "belief.components.arms", 10**6),
        ("rolf-bayes", "belief.components.places", -1),
        ("rolf-bayes", "belief.components.plays", 0.0),
        ("rolf-bayes", "belief.components.used", 10**6),
        ("rolf-bayes", "belief.components.cov", math.nan),
        ("rolf-bayes", "belief.anchor", 1e200),
        ("rolf-bayes-varying", "belief.totals.moment", -1e6),
        ("rolf-bayes-varying", "belief.totals.cross", 1e12),
        ("linucb", "belief.squares", -1.0),
        ("oful", "belief.logdet", -1.0),
        ("drlasso", "belief.total", -1.0),
        ("rolf-varying", "belief.feature_sums", 1e90),
        ("ucb", "pending", -1.0),
        ("ucb", "belief.estimates", math.inf),
    ],
)
def test_states_are_checked_without_computing(name, path, value):
    policy = make(name)
    play(policy, 60)
    check_state(policy)
    at(policy, path).ravel()[0] = value
    with pytest.raises(ValueError, match=r"[a-z]+ (are|is|do|does|holds) "):
        check_state(policy)
