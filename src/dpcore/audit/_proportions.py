"""Exact bounds of a probability from counts."""

from __future__ import annotations

from scipy import special

SLACK = 1e-6
"""Relative and outwards. SciPy's quantiles of the beta distribution differ from exact sums by up to 10^-8 for n up to 5·10^7."""


def least_probability(hits: int, n: int, rate: float) -> float:
    """Return the lower Clopper-Pearson bound: it exceeds the probability of a hit with probability at most `rate`."""
    return 0.0 if hits == 0 else float(special.betaincinv(hits, n - hits + 1, rate)) * (1 - SLACK)


def greatest_probability(hits: int, n: int, rate: float) -> float:
    """Return the upper Clopper-Pearson bound: it is below the probability of a hit with probability at most `rate`."""
    return 1.0 if hits == n else min(1.0, float(special.betainccinv(hits + 1, n - hits, rate)) * (1 + SLACK))
