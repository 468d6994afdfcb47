"""The arms of an experiment: they come and go, but each keeps its position for ever."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import numpy as np

from rolf.arms.reading import is_table, read_arms, read_rows
from rolf.arms.table import Arms, index_labels, number_table
from rolf.errors import DifferentExperiment, ExperimentError, InvalidArgument
from rolf.types import FloatArray, IntArray


class Table:
    """Features and names of all arms that ever were, and which of them are still played."""

    def __init__(self, arms: Arms, active: list[bool] | None = None, source: Any = None) -> None:
        self.arms = arms
        self.source = source  # the file or DataFrame with text that the arms were read from
        self.active = [True] * arms.count if active is None else active
        self.positions: IntArray = np.flatnonzero(self.active)

    @classmethod
    def read(cls, features: Any) -> Table:
        """A table that the user gives: numbers, a DataFrame, or a file."""
        source = features if is_table(features) else None
        arms = Arms.read(features) if source is None else read_arms(source)
        for label in arms.labels:
            good = isinstance(label, str | int | float) and not isinstance(label, bool)
            if not good or (isinstance(label, float) and not math.isfinite(label)):
                raise InvalidArgument("features", label, "arms named by text or numbers")
        return cls(arms, source=source)

    @classmethod
    def loads(cls, text: str) -> Table:
        data = json.loads(text)
        features = np.array(data["features"], dtype=np.float64, order="C")
        arms = Arms(features, data["labels"], data["columns"], data.get("categories"))
        return cls(arms, data["active"])

    def dumps(self) -> str:
        arms = self.arms
        data = {
            "features": arms.features.tolist(),
            "labels": arms.labels if arms.named else None,
            "columns": arms.columns if arms.named else None,
            "active": [bool(each) for each in self.active],
        }
        return json.dumps({**data, "categories": arms.categories} if arms.categories else data)

    def available(self, given: Any) -> IntArray:
        """Positions of the arms that can be played, of those that are asked for."""
        if not self.positions.size:
            raise ExperimentError("all arms are retired: add some before asking")
        if given is None:
            return self.positions
        wanted = self.arms.subset(given)
        kept: IntArray = wanted[np.array(self.active)[wanted]]
        if not kept.size:
            labels = [self.arms.labels[i] for i in wanted]
            raise InvalidArgument("available", labels, "at least one arm that is not retired")
        return kept

    # --- changes: what the log records of them, and what they do ---

    def addition(self, features: Any) -> dict[str, Any]:
        arms = self._rows(features)
        if arms.named != self.arms.named:
            wanted = "a DataFrame whose index names them" if self.arms.named else "no names"
            raise InvalidArgument("features", arms.labels, f"new arms with {wanted}")
        if not arms.named:
            return {"add": {"labels": None, "features": arms.features.tolist()}}
        if known := [each for each in arms.labels if each in set(self.arms.labels)]:
            raise InvalidArgument("features", known, "arms that are new")
        return {"add": {"labels": arms.labels, "features": arms.features.tolist()}}

    def retirement(self, labels: Any) -> dict[str, Any]:
        if isinstance(labels, str) or not hasattr(labels, "__iter__"):
            labels = [labels]
        positions = [self.arms.position(label, "ids") for label in labels]
        return {"retire": positions}

    def correction(self, features: Any) -> dict[str, Any]:
        """New features: of the arms that a mapping or a table names, or of all."""
        if isinstance(features, dict):
            labels = list(features)
            rows = self._checked(list(features.values()))
        else:
            arms = self._rows(features)
            labels, rows = arms.labels, arms.features
            if not arms.named and arms.count != self.arms.count:
                raise InvalidArgument("features", f"{arms.count} rows", f"{self.arms.count}")
        positions = [self.arms.position(label, "features") for label in labels]
        return {"update": {"arms": positions, "features": rows.tolist()}}

    def _rows(self, features: Any) -> Arms:
        """Some rows of a table like this one."""
        if is_table(features):
            return self.called(read_rows(features, self.arms))
        if isinstance(features, Arms):
            if features.columns != self.arms.columns:
                raise InvalidArgument("features", features.columns, f"columns {self.arms.columns}")
            labels = features.labels if features.named else None
            return Arms(self._checked(features.features), labels)
        labels = index_labels(features)
        if labels is not None and self.arms.named:
            features = self.arms.ordered_columns(features)
        return Arms(self._checked(features), labels)

    def called(self, rows: Arms) -> Arms:
        """Rows that were read, called as the arms are called here: in files names are text."""
        known = {str(label): label for label in self.arms.labels}
        if not self.arms.named:
            places = [str(self.arms.count + place) for place in range(rows.count)]
            if [str(label) for label in rows.labels] == places:
                return Arms(rows.features, None)
        numbered = all(isinstance(label, int) for label in self.arms.labels)

        def called(label: Any) -> Any:
            number = numbered and isinstance(label, str) and label.isdecimal()
            return known.get(str(label), int(label) if number else label)

        return Arms(rows.features, [called(label) for label in rows.labels], rows.columns)

    def _checked(self, features: Any) -> FloatArray:
        rows = number_table(features, columns=len(self.arms.columns))
        if not rows.size:
            raise InvalidArgument("features", features, "at least one arm")
        return rows

    def changed(self, change: dict[str, Any]) -> Table:
        """The table after a change of the log."""
        arms, active = self.arms, list(self.active)
        features, labels = arms.features, list(arms.labels)
        if "add" in change:
            new = change["add"]
            features = np.vstack([features, np.array(new["features"], dtype=np.float64)])
            labels += new["labels"] or range(len(labels), features.shape[0])
            active += [True] * len(new["features"])
        elif "update" in change:
            features = features.copy()
            features[change["update"]["arms"]] = change["update"]["features"]
        else:
            for position in change["retire"]:
                active[position] = False
        columns = arms.columns if arms.named else None
        named = labels if arms.named else None
        return Table(Arms(features, named, columns, arms.categories), active)

    # --- the same table, given again ---

    def check(self, given: Table, first: Table) -> None:
        """Whether a given table is the one of the experiment: now, or as it was at first."""
        candidates = [first.arms, self.arms, self._active()]
        if any(not _difference(each, given._read_like(each)) for each in candidates):
            return
        difference = _difference(self.arms, given._read_like(self.arms))
        raise DifferentExperiment(
            f"features: {difference}; add_arms, retire_arms and update_features change arms"
        )

    def _read_like(self, other: Arms) -> Arms:
        """The arms with the columns of another table, where they were read from text."""
        if self.source is None:
            return self.arms
        with suppress(InvalidArgument):
            return read_rows(self.source, other)
        return self.arms

    def _active(self) -> Arms:
        arms = self.arms
        labels = [arms.labels[i] for i in self.positions] if arms.named else None
        columns = arms.columns if arms.named else None
        return Arms(arms.features[self.positions], labels, columns, arms.categories)


def _difference(kept: Arms, given: Arms) -> str:
    """The first thing in which two tables differ, in words; empty if nothing."""
    if kept.named != given.named:
        words = ("have no names", "have names")
        return f"the arms {words[kept.named]} there, and {words[given.named]} here"
    if kept.named and set(kept.labels) != set(given.labels):
        only = [each for each in given.labels if each not in set(kept.labels)]
        gone = [each for each in kept.labels if each not in set(given.labels)]
        return f"arm {only[0]!r} is new" if only else f"arm {gone[0]!r} is missing"
    if kept.features.shape != given.features.shape:
        return f"shape {kept.features.shape} there, {given.features.shape} here"
    if kept.named and sorted(kept.columns) != sorted(given.columns):
        return f"columns {kept.columns} there, {given.columns} here"
    for place, label in enumerate(given.labels):
        mine = kept.features[kept.position(label)]
        for number, column in enumerate(given.columns):
            at = kept.columns.index(column) if kept.named else number
            if mine[at] != given.features[place, number]:
                here = float(given.features[place, number])
                return f"arm {label!r}, column {column}: {float(mine[at])} there, {here} here"
    return ""
