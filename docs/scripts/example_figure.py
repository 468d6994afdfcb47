"""Draw the picture of docs/start/example.md by running the page.

python docs/scripts/example_figure.py
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    code = "\n".join(BLOCK.findall((DOCS / "start" / "example.md").read_text()))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(compile(code, "example.md", "exec"), {"__name__": "__main__"})
        shutil.copy("diagnosis.png", DOCS / "images" / "diagnosis.png")
        os.chdir(DOCS)


if __name__ == "__main__":
    main()
