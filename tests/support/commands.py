"""Run commands in this process, and see their errors as users do."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rolf.cli import app, main


def invoke(*words):
    """Run a command; returns its result, whether it failed or not."""
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def run(*words, ok=True):
    """What a command prints. With ``ok=False`` it must fail, and its error is raised."""
    result = invoke(*words)
    if not ok:
        assert result.exception is not None
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def one_line_error(monkeypatch, capsys, *words):
    """The single line that a failing command prints."""
    monkeypatch.setattr("sys.argv", ["rolf", *(str(word) for word in words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith("rolf: ")
    assert "Traceback" not in shown
    return shown
