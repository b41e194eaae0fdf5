"""Probabilities that a report supports a category, and the variance that follows from them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Support(NamedTuple):
    """Probabilities that a report supports a category. They turn counts into frequencies.

    Attributes
    ----------
    p : float
        Probability that a report supports the true category.
    q : float
        Probability that it supports another, fixed one; q < p.
    miss : float
        1 − p, to full relative precision where p is close to 1.
    """

    p: float
    q: float
    miss: float


def support_variance(f: Any, support: Support, target: str = "population") -> Any:
    """Variance of one user's contribution to the estimate of a frequency f.

    [f·p(1−p) + (1−f)·q(1−q)]/(p−q)² for the sample's frequency, plus f(1−f) for the population's.
    """
    p, q, miss = support
    within = (f * p * miss + (1 - f) * q * (1 - q)) / (p - q) ** 2
    return within + f * (1 - f) if target == "population" else within
