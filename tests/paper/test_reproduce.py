"""The reproduction: everything is written, the same for any number of workers, and resumable."""

from __future__ import annotations

import csv
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

import rolf
from rolf.cli import app
from rolf.errors import InvalidArgument
from rolf.paper.figures import figures
from rolf.paper.reproduce import SEEDS, choose_figures, panel_seed, reproduce
from rolf.plots.regret import curves_of, panels_figure
from support.browser import PHONE, needs_chromium, widths

SMALL = {"runs": 2, "rounds": 80, "seed": 3, "jobs": 2}
SOME = ["figure1", "lower-bounds", "exploration"]


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    page = reproduce(folder, figure=SOME, **SMALL)
    return folder, page


def digest(folder):
    """Hashes of the files that must be the same for any number of workers."""
    out = {}
    for path in sorted((folder / "data").glob("*.csv")):
        out[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return out


def test_every_figure_table_and_number_is_there(reproduced):
    folder, page = reproduced
    assert page == folder / "report.html"
    for key in SOME:
        for kind in ("png", "svg"):
            assert (folder / f"{key}.{kind}").stat().st_size > 5000
        for panel in figures()[key].panels:
            stem = folder / "data" / f"{key}-{panel.key}"
            result = rolf.load_result(stem.with_suffix(".parquet"))
            assert result.regret.shape == (len(panel.policies), 2, 80)
            assert result.config["seed"] == 3000 + panel.offset
            with stem.with_suffix(".csv").open() as file:
                rows = list(csv.DictReader(file))
            assert len(rows) == 80 * len(panel.policies)
            last = [r for r in rows if r["policy"] == result.labels[0]][-1]
            assert float(last["mean"]) == pytest.approx(result.regret[0, :, -1].mean())
    assert not list((folder / "data").glob("*.part*"))


class Check(HTMLParser):
    """Collects ids, links and sources, and checks that tags are closed."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.sources, self.open = set(), [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id"))
        if tag == "a":
            self.links.append(values["href"])
        if "src" in values:
            self.sources.append(values["src"])
        if tag not in ("meta", "img", "br", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone(reproduced):
    text = reproduced[1].read_text()
    page = Check()
    page.feed(text)
    assert page.open == []
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert len(page.sources) == len(SOME)
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert not re.search(r"https?://|<script|@import", text)
    for key in SOME:
        assert figures()[key].title.split(":")[0] in text
    assert "Seed 3" in text
    assert "numba" in text


@needs_chromium
def test_the_page_fits_a_phone(reproduced):
    folder, page = reproduced
    (folder / "wide.html").write_text('<!doctype html><body style="margin: 0; width: 600px">wide')
    assert widths(folder, ["report.html", "wide.html"]) == {"report.html": PHONE, "wide.html": 600}
    text = page.read_text()
    assert text.count("<source media=") == len(SOME)  # panels below each other
    assert text.count("<table>") == text.count('<div class="scroll"><table>')


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 3])
def test_the_same_numbers_for_any_number_of_workers(reproduced, tmp_path, jobs):
    reproduce(tmp_path, figure=SOME, **{**SMALL, "jobs": jobs})
    assert digest(tmp_path) == digest(reproduced[0])


@pytest.mark.slow
def test_resume_keeps_finished_panels_and_replays_the_others(reproduced, tmp_path, monkeypatch):
    reproduce(tmp_path, figure=SOME, **SMALL)
    files = sorted((tmp_path / "data").glob("*.parquet"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:100])  # an interrupted write
    played = []
    original = rolf.paper.reproduce.simulate

    def counting(*args, **kwargs):
        played.append(kwargs["seed"])
        return original(*args, **kwargs)

    monkeypatch.setattr(rolf.paper.reproduce, "simulate", counting)
    reproduce(tmp_path, figure=SOME, resume=True, **SMALL)
    assert len(played) == 2
    assert digest(tmp_path) == digest(reproduced[0])
    reproduce(tmp_path, figure=["lower-bounds"], resume=True, **{**SMALL, "seed": 4})
    assert len(played) == 4  # with another seed nothing can be kept
    reproduce(tmp_path, figure=["lower-bounds"], **SMALL)
    assert len(played) == 6  # without resume everything is played again


def test_settings_choose_the_panels():
    keys = {s: {f.key for f in choose_figures(None, s)} for s in ("paper", "tuned", "both")}
    assert keys["both"] == set(figures())
    assert "figure1" in keys["paper"]
    assert "figure1-tuned" not in keys["paper"]
    assert "figure2" not in keys["tuned"]
    assert "figure2-tuned" in keys["tuned"]
    assert "lower-bounds" in keys["paper"] & keys["tuned"]
    for wrong in ((["figure9"], "both"), (None, "x")):
        with pytest.raises(InvalidArgument):
            choose_figures(*wrong)
    with pytest.raises(InvalidArgument, match="setting 'tuned'"):
        choose_figures(["figure1"], "tuned")


def test_the_plan_covers_what_was_promised():
    plan = figures()
    assert len(plan["figure1"].panels) == 3
    assert len(plan["figure2"].panels) == 2
    for key in ("figure1", "figure2"):  # the paper's six, RoLF-Bayes, both RoLFs as in the boxes
        for panel in plan[key].panels:
            assert len(panel.policies) == 9
            for name in ("lasso", "ridge"):
                label = f"RoLF-{name.capitalize()}"
                assert panel.policies[label] == (f"rolf-{name}", {"coupling": "greedy"})
                assert panel.policies[f"{label}, action"] == f"rolf-{name}"
    for panel in plan["imputation"].panels:
        assert panel.policies["RoLF-Ridge, frozen"] == ("rolf-ridge", {"imputation": "frozen"})
    settings = {"exploration", "penalty", "coupling-probability", "noise", "arms", "observed"}
    assert settings <= set(plan)
    seeds = [panel.offset for panel in plan["figure2"].panels]
    assert len(set(seeds)) == 2  # one distribution, two seeds


def test_seeds_of_panels_are_their_own():
    panels = figures()["figure1"].panels
    seeds = {panel_seed(seed, panel) for seed in (0, 1, 2) for panel in panels}
    assert len(seeds) == 9
    assert [panel_seed(0, panel) for panel in panels] == [1, 2, 3]
    assert max(panel.offset for figure in figures().values() for panel in figure.panels) < SEEDS


def test_the_page_says_how_many_runs_are_behind_a_figure(reproduced):
    assert "2 runs. Means of so few runs vary a lot" in reproduced[1].read_text()


def test_bands_are_quantiles_or_one_standard_deviation(tmp_path):
    rng = np.random.default_rng(0)
    curves = curves_of(["one"], rng.uniform(0, 1, (1, 50, 3)).cumsum(axis=2))
    for band, (low, high) in {
        "quantiles": (curves.low, curves.high),
        "deviation": (curves.mean - curves.std, curves.mean + curves.std),
    }.items():
        figure = panels_figure([("panel", curves)], title="t", band=band)
        (area,) = figure.axes[0].collections
        ends = area.get_paths()[0].vertices
        assert {*low[0], *high[0]} <= {*ends[:, 1]}
        said = [text.get_text() for text in figure.texts]
        assert any(("one standard deviation" in each) == (band == "deviation") for each in said)
    with pytest.raises(InvalidArgument, match="band"):
        reproduce(tmp_path, figure=["figure1"], band="error")


def test_command_line(tmp_path):
    args = ["reproduce", "--out", str(tmp_path), "--figure", "lower-bounds", "--runs", "2"]
    args += ["--rounds", "40", "--seed", "1", "--jobs", "1", "--resume"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "lower-bounds.svg").exists()
    assert "report.html" in done.output
    assert CliRunner().invoke(app, ["reproduce", "--runs", "0"]).exit_code == 2
    assert isinstance(
        CliRunner().invoke(app, ["reproduce", "--figure", "nine"]).exception, rolf.RolfError
    )
