"""rolf: bandits whose features do not tell the whole story."""

from typing import TYPE_CHECKING, Any

from rolf.augment import Augmentation
from rolf.errors import RolfError, RolfWarning
from rolf.policies.base import Policy
from rolf.policies.catalog import policy_class, policy_classes
from rolf.policies.drlasso import DRLasso
from rolf.policies.lints import LinTS
from rolf.policies.linucb import LinUCB
from rolf.policies.linucb_varying import LinUCBVarying
from rolf.policies.oful import OFUL
from rolf.policies.rolf_bayes import RoLFBayes
from rolf.policies.rolf_bayes_varying import RoLFBayesVarying
from rolf.policies.rolf_lasso import RoLFLasso
from rolf.policies.rolf_ridge import RoLFRidge
from rolf.policies.rolf_varying import RoLFVarying
from rolf.policies.ucb import UCB
from rolf.types import Decision

if TYPE_CHECKING:
    from rolf import diagnostics, environments, theory
    from rolf.engine import simulate
    from rolf.experiments.experiment import Experiment
    from rolf.experiments.logs import read_log
    from rolf.experiments.opening import list_experiments, open  # noqa: A004
    from rolf.experiments.replay import replay
    from rolf.results import Result, load

__version__ = "0.1.0"

# What decisions do not need is imported when it is first used.
_LATER = {
    "Experiment": "rolf.experiments.experiment",
    "Result": "rolf.results",
    "diagnostics": "rolf.diagnostics",
    "environments": "rolf.environments",
    "list_experiments": "rolf.experiments.opening",
    "load": "rolf.results",
    "open": "rolf.experiments.opening",
    "read_log": "rolf.experiments.logs",
    "replay": "rolf.experiments.replay",
    "simulate": "rolf.engine",
    "theory": "rolf.theory",
}

__all__ = [
    "OFUL",
    "UCB",
    "Augmentation",
    "DRLasso",
    "Decision",
    "Experiment",
    "LinTS",
    "LinUCB",
    "LinUCBVarying",
    "Policy",
    "Result",
    "RoLFBayes",
    "RoLFBayesVarying",
    "RoLFLasso",
    "RoLFRidge",
    "RoLFVarying",
    "RolfError",
    "RolfWarning",
    "__version__",
    "diagnostics",
    "environments",
    "list_experiments",
    "load",
    "open",
    "policy_class",
    "policy_classes",
    "read_log",
    "replay",
    "simulate",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'rolf' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LATER[name])
    return module if module.__name__ == f"rolf.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
