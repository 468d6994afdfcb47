"""The progress bar on terminals of several widths."""

from __future__ import annotations

import logging
import re

import pytest

from rolf.progress import progress_bar

LABEL = "greedy, eps=0.1, mode=plain on a problem, noise=0.5, arms=20, weights=[1.0, 2.0]"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_long_label_leaves_room_for_the_count_and_the_time(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    with progress_bar(True, 144, "sweeping") as advance:
        for _ in range(3):
            advance(LABEL)
    last = capsys.readouterr().err.splitlines()[-1]
    assert len(last) <= width
    assert last.startswith("sweeping gre")
    assert re.search(r" 3/144 left (-:--:--|\d+:\d\d:\d\d)$", last)


def test_brackets_in_a_label_are_shown(capsys, monkeypatch):
    """They are no markup, which a closing tag would end before it began."""
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar(True, 1) as advance:
        advance("a [/b] [red]")
    assert "playing a [/b] [red] " in capsys.readouterr().err


def test_the_bar_names_what_is_compiled_meanwhile(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar(True, 2) as advance:
        logging.getLogger("rolf").warning("compiling %s (once) ...", "ucb [/b]")
    shown = capsys.readouterr().err
    assert "compiling ucb [/b] (once) ... " in shown
    with progress_bar(True, 2) as advance:
        logging.getLogger("rolf").warning("a folder cannot be written to")
        advance("next")
    lines = capsys.readouterr().err.splitlines()
    assert any(line.strip() == "a folder cannot be written to" for line in lines)
    assert lines[-1].startswith("playing next ")
    assert not logging.getLogger("rolf").handlers
