"""What an evaluation on a log gives back: one row a policy and estimator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolf.errors import InvalidArgument
from rolf.plots.regret import COLOURS, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOGGED = "as logged"
MARKERS = {"replay": "s", "ips": "o", "snips": "^", "dr": "D"}
TITLES = {
    "replay": "replay (learns on the way)",
    "ips": "inverse propensity",
    "snips": "self-normalised",
    "dr": "doubly robust",
}


@dataclass(frozen=True)
class Value:
    """What a policy is worth a decision, by one estimator.

    Attributes:
        policy: its label.
        estimator: "replay", "ips", "snips" or "dr"; "mean" for the log itself.
        value: estimated mean reward of a decision.
        low: lower end of the confidence interval.
        high: upper end.
        effective: how many decisions the value rests on: those that were accepted, or the
            effective sample size (sum w)^2 / sum w^2 of the importance weights w.
    """

    policy: str
    estimator: str
    value: float
    low: float
    high: float
    effective: float


class Evaluation(Sequence[Value]):
    """A table with one row a policy and estimator; the log's own mean comes first.

    Attributes:
        rows: the values.
        level: of the confidence intervals.
        decisions: how many were in the log.
        notes: what to know when reading the values, as sentences.
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

        def plain(row: Value) -> dict[str, Any]:
            given = asdict(row).items()
            return {k: v if isinstance(v, str) or math.isfinite(v) else None for k, v in given}

        return {
            "level": self.level,
            "decisions": self.decisions,
            "rows": [plain(row) for row in self.rows],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        head = ["policy", "estimator", "value", "low", "high", "effective"]
        digits = self._digits()
        body = [
            [
                row.policy,
                row.estimator,
                *(f"{each:.{digits}f}" for each in (row.value, row.low, row.high)),
                f"{row.effective:.0f}",
            ]
            for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        lines = []
        for cells in [head, *body]:
            left = [c.ljust(w) for c, w in zip(cells[:2], widths[:2], strict=True)]
            right = [c.rjust(w) for c, w in zip(cells[2:], widths[2:], strict=True)]
            lines.append("  ".join([*left, *right]))
        return "\n".join(lines)

    __repr__ = __str__

    def _digits(self) -> int:
        """Decimals that show the narrowest interval with two digits."""
        widths = [row.high - row.low for row in self.rows if row.high > row.low]
        return min(max(1 - math.floor(math.log10(min([1.0, *widths]))), 2), 9)

    def plot(self, path: str | Path | None = None, *, title: str | None = None) -> Figure:
        """Values and intervals of every policy, beside the log's own mean."""
        from matplotlib.figure import Figure

        policies = list(dict.fromkeys(row.policy for row in self.rows if row.policy != LOGGED))
        used = [name for name in TITLES if any(row.estimator == name for row in self.rows)]
        gap = len(used) + 1
        height = 1.9 + 0.24 * gap * len(policies)
        figure = Figure(figsize=(7.5, height), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        for row in self.rows:
            if row.policy == LOGGED:
                axes.axvspan(row.low, row.high, color="#dddddd", alpha=0.6, linewidth=0)
                axes.axvline(row.value, color="#555555", linewidth=1.0, linestyle="--")
                continue
            place = policies.index(row.policy) * gap + used.index(row.estimator)
            colour = COLOURS[list(TITLES).index(row.estimator)]
            if math.isfinite(row.low + row.high):
                axes.plot([row.low, row.high], [place, place], color=colour, linewidth=1.8)
            axes.plot(row.value, place, MARKERS[row.estimator], color=colour, markersize=5.5)
            axes.annotate(
                f"{row.effective:,.0f}",
                (1.0, place),
                (6, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color="#555555",
            )
        axes.annotate(
            "decisions\nit rests on",
            (1.0, 1.0),
            (6, 4),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=8,
            color="#555555",
        )
        centres = [index * gap + (len(used) - 1) / 2 for index in range(len(policies))]
        axes.set_yticks(centres, [name.replace("$", r"\$") for name in policies])
        axes.tick_params(axis="y", length=0)
        for index in range(1, len(policies)):
            axes.axhline(index * gap - 1, color="#dddddd", linewidth=0.8)
        axes.set_ylim(gap * len(policies) - 1, -1)
        axes.set_xlabel("mean reward of a decision")
        note = f"lines and grey band: {100 * self.level:g}% confidence intervals"
        axes.set_title(note, loc="right", fontsize=8, color="#555555")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.grid(axis="x", color="#eeeeee", linewidth=0.6)
        axes.set_axisbelow(True)
        shown = "Policies on logged decisions" if title is None else title
        axes.set_title(shown.replace("$", r"\$"), loc="left", fontsize=11)
        self._legend(figure, used)
        if path is not None:
            save(figure, path)
        return figure

    def _legend(self, figure: Figure, used: list[str]) -> None:
        from matplotlib.lines import Line2D

        handles = [
            Line2D(
                [],
                [],
                color=COLOURS[list(TITLES).index(name)],
                marker=MARKERS[name],
                markersize=5.5,
                linewidth=1.8,
                label=TITLES[name],
            )
            for name in used
        ]
        handles.append(Line2D([], [], color="#555555", linestyle="--", label="mean as logged"))
        figure.legend(
            handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5
        )
