"""The catalogue: every policy by name.

A policy in a file of its own becomes part of the library by one line here; the command
line, the documentation and the tests that hold for every policy walk this table.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Iterable
from typing import Any

from rolf.errors import InvalidArgument, UnknownPolicy
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
        raise UnknownPolicy("policy", name, _one_of(name, CATALOG))
    module, _, attribute = CATALOG[name].rpartition(".")
    found: Any = getattr(importlib.import_module(module), attribute)
    return found  # type: ignore[no-any-return]


def check_options(name: str, options: Iterable[str]) -> None:
    """Whether a policy of the catalogue has all of these options."""
    parameters = inspect.signature(policy_class(name)).parameters
    known = [each for each in parameters if each not in ("features", "seed")]
    for option in options:
        if option not in known:
            wanted = f"an option of {name}, {_one_of(option, known)}"
            raise InvalidArgument("options", option, wanted)


def _one_of(got: Any, known: Iterable[str]) -> str:
    """What there is, and what was probably meant."""
    names = list(known)
    close = difflib.get_close_matches(got, names, n=1) if isinstance(got, str) else []
    return "one of " + ", ".join(names) + "".join(f"; did you mean {each!r}?" for each in close)


def policy_classes() -> list[type[Policy]]:
    """All classes of the catalogue, in its order."""
    return [policy_class(name) for name in CATALOG]


policy_classes()  # a saved state names its policy, so all of them must be known
