"""The catalogue: every policy of the library, by name.

One line here makes a policy part of the library. The command line, the documentation and the tests
of all policies walk this table.
"""

from __future__ import annotations

#: the policy of a new experiment, by default
DEFAULT_POLICY = "rolf-bayes"
DEFAULT_VARYING = "rolf-bayes-varying"

CATALOG: dict[str, str] = {
    "rolf-bayes": "rolf.policies.rolf_bayes:RoLFBayes",
    "rolf-bayes-varying": "rolf.policies.rolf_bayes_varying:RoLFBayesVarying",
    "rolf-lasso": "rolf.policies.rolf_lasso:RoLFLasso",
    "rolf-ridge": "rolf.policies.rolf_ridge:RoLFRidge",
    "rolf-varying": "rolf.policies.rolf_varying:RoLFVarying",
    "linucb": "rolf.policies.rivals.linucb:LinUCB",
    "linucb-varying": "rolf.policies.rivals.linucb_varying:LinUCBVarying",
    "lints": "rolf.policies.rivals.lints:LinTS",
    "oful": "rolf.policies.rivals.oful:OFUL",
    "drlasso": "rolf.policies.rivals.drlasso:DRLasso",
    "ucb": "rolf.policies.rivals.ucb:UCB",
    "ucb1": "rolf.policies.rivals.ucb1:UCB1",
    "kl-ucb": "rolf.policies.rivals.kl_ucb:KLUCB",
    "beta-ts": "rolf.policies.rivals.beta_ts:BetaTS",
}
