"""Doctests of the docstrings as examples on the reference page.

The docstrings end in plain doctests, as Python reads them. On a page of Markdown the prompt would
be taken for a quotation; this extension of Griffe puts them under a heading "Examples".
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)


def as_examples(text: str) -> str:
    """The docstring with each run of doctest lines in a section of its own."""
    if "Examples:" in text:
        return text
    return DOCTEST.sub(lambda found: "Examples:\n    " + found[0].replace("\n", "\n    "), text)


class Doctests(Extension):
    """Changes docstrings once they are read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_examples(obj.docstring.value)
