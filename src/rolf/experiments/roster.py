"""The arms of an experiment: they come and go, but each keeps its position."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rolf.arms.reading import is_table, needs_recipe, read_rows, rows_and_notes, understand
from rolf.arms.table import Arms, check_names, number_table
from rolf.errors import (
    DifferentExperiment,
    ExperimentError,
    ExperimentPaused,
    InvalidArgument,
    RolfWarning,
)
from rolf.tables.raw import TableSource, index_labels, read_source
from rolf.tables.recipe import Recipe
from rolf.types import FloatArray, IntArray


class Roster:
    """Features and names of all arms, retired ones included, and which of them are active.

    While the experiment is paused, no arm can be chosen.
    """

    def __init__(
        self,
        arms: Arms,
        active: list[bool] | None = None,
        source: TableSource | None = None,
        notes: Sequence[str] = (),
        paused: bool = False,
    ) -> None:
        self.arms = arms
        self.source = source  # the table from which a recipe read the arms
        self.notes = notes  # notes on how it was read
        self.active = [True] * arms.count if active is None else active
        self.paused = paused
        self.positions: IntArray = np.flatnonzero(self.active)

    @classmethod
    def read(cls, features: Any, missing: str = "impute") -> Roster:
        """Read the roster from a user's table: numbers, a DataFrame, or a file."""
        source = read_source(features) if is_table(features) else None
        reading = None if source is None else understand(source, missing=missing)
        arms = Arms.read(features) if reading is None else reading.arms
        check_names(arms.labels)
        if len(set(map(str, arms.labels))) < arms.count:  # in log files, names are text
            raise InvalidArgument("features", arms.labels, "arms with names that differ as text")
        if reading is None:
            return cls(arms)
        return cls(arms, source=source, notes=reading.notes)

    def warn(self) -> None:
        """Issue the notes on how the arms were read as warnings, only on first use."""
        for note in self.notes:
            warnings.warn(note, RolfWarning, stacklevel=4)

    @classmethod
    def loads(cls, text: str) -> Roster:
        data = json.loads(text)
        features = np.array(data["features"], dtype=np.float64, order="C")
        recipe = Recipe.from_dict(data["recipe"]) if "recipe" in data else None
        arms = Arms(features, data["labels"], data["columns"], recipe)
        return cls(arms, data["active"], paused=bool(data.get("paused", False)))

    def dumps(self) -> str:
        arms = self.arms
        data: dict[str, Any] = {
            "features": arms.features.tolist(),
            "labels": arms.labels if arms.named else None,
            "columns": arms.columns if arms.named else None,
            "active": [bool(each) for each in self.active],
        }
        if arms.recipe is not None:
            data["recipe"] = arms.recipe.to_dict()
        if self.paused:
            data["paused"] = True
        return json.dumps(data)

    def available(self, labels: Any) -> IntArray:
        """Positions of the arms to decide among: the active ones, or those with these labels."""
        if self.paused:
            raise ExperimentPaused("the experiment is paused: resume it before asking")
        return self.active_among(labels)

    def active_among(self, labels: Any) -> IntArray:
        """Positions of the active arms, or of those with these labels."""
        if not self.positions.size:
            raise all_retired()
        if labels is None:
            return self.positions
        positions = self.arms.subset(labels)
        active: IntArray = positions[np.array(self.active)[positions]]
        if not active.size:
            retired = [self.arms.labels[position] for position in positions]
            raise InvalidArgument("available", retired, "at least one arm that is not retired")
        return active

    def named(self, positions: IntArray) -> list[Any]:
        """The names of the arms at these positions."""
        return [self.arms.labels[position] for position in positions]

    # --- changes: their form in the log, and their effect ---

    def addition(self, features: Any) -> dict[str, Any]:
        rows = self._rows(features)
        if rows.named != self.arms.named:
            expected = "a DataFrame with their names as index" if self.arms.named else "no names"
            raise InvalidArgument("features", rows.labels, f"new arms with {expected}")
        taken = {*self.arms.labels, *map(str, self.arms.labels)}
        if rows.named and (known := [x for x in rows.labels if x in taken or str(x) in taken]):
            raise InvalidArgument("features", known, "new arms")
        labels = rows.labels if rows.named else None
        return {"add": {"labels": labels, "features": rows.features.tolist()}}

    def retirement(self, labels: Any) -> dict[str, Any]:
        if isinstance(labels, str) or not hasattr(labels, "__iter__"):
            labels = [labels]
        return {"retire": [self.arms.position(label, "ids") for label in labels]}

    def restoration(self, labels: Any) -> dict[str, Any]:
        return {"restore": self.retirement(labels)["retire"]}

    def correction(self, features: Any) -> dict[str, Any]:
        """New features for the arms named in a mapping or table, or for all arms."""
        if isinstance(features, dict):
            labels, table = list(features), self._checked(list(features.values()))
        else:
            rows = self._rows(features)
            count = None if rows.named else self.arms.count
            labels, table = rows.labels, number_table(rows.features, rows=count)
        positions = [self.arms.position(label, "features") for label in labels]
        return {"update": {"arms": positions, "features": table.tolist()}}

    def _rows(self, features: Any) -> Arms:
        """Read rows for a table like this one."""
        if needs_recipe(features, self.arms):
            return self.relabelled(read_rows(features, self.arms))
        if isinstance(features, Arms):
            if features.columns != self.arms.columns:
                raise InvalidArgument("features", features.columns, f"columns {self.arms.columns}")
            labels = features.labels if features.named else None
            return Arms(self._checked(features.features), labels)
        labels = index_labels(features)
        if labels is not None and self.arms.named:
            features = self.arms.ordered_columns(features)
        return Arms(self._checked(features), labels)

    def relabelled(self, rows: Arms) -> Arms:
        """Convert names in rows from a file, which are text, to the names used here."""
        known = {str(label): label for label in self.arms.labels}
        if not self.arms.named:
            following = [str(self.arms.count + place) for place in range(rows.count)]
            if [str(label) for label in rows.labels] == following:
                return Arms(rows.features, None)
        numbered = all(isinstance(label, int) for label in self.arms.labels)

        def relabel(label: Any) -> Any:
            number = numbered and isinstance(label, str) and label.isdecimal()
            return known.get(str(label), int(label) if number else label)

        return Arms(rows.features, [relabel(label) for label in rows.labels], rows.columns)

    def _checked(self, features: Any) -> FloatArray:
        rows = number_table(features, columns=len(self.arms.columns))
        if not rows.size:
            raise InvalidArgument("features", features, "at least one arm")
        return rows

    def changed(self, change: dict[str, Any]) -> Roster:
        """The roster after a change recorded in the log."""
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
            for position in change.get("retire", ()):
                active[position] = False
            for position in change.get("restore", ()):
                active[position] = True
        paused = bool(change.get("paused", self.paused))
        return Roster(arms.with_rows(features, labels), active, paused=paused)

    # --- comparison with a table passed again ---

    def check_same(self, other: Roster, first: Roster) -> None:
        """Raise unless the other roster equals this one, its active arms, or the first one."""
        candidates = [first.arms, self.arms, self._active_arms()]
        if any(not _difference(each, other._read_like(each)) for each in candidates):
            return
        difference = _difference(self.arms, other._read_like(self.arms))
        raise DifferentExperiment(
            f"features: {difference}; add_arms, retire_arms and update_features change arms"
        )

    def _read_like(self, other: Arms) -> Arms:
        """The arms in the columns of another table, if they were read from text."""
        if self.source is None:
            return self.arms
        with suppress(InvalidArgument):
            return rows_and_notes(self.source, other)[0]
        return self.arms

    def _active_arms(self) -> Arms:
        labels = [self.arms.labels[i] for i in self.positions]
        return self.arms.with_rows(self.arms.features[self.positions], labels)


def _difference(recorded: Arms, other: Arms) -> str:
    """The first difference between two tables as text; empty if there is none."""
    if recorded.named != other.named:
        words = ("have no names", "have names")
        return f"the arms {words[recorded.named]} there, and {words[other.named]} here"
    there, here = set(recorded.labels), set(other.labels)
    if recorded.named and there != here:
        new = [label for label in other.labels if label not in there]
        missing = [label for label in recorded.labels if label not in here]
        return f"arm {new[0]!r} is new" if new else f"arm {missing[0]!r} is missing"
    if recorded.features.shape != other.features.shape:
        return f"shape {recorded.features.shape} there, {other.features.shape} here"
    if recorded.named and sorted(recorded.columns) != sorted(other.columns):
        return f"columns {recorded.columns} there, {other.columns} here"
    for row, label in enumerate(other.labels):
        features = recorded.features[recorded.position(label)]
        for place, column in enumerate(other.columns):
            was = float(features[recorded.columns.index(column) if recorded.named else place])
            now = float(other.features[row, place])
            if was != now:
                return f"arm {label!r}, column {column}: {was} there, {now} here"
    return ""


def all_retired() -> ExperimentError:
    return ExperimentError("all arms are retired: add some before asking")
