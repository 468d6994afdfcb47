"""Draw the picture of docs/start/example.md by running the page.

python docs/scripts/example_figure.py    # --quick: the same, but the picture is thrown away
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from quick import read_mode

DOCS = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    images = read_mode(__doc__).images
    code = "\n".join(BLOCK.findall((DOCS / "start" / "example.md").read_text()))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(compile(code, "example.md", "exec"), {"__name__": "__main__"})
        shutil.copy("diagnosis.png", images / "diagnosis.png")
        os.chdir(DOCS)


if __name__ == "__main__":
    main()
