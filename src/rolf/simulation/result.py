"""The result of a simulation: regret by policy, run and round, and how it was produced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.checks import whole
from rolf.errors import InvalidArgument, RolfError
from rolf.extras import require
from rolf.plots import style
from rolf.plots.regret import Curves, curves_of, regret_figure
from rolf.tables.parquet import PARQUET, check_parquet
from rolf.tables.result_table import ResultTable
from rolf.text import harmless, html_lines
from rolf.types import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMAT, VERSION = "rolf-result", 1
#: how many rows of the table of all runs are printed
SHOWN = 10


@dataclass(frozen=True)
class Row:
    """Cumulative regret of one policy over the runs."""

    policy: str
    runs: int
    rounds: int
    mean: float
    std: float
    stderr: float
    min: float
    q25: float
    median: float
    q75: float
    max: float


class RegretTable(Sequence[dict[str, Any]]):
    """One row per policy, run and kept round, counted from 1; there may be millions."""

    def __init__(self, labels: Sequence[str], regret: FloatArray, points: IntArray) -> None:
        policies, runs, rounds = regret.shape
        self._labels = list(labels)
        self._arrays: dict[str, Any] = {
            "policy": np.repeat(np.array(self._labels, dtype=object), runs * rounds),
            "run": np.tile(np.repeat(np.arange(runs), rounds), policies),
            "round": np.tile(points, policies * runs),
            "regret": regret.ravel(),
        }
        self.columns = list(self._arrays)

    def __len__(self) -> int:
        return int(self._arrays["regret"].size)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        plain = {name: values[[index]].tolist()[0] for name, values in self._arrays.items()}
        return plain

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dicts by column."""
        columns = (values.tolist() for values in self._arrays.values())
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a DataFrame."""
        require("pandas", "a table of results")
        import pandas

        return pandas.DataFrame(self._arrays)

    def to_csv(self, path: str | Path) -> Path:
        """Write the table as CSV."""
        require("pyarrow", "a table of results")
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        labels = {label: harmless(label) for label in self._labels}
        policies = [labels[label] for label in self._arrays["policy"]]
        arrow_csv.write_csv(pa.table({**self._arrays, "policy": policies}), target)
        return target

    def _head(self) -> ResultTable[dict[str, Any]]:
        rest = len(self) - SHOWN
        return ResultTable(self[:SHOWN], note=f"and {rest:,} more rows" if rest > 0 else "")

    def __str__(self) -> str:
        return str(self._head())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._head()._repr_html_()


class Result:
    """Cumulative regret of several policies over many runs.

    Attributes:
        labels: the policies.
        regret: (policies, runs, points), cumulative.
        config: problem, policies, rounds, runs, seed and versions, as plain data.
        points: the rounds after which regret was kept; by default every round, from 1.
    """

    def __init__(
        self,
        labels: Sequence[str],
        regret: FloatArray,
        config: dict[str, Any],
        points: IntArray | None = None,
    ) -> None:
        self.labels = list(labels)
        self.regret = regret
        self.config = config
        every = np.arange(1, regret.shape[2] + 1)
        self.points: IntArray = every if points is None else np.asarray(points)
        self._every = np.array_equal(self.points, every)

    def __getitem__(self, label: str) -> FloatArray:
        """Cumulative regret (runs, points) of one policy."""
        if label not in self.labels:
            raise InvalidArgument("label", label, "one of " + ", ".join(self.labels))
        values: FloatArray = self.regret[self.labels.index(label)]
        return values

    def summary(self, round: int | None = None) -> ResultTable[Row]:
        """Mean, spread and quantiles over the runs after ``round`` rounds, by default all."""
        last = int(self.points[-1])
        if round is not None:
            last = whole("round", round, 1, last)
            if last not in self.points:
                near = self.points[np.searchsorted(self.points, last)]
                expected = f"a round after which regret was kept (.points), such as {near}"
                raise InvalidArgument("round", round, expected)
        column = int(np.searchsorted(self.points, last))
        rows = []
        for label, values in zip(self.labels, self.regret[:, :, column], strict=True):
            runs = values.size
            spread = float(values.std(ddof=1)) if runs > 1 else 0.0
            quantiles = [float(q) for q in np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0])]
            mean = float(values.mean())
            rows.append(Row(label, runs, last, mean, spread, spread / runs**0.5, *quantiles))
        return ResultTable(rows)

    def curves(self) -> Curves:
        """Mean, spread and quantiles over the runs, for every policy and kept round."""
        points = None if self._every else self.points
        return curves_of(self.labels, self.regret, self._policies(), points)

    def _policies(self) -> list[str]:
        """The name of each policy if the configuration has it, otherwise its label."""
        known = self.config.get("policies")
        described = known if isinstance(known, dict) else {}
        entries = [described.get(label) for label in self.labels]
        return [
            str(entry.get("policy", label)) if isinstance(entry, dict) else label
            for label, entry in zip(self.labels, entries, strict=True)
        ]

    def plot(
        self,
        path: str | Path | None = None,
        *,
        title: str | None = None,
        logarithmic: bool = False,
        ax: Axes | None = None,
    ) -> Figure:
        """Regret over rounds: the mean, and a band from 10% to 90% of the runs.

        Args:
            path: where to write the picture; by default it is not written.
            title: title above the picture.
            logarithmic: use a logarithmic axis for regret.
            ax: Matplotlib axes to draw into; a new figure by default.

        Returns the figure.
        """
        figure = regret_figure(self.curves(), title=title, logarithmic=logarithmic, ax=ax)
        return style.finish(figure, path)

    def table(self) -> RegretTable:
        """One row per policy, run and kept round: policy, run, round and regret."""
        return RegretTable(self.labels, self.regret, self.points)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "labels": list(self.labels),
            "points": self.points.tolist(),
            "regret": self.regret.tolist(),
            "config": self.config,
        }

    def save(self, path: str | Path) -> Path:
        """Write a file.

        Parquet (.parquet or .pq): one row per policy and run, with the configuration as metadata;
        ``rolf.load_result`` reads it back. CSV (.csv), for other programs: one row per policy, run
        and round.
        """
        target = Path(path)
        kind = target.suffix.lower()
        if kind not in (".csv", *PARQUET):
            endings = ".parquet (or .pq), which rolf.load_result reads back, or .csv"
            raise InvalidArgument("path", str(path), f"a file that ends in {endings}")
        if kind == ".csv":
            return self.table().to_csv(target)
        require("pyarrow", "saving a result")
        import pyarrow as pa
        import pyarrow.parquet as pq

        policies, runs, rounds = self.regret.shape
        table = pa.table(
            {
                "policy": np.repeat(np.array(self.labels, dtype=object), runs),
                "run": np.tile(np.arange(runs), policies),
                "regret": pa.FixedSizeListArray.from_arrays(self.regret.ravel(), rounds),
            }
        )
        header = {
            "format": FORMAT,
            "version": VERSION,
            "labels": self.labels,
            "config": self.config,
            "points": None if self._every else self.points.tolist(),
        }
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.replace_schema_metadata({"rolf": json.dumps(header)}), target)
        return target

    def _repr_html_(self) -> str:
        return f"{html_lines(self._head())}{self.summary()._repr_html_()}"

    def _head(self) -> str:
        return f"Cumulative regret: {self._size()}"

    def __repr__(self) -> str:
        return f"<Result of {self._size()}>"

    def _size(self) -> str:
        policies, runs, points = self.regret.shape
        kept = "" if self._every else f" ({points} of them kept)"
        return f"{policies} policies, {runs} runs, {self.points[-1]} rounds{kept}"


def load_result(path: str | Path) -> Result:
    """Load a result written by ``Result.save``."""
    require("pyarrow", "reading a result")
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(path).exists():
        raise RolfError(f"{path}: does not exist")
    if Path(path).suffix.lower() == ".csv":
        raise RolfError(f"{path}: is CSV, for other programs; load_result reads Parquet")
    try:
        check_parquet(path)
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise RolfError(f"{path}: cannot be read as Parquet ({error})") from error
    try:
        header = json.loads((table.schema.metadata or {}).get(b"rolf", b"{}"))
        written_by_rolf = header.get("format") == FORMAT
    except (ValueError, AttributeError, RecursionError):
        written_by_rolf = False
    if not written_by_rolf:
        raise RolfError(f"{path}: was not written by rolf")
    if header.get("version") != VERSION:
        raise RolfError(f"{path}: has version {header.get('version')}, this rolf reads {VERSION}")
    try:
        labels = [str(label) for label in header["labels"]]
        flat = table.column("regret").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        runs = table.num_rows // max(len(labels), 1)
        regret = flat.astype(np.float64, copy=False).reshape(len(labels), runs, -1)
        kept = header["points"]
        points = None if kept is None else np.array(kept, dtype=np.int64)
        if points is not None and (points.shape != regret.shape[2:] or (np.diff(points) < 1).any()):
            raise ValueError("points")
        return Result(labels, regret, dict(header["config"]), points)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RolfError(f"{path}: is damaged ({error!r})") from error


def versions() -> dict[str, str]:
    """Versions of the software a result depends on."""
    import platform
    from importlib import metadata

    out = {"python": platform.python_version()}
    for name in ("rolf-bandits", "numpy", "numba"):
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = "not installed"
    return out
