"""rolf: bandits whose features do not tell the whole story."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolf import environments, parallel, theory
    from rolf.arms.reading import read_arms
    from rolf.augment import Augmentation
    from rolf.client.connect import connect, open_experiment
    from rolf.client.experiment import RemoteExperiment
    from rolf.diagnosis.diagnose import diagnose
    from rolf.diagnosis.result import Diagnosis
    from rolf.errors import RolfError, RolfWarning
    from rolf.evaluation.replay import replay
    from rolf.evaluation.result import Evaluation
    from rolf.experiments.database import Database
    from rolf.experiments.experiment import Experiment
    from rolf.experiments.log.decisions import LoggedDecision
    from rolf.experiments.status.pending import Pending
    from rolf.experiments.status.result import Status
    from rolf.logs.log import Log, read_log
    from rolf.policies.policy import Policy
    from rolf.policies.registry import policy_class, policy_classes
    from rolf.policies.rivals.beta_ts import BetaTS
    from rolf.policies.rivals.drlasso import DRLasso
    from rolf.policies.rivals.kl_ucb import KLUCB
    from rolf.policies.rivals.lints import LinTS
    from rolf.policies.rivals.linucb import LinUCB
    from rolf.policies.rivals.linucb_varying import LinUCBVarying
    from rolf.policies.rivals.oful import OFUL
    from rolf.policies.rivals.ucb import UCB
    from rolf.policies.rivals.ucb1 import UCB1
    from rolf.policies.rolf_bayes import RoLFBayes
    from rolf.policies.rolf_bayes_varying import RoLFBayesVarying
    from rolf.policies.rolf_lasso import RoLFLasso
    from rolf.policies.rolf_ridge import RoLFRidge
    from rolf.policies.rolf_varying import RoLFVarying
    from rolf.policies.warm import warm_up
    from rolf.simulation.result import Result, load_result
    from rolf.simulation.simulate import simulate
    from rolf.sweeps.result import Sweep, load_sweep
    from rolf.sweeps.run import sweep
    from rolf.types import Decision

__version__ = "0.1.0"

# Where each public name lives; it is imported when it is first used.
_HOMES = {
    "OFUL": "rolf.policies.rivals.oful",
    "UCB": "rolf.policies.rivals.ucb",
    "UCB1": "rolf.policies.rivals.ucb1",
    "Augmentation": "rolf.augment",
    "BetaTS": "rolf.policies.rivals.beta_ts",
    "DRLasso": "rolf.policies.rivals.drlasso",
    "Database": "rolf.experiments.database",
    "Decision": "rolf.types",
    "Diagnosis": "rolf.diagnosis.result",
    "Evaluation": "rolf.evaluation.result",
    "Experiment": "rolf.experiments.experiment",
    "KLUCB": "rolf.policies.rivals.kl_ucb",
    "LinTS": "rolf.policies.rivals.lints",
    "LinUCB": "rolf.policies.rivals.linucb",
    "LinUCBVarying": "rolf.policies.rivals.linucb_varying",
    "Log": "rolf.logs.log",
    "LoggedDecision": "rolf.experiments.log.decisions",
    "Pending": "rolf.experiments.status.pending",
    "Policy": "rolf.policies.policy",
    "RemoteExperiment": "rolf.client.experiment",
    "Result": "rolf.simulation.result",
    "RoLFBayes": "rolf.policies.rolf_bayes",
    "RoLFBayesVarying": "rolf.policies.rolf_bayes_varying",
    "RoLFLasso": "rolf.policies.rolf_lasso",
    "RoLFRidge": "rolf.policies.rolf_ridge",
    "RoLFVarying": "rolf.policies.rolf_varying",
    "RolfError": "rolf.errors",
    "RolfWarning": "rolf.errors",
    "Status": "rolf.experiments.status.result",
    "Sweep": "rolf.sweeps.result",
    "connect": "rolf.client.connect",
    "diagnose": "rolf.diagnosis.diagnose",
    "environments": "rolf.environments",
    "load_result": "rolf.simulation.result",
    "load_sweep": "rolf.sweeps.result",
    "open_experiment": "rolf.client.connect",
    "parallel": "rolf.parallel",
    "policy_class": "rolf.policies.registry",
    "policy_classes": "rolf.policies.registry",
    "read_arms": "rolf.arms.reading",
    "read_log": "rolf.logs.log",
    "replay": "rolf.evaluation.replay",
    "simulate": "rolf.simulation.simulate",
    "sweep": "rolf.sweeps.run",
    "testing": "rolf.testing",
    "theory": "rolf.theory",
    "warm_up": "rolf.policies.warm",
}
__all__ = [
    "KLUCB",
    "OFUL",
    "UCB",
    "UCB1",
    "Augmentation",
    "BetaTS",
    "DRLasso",
    "Database",
    "Decision",
    "Diagnosis",
    "Evaluation",
    "Experiment",
    "LinTS",
    "LinUCB",
    "LinUCBVarying",
    "Log",
    "LoggedDecision",
    "Pending",
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
    "Status",
    "Sweep",
    "__version__",
    "connect",
    "diagnose",
    "environments",
    "load_result",
    "load_sweep",
    "open_experiment",
    "parallel",
    "policy_class",
    "policy_classes",
    "read_arms",
    "read_log",
    "replay",
    "simulate",
    "sweep",
    "theory",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rolf' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_HOMES[name])
    value = module if module.__name__ == f"rolf.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
