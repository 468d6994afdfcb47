"""The catalogue: every policy by name.

A policy in a file of its own becomes part of the library by one line here; the command
line, the documentation and the tests that hold for every policy walk this table.
"""

from __future__ import annotations

import importlib
from typing import Any

from rolf.errors import UnknownPolicy
from rolf.policies.base import Policy

CATALOG: dict[str, str] = {
    "rolf-bayes": "rolf.policies.rolf_bayes.RoLFBayes",
    "rolf-bayes-varying": "rolf.policies.rolf_bayes_varying.RoLFBayesVarying",
    "rolf-lasso": "rolf.policies.rolf_lasso.RoLFLasso",
    "rolf-ridge": "rolf.policies.rolf_ridge.RoLFRidge",
    "rolf-varying": "rolf.policies.rolf_varying.RoLFVarying",
    "linucb": "rolf.policies.linucb.LinUCB",
    "linucb-varying": "rolf.policies.linucb_varying.LinUCBVarying",
    "lints": "rolf.policies.lints.LinTS",
    "oful": "rolf.policies.oful.OFUL",
    "drlasso": "rolf.policies.drlasso.DRLasso",
    "ucb": "rolf.policies.ucb.UCB",
}


def policy_class(name: str) -> type[Policy]:
    """The class of a catalogue name."""
    if not isinstance(name, str) or name not in CATALOG:
        raise UnknownPolicy("policy", name, "one of " + ", ".join(CATALOG))
    module, _, attribute = CATALOG[name].rpartition(".")
    found: Any = getattr(importlib.import_module(module), attribute)
    return found  # type: ignore[no-any-return]


def policy_classes() -> list[type[Policy]]:
    """All classes of the catalogue, in its order."""
    return [policy_class(name) for name in CATALOG]


policy_classes()  # a saved state names its policy, so all of them must be known
