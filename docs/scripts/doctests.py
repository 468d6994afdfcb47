"""Show the doctests of docstrings as examples on the reference page.

Docstrings end in plain doctests, whose prompt would start a block quote in Markdown; this Griffe
extension puts them under a heading "Examples".
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)


def as_examples(text: str) -> str:
    """Put each block of doctest lines into its own section."""
    if "Examples:" in text:
        return text
    return DOCTEST.sub(lambda match: "Examples:\n    " + match[0].replace("\n", "\n    "), text)


class Doctests(Extension):
    """Changes docstrings when they are loaded."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_examples(obj.docstring.value)
