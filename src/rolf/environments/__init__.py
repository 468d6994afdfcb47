"""Problems to play: features, true mean rewards and noise."""

from rolf.environments.base import Family, Problem
from rolf.environments.gym import gymnasium
from rolf.environments.lower_bound import three_arms, two_arms
from rolf.environments.paper import PaperFamily, paper
from rolf.environments.synthetic import SyntheticFamily, synthetic
from rolf.environments.varying import VaryingFamily, VaryingProblem, varying

__all__ = [
    "Family",
    "PaperFamily",
    "Problem",
    "SyntheticFamily",
    "VaryingFamily",
    "VaryingProblem",
    "gymnasium",
    "paper",
    "synthetic",
    "three_arms",
    "two_arms",
    "varying",
]
