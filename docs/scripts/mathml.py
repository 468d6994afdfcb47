"""Convert formulas to MathML when the site is built, so that browsers need no script to show them.

Pages contain TeX between dollar signs. The Markdown extension ``arithmatex`` marks it, and this
MkDocs hook converts each marked formula to MathML. A formula that cannot be parsed stops the build.
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
SPACING = {  # where TeX sets tighter or looser than MathML
    r"<mo>&#x0002F;</mo>": '<mo lspace="0" rspace="0">/</mo>',
    r"<mi>log</mi>(?!<mo[^>]*>&#x00028;)": '<mi>log</mi><mspace width="0.167em"/>',
}
LIMITS = re.compile(r"\\(sum|min|max|argmin|argmax)_")


def render(tex: str, *, block: bool) -> str:
    """Convert one formula; its source becomes the label for screen readers."""
    spoken = html.escape(" ".join(tex.split()), quote=True)
    tex = NAMED.sub(r"\\\1", tex)
    if block:  # the converter puts limits beside a sum instead of below it
        tex = LIMITS.sub(r"\\\1\\limits_", tex)
    mathml = convert(tex, display="block" if block else "inline")
    if "\\" in mathml:
        raise ValueError("unknown command")
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
