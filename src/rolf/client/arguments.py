"""Arguments as JSON can hold them, checked as local experiments check them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from rolf.arms.table import check_names, number_table
from rolf.checks import MAX_KEY
from rolf.errors import InvalidArgument, RolfWarning
from rolf.tables.raw import index_labels
from rolf.types import Decision

#: from a call's generator, over the exchange, the transport and the method, to its caller
USER = 6
#: the column of a service's table that names the arms
ARM = "arm"


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


def fits_header(value: Any) -> bool:
    """Whether a value can be sent in a header: ASCII text without blanks."""
    text = value if isinstance(value, str) else ""
    return text != "" and text.isascii() and text.isprintable() and " " not in text


def checked_key(key: Any) -> str:
    """An idempotency key that fits a header."""
    if not fits_header(key) or len(key) > MAX_KEY:
        wanted = f"ASCII text without blanks, up to {MAX_KEY} characters: it is sent in a header"
        raise InvalidArgument("idempotency_key", key, wanted)
    return str(key)


def listed(available: Any) -> list[Any]:
    if isinstance(available, str) or not isinstance(available, Iterable):
        raise InvalidArgument("available", available, "a list of arms")
    return list(available)


def arm_names(ids: Any) -> list[Any]:
    """The names of one arm or of several."""
    names = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
    checked: list[Any] = plain("ids", names)
    return checked


def plain_context(context: Any) -> Any:
    """A context, or several; entries that a table or a Series names keep their names."""
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
    from rolf.arms.reading import is_table
    from rolf.tables.raw import read_raw

    if isinstance(features, list) and features and all(isinstance(x, Mapping) for x in features):
        features = [dict(row) for row in features]
    if isinstance(features, str | Path) and not Path(features).exists():
        raise InvalidArgument("features", str(features), "a (K, d) table, or its file")
    if is_table(features):
        raw = read_raw(features)
        raw.report.check()
        labels = raw.labels
        columns = {name: column.cells for name, column in raw.columns.items()}
    else:
        named = index_labels(features)
        numbers = number_table(features)
        if named is None:
            return {"features": numbers.tolist()}
        labels = named
        columns = dict(zip(map(str, features.columns), numbers.T.tolist(), strict=True))
    if ARM in columns:
        wanted = f"another name for the column {ARM}, under which a service has the arms' names"
        raise InvalidArgument("features: columns", list(columns), wanted)
    check_names(labels)
    cells = [[_cell(name, cell) for cell in values] for name, values in columns.items()]
    rows = zip(labels, *cells, strict=True)
    return {"arms": [dict(zip((ARM, *columns), row, strict=True)) for row in rows]}


def _cell(column: str, value: Any) -> Any:
    """A cell of a table; None if it is empty."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isinf(value):
        raise InvalidArgument(f"features: {column}", value, "a number in every row")
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, date):  # and times
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def warn_of(notes: Iterable[str]) -> None:
    """Warn of what the service notes, at the place of the call."""
    for note in notes:
        warnings.warn(str(note), RolfWarning, stacklevel=USER)
