"""Diagnoses of arms and rewards that are in memory."""

from __future__ import annotations

from typing import Any

import rolf


def diagnose(
    features: Any, arms: Any, rewards: Any, *, probabilities: Any = None, **options: Any
) -> rolf.Diagnosis:
    """The diagnosis of a log with these columns."""
    return rolf.diagnose(rolf.Log(arms, probabilities, rewards), features, **options)
