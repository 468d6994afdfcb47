"""Serve NAME-narrow.png to phones where docs/images has one beside NAME.png.

Wide pictures have panels side by side, narrow ones stack them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parent.parent / "images"
IMAGE = re.compile(r'<img [^>]*?src="(?P<stem>[^"]*images/(?P<name>[^"/]+))\.png"[^>]*>')


def on_page_content(text: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of every page."""

    def with_choice(match: re.Match[str]) -> str:
        if not (IMAGES / f"{match['name']}-narrow.png").exists():
            return match[0]
        narrow = f'<source media="(max-width: 640px)" srcset="{match["stem"]}-narrow.png">'
        return f"<picture>{narrow}{match[0]}</picture>"

    return IMAGE.sub(with_choice, text)
