"""Formulas as MathML, generated while the site is built: browsers show them without any script.

The pages have TeX between dollar signs. The Markdown extension ``arithmatex`` marks it, and this
MkDocs hook turns each marked piece into MathML. A formula that cannot be read stops the build.
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
SPACING = {  # what TeX sets closer together, or further apart, than MathML does
    r"<mo>&#x0002F;</mo>": '<mo lspace="0" rspace="0">/</mo>',
    r"<mi>log</mi>(?!<mo[^>]*>&#x00028;)": '<mi>log</mi><mspace width="0.167em"/>',
}
LIMITS = re.compile(r"\\(sum|min|max|argmin|argmax)_")


def render(tex: str, *, block: bool) -> str:
    """One formula; its source becomes the label that screen readers speak."""
    spoken = html.escape(" ".join(tex.split()), quote=True)
    tex = NAMED.sub(r"\\\1", tex)
    if block:  # the converter puts what belongs below a sum beside it
        tex = LIMITS.sub(r"\\\1\\limits_", tex)
    mathml = convert(tex, display="block" if block else "inline")
    if "\\" in mathml:
        raise ValueError("a command that the converter does not know")
    for pattern, better in SPACING.items():
        mathml = re.sub(pattern, better, mathml)
    return mathml.replace("<math ", f'<math aria-label="{spoken}" ', 1)


def on_page_content(text: str, *, page: Any, **_: Any) -> str:
    """Called by MkDocs with the HTML of every page."""

    def rendered(match: re.Match[str]) -> str:
        tex = html.unescape(match["tex"]).strip()
        try:
            return render(tex, block=match["tag"] == "div")
        except Exception as error:
            raise PluginError(f"{page.file.src_path}: cannot read {tex!r}: {error!r}") from error

    return MARKED.sub(rendered, text)
