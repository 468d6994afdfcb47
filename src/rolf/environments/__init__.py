"""Problems to play: features, true mean rewards and noise."""

from rolf.environments.base import Family, Problem
from rolf.environments.gym import gymnasium
from rolf.environments.lower_bound import three_arms, two_arms
from rolf.environments.paper import PaperFamily, paper
from rolf.environments.varying import VaryingFamily, VaryingProblem, varying

__all__ = [
    "Family",
    "PaperFamily",
    "Problem",
    "VaryingFamily",
    "VaryingProblem",
    "gymnasium",
    "paper",
    "three_arms",
    "two_arms",
    "varying",
]
