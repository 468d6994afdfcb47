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
NAMED = re.compile(r"\\operatorname\{(argmin|argmax)\}")
CLOSER = {  # what TeX sets closer together, or further apart, than MathML does
    r"<mo>&#x0002F;</mo>": '<mo lspace="0" rspace="0">/</mo>',
    r"<mi>log</mi>(?!<mo[^>]*>&#x00028;)": '<mi>log</mi><mspace width="0.167em"/>',
}
LIMITS = re.compile(r"\\(sum|min|max|argmin|argmax)_")


def render(tex: str, *, block: bool) -> str:
    """One formula; its source stays with it, for readers who cannot see it."""
    spoken = html.escape(" ".join(tex.split()), quote=True)
    tex = NAMED.sub(r"\\\1", tex)
    if block:  # the converter puts what belongs below a sum beside it
        tex = LIMITS.sub(r"\\\1\\limits_", tex)
    made = convert(tex, display="block" if block else "inline")
    if "\\" in made:
        raise ValueError("a command that the converter does not know")
    for pattern, better in CLOSER.items():
        made = re.sub(pattern, better, made)
    return made.replace("<math ", f'<math aria-label="{spoken}" ', 1)


def on_page_content(text: str, *, page: Any, **_: Any) -> str:
    """Called by MkDocs with the HTML of every page."""

    def replaced(found: re.Match[str]) -> str:
        tex = html.unescape(found["tex"]).strip()
        try:
            return render(tex, block=found["tag"] == "div")
        except Exception as error:
            raise PluginError(f"{page.file.src_path}: cannot read {tex!r}: {error!r}") from error

    return MARKED.sub(replaced, text)
