"""The command line in tests: a command in this process, and errors as a person sees them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rolf.cli import app, main


def invoke(*words):
    """What has come of a command."""
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def run(*words, ok=True):
    """What a command prints; raises its error unless it is ``ok``."""
    result = invoke(*words)
    if not ok:
        assert result.exception is not None
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def one_line_error(monkeypatch, capsys, *words):
    """The one line that a command prints where it fails."""
    monkeypatch.setattr("sys.argv", ["rolf", *(str(word) for word in words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith("rolf: ")
    assert "Traceback" not in shown
    return shown
