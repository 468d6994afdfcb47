"""The catalogue: every policy of the library, by name.

A policy in a file of its own becomes part of the library by one line here. The command line, the
documentation and the tests that hold for every policy walk this table.
"""

from __future__ import annotations

#: of a new experiment that names none
DEFAULT_POLICY = "rolf-bayes"
DEFAULT_VARYING = "rolf-bayes-varying"

CATALOG: dict[str, str] = {
    "rolf-bayes": "rolf.policies.rolf_bayes:RoLFBayes",
    "rolf-bayes-varying": "rolf.policies.rolf_bayes_varying:RoLFBayesVarying",
    "rolf-lasso": "rolf.policies.rolf_lasso:RoLFLasso",
    "rolf-ridge": "rolf.policies.rolf_ridge:RoLFRidge",
    "rolf-varying": "rolf.policies.rolf_varying:RoLFVarying",
    "linucb": "rolf.policies.linucb:LinUCB",
    "linucb-varying": "rolf.policies.linucb_varying:LinUCBVarying",
    "lints": "rolf.policies.lints:LinTS",
    "oful": "rolf.policies.oful:OFUL",
    "drlasso": "rolf.policies.drlasso:DRLasso",
    "ucb": "rolf.policies.ucb:UCB",
    "ucb1": "rolf.policies.ucb1:UCB1",
    "kl-ucb": "rolf.policies.kl_ucb:KLUCB",
    "beta-ts": "rolf.policies.beta_ts:BetaTS",
}
