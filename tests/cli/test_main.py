"""The command line, as users run it."""

from __future__ import annotations

import pytest

import rolf
from support.commands import invoke, one_line_error

CONFIG = """
title = "small"
rounds = 40
runs = 2
seed = 1

[problem]
family = "paper"
arms = 5
size = 6

[policies]
ucb = "ucb"
"UCB, tuned" = { policy = "ucb", setting = "tuned", noise = 0.2 }
"""


def config(tmp_path, text=CONFIG):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


def test_simulate_writes_everything(tmp_path):
    out = tmp_path / "out"
    done = invoke("simulate", config(tmp_path), "--out", out, "--runs", 3)
    assert done.exit_code == 0, done.output
    assert "UCB, tuned" in done.output
    assert "40 rounds, 3 runs" in done.output
    assert {p.name for p in out.iterdir()} == {
        f"plan.{k}" for k in ("parquet", "csv", "png", "svg")
    }
    result = rolf.load_result(out / "plan.parquet")
    assert result.regret.shape == (2, 3, 40)
    options = result.config["policies"]["UCB, tuned"]["options"]
    assert options == {"setting": "tuned", "noise": 0.2}
    again = invoke("plot", out / "plan.parquet", "--out", tmp_path / "again.png", "--log")
    assert again.exit_code == 0
    assert (tmp_path / "again.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rounds = ", "not valid TOML"),
        ("[problem]\ncase = 1", "policies"),
        (CONFIG.replace('"ucb"', '"ucbb"'), "ucbb"),
        (CONFIG.replace("noise", "nose"), "nose"),
        (CONFIG.replace('"paper"', '"scissors"'), "scissors"),
        (CONFIG.replace("arms", "legs"), "legs"),
        ("colour = 1" + CONFIG, "colour"),
        (CONFIG.replace('ucb = "ucb"', "ucb = 3"), "policies.ucb"),
        (CONFIG.replace('title = "small"', "title = 3"), "title"),
        (CONFIG.replace("arms = 5", 'arms = "x"'), "arms"),
        (CONFIG.replace('"paper"', '"nowhere:Family"'), "No module named 'nowhere'"),
        (CONFIG.replace('"paper"', '"math:pi"'), "function"),
        ("problem = 3\n[policies]\nu = 'ucb'", "problem"),
    ],
)
def test_errors_are_one_line(tmp_path, text, expected, monkeypatch, capsys):
    assert expected in one_line_error(monkeypatch, capsys, "simulate", config(tmp_path, text))


@pytest.mark.parametrize("command", ["simulate", "reproduce"])
def test_an_unwritable_folder_is_reported_before_anything_is_played(
    command, tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("")
    args = [config(tmp_path)] if command == "simulate" else []
    monkeypatch.setattr("rolf.simulate", lambda *a, **k: pytest.fail("played"))
    words = (command, *args, "--out", tmp_path / "file")
    assert "--out" in one_line_error(monkeypatch, capsys, *words)


def test_a_picture_needs_a_known_ending(tmp_path, monkeypatch, capsys):
    invoke("simulate", config(tmp_path), "--out", tmp_path / "o")
    for name in ("noext", "x.xyz"):
        words = ("plot", tmp_path / "o" / "plan.parquet", "--out", tmp_path / name)
        assert ".png" in one_line_error(monkeypatch, capsys, *words)


def test_a_missing_file_is_reported(monkeypatch, capsys, tmp_path):
    shown = one_line_error(monkeypatch, capsys, "simulate", tmp_path / "none.toml")
    assert "cannot be read" in shown


def test_policies_lists_the_catalogue():
    done = invoke("policies")
    assert done.exit_code == 0
    for cls in rolf.policy_classes():
        assert cls.name in done.output
        one = invoke("policies", cls.name)
        assert cls.summary in " ".join(one.output.split())
        assert "seed" in one.output


def test_help_and_version():
    for args in (["--help"], ["simulate", "--help"], ["plot", "--help"], ["policies", "--help"]):
        assert invoke(*args).exit_code == 0
    assert rolf.__version__ in invoke("--version").output
