"""One word, one meaning: words that the glossary refuses are not used as names."""

from __future__ import annotations

import re

import pytest

from support.sources import PACKAGE, ROOT, defined_names, room, trees, words

GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
#: words with another meaning elsewhere: only in this room are they refused
ONLY_IN = {"line": "service", "visit": "service", "front": "service", "past": "experiments"}
#: names that have such a word for a reason
ALLOWED = {
    "log_odds": "the logit of a probability, as statisticians call it",
    "_legend_handles": "Matplotlib's word",
}


def refused() -> set[str]:
    """The words in the last column of the glossary's tables."""
    rows = re.findall(r"^\|.*\|([^|]*)\|$", GLOSSARY.read_text(), re.MULTILINE)
    found = {word for cell in rows for word in re.findall(r"`(\w+)`", cell)}
    assert {"chance", "desk", "waiting"} <= found
    return found


def refused_names() -> dict[str, dict[str, list[str]]]:
    """Per room: the names that have a refused word, and the files they are in."""
    no = refused()
    found: dict[str, dict[str, list[str]]] = {}
    for path, tree in trees().items():
        for name in sorted(set(defined_names(tree)) - set(ALLOWED)):
            bad = no & set(words(name))
            if any(ONLY_IN.get(word, room(path)) == room(path) for word in bad):
                found.setdefault(room(path), {}).setdefault(name, []).append(path)
    return found


@pytest.mark.parametrize("place", sorted({room(path) for path in trees()}))
def test_no_name_has_a_refused_word(place):
    found = refused_names().get(place, {})
    assert not found


def test_names_that_are_allowed_exist():
    names = {name for tree in trees().values() for name in defined_names(tree)}
    assert set(ALLOWED) <= names
    assert all((PACKAGE / place).exists() for place in ONLY_IN.values())
