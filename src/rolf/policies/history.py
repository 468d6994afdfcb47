"""Checks of a history, which a policy can learn from before its first ask: rounds, or totals per
arm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rolf.checks import MAX_COUNT, MAX_REWARD, as_number, vector
from rolf.errors import InvalidArgument
from rolf.estimators.contract import ArmTotals
from rolf.types import FloatArray


def checked_probabilities(values: Any, count: int, arms: int) -> FloatArray:
    """The probabilities with which a history's arms were chosen; uniform if None."""
    if values is None:
        return np.full(count, 1.0 / arms)
    table = np.array(values, dtype=np.float64).ravel()
    if table.size != count or not ((table > 0.0) & (table <= 1.0)).all():
        raise InvalidArgument("probabilities", values, f"{count} probabilities in (0, 1]")
    return table


def checked_totals(
    counts: Any,
    sums: Any,
    squares: Any,
    level: Any,
    *,
    arms: int,
    reward_range: tuple[float, float],
) -> ArmTotals:
    """Checked totals per arm; raises if no rewards could have them."""
    columns = {"counts": counts, "sums": sums, "squares": sums if squares is None else squares}
    counts, sums, squared = (vector(name, values, "arm", arms) for name, values in columns.items())
    level = as_number(level)
    if (counts < 0.0).any() or (counts != np.floor(counts)).any():
        raise InvalidArgument("counts", counts.tolist(), "whole numbers, at least 0")
    if counts.sum() > MAX_COUNT:
        raise InvalidArgument("counts", counts.tolist(), f"at most {MAX_COUNT} altogether")
    _check_sums(counts, sums, level, reward_range)
    least = sums**2 / np.maximum(counts, 1.0)
    if (squared > counts * (2.0 * MAX_REWARD) ** 2).any():
        raise InvalidArgument("squares", squares, f"of rewards of size up to {MAX_REWARD:g}")
    if squares is not None and (squared < least * (1.0 - 1e-9) - 1e-300).any():
        raise InvalidArgument("squares", squares, "at least sums**2/counts")
    return ArmTotals(counts, sums, squared, level)


def _check_sums(
    counts: FloatArray, sums: FloatArray, level: float, reward_range: tuple[float, float]
) -> None:
    """Refuse sums that are impossible for any rewards."""
    if (sums[counts == 0.0] != 0.0).any():
        raise InvalidArgument("sums", sums.tolist(), "0 where counts are 0")
    low, high = reward_range
    means = sums[counts > 0.0] / counts[counts > 0.0] + level
    slack = 1e-9 * max(1.0, abs(level))
    if ((means < low - slack) | (means > high + slack)).any():
        expected = f"sums of rewards from {low:g} to {high:g}"
        raise InvalidArgument("sums", sums.tolist(), expected)


def rounds_explored(played: FloatArray, known: FloatArray, forced: float) -> int:
    """How many rounds of a history count as forced exploration: for each arm, up to its equal share
    of the ``forced`` rounds, less its earlier rewards.

    Args:
        played: (K,) how often each arm is in the history.
        known: (K,) the number of rewards already known.
    """
    share = forced / played.size
    if share == 0.0:
        return 0
    missing = np.maximum(share - known, 0.0)
    explored = math.ceil(float(np.minimum(played, missing).sum()) - 1e-9)
    return min(int(played.sum()), explored)
