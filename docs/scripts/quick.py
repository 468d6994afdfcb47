"""``--quick``, the shared option of these scripts: check within seconds that they run.

A quick run plays little and leaves the documentation's pictures unchanged.
"""

from __future__ import annotations

import argparse
import atexit
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

IMAGES = Path(__file__).resolve().parent.parent / "images"


class Mode(NamedTuple):
    """Whether to be quick, and the folder for pictures."""

    quick: bool
    images: Path


def mode_of(args: argparse.Namespace) -> Mode:
    """The mode set by the options of ``parser``."""
    if not args.quick:
        return Mode(False, IMAGES)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Mode(True, Path(folder))


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with ``--quick``, for the script with this docstring."""
    out = argparse.ArgumentParser(description=(doc or "").strip().split("\n")[0])
    out.add_argument("--quick", action="store_true", help="play little, change no picture")
    return out


def read_mode(doc: str | None) -> Mode:
    """The mode of a script without other arguments."""
    return mode_of(parser(doc).parse_args())
