"""The paper's experiments and what was measured beyond them: data, figures and one page."""

from rolf.report.run import reproduce

__all__ = ["reproduce"]
