"""Shows the doctests of docstrings as examples on the reference page.

The docstrings end in plain doctests. In Markdown their prompt would start a quotation; this
Griffe extension puts them under a heading "Examples".
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)


def as_examples(text: str) -> str:
    """The docstring with each block of doctest lines in a section of its own."""
    if "Examples:" in text:
        return text
    return DOCTEST.sub(lambda match: "Examples:\n    " + match[0].replace("\n", "\n    "), text)


class Doctests(Extension):
    """Changes docstrings as they are read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_examples(obj.docstring.value)
