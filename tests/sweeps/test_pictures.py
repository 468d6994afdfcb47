"""Pictures of sweeps, and the commands."""

from __future__ import annotations

import itertools

import numpy as np
import pandas
import pytest
from matplotlib.colors import to_rgb
from scipy import stats

import rolf
from support.commands import invoke
from sweeps.test_result import cell, made_up
from sweeps.test_run import CONFIG, InTurn, run


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return run(CONFIG, tmp_path_factory.mktemp("sweep"))[0]


def test_regret_over_rounds(sweep, tmp_path):
    figure = sweep.plot(tmp_path / "rounds.png")
    assert (tmp_path / "rounds.png").stat().st_size > 1000
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["noise=0.1", "noise=0.5"]
    labels = [line.get_label() for line in figure.axes[0].lines]
    assert labels == ["UCB1, scale=0.1", "UCB1, scale=1", "LinUCB"]
    assert list(figure.axes[0].lines[2].get_xdata()) == [10, 40]
    (cell,) = sweep.select(noise=0.1, policy="LinUCB")
    assert np.allclose(figure.axes[0].lines[2].get_ydata(), sweep.regret(cell).mean(axis=0))
    assert "3 runs" in figure.legends[0].get_title().get_text()


def test_regret_against_an_argument_of_the_problem(sweep):
    figure = sweep.plot(x="noise", title="$x", logarithmic=True)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert len(axes.containers) == 3
    line, _, (bars,) = axes.containers[2]
    assert list(line.get_xdata()) == [0.1, 0.5]
    values = sweep.regret(sweep.select(noise=0.5, policy="LinUCB")[0])[:, -1]
    low, high = stats.t.interval(0.95, 2, values.mean(), values.std(ddof=1) / 3**0.5)
    assert np.allclose(bars.get_segments()[1][:, 1], [low, high])


def test_regret_against_an_option_of_a_policy(sweep):
    figure = sweep.plot(x="scale", round=10)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["noise=0.1", "noise=0.5"]
    axes = figure.axes[0]
    assert axes.get_ylabel() == "regret after 10 rounds"
    (bars,) = axes.containers
    assert bars.get_label() == "UCB1"
    level = [line for line in axes.lines if line.get_label() == "LinUCB"]
    assert len(set(level[0].get_ydata())) == 1
    assert level[0].get_color() == sweep.plot().axes[0].lines[2].get_color()


def test_regret_against_values_other_than_numbers(tmp_path):
    """Lists, None and booleans: every value of the grid appears on the axis."""
    made = "sweeps.test_run:InTurn"
    grid = {"start": [2, 0, 1], "turns": [None, [1, [2]], [1, 2], True, 0.5, float("inf")]}
    policies = {"turn": {"policy": "sweeps.test_pictures:Idle", "grid": grid}, "other": made}
    result = run({**CONFIG, "policies": policies}, tmp_path)[0]
    figure = result.plot(x="turns", where={"noise": 0.1})
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == ["None", "[1, [2]]", "[1, 2]", "True", "0.5", "inf"]
    assert [len(bars[0].get_xdata()) for bars in axes.containers] == [6, 6, 6]
    figure = result.plot(x="start", facet="turns", where={"noise": 0.1, "policy": "turn"})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"turns={name}" for name in names]
    assert list(figure.axes[0].containers[0][0].get_xdata()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1.0, 0.01, 0.1], "log"), ([0.0, 0.001, 0.1], "symlog"), ([-1, 0, 100], "linear")],
)
def test_values_of_all_sizes_are_told_apart(tmp_path, values, scale):
    config = {**CONFIG, "policies": {"turn": {"policy": Idle, "grid": {"turns": values}}}}
    axes = run(config, tmp_path)[0].plot(x="turns").axes[0]
    assert axes.get_xscale() == scale
    axes.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) == 3
    if scale != "linear":
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_long_titles_of_panels_do_not_run_into_each_other(tmp_path):
    name = "a problem with a long name that describes it in full, and adds a few more words to that"
    config = {**CONFIG, "problems": {name: CONFIG["problems"]["paper"]}}
    figure = run(config, tmp_path)[0].plot(facet=["problem", "noise"])
    figure.draw_without_rendering()
    left, right = (axes.get_tightbbox() for axes in figure.axes)
    assert left.x1 < right.x0


class Idle(InTurn):
    """Has an option that changes nothing."""

    def __init__(self, features, start=0, turns=None):
        super().__init__(features, start)


def test_facets_and_choices(sweep):
    figure = sweep.plot(x="noise", facet="policy")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["UCB1", "LinUCB"]
    figure = sweep.plot(where={"noise": "0.5", "policy": "UCB1"})
    assert len(figure.axes) == 1
    assert len(figure.axes[0].lines) == 2
    for same in (0.5, "0.5", "5e-1", "0.50"):
        assert sweep.select(noise=same) == sweep.select(noise="0.5") != []
    for other in ("0.05", "a half", "", None):
        assert sweep.select(noise=other) == []
    assert [t.get_text() for t in sweep.plot(x="policy").axes[0].get_xticklabels()] == [
        "UCB1",
        "LinUCB",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"x": "nose"}, "x: got 'nose', wanted one of round, problem, noise, policy, scale"),
        ({"facet": "nose"}, "facet: got 'nose'"),
        ({"facet": []}, "also separate noise"),
        ({"where": {"noise": 3}}, "where"),
        ({"where": {"nose": 3}}, "where: got 'nose'"),
        ({"round": 7}, "round"),
        ({"round": 7, "x": "noise"}, "round: got 7"),
    ],
)
def test_pictures_that_cannot_be_drawn(sweep, options, expected):
    with pytest.raises(rolf.RolfError, match=expected):
        sweep.plot(**options)


def test_too_many_panels(tmp_path):
    cells = [cell("a", noise) for noise in range(13)]
    sweep = made_up(tmp_path, np.ones((13, 2, 1)), cells=cells)
    with pytest.raises(rolf.RolfError, match="13 panels of noise"):
        sweep.plot()


# --- commands ---

TOML = """
title = "small"
rounds = 40
runs = 3

[problems.paper]
arms = 5
size = 6
grid = { noise = [0.1, 0.5] }

[policies]
ucb1 = { grid = { scale = [0.1, 1.0] } }
LinUCB = { policy = "linucb", setting = "tuned" }
"""


def test_the_commands(tmp_path):
    path, out = tmp_path / "plan.toml", tmp_path / "out"
    path.write_text(TOML)
    options = (path, "--out", out)
    shown = invoke("sweep", *options, "--dry-run")
    assert shown.exit_code == 0
    assert "6 cells, 18 runs, 0 done; 6 tasks to do" in shown.output
    assert not out.exists()
    done = invoke("sweep", *options, "--backend", "threads", "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "small: regret after 40 rounds" in done.output
    assert "paper, noise=0.5" in done.output
    assert len(pandas.read_csv(out / "summary.csv")) == 6
    assert set(pandas.read_csv(out / "comparison.csv").columns) >= {"behind", "low", "high", "tied"}
    again = invoke("sweep", *options, "--dry-run")
    assert "18 done; 0 tasks to do" in again.output
    picture = tmp_path / "x.svg"
    words = ("plot", out, "--x", "scale", "--where", "noise=0.5", "--out", picture)
    assert invoke(*words).exit_code == 0
    assert picture.stat().st_size > 1000
    assert "not finished" not in invoke(*words).output
    next(out.rglob("*.parquet")).unlink()
    assert f"{out}: not finished, 15 of 18 runs" in invoke(*words).output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--x", "nose"), "--x: got 'nose'"),
        (("--where", "noise"), "NAME=VALUE"),
        (("--facet", "nose"), "--facet: got 'nose'"),
    ],
)
def test_mistakes_in_commands_name_the_option(sweep, words, expected):
    done = invoke("plot", sweep.folder, *words)
    assert done.exit_code == 1
    assert expected in str(done.exception)


def test_options_of_sweeps_are_refused_for_a_single_result(tmp_path):
    done = invoke("plot", tmp_path / "x.parquet", "--x", "noise")
    assert "the folder of a sweep" in str(done.exception)


def test_many_settings_can_be_told_apart(tmp_path):
    """One policy with ten settings from dark to light, and another with one: two bands."""
    cells = [cell("a", scale=scale) for scale in range(1, 11)] + [cell("b")]
    regret = np.arange(1.0, 12.0)[:, None, None] * np.ones((11, 5, 3))
    figure = made_up(tmp_path / "many", regret, cells=cells).plot()
    (axes,) = figure.axes
    lightness = [sum(to_rgb(line.get_color())) for line in axes.lines[:10]]
    assert (np.diff(lightness) > 0.05).all()
    assert len(axes.collections) == 1  # both are UCB1
    assert axes.collections[0].get_paths()[0].vertices[:, 1].max() == 1.0
    assert "the best setting of each policy" in figure.legends[0].get_title().get_text()


def test_bars_at_the_same_place_stand_beside_each_other(sweep):
    figure = sweep.plot(x="noise")
    figure.canvas.draw()
    places = [
        each[0].get_transform().transform((0.1, 1.0))[0] for each in figure.axes[0].containers
    ]
    assert np.diff(places) == pytest.approx([3.0 * figure.dpi / 72] * 2)
    figure = sweep.plot(x="policy")
    figure.canvas.draw()
    axes = figure.axes[0]
    alone = axes.containers[-1][0]
    assert alone.get_transform().transform((1.0, 1.0)) == pytest.approx(
        axes.transData.transform((1.0, 1.0))
    )
