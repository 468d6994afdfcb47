"""The paper's experiments and what was measured beyond them: data, figures and one page."""
