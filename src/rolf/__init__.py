"""rolf: bandits whose features do not tell the whole story."""

from rolf import environments
from rolf.augment import Augmentation
from rolf.engine import simulate
from rolf.errors import RolfError, RolfWarning
from rolf.policies.base import Policy
from rolf.policies.catalog import policy_class, policy_classes
from rolf.policies.drlasso import DRLasso
from rolf.policies.lints import LinTS
from rolf.policies.linucb import LinUCB
from rolf.policies.linucb_varying import LinUCBVarying
from rolf.policies.oful import OFUL
from rolf.policies.rolf_lasso import RoLFLasso
from rolf.policies.rolf_ridge import RoLFRidge
from rolf.policies.rolf_varying import RoLFVarying
from rolf.policies.ucb import UCB
from rolf.results import Result, load
from rolf.types import Decision

__version__ = "0.1.0"

__all__ = [
    "OFUL",
    "UCB",
    "Augmentation",
    "DRLasso",
    "Decision",
    "LinTS",
    "LinUCB",
    "LinUCBVarying",
    "Policy",
    "Result",
    "RoLFLasso",
    "RoLFRidge",
    "RoLFVarying",
    "RolfError",
    "RolfWarning",
    "__version__",
    "environments",
    "load",
    "policy_class",
    "policy_classes",
    "simulate",
]
