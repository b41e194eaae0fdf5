"""Errors of releases over many simulated data sets, with the releases' own functions and without drawing records one by one."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore.distributions._choices import unit_floats
from dpcore.distributions._cosine_distances import largest_square
from dpcore.distributions.distances import ks_distance, squared_l2_distance
from dpcore.distributions.perturbed import perturbed_masses
from dpcore.distributions.series import orthogonal_series, series_scale
from dpcore.distributions.smoothed import smoothed_codes
from dpcore.distributions.tuning import Tuning
from dpcore.minimax import draw_counts
from dpcore.reproduce.densities import Cosines, Density, Law, Linear
from dpcore.rng import Stream

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
KOLMOGOROV = math.sqrt(math.pi / 2) * math.log(2)
"""Mean of the largest size of a Brownian bridge: √n times the expected KS distance of n records from their distribution."""


def cell_counts(law: Law, m: int, n: int, replicates: int, rng: Stream) -> Counts:
    """Return the counts of n records in m cells, for many data sets: multinomial, shape (replicates, m)."""
    if m == 1:
        return np.full((replicates, 1), n, np.int64)
    return draw_counts(law.masses(m), n=n, replicates=replicates, rng=rng)


# Smoothed histograms


def smoothed_draws(law: Law, n: int, tuning: Tuning, replicates: int, rng: Stream) -> Counts:
    """Cells of the k draws of `smoothed_histogram`, one data set of n records a row."""
    m, k, smoothing = tuning.bins or 1, tuning.draws or 1, tuning.smoothing or 1.0
    return np.stack([smoothed_codes(row, k, smoothing, rng=rng) for row in cell_counts(law, m, n, replicates, rng)])


def draws_l2(law: Law, codes: Counts, m: int) -> Array:
    """∫ (p − f̂_Z)² of the histogram of each row of draws."""
    masses = np.stack([np.bincount(row, minlength=m) for row in codes]) / codes.shape[1]
    return law.squared_error(masses)


def draws_ks(density: Density, codes: Counts, m: int, rng: Stream) -> Array:
    r"""sup \|F − F̂_Z\| of each row of draws, which are uniform in their cells."""
    return np.array([ks_distance(row, density.cdf) for row in (codes + unit_floats(codes.shape, rng=rng)) / m])


def smoothed_l2_risk(law: Law, n: int, tuning: Tuning) -> float:
    """Expected squared L2 error of a smoothed histogram's draws, exactly.

    Notes
    -----
    A share Q_j = (1 − δ)C_j/n + δ/m has variance v_j = (1 − δ)²p_j(1 − p_j)/n, and of k draws from it the share of cell j has
    variance v_j + (E Q_j(1 − E Q_j) − v_j)/k.
    """
    m, k, delta = tuning.bins or 1, tuning.draws or 1, tuning.smoothing or 1.0
    p = law.masses(m)
    mean, spread = (1 - delta) * p + delta / m, (1 - delta) ** 2 * p * (1 - p) / n
    variance = spread + (mean * (1 - mean) - spread) / k
    return law.bias(m) + m * float(np.sum((mean - p) ** 2 + variance))


# Perturbed histograms


def perturbed(law: Law, n: int, m: int, epsilon: float, replicates: int, rng: Stream) -> Array:
    """Cell probabilities of `perturbed_histogram`, one data set of n records a row."""
    return perturbed_masses(cell_counts(law, m, n, replicates, rng), epsilon, rng=rng)[1]


def perturbed_l2_risk(law: Law, n: int, m: int, epsilon: float) -> float:
    """Expected squared L2 error of a perturbed histogram where counts are so large that none becomes 0.

    Notes
    -----
    The noise ν of variance v = 8/ε² moves the share of cell j by (ν_j − p_j Σ ν)/n, up to terms of smaller order.
    """
    p = law.masses(m)
    noise = 8 / (epsilon * n) ** 2 * (m - 2 + m * float(np.sum(p**2)))
    return law.histogram_risk(m, n) + m * noise


def histogram_ks(density: Linear, masses: Array) -> Array:
    r"""sup \|F − F̃\| of the distribution functions of histograms, shape (..., m): at ends of cells, or where both densities are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.reproduce.densities import Linear
    >>> histogram_ks(Linear(2.0), np.array([[1.0], [1.0]])).tolist()
    [0.25, 0.25]
    """
    m = masses.shape[-1]
    left = np.arange(m) / m
    below = np.cumsum(masses, axis=-1) - masses
    largest = np.abs(density.cdf(left) - below).max(axis=-1)
    if density.slope:
        # p(x) = m·mass
        crossing = np.clip((m * masses - 1) / density.slope + 0.5, left, left + 1 / m)
        there = np.abs(density.cdf(crossing) - below - m * masses * (crossing - left))
        largest = np.maximum(largest, there.max(axis=-1))
    return np.asarray(largest)


# Orthogonal series


def series_errors(density: Cosines, n: int, terms: int, epsilon: float, replicates: int, rng: Stream) -> Array:
    """∫ (p − q̂)² of `orthogonal_series` of n records, for many data sets."""
    released = (orthogonal_series(density.records(n, rng), epsilon, (0, 1), terms=terms, rng=rng) for _ in range(replicates))
    return np.array([squared_l2_distance(each, density.pdf) for each in released])


def series_risk(density: Cosines, n: int, terms: int, epsilon: float) -> float:
    """Expected squared L2 error of an orthogonal series where the density has no negative part."""
    return density.series_risk(terms, n, 2 * (series_scale(epsilon, terms) / n) ** 2)


def series_draws_risk(density: Cosines, n: int, tuning: Tuning, epsilon: float) -> float:
    """Expected squared L2 error of `l2_exponential` for many records: bias, variance of the data's coefficients, and what the draws add.

    Notes
    -----
    The draws' mean is off by v, of density ∝ e^(−a√(‖v‖² + c₀)) in d dimensions where it varies much less than the mean of k draws of
    any law, a = εn/(2D). c₀ is the expected square of the data's coefficients beyond the d of the draws.
    """
    m, d, beta = tuning.terms or 1, tuning.draw_terms or 1, density.coefficients
    a = epsilon * n / (2 * math.sqrt(largest_square(m)) * _backend.COSINE_GRID)
    further = np.arange(d, m)
    beyond = float(np.sum(beta[further] ** 2 + (1 + beta[2 * further + 1] / math.sqrt(2) - beta[further] ** 2) / n))
    reach = 60 / a + 30 * math.sqrt(math.sqrt(beyond) / a)
    radius = (np.arange(20_000) + 0.5) * (reach / 20_000)
    weights = np.exp(-a * (np.sqrt(radius**2 + beyond) - math.sqrt(beyond))) * radius ** (d - 1)
    return density.series_risk(d, n, float(np.sum(weights * radius**2) / np.sum(weights)) / d)
