"""Pictures: colours, bands, legends, and drawing into figures of others."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import rolf
from rolf.errors import InvalidArgument
from rolf.evaluation.result import Value
from rolf.paper.figures import figures
from rolf.plots.regret import curves_of, panels_figure, setting_figure
from rolf.plots.style import line_styles
from rolf.testing.storage import NAMED_FEATURES, create_experiment
from support.diagnosing import diagnose
from support.stores import make_url


def result_of(labels, policies=None, ends=None, runs=20, rounds=100):
    rng = np.random.default_rng(0)
    regret = np.cumsum(rng.random((len(labels), runs, rounds)), axis=2)
    if ends is not None:
        regret *= (np.array(ends) / regret[:, :, -1].mean(axis=1))[:, None, None]
    config = {
        "policies": {a: {"policy": b} for a, b in zip(labels, policies or labels, strict=True)}
    }
    return rolf.Result(labels, regret, config)


# --- colours ---


def colour(labels, label, policies=()):
    return dict(zip(labels, line_styles(labels, policies), strict=True))[label][0]


def test_a_policy_has_the_same_colour_in_all_pictures():
    companies = [["RoLF-Bayes", "UCB(delta)"], ["UCB", "x", "RoLF-Bayes"], ["LinTS", "RoLF-Bayes"]]
    assert len({colour(labels, "RoLF-Bayes") for labels in companies}) == 1
    assert colour(["UCB(delta)"], "UCB(delta)") == colour(["RoLF-Bayes", "UCB"], "UCB")
    assert colour(["mine", "yours"], "mine", ["rolf-bayes", "ucb"]) == colour(
        ["RoLF-Bayes"], "RoLF-Bayes"
    )
    assert colour(["RoLF-Bayes"], "RoLF-Bayes") != colour(["UCB"], "UCB")


def test_policies_of_the_catalogue_have_different_colours():
    """Except where one is the other for features that vary."""
    names = [cls.name for cls in rolf.policy_classes() if not cls.name.endswith("-varying")]
    names.append("rolf-varying")
    colours = [style[0] for style in line_styles(names)]
    assert len(set(colours)) == len(names)


def distance(first, second):
    return np.abs(np.subtract(to_rgb(first), to_rgb(second))).max()


def example_labels():
    example = Path(__file__).parents[2] / "examples" / "paper.toml"
    return list(tomllib.loads(example.read_text())["policies"])


def figure_labels(key):
    return list(dict.fromkeys(itertools.chain(*(p.policies for p in figures()[key].panels))))


@pytest.mark.parametrize("key", ["example", *figures()])
def test_no_two_curves_of_a_figure_look_alike(key):
    """They differ in colour, visibly."""
    labels = example_labels() if key == "example" else figure_labels(key)
    colours = [style[0] for style in line_styles(labels)]
    for first, second in itertools.combinations(colours, 2):
        assert distance(first, second) > 0.12, (first, second)


def test_many_unknown_policies():
    labels = [f"policy {i}" for i in range(20)]
    assert len(set(line_styles(labels))) >= 16
    assert len(set(line_styles(["x", "x, a", "x, b", "x, c"]))) == 4


# --- bands and axes ---


def test_the_band_holds_the_runs_from_10_to_90_per_cent():
    result = result_of(["a"], runs=41)
    curves = result.curves()
    assert curves.low[0, -1] == pytest.approx(np.quantile(result["a"][:, -1], 0.1))
    assert curves.high[0, 5] == pytest.approx(np.quantile(result["a"][:, 5], 0.9))
    band = result.plot().axes[0].collections[0].get_paths()[0].vertices
    at_end = band[band[:, 0] == 100, 1]
    assert at_end.min() == pytest.approx(curves.low[0, -1])
    assert at_end.max() == pytest.approx(curves.high[0, -1])


def test_no_wedge_on_a_logarithmic_axis():
    """One run of ten is far off: its deviation is larger than the mean."""
    regret = np.cumsum(np.ones((1, 10, 200)), axis=2)
    regret[0, 0] *= 50.0
    figure = rolf.Result(["a"], regret, {}).plot(logarithmic=True)
    axes = figure.axes[0]
    band = axes.collections[0].get_paths()[0].vertices
    assert axes.get_yscale() == "log"
    assert band[band[:, 0] == 200, 1].min() == pytest.approx(200.0)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e6])
def test_a_logarithmic_axis_shows_every_curve(scale, tmp_path):
    regret = scale * np.cumsum(np.ones((2, 3, 50)), axis=2)
    figure = rolf.Result(["a", "b"], regret, {}).plot(tmp_path / "x.png", logarithmic=True)
    low, high = figure.axes[0].get_ylim()
    assert 0.0 < low < high
    if scale:
        assert low < regret[0, 0, -1] < high


# --- legends ---


def legend_texts(legend):
    return [text.get_text().split("  ")[0] for text in legend.get_texts()]


def test_the_legend_is_in_the_order_of_the_curves():
    ends = [3.0, 40.0, 1.0, 20.0]
    figure = result_of(list("abcd"), ends=ends).plot()
    assert legend_texts(figure.axes[0].get_legend()) == ["b", "d", "a", "c"]
    points = {x: curves_of(list("abcd"), result_of(list("abcd"), ends=ends).regret) for x in (1, 2)}
    for stacked in (False, True):
        drawn = setting_figure(points, title="t", xlabel="x", stacked=stacked)
        legend = drawn.legends[0] if stacked else drawn.axes[0].get_legend()
        assert legend_texts(legend) == ["b", "d", "a", "c"]


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("count", range(2, 15))
def test_no_entry_of_a_legend_stands_alone(count, stacked):
    """Line by line the order of the curves; the last line has more than one entry."""
    labels = [f"p{index:02}" for index in range(count)]
    curves = result_of(labels, ends=np.arange(count, 0, -1.0)).curves()
    figure = panels_figure([("one", curves), ("two", curves)], title="t", stacked=stacked)
    texts = legend_texts(figure.legends[0])
    columns = figure.legends[0]._ncols
    assert columns == 1 or count % columns != 1
    lengths = [-(-(count - start) // columns) for start in range(columns)]
    starts = np.cumsum([0, *lengths])
    by_line = [
        texts[starts[column] + line]
        for line in range(max(lengths))
        for column in range(columns)
        if line < lengths[column]
    ]
    assert by_line == labels


def test_numbers_at_the_ends_of_curves_do_not_overlap():
    labels = [f"p{index}" for index in range(8)]
    curves = result_of(labels, ends=np.linspace(10.0, 10.1, 8)).curves()
    figure = panels_figure([("one", curves), ("two", curves)], title="t")
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == 8
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


# --- into the figures of others ---


def evaluation():
    rows = [
        Value("as logged", "mean", 0.3, 0.25, 0.35, 300.0),
        Value("<i>ucb", "ips", 0.4, 0.3, 0.5, 100.0),
    ]
    return rolf.Evaluation(rows, 0.95, 300, ["a note & more"])


def diagnosis():
    rng = np.random.default_rng(0)
    return diagnose(rng.random((6, 2)), np.repeat(np.arange(6), 20), rng.random(120))


def status():
    experiment = create_experiment(make_url("memory"), features=NAMED_FEATURES, policy="ucb")
    for reward in range(30):
        experiment.tell(experiment.ask(), float(reward % 7))
    return experiment.status(timeline=True)


DRAWN = {
    "result": lambda: result_of(["a", "b"]),
    "evaluation": evaluation,
    "diagnosis": diagnosis,
    "status": status,
}


@pytest.mark.parametrize("kind", DRAWN)
def test_drawing_into_given_axes(kind, tmp_path):
    thing = DRAWN[kind]()
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert thing.plot(tmp_path / "x.png", ax=right) is figure
    assert figure.axes == [left, right]
    assert len(right.lines) > 0
    assert not left.lines
    assert (tmp_path / "x.png").stat().st_size > 1000
    inner = Figure().subfigures(1, 2)[0]
    thing.plot(ax=inner.subplots())
    assert inner.axes[0].lines


@pytest.mark.parametrize("kind", DRAWN)
def test_figures_of_their_own(kind, tmp_path):
    figure = DRAWN[kind]().plot(tmp_path / "x.svg")
    assert figure.axes
    assert (tmp_path / "x.svg").stat().st_size > 1000
    with pytest.raises(InvalidArgument, match=r"path.*\.png, \.svg or \.pdf"):
        DRAWN[kind]().plot(tmp_path / "x.bmp")


# --- the picture of a status ---


def test_a_status_shows_the_best_arms_and_rewards_over_time():
    now = status()
    arms, time = now.plot(top=3).axes
    names = [text.get_text() for text in arms.get_yticklabels()]
    best = sorted(now.arms, key=lambda arm: -arm.estimate)[:3]
    assert names == [arm.arm for arm in best]
    values = {line.get_label(): line.get_xdata() for line in arms.lines}
    label = next(label for label in values if label.startswith("rolf-bayes, with its 90%"))
    assert list(values[label]) == [arm.posterior_mean for arm in best]
    assert list(values["ucb"]) == [arm.estimate for arm in best]
    means = [period.mean for period in now.timeline]
    assert any(list(line.get_ydata()) == means for line in time.lines)
    with pytest.raises(InvalidArgument, match="top"):
        now.plot(top=0)


@pytest.mark.parametrize("policy", ["rolf-bayes", "ucb", "rolf-varying"])
def test_a_status_can_be_drawn_before_anything_happened(policy, tmp_path):
    experiment = create_experiment(make_url("memory"), features=NAMED_FEATURES, policy=policy)
    for timeline in (False, True):
        experiment.status(timeline=timeline).plot(tmp_path / "x.png")
