"""Problems to play: features, true mean rewards and noise."""

from rolf.environments.base import Family, Problem
from rolf.environments.paper import PaperFamily, paper

__all__ = ["Family", "PaperFamily", "Problem", "paper"]
