"""Types shared by all layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Generator: TypeAlias = np.random.Generator
Seed: TypeAlias = "int | np.random.SeedSequence | np.random.Generator | None"
Label: TypeAlias = Hashable


class Choice(NamedTuple):
    """A policy's choice in one round; arms are positions 0..K-1."""

    arm: int
    probability: float  # of this arm in this round; NaN if only draws can estimate it
    greedy: int  # the arm the draw was centred on
    pseudo: int  # the pseudo-action; the arm itself where a policy has none
    matched: bool  # whether the reward enters the estimators


class Decision:
    """One decision: play ``arm``, then tell the reward under ``id``.

    Attributes:
        id: to pass to ``tell``; unique to the policy that issued it.
        arm: the arm to play, by its name if the features name their arms.
        probability: of this arm, before it was drawn. For Thompson sampling, draws estimate it when
            it is first read.
        greedy: the arm the draw was centred on: the best by estimate, or a uniform
            draw in RoLF's forced exploration.
        matched: whether the reward will enter the estimates (RoLF's coupling).
    """

    __slots__ = ("_probability", "arm", "greedy", "id", "matched")

    def __init__(
        self,
        id: str,
        arm: Any,
        probability: float | Callable[[], float],
        greedy: Any,
        matched: bool,
    ) -> None:
        self.id = id
        self.arm = arm
        self._probability = probability
        self.greedy = greedy
        self.matched = matched

    @property
    def probability(self) -> float:
        if callable(self._probability):
            self._probability = self._probability()
        return self._probability

    def to_dict(self) -> dict[str, Any]:
        """The decision as plain data."""
        return {
            "id": self.id,
            "arm": self.arm,
            "probability": self.probability,
            "greedy": self.greedy,
            "matched": self.matched,
        }

    def _shown(self) -> dict[str, str]:
        """The fields as text. A probability that would have to be estimated is not."""
        known = not callable(self._probability)
        fields = {"id": repr(self.id), "arm": repr(self.arm)}
        fields["probability"] = repr(self.probability) if known else "<estimated when read>"
        return {**fields, "greedy": repr(self.greedy), "matched": repr(self.matched)}

    def __repr__(self) -> str:
        return f"Decision({', '.join(f'{name}={value}' for name, value in self._shown().items())})"

    def _repr_html_(self) -> str:
        from rolf.text import html_table

        fields = self._shown()
        return html_table([list(fields), list(fields.values())], left=len(fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decision) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.id)
