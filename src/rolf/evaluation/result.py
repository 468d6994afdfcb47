"""The result of an evaluation on a log: one row per policy and estimator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolf.errors import InvalidArgument
from rolf.plots.evaluation import evaluation_figure
from rolf.plots.style import finish
from rolf.tables.result_table import ResultTable, save_result
from rolf.text import format_table, html_lines, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOGGED = "as logged"


@dataclass(frozen=True)
class Value:
    """The mean reward per decision of a policy, according to one estimator.

    Attributes:
        policy: the policy's label.
        estimator: "replay", "ips", "snips" or "dr"; "mean" for the log itself.
        value: the estimated mean reward per decision.
        low: lower end of the confidence interval.
        high: upper end.
        effective: how many decisions the value rests on: the accepted ones, or the effective sample
            size (sum w)^2 / sum w^2 of the importance weights w.
    """

    policy: str
    estimator: str
    value: float
    low: float
    high: float
    effective: float


class Evaluation(Sequence[Value]):
    """A table with one row per policy and estimator; the log's own mean comes first.

    Attributes:
        rows: the values.
        level: of the confidence intervals.
        decisions: the number of decisions in the log.
        notes: what to know when reading the values, in sentences.
    """

    def __init__(
        self, rows: Sequence[Value], level: float, decisions: int, notes: Sequence[str]
    ) -> None:
        self.rows = list(rows)
        self.level = level
        self.decisions = decisions
        self.notes = list(notes)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.rows)

    def find(self, policy: str, estimator: str) -> Value:
        """The row of one policy and estimator."""
        for row in self.rows:
            if (row.policy, row.estimator) == (policy, estimator):
                return row
        known = ", ".join(f"{row.policy}/{row.estimator}" for row in self.rows)
        raise InvalidArgument("policy and estimator", f"{policy}/{estimator}", f"one of {known}")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data; None where a number is not finite."""
        return {
            "level": self.level,
            "decisions": self.decisions,
            "rows": [
                {
                    name: value if isinstance(value, str) or math.isfinite(value) else None
                    for name, value in asdict(row).items()
                }
                for row in self.rows
            ],
            "notes": list(self.notes),
        }

    def table(self) -> ResultTable[Value]:
        """One row per policy and estimator."""
        return ResultTable(self.rows, left=2)

    def save(self, path: str | Path) -> Path:
        """Write everything as JSON (.json), or the values as CSV (.csv)."""
        return save_result(self, path)

    def _lines(self) -> list[list[str]]:
        digits = self._digits()
        lines = [["policy", "estimator", "value", "low", "high", "effective"]]
        for row in self.rows:
            numbers = [f"{number:.{digits}f}" for number in (row.value, row.low, row.high)]
            lines.append([row.policy, row.estimator, *numbers, f"{row.effective:.0f}"])
        return lines

    def __str__(self) -> str:
        return format_table(self._lines(), left=2)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = f"{self.decisions} decisions; {100 * self.level:g}% confidence intervals"
        return html_lines(head, *self.notes) + html_table(self._lines(), left=2)

    def _digits(self) -> int:
        """Enough decimals to show the narrowest interval with two digits."""
        widths = [row.high - row.low for row in self.rows if row.high > row.low]
        return min(max(1 - math.floor(math.log10(min([1.0, *widths]))), 2), 9)

    def plot(
        self, path: str | Path | None = None, *, title: str | None = None, ax: Axes | None = None
    ) -> Figure:
        """Values and intervals of every policy, beside the log's own mean.

        Saved to ``path`` and drawn into the Matplotlib axes ``ax``, if these are given.
        """
        figure = evaluation_figure(
            [row for row in self.rows if row.policy != LOGGED],
            next((row for row in self.rows if row.policy == LOGGED), None),
            title="Policies on logged decisions" if title is None else title,
            level=self.level,
            ax=ax,
        )
        return finish(figure, path)
