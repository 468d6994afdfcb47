"""Results of a sweep: statistics part by part, and the best setting."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pandas
import pytest
from scipy import stats

import rolf
from rolf.sweeps import result as results
from rolf.sweeps.comparison import compare_with_best
from rolf.sweeps.plan import Cell, SweepPlan
from rolf.sweeps.run import plan_sweep
from rolf.sweeps.statistics import SKETCH, Collector, RunMoments
from rolf.sweeps.store import Block, SweepStore
from sweeps.test_run import CONFIG, PROBLEM, changed, run


def made_up(folder, regret, *, seed=0, block=7, cells=None, points=None):
    """A sweep whose cells have this regret (cells, runs, points), without playing it."""
    store = SweepStore(folder)
    count, runs, width = regret.shape
    cells = cells or [cell(f"p{index}") for index in range(count)]
    plan = SweepPlan("made up", width, points or list(range(1, width + 1)), runs, [seed], cells)
    store.write_plan(plan)
    for each, values in zip(cells, regret, strict=True):
        for first in range(0, runs, block):
            part = values[first : first + block]
            store.write(each.key, Block(seed, first, len(part)), part)
    return rolf.load_sweep(folder)


def cell(policy, noise=0.1, **options):
    key = f"{policy}{noise}{options}".replace(" ", "")
    return Cell(key, "paper", {"noise": noise}, ["noise"], policy, "ucb1", options, list(options))


# --- statistics ---


def test_moments_of_parts_equal_moments_of_the_whole():
    rng = np.random.default_rng(0)
    values = 1e9 + rng.standard_normal((1000, 4)) @ rng.standard_normal((4, 4))
    plain, paired = RunMoments(4), RunMoments(4, products=True)
    for part in np.split(values, [0, 1, 500, 500, 999]):
        plain.add(part)
        paired.add(part)
    assert plain.count == paired.count == 1000
    assert np.allclose(plain.mean, values.mean(axis=0), rtol=1e-15)
    assert np.allclose(plain.variance, values.var(axis=0, ddof=1), rtol=1e-6)
    assert np.allclose(paired.variance, np.cov(values.T), rtol=1e-6)


def test_one_run_has_no_spread():
    moments = RunMoments(2)
    moments.add(np.ones((1, 2)))
    assert (moments.variance == 0.0).all()


@pytest.mark.parametrize("runs", [1, 2, 60, SKETCH])
def test_quantiles_of_few_runs_are_exact(runs):
    rng = np.random.default_rng(runs)
    values = rng.standard_normal((runs, 2))
    collector = Collector(np.array([1, 2]))
    collector.add(values)
    for share in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0):
        expected = np.quantile(values, share, axis=0, method="inverted_cdf")
        assert (collector.statistics().quantile(share) == expected).all()


def test_quantiles_of_many_runs_have_nearly_the_requested_rank():
    values = np.random.default_rng(0).random((200_000, 1))
    collector = Collector(np.array([1]))
    for part in np.array_split(values, 37):
        collector.add(part)
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        assert abs(collector.statistics().quantile(share)[0] - share) < 0.005


def test_summary_agrees_with_numpy(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "WINDOW", 30)  # ten runs at a time
    regret = np.random.default_rng(0).random((2, 64, 3)).cumsum(axis=2)
    sweep = made_up(tmp_path, regret)
    for row, values in zip(sweep.summary(), regret[:, :, 2], strict=True):
        assert row["runs"] == 64
        assert row["round"] == 3
        assert math.isclose(row["mean"], values.mean())
        assert math.isclose(row["std"], values.std(ddof=1))
        assert math.isclose(row["stderr"], values.std(ddof=1) / 8)
        assert (row["min"], row["max"]) == (values.min(), values.max())
        assert row["median"] == np.quantile(values, 0.5, method="inverted_cdf")
    frame = sweep.table().to_pandas()
    assert list(frame["round"]) == [1, 2, 3, 1, 2, 3]
    assert np.allclose(frame["mean"], regret.mean(axis=1).ravel())
    assert np.isclose(sweep.summary(round=2)[1]["mean"], regret[1, :, 1].mean())
    with pytest.raises(rolf.RolfError, match=r"round: got 4, wanted .* 1, 2, 3"):
        sweep.summary(round=4)


def test_numbers_do_not_depend_on_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "WINDOW", 20)
    regret = np.random.default_rng(0).random((3, 50, 2))
    frames = [
        made_up(tmp_path / str(block), regret, block=block).table().to_pandas()
        for block in (1, 7, 13, 50)
    ]
    assert all(frame.equals(frames[0]) for frame in frames)
    comparisons = [
        str(rolf.load_sweep(tmp_path / str(block)).compare().rows) for block in (1, 7, 13)
    ]
    assert len(set(comparisons)) == 1


def test_the_best_of_many_settings_needs_the_memory_of_few(tmp_path):
    regret = np.random.default_rng(0).random((40, 5000, 20))  # 31 MiB
    sweep = made_up(tmp_path, regret, block=2500)
    sweep.compare()  # so that one-time loading is not measured
    tracemalloc.start()
    rows = sweep.compare()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert np.allclose(sorted(regret[:, :, -1].mean(axis=1)), [row["mean"] for row in rows])
    assert peak < 15


def test_more_settings_are_compared_in_smaller_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "WINDOW", 40)
    regret = np.random.default_rng(0).random((4, 64, 5))
    sweep = made_up(tmp_path, regret)
    sizes = []
    monkeypatch.setattr(RunMoments, "add", counted(RunMoments.add, sizes))
    (best,) = sweep.best(round=2)
    assert np.isclose(best["mean"], regret[:, :, 1].mean(axis=1).min())
    assert sizes == [(10, 4)] * 6 + [(4, 4)]


def counted(add, sizes):
    def added(moments, values):
        sizes.append(values.shape)
        add(moments, values)

    return added


def test_an_unfinished_sweep_can_be_read(tmp_path):
    sweep, _ = run(changed(runs=4), tmp_path)
    assert repr(sweep) == "<Sweep small: 6 cells, 4 runs each, 40 rounds>"
    assert "of" not in str(sweep.summary())
    run(changed(runs=9), tmp_path)
    missing = sorted(tmp_path.rglob("0-4-5.parquet"))
    missing[0].unlink()
    there = rolf.load_sweep(tmp_path)
    assert sorted(row["runs"] for row in there.summary()) == [4, 9, 9, 9, 9, 9]
    assert sorted({row["runs"] for row in there.compare()}) == [4, 9]  # runs that all settings have
    for path in missing[0].parent.glob("*"):
        path.unlink()
    empty = rolf.load_sweep(tmp_path)
    assert sorted(row["runs"] for row in empty.summary()) == [0, 9, 9, 9, 9, 9]
    assert len(empty.plot(x="noise").axes) == 1
    assert "(45 of 54 runs)" in empty.plot()._suptitle.get_text()
    assert repr(empty) == "<Sweep small: 6 cells, 45 of 54 runs, 40 rounds>"
    assert str(empty.summary()).endswith("\n45 of 54 runs")
    assert "45 of 54 runs" in empty.summary()._repr_html_()
    without = [row for row in empty.best() if not row["runs"]]
    assert [(row["best"], row["tied"], row["next"]) for row in without] == [("", "", "")]
    assert math.isnan(without[0]["mean"])
    assert sum(math.isnan(row["mean"]) for row in empty.compare()) == 3
    assert len(sweep.cells) == 6


def test_singular_and_plural(tmp_path):
    one = changed(runs=1, rounds=1, points=1, problems={"p": PROBLEM}, policies={"a": "ucb1"})
    assert str(plan_sweep(one, tmp_path)) == "1 cell, 1 run, 0 done; 1 task to do"
    sweep, _ = run(one, tmp_path)
    assert repr(sweep) == "<Sweep small: 1 cell, 1 run each, 1 round>"
    assert str(plan_sweep(one, tmp_path)) == "1 cell, 1 run, 1 done; 0 tasks to do"


def test_many_rounds_are_thinned(tmp_path):
    regret = np.random.default_rng(0).random((1, 3, 1000)).cumsum(axis=2)
    sweep = made_up(tmp_path, regret, points="all")
    rounds = list(sweep.table().to_pandas()["round"])
    assert len(rounds) == 200
    assert rounds[-1] == 1000
    assert (sweep.regret(sweep.cells[0]) == regret[0]).all()
    assert np.isclose(sweep.summary(round=123)[0]["mean"], regret[0, :, 122].mean())


def test_tables(tmp_path):
    sweep, _ = run(CONFIG, tmp_path)
    summary = sweep.summary()
    assert list(summary[0])[:4] == ["problem", "noise", "policy", "scale"]
    assert [row["scale"] for row in summary] == [0.1, 1.0, None] * 2
    assert str(summary).startswith("problem  noise  policy  scale")
    assert "<table>" in summary._repr_html_()
    read = pandas.read_csv(summary.to_csv(tmp_path / "new" / "summary.csv"))
    assert np.allclose(read["mean"], [row["mean"] for row in summary])
    assert len(pandas.read_csv(sweep.save(tmp_path / "all.csv"))) == 12
    everything = json.loads(sweep.save(tmp_path / "all.json").read_text())
    assert everything == json.loads(json.dumps(sweep.to_dict()))
    assert everything["table"] == sweep.table().to_dicts()
    assert len(everything["cells"]) == len(sweep.cells)
    assert "6 cells, 3 runs each" in repr(sweep)
    assert "small" in sweep._repr_html_()
    assert [cell.setting for cell in sweep.select(noise=0.5, policy="UCB1")] == [
        "UCB1, scale=0.1",
        "UCB1, scale=1",
    ]
    with pytest.raises(rolf.RolfError, match="where: got 'nose'"):
        sweep.select(nose=1)


def test_names_shared_by_problem_and_policy_get_a_prefix(tmp_path):
    policies = {"LinUCB": {"policy": "linucb", "setting": "tuned", "grid": {"noise": [0.1, 1.0]}}}
    sweep, _ = run(changed(policies=policies), tmp_path)
    assert list(sweep.summary()[0])[:4] == ["problem", "problem.noise", "policy", "policy.noise"]
    axes = sweep.plot(x="policy.noise").axes
    assert [each.get_title(loc="left") for each in axes] == [
        "problem.noise=0.1",
        "problem.noise=0.5",
    ]
    assert len(axes[0].containers) == 1


def test_folders_without_a_valid_sweep(tmp_path):
    with pytest.raises(rolf.RolfError, match=r"not a folder of rolf sweep \(no sweep.json\)"):
        rolf.load_sweep(tmp_path)
    for text, expected in [
        ("{", "damaged"),
        ("[]", "was not written by rolf sweep"),
        ('{"format": "rolf-sweep", "version": 9}', "has version 9"),
        ('{"format": "rolf-sweep", "version": 1}', "damaged"),
    ]:
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(rolf.RolfError, match=expected):
            rolf.load_sweep(tmp_path)


# --- the best ---


def coverage(draw, truth, runs, repeats=2000):
    """Count repetitions in which all intervals hold, the truly best is tied, some are not tied."""
    rng = np.random.default_rng(0)
    behind = truth - truth.min()
    held = tied = told = 0
    for _ in range(repeats):
        values = draw(rng, (runs, truth.size)) + truth
        found = compare_with_best(
            values.mean(axis=0), np.cov(values.T), runs, truth.size - 1, level=0.95
        )
        held += bool(((found.low <= behind) & (behind <= found.high)).all())
        tied += bool(found.tied[truth.argmin()])
        told += not found.tied.all()
    return held / repeats, tied / repeats, told / repeats


def shared_noise(rng, shape):
    """Runs that are hard for all settings, as with common random numbers."""
    return 3.0 * rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape)


def skewed(rng, shape):
    return rng.gamma(2.0, 1.0, shape) - 2.0


@pytest.mark.parametrize("draw", [shared_noise, skewed])
@pytest.mark.parametrize("gap", [0.0, 0.5, 3.0])
def test_all_intervals_hold_at_once(draw, gap):
    """They hold in 95% of the repetitions (within three standard errors), whichever is best."""
    truth = gap * np.array([1.0, 0.0, 1.0, 1.2, 2.0, 0.2])
    held, tied, told = coverage(draw, truth, runs=40)
    assert held > 0.95 - 3 * (0.05 * 0.95 / 2000) ** 0.5
    assert tied >= held - 0.01
    assert told < {0.0: 0.08}.get(gap, 1.1)
    assert told > {3.0: 0.999}.get(gap, 0.0)


def test_intervals_are_not_wider_than_they_must_be():
    """If the best is obvious, only the 5 comparisons with it count, not all 15."""
    truth = np.array([0.0, 9.0, 9.0, 9.0, 9.0, 9.0])
    held, _, told = coverage(lambda rng, shape: rng.standard_normal(shape), truth, runs=40)
    assert 0.94 < held < 0.975
    assert told == 1.0


def test_intervals_by_hand():
    values = np.array([[1.0, 2.0], [2.0, 2.5], [3.0, 4.5], [4.0, 4.0]])
    found = compare_with_best(values.mean(axis=0), np.cov(values.T), 4, 1, level=0.95)
    interval = stats.ttest_rel(values[:, 1], values[:, 0]).confidence_interval(0.95)
    assert interval.low < 0 < interval.high
    assert found.tied.all()
    assert found.behind.tolist() == [0.0, 0.75]
    assert np.isclose(found.high[1], interval.high)
    assert np.isclose(found.high[0], -interval.low)
    many = compare_with_best(values.mean(axis=0), np.cov(values.T), 4, 10, level=0.95)
    wide = stats.ttest_rel(values[:, 1], values[:, 0]).confidence_interval(0.995)
    assert np.isclose(many.high[1], wide.high)


def test_settings_that_do_the_same_are_tied():
    column = np.random.default_rng(0).random((30, 1))
    values = np.hstack([column, column, column + 0.1])
    found = compare_with_best(values.mean(axis=0), np.cov(values.T), 30, 2, level=0.95)
    assert found.tied.tolist() == [True, True, False]
    assert found.high[1] < 1e-6


def test_one_run_tells_nothing(tmp_path):
    sweep = made_up(tmp_path, np.array([[[1.0]], [[2.0]]]))
    assert [row["tied"] for row in sweep.compare()] == [True, True]
    assert sweep.best()[0]["high"] == math.inf


def test_the_best_of_each_problem(tmp_path):
    rng = np.random.default_rng(0)
    cells = [cell("a", noise) for noise in (0.1, 0.2)] + [cell("b", noise) for noise in (0.1, 0.2)]
    shared = rng.standard_normal((2, 50)) * 5
    noise = 0.1 * rng.standard_normal((4, 50))
    regret = noise + np.stack([*(shared + 10), shared[0] + 11, shared[1] + 10.01])
    sweep = made_up(tmp_path, regret[:, :, None], cells=cells)
    first, second = sweep.best()
    assert (first["problem"], first["best"]) == ("paper, noise=0.1", "a")
    assert first["tied"] == ""
    assert first["next"].startswith("b: 0.9")
    assert first["high"] == 0.0
    assert second["tied"] in ("a", "b")
    assert 0.0 < second["high"] < 0.1
    rows = sweep.compare().to_pandas()
    assert list(rows["policy"][:2]) == ["a", "b"]
    behind = rows.iloc[1]
    assert behind["low"] < 1.0 < behind["high"]
    assert 0.05 < behind["high"] - behind["low"] < 0.2  # paired: the shared part cancels
    with pytest.raises(rolf.RolfError, match="level"):
        sweep.best(level=95)
