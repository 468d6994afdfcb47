"""The command line, as a person would use it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import rolf
from rolf.cli import app, main

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


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "200"})


def config(tmp_path, text=CONFIG):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


def test_simulate_writes_everything(tmp_path):
    out = tmp_path / "out"
    done = run("simulate", config(tmp_path), "--out", out, "--runs", 3)
    assert done.exit_code == 0, done.output
    assert "UCB, tuned" in done.output
    assert "40 rounds, 3 runs" in done.output
    assert {p.name for p in out.iterdir()} == {
        f"plan.{k}" for k in ("parquet", "csv", "png", "svg")
    }
    result = rolf.load(out / "plan.parquet")
    assert result.regret.shape == (2, 3, 40)
    options = result.config["policies"]["UCB, tuned"]["options"]
    assert options == {"setting": "tuned", "noise": 0.2}
    again = run("plot", out / "plan.parquet", "--out", tmp_path / "again.png", "--log")
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
    path = config(tmp_path, text)
    monkeypatch.setattr("sys.argv", ["rolf", "simulate", str(path)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith("rolf: ")
    assert expected in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("command", ["simulate", "reproduce"])
def test_an_unwritable_folder_is_reported_before_anything_is_played(
    command, tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("")
    args = [str(config(tmp_path))] if command == "simulate" else []
    monkeypatch.setattr("sys.argv", ["rolf", command, *args, "--out", str(tmp_path / "file")])
    monkeypatch.setattr("rolf.simulate", lambda *a, **k: pytest.fail("played"))
    with pytest.raises(SystemExit):
        main()
    assert "--out" in capsys.readouterr().err


def test_a_picture_needs_a_known_ending(tmp_path, monkeypatch, capsys):
    run("simulate", config(tmp_path), "--out", tmp_path / "o")
    for name in ("noext", "x.xyz"):
        path = str(tmp_path / "o" / "plan.parquet")
        monkeypatch.setattr("sys.argv", ["rolf", "plot", path, "--out", str(tmp_path / name)])
        with pytest.raises(SystemExit):
            main()
        assert ".png" in capsys.readouterr().err


def test_a_missing_file_is_reported(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["rolf", "simulate", str(tmp_path / "none.toml")])
    with pytest.raises(SystemExit):
        main()
    assert "cannot be read" in capsys.readouterr().err


def test_policies_lists_the_catalogue():
    done = run("policies")
    assert done.exit_code == 0
    for cls in rolf.policy_classes():
        assert cls.name in done.output
        one = run("policies", cls.name)
        assert cls.summary in " ".join(one.output.split())
        assert "seed" in one.output


def test_help_and_version():
    for args in (["--help"], ["simulate", "--help"], ["plot", "--help"], ["policies", "--help"]):
        assert run(*args).exit_code == 0
    assert rolf.__version__ in run("--version").output
