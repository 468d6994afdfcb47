"""Problems to play: features, true mean rewards and noise."""

from rolf.environments.lower_bounds import three_arms, two_arms
from rolf.environments.paper_problems import PaperFamily, paper
from rolf.environments.problem import Family, Problem
from rolf.environments.synthetic_problems import SyntheticFamily, synthetic
from rolf.environments.varying_problems import VaryingFamily, VaryingProblem, varying

__all__ = [
    "Family",
    "PaperFamily",
    "Problem",
    "SyntheticFamily",
    "VaryingFamily",
    "VaryingProblem",
    "paper",
    "synthetic",
    "three_arms",
    "two_arms",
    "varying",
]
