"""The older name of ``rolf.diagnosis``."""

from rolf.diagnosis import *  # noqa: F403
