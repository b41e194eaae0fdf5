"""Exact probabilities of the noise laws, and the tests of fit that statistical tests share.

Error rate: a right sampler fails one test with probability below `ERROR_RATE`; the draws are keyed, so a run repeats its result.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from support.kernels import Array, Law

ERROR_RATE = 1e-6
MIN_EXPECTED = 20.0
"""Bins are merged up to this many expected counts: the χ² approximation is then good far beyond the error rate's quantile."""


def laplace_upper(t: Array) -> Array:
    """P(W ≥ t) of the unit Laplace law, to full relative precision in the upper tail."""
    return np.where(t >= 0, 0.5 * np.exp(-np.abs(t)), 1.0 - 0.5 * np.exp(-np.abs(t)))


def gaussian_upper(t: Array) -> Array:
    """P(N ≥ t) of the standard normal law, to full relative precision in the upper tail."""
    return special.ndtr(-t)  # type: ignore[no-any-return]


def interval_masses(edges: Array, kind: str) -> Array:
    """Masses between consecutive edges, each from the tail where nothing cancels."""
    upper = laplace_upper if kind == "laplace" else gaussian_upper
    right, left = upper(edges[:-1]) - upper(edges[1:]), upper(-edges[1:]) - upper(-edges[:-1])
    return np.where(edges[:-1] >= 0, right, left)


def steps_law(law: Law, x: float, reach: int) -> Array:
    """P(R(x + scale·W) = k·grid) for k = −reach … reach, where everything beyond counts to the ends."""
    assert law.grid is not None
    middle = np.arange(-reach, reach) + 0.5
    edges = np.concatenate([[-np.inf], (middle * law.grid - x) / law.scale, [np.inf]])
    return interval_masses(edges, law.kind)


def integers_law(law: Law, reach: int) -> Array:
    """P(Z = z) for z = −reach … reach of a discrete law; what lies beyond is below the smallest expected count."""
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    if law.kind == "discrete_laplace":
        r = np.exp(-1.0 / law.scale)
        return (1 - r) / (1 + r) * r ** np.abs(z)  # type: ignore[no-any-return]
    weights = np.exp(-z * z / (2 * law.scale**2))
    return weights / weights.sum()


def count(samples: Array, reach: int) -> Array:
    """How often each integer from −reach to reach occurs; what lies beyond counts to the ends."""
    clipped = np.clip(samples, -reach, reach).astype(np.int64)
    return np.bincount(clipped + reach, minlength=2 * reach + 1)


def p_value(counts: Array, probabilities: Array) -> float:
    """χ² test of fit; neighbouring bins are merged from the left until each expects `MIN_EXPECTED`, the last bin takes the rest."""
    expected = probabilities * counts.sum()
    observed_bins, expected_bins, o, e = [], [], 0.0, 0.0
    for seen, wanted in zip(counts.tolist(), expected.tolist(), strict=True):
        o, e = o + seen, e + wanted
        if e >= MIN_EXPECTED:
            observed_bins.append(o)
            expected_bins.append(e)
            o = e = 0.0
    observed_bins[-1] += o
    expected_bins[-1] += e
    o_array, e_array = np.array(observed_bins), np.array(expected_bins)
    statistic = float(((o_array - e_array) ** 2 / e_array).sum())
    return float(stats.chi2.sf(statistic, len(o_array) - 1))


def binomial_p_value(successes: int, n: int, p: float) -> float:
    """Two-sided exact test of one proportion: twice the smaller tail."""
    below, above = stats.binom.cdf(successes, n, p), stats.binom.sf(successes - 1, n, p)
    return float(min(1.0, 2 * min(below, above)))


def mean_p_value(samples: Array, mean: float, variance: float) -> float:
    """Two-sided test of a mean at known variance, by the normal limit; n ≥ 10^6 keeps its error far below the rate."""
    z = (float(np.mean(samples)) - mean) / np.sqrt(variance / len(samples))
    return float(2 * stats.norm.sf(abs(z)))
