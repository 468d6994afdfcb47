"""Messages: without passwords, short, and soon made, whatever they are about."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import re
import time

import pytest

import rolf
from rolf.errors import InvalidArgument, RolfError, short_repr, without_password
from rolf.tables.cells import LONGEST

#: parts of texts that make expressions go back and forth
ATTACKS = ["x", "0", " ", "-", ".", ",", ":/", "a:/", "@", "a://b", "_", "rolf_", "0-", "1,", "\n"]
ATTACKS += ['"', "'", "a@", "%", "a1", "0.", "+", "1.000,", "aA", "\\n", "[", "(", "$ ", "\t "]
LENGTH = 30_000
#: texts that are looked at only if they are short
BOUNDED = {"rolf.tables.cells._AMOUNT": LONGEST}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:secret@host/db failed", "postgresql:... failed"),
        ("at 'postgresql://me:se:/cret@host/db?a=b'.", "at 'postgresql:...'."),
        ("postgresql:/me:p@ss@host", "postgresql:..."),
        ("two a://b@c d://e@f", "two a:... d:..."),
        ("mail me@there", "mail me@there"),
        ("https://there/path?query", "https://there/path?query"),
        ("me@there https://there", "me@there https://there"),
        ("me@there:/path", "me@there:/path"),
    ],
)
def test_passwords_in_urls_are_not_shown(text, shown):
    assert without_password(text) == shown
    assert str(RolfError(text)) == shown


def expressions():
    """All regular expressions of the package that have a name; whether they are searched for."""
    for module in pkgutil.walk_packages(rolf.__path__, "rolf."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, re.Pattern):
                    source = inspect.getsource(importlib.import_module(module.name))
                    anywhere = re.search(rf"\b{name}\.(search|sub|split|find)", source)
                    yield f"{module.name}.{name}", (value, anywhere is not None)


def test_no_expression_takes_longer_than_its_text():
    """With twice the text at most twice the time: a quadratic one would take many seconds."""
    found = dict(expressions())
    assert len(found) > 5
    cases = itertools.product(found.items(), ATTACKS, "1a")
    for (name, (expression, anywhere)), attack, start in cases:
        text = start + (attack * LENGTH)[: BOUNDED.get(name, LENGTH)] + "!"
        subject = text.encode() if isinstance(expression.pattern, bytes) else text
        before = time.process_time()
        expression.match(subject)
        expression.fullmatch(subject)
        if anywhere:
            expression.search(subject)
        assert time.process_time() - before < 0.5, (name, attack)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "function", [without_password, short_repr, lambda t: InvalidArgument(t, t, t)]
)
def test_messages_are_soon_made(function, attack):
    text = attack * (200_000 // len(attack))
    start = time.process_time()
    str(function(text + "@"))
    str(function(text))
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    "value", [[1.5] * 3_000_000, [[[1] * 1_000_000] * 10], {1: [2] * 9_000_000}]
)
def test_only_what_is_shown_of_a_value_is_looked_at(value):
    start = time.process_time()
    shown = short_repr(value)
    assert time.process_time() - start < 0.05
    assert len(shown) == 120


@pytest.mark.parametrize(
    "value", [[], (), (1,), (1, 2), [1, "a", (None,)], {}, {"a": [1], 2: {}}, "it's", b"x", 1.5]
)
def test_short_values_are_shown_as_they_are(value):
    assert short_repr(value) == repr(value)


def test_values_nested_too_deeply_are_not_shown():
    value = []
    for _ in range(100_000):
        value = [value]
    assert "nested" in short_repr(value) or len(short_repr(value)) <= 120
