"""rolf: bandits whose features do not tell the whole story."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolf import diagnosis, environments, parallel, theory
    from rolf.arms.reading import read_arms
    from rolf.augment import Augmentation
    from rolf.client.remote import RemoteExperiment
    from rolf.client.service import Service, connect
    from rolf.errors import RolfError, RolfWarning
    from rolf.evaluation.logs import Log, read_log
    from rolf.evaluation.replay import replay
    from rolf.evaluation.result import Evaluation
    from rolf.experiments.backup import backup, restore
    from rolf.experiments.experiment import Experiment
    from rolf.experiments.opening import delete_experiment, list_experiments, open_experiment
    from rolf.experiments.status import Status
    from rolf.experiments.transfer import export_log, import_log
    from rolf.policies.base import Policy
    from rolf.policies.beta_ts import BetaTS
    from rolf.policies.drlasso import DRLasso
    from rolf.policies.kl_ucb import KLUCB
    from rolf.policies.lints import LinTS
    from rolf.policies.linucb import LinUCB
    from rolf.policies.linucb_varying import LinUCBVarying
    from rolf.policies.oful import OFUL
    from rolf.policies.registry import policy_class, policy_classes
    from rolf.policies.rolf_bayes import RoLFBayes
    from rolf.policies.rolf_bayes_varying import RoLFBayesVarying
    from rolf.policies.rolf_lasso import RoLFLasso
    from rolf.policies.rolf_ridge import RoLFRidge
    from rolf.policies.rolf_varying import RoLFVarying
    from rolf.policies.ucb import UCB
    from rolf.policies.ucb1 import UCB1
    from rolf.policies.warm import warm_up
    from rolf.simulation.results import Result, load_result
    from rolf.simulation.tasks import simulate
    from rolf.sweeps.result import Sweep, load_sweep
    from rolf.sweeps.running import sweep
    from rolf.types import Decision

    open, load, diagnostics = open_experiment, load_result, diagnosis

__version__ = "0.1.0"

# Where each public name lives; it is imported when it is first used.
_HOMES = {
    "OFUL": "rolf.policies.oful",
    "UCB": "rolf.policies.ucb",
    "UCB1": "rolf.policies.ucb1",
    "Augmentation": "rolf.augment",
    "BetaTS": "rolf.policies.beta_ts",
    "DRLasso": "rolf.policies.drlasso",
    "Decision": "rolf.types",
    "Evaluation": "rolf.evaluation.result",
    "Experiment": "rolf.experiments.experiment",
    "KLUCB": "rolf.policies.kl_ucb",
    "LinTS": "rolf.policies.lints",
    "LinUCB": "rolf.policies.linucb",
    "LinUCBVarying": "rolf.policies.linucb_varying",
    "Log": "rolf.evaluation.logs",
    "Policy": "rolf.policies.base",
    "RemoteExperiment": "rolf.client.remote",
    "Result": "rolf.simulation.results",
    "RoLFBayes": "rolf.policies.rolf_bayes",
    "RoLFBayesVarying": "rolf.policies.rolf_bayes_varying",
    "RoLFLasso": "rolf.policies.rolf_lasso",
    "RoLFRidge": "rolf.policies.rolf_ridge",
    "RoLFVarying": "rolf.policies.rolf_varying",
    "RolfError": "rolf.errors",
    "RolfWarning": "rolf.errors",
    "Service": "rolf.client.service",
    "Status": "rolf.experiments.status",
    "Sweep": "rolf.sweeps.result",
    "backup": "rolf.experiments.backup",
    "connect": "rolf.client.service",
    "delete_experiment": "rolf.experiments.opening",
    "diagnosis": "rolf.diagnosis",
    "environments": "rolf.environments",
    "export_log": "rolf.experiments.transfer",
    "import_log": "rolf.experiments.transfer",
    "list_experiments": "rolf.experiments.opening",
    "load_result": "rolf.simulation.results",
    "load_sweep": "rolf.sweeps.result",
    "open_experiment": "rolf.experiments.opening",
    "parallel": "rolf.parallel",
    "policy_class": "rolf.policies.registry",
    "policy_classes": "rolf.policies.registry",
    "read_arms": "rolf.arms.reading",
    "read_log": "rolf.evaluation.logs",
    "replay": "rolf.evaluation.replay",
    "restore": "rolf.experiments.backup",
    "simulate": "rolf.simulation.tasks",
    "sweep": "rolf.sweeps.running",
    "testing": "rolf.testing",
    "theory": "rolf.theory",
    "warm_up": "rolf.policies.warm",
}
# Older and shorter names, left out of ``__all__``: ``from rolf import *`` must not hide the
# built-in ``open``.
_ALIASES = {"open": "open_experiment", "load": "load_result", "diagnostics": "diagnosis"}

__all__ = [
    "KLUCB",
    "OFUL",
    "UCB",
    "UCB1",
    "Augmentation",
    "BetaTS",
    "DRLasso",
    "Decision",
    "Evaluation",
    "Experiment",
    "LinTS",
    "LinUCB",
    "LinUCBVarying",
    "Log",
    "Policy",
    "RemoteExperiment",
    "Result",
    "RoLFBayes",
    "RoLFBayesVarying",
    "RoLFLasso",
    "RoLFRidge",
    "RoLFVarying",
    "RolfError",
    "RolfWarning",
    "Service",
    "Status",
    "Sweep",
    "__version__",
    "backup",
    "connect",
    "delete_experiment",
    "diagnosis",
    "environments",
    "export_log",
    "import_log",
    "list_experiments",
    "load_result",
    "load_sweep",
    "open_experiment",
    "parallel",
    "policy_class",
    "policy_classes",
    "read_arms",
    "read_log",
    "replay",
    "restore",
    "simulate",
    "sweep",
    "theory",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    known = _ALIASES.get(name, name)
    if known not in _HOMES:
        raise AttributeError(f"module 'rolf' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_HOMES[known])
    value = module if module.__name__ == f"rolf.{known}" else getattr(module, known)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
