"""Open exported logs: how the experiment was created.

Nothing in a file is believed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolf.arms.table import check_names, number_table
from rolf.errors import InvalidArgument
from rolf.experiments.roster import Roster
from rolf.tables.files import PARQUET
from rolf.tables.parts import Stream
from rolf.tables.recipe import Recipe

METADATA = b"rolf-experiment"
FILES = "a file that ends in .csv or .parquet"

#: columns that are text whatever they look like
TEXT = ("id", "arm", "greedy", "pseudo", "corrections")


def checked_path(path: Any) -> Path:
    """The path of a file whose name says that it is CSV or Parquet."""
    if isinstance(path, str | Path) and Path(path).suffix.lower() in (".csv", *PARQUET):
        return Path(path)
    raise InvalidArgument("path", str(path) if isinstance(path, Path) else path, FILES)


def open_log_file(path: str | Path) -> tuple[Stream, dict[str, Any]]:
    """A file or folder, to be read, and how the experiment was created if it says so."""
    if not isinstance(path, str | Path) or not os.path.isdir(path):
        checked_path(path)
    stream = Stream(path, TEXT)
    if missing := [each for each in ("id", "arm", "reward") if each not in stream.names]:
        raise InvalidArgument(f"{path}: columns", stream.names, f"{', '.join(missing)} too")
    stream.check_files(stream.names)
    text = stream.metadata.get(METADATA, b"{}")
    try:
        recorded = json.loads(text)
    except (ValueError, RecursionError):
        recorded = None
    if not isinstance(recorded, dict):
        raise InvalidArgument(f"{path}: {METADATA.decode()}", text, "a JSON object")
    return stream, recorded


# --- how the experiment was created ------------------------------------------------------------


def recorded_roster(path: str | Path, recorded: Mapping[str, Any]) -> Roster:
    """The arms that a file names."""
    data = _field(path, recorded, "features", dict, {})
    table = number_table(data.get("features"), f"{path}: features")
    rows, columns = table.shape
    if rows < 2 or columns < 1:
        got = f"shape {table.shape}"
        raise InvalidArgument(f"{path}: features", got, "at least two arms and one column")
    labels = _list(path, data, "labels", rows)
    names = _list(path, data, "columns", columns)
    if (labels is None) != (names is None):
        raise InvalidArgument(f"{path}: labels", labels, "names of arms and of columns, or neither")
    check_names(labels or (), f"{path}: labels")
    _check_distinct(path, "labels", labels or ())
    _check_distinct(path, "columns", names or ())
    active = _list(path, data, "active", rows)
    if active is not None and not all(isinstance(each, bool) for each in active):
        raise InvalidArgument(f"{path}: active", active, "true or false for every arm")
    checked: dict[str, Any] = {
        "features": table.tolist(),
        "labels": labels,
        "columns": names,
        "active": [True] * rows if active is None else active,
        "categories": _categories(path, data),
    }
    if data.get("paused") is True:
        checked["paused"] = True
    if data.get("recipe") is not None:
        checked["recipe"] = Recipe.from_dict(data["recipe"], f"{path}: recipe").to_dict()
    return Roster.loads(json.dumps(checked))


def _categories(path: str | Path, data: Mapping[str, Any]) -> dict[str, list[str]]:
    categories: dict[str, list[str]] = _field(path, data, "categories", dict, {})
    for values in categories.values():
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise InvalidArgument(f"{path}: categories", values, "lists of text")
    return categories


def recorded_options(path: str | Path, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the policy that a file names."""
    options: dict[str, Any] = _field(path, recorded, "options", dict, {})
    return options


def recorded_policy(path: str | Path, recorded: Mapping[str, Any]) -> str | None:
    """The policy that a file names."""
    name: str | None = _field(path, recorded, "policy", str, None)
    return name


def recorded_number(path: str | Path, recorded: Mapping[str, Any], name: str) -> Any:
    """A setting that is a number, if a file has it."""
    return _field(path, recorded, name, int | float, None)


def _field(path: str | Path, data: Mapping[str, Any], name: str, kind: Any, otherwise: Any) -> Any:
    value = data.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, kind) or isinstance(value, bool):
        words = {dict: "a JSON object", str: "text"}
        raise InvalidArgument(f"{path}: {name}", value, words.get(kind, "a number"))
    return value


def _list(path: str | Path, data: Mapping[str, Any], name: str, count: int) -> list[Any] | None:
    values = data.get(name)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != count:
        raise InvalidArgument(f"{path}: {name}", values, f"a list of {count}")
    return values


def _check_distinct(path: str | Path, name: str, values: Any) -> None:
    texts = [str(each) for each in values]
    if len(set(texts)) < len(texts):
        raise InvalidArgument(f"{path}: {name}", values, "each name once")
