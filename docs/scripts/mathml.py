"""Formulas as MathML, made while the site is built: a browser shows them without any script.

The pages hold TeX between dollar signs. The Markdown extension ``arithmatex`` marks it, and this
hook of MkDocs turns each marked piece into MathML. A formula that cannot be read stops the build.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[\[(](?P<tex>.*?)\\[\])]</(?P=tag)>', re.DOTALL
)


def render(tex: str, *, block: bool) -> str:
    """One formula; its source stays with it, for readers who copy it."""
    made = convert(tex, display="block" if block else "inline")
    shown = html.escape(" ".join(tex.split()), quote=True)
    return made.replace("<math ", f'<math aria-label="{shown}" ', 1)


def on_page_content(html_text: str, *, page: Any, **_: Any) -> str:
    """Called by MkDocs with the HTML of every page."""

    def replaced(found: re.Match[str]) -> str:
        tex = html.unescape(found["tex"]).strip()
        try:
            return render(tex, block=found["tag"] == "div")
        except Exception as error:
            raise PluginError(f"{page.file.src_path}: cannot read {tex!r}: {error!r}") from error

    return MARKED.sub(replaced, html_text)
