"""Arguments as JSON holds them, checked as a local experiment would."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from rolf.arms.table import index_labels, number_table
from rolf.errors import InvalidArgument
from rolf.types import Decision


def plain(argument: str, value: Any) -> Any:
    """Numbers, text, and lists and mappings of them; arrays become lists."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(argument, each) for key, each in value.items()}
    if isinstance(value, str | bool | int | None) or (
        isinstance(value, float) and math.isfinite(value)
    ):
        return value
    if isinstance(value, Iterable):
        return [plain(argument, each) for each in value]
    raise InvalidArgument(argument, value, "finite numbers and text, which JSON can hold")


def plain_context(context: Any) -> Any:
    """A context, or several: what names its entries by columns or an index keeps the names."""
    if isinstance(context, Mapping):
        return plain("context", context)
    if hasattr(context, "columns") and hasattr(context, "to_numpy"):
        records = context.to_dicts() if hasattr(context, "to_dicts") else context.to_dict("records")
        return plain("context", records)
    if hasattr(context, "to_dict"):
        return plain("context", context.to_dict())
    if hasattr(context, "ndim") or isinstance(context, str) or not isinstance(context, Iterable):
        return plain("context", context)
    return [plain_context(each) for each in context]


def decision_id(decision: Decision | str) -> str:
    id = decision.id if isinstance(decision, Decision) else decision
    if not isinstance(id, str):
        raise InvalidArgument("decision", id, "a decision or its id")
    return id


def table_of_arms(features: Any) -> dict[str, Any]:
    """A table of arms as the service reads it: rows of numbers, or arms with names and cells."""
    from rolf.arms.raw import read_raw
    from rolf.arms.reading import is_table

    if isinstance(features, list) and features and all(isinstance(x, Mapping) for x in features):
        return {"arms": [{key: _cell(each) for key, each in row.items()} for row in features]}
    if isinstance(features, str | Path) and not Path(features).exists():
        raise InvalidArgument("features", str(features), "a (K, d) table, or its file")
    if is_table(features):
        raw = read_raw(features)
        labels, columns = raw.labels, raw.columns
    else:
        named = index_labels(features)
        if named is None:
            return {"features": number_table(features).tolist()}
        labels = named
        columns = {str(name): features[name].tolist() for name in features.columns}
    return {
        "arms": [
            {"arm": label, **{name: _cell(cells[row]) for name, cells in columns.items()}}
            for row, label in enumerate(labels)
        ]
    }


def _cell(value: Any) -> Any:
    """A cell of a table; None if it is empty."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, date):  # and times
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float | None) else str(value)
