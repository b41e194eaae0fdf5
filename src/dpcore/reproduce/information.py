"""What releases tell (Wasserman & Zhou, 2010): distances in the plane, the mean by the exponential mechanism, and laws of one record."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore.blackwell import Experiment
from dpcore.distributions import tuning
from dpcore.distributions._choices import unit_floats
from dpcore.distributions.mean import exponential_mean
from dpcore.inference import mean
from dpcore.reproduce import releases
from dpcore.reproduce.densities import Cube, Linear
from dpcore.reproduce.estimates import Mean, mean_of
from dpcore.reproduce.rate_curves import EPSILON, LINE, Curve, curve, sizes
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

Array = npt.NDArray[np.float64]
PLANE = Cube(LINE, 2)
PARTS = 8
"""Points of each axis of a cell where a histogram in the plane is compared."""


# The plane


def draws_ks_plane(density: Linear, draws: Array) -> float:
    r"""sup \|F − F̂_Z\| of draws (k, 2) in the unit square whose truth has independent coordinates: at all steps and just before them.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.reproduce.densities import Linear
    >>> draws_ks_plane(Linear(0.0), np.array([[0.5, 0.5]]))
    0.75
    """
    axes = [np.append(np.unique(draws[:, axis]), 1.0) for axis in range(2)]
    places = [np.searchsorted(axes[axis], draws[:, axis]) for axis in range(2)]
    shape = len(axes[0]), len(axes[1])
    counts = np.bincount(np.ravel_multi_index(places, shape), minlength=shape[0] * shape[1]).reshape(shape)
    below = np.zeros((shape[0] + 1, shape[1] + 1))
    below[1:, 1:] = counts.cumsum(axis=0).cumsum(axis=1) / len(draws)
    true = np.outer(density.cdf(axes[0]), density.cdf(axes[1]))
    return float(max(np.abs(below[1:, 1:] - true).max(), np.abs(below[:-1, :-1] - true).max()))


def histograms_ks_plane(density: Linear, masses: Array) -> Array:
    r"""sup \|F − F̃\| of histograms in the unit square, shape (..., m): at eight points of each axis of a cell.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.reproduce.densities import Linear
    >>> histograms_ks_plane(Linear(0.0), np.array([[0.25, 0.25, 0.25, 0.25]])).tolist()
    [0.0]
    """
    bins = round(masses.shape[-1] ** 0.5)
    table = np.zeros((*masses.shape[:-1], bins + 1, bins + 1))
    table[..., 1:, 1:] = masses.reshape(*masses.shape[:-1], bins, bins).cumsum(axis=-2).cumsum(axis=-1)
    points = np.arange(bins * PARTS + 1) / (bins * PARTS)
    first = np.minimum((points * bins).astype(np.int64), bins - 1)
    part = points * bins - first
    along = table[..., first, :] * (1 - part)[:, None] + table[..., first + 1, :] * part[:, None]
    both = along[..., first] * (1 - part) + along[..., first + 1] * part
    true = np.outer(density.cdf(points), density.cdf(points))
    return np.asarray(np.abs(both - true).max(axis=(-2, -1)))


def smoothed_plane(setting: Setting) -> Curve:
    """KS distance of the draws of smoothed histograms in the plane, tuned by Theorem 4.2."""

    def errors(n: int) -> Array:
        tuned, stream = tuning.smoothed_histogram_ks(EPSILON, n=n, dimension=2), setting.stream("smoothed ks plane", n)
        bins = round(math.sqrt(tuned.bins or 1))
        codes = releases.smoothed_draws(PLANE, n, tuned, max(12, min(setting.sized(200, 40), 60_000 // (tuned.draws or 1))), stream)
        corners = np.stack([codes // bins, codes % bins], axis=-1)
        places = (corners + unit_floats(corners.shape, rng=stream)) / bins
        return np.array([draws_ks_plane(LINE, each) for each in places])

    return curve(("smoothed histogram, KS, r = 2", "smoothed_histogram", "ks"), sizes(setting, 6), errors, dimension=2)


def perturbed_plane(setting: Setting) -> Curve:
    """KS distance of perturbed histograms in the plane, tuned by Theorem 4.4."""

    def errors(n: int) -> Array:
        bins, stream = tuning.perturbed_histogram_bins(n=n, dimension=2).bins or 1, setting.stream("perturbed ks plane", n)
        masses = releases.perturbed(PLANE, n, bins, EPSILON, setting.sized(100, 40), stream)
        return np.concatenate([histograms_ks_plane(LINE, part) for part in np.array_split(masses, max(1, len(masses) // 10))])

    return curve(("perturbed histogram, KS, r = 2", "perturbed_histogram", "ks"), sizes(setting, 6), errors, dimension=2)


# The mean


def mean_errors(n: int, replicates: int, stream: Stream) -> dict[str, Array]:
    """Squared errors of the mean of n records with the density ½ + x: of the sample, of the exponential mechanism, of Laplace noise."""
    truth = 0.5 + 1 / 12
    found: dict[str, list[float]] = {"the data's mean": [], "exponential mechanism": [], "Laplace noise": []}
    for _ in range(replicates):
        x = LINE.records(n, stream)
        found["the data's mean"].append(float(x.mean()))
        found["exponential mechanism"].append(float(exponential_mean(x, EPSILON, (0, 1), rng=stream).value))
        noisy = mean(x - 0.5, EPSILON, 0.0, 0.5, rng=stream).value
        found["Laplace noise"].append(float(np.asarray(noisy)) + 0.5)
    return {name: (np.array(values) - truth) ** 2 for name, values in found.items()}


def means_of(errors: dict[int, dict[str, Array]], name: str) -> tuple[Mean, ...]:
    """Means of one method at all sizes."""
    return tuple(mean_of(every[name]) for every in errors.values())


# One record among others


def two_laws(epsilon: float, n: int, others: float) -> Experiment:
    """The laws of a private count of n bits, given that one of them is 0 or 1 and each other one is 1 with a probability.

    The count goes through discrete Laplace noise of scale 1/ε, cut to [0, n], which is private for changed bits.
    """
    counts = np.arange(n + 1)
    r = math.exp(-epsilon)
    rows = (1 - r) / (1 + r) * r ** np.abs(counts[:, None] - counts[None, :])
    rows[:, 0], rows[:, n] = r**counts / (1 + r), r ** (n - counts) / (1 + r)
    weights = np.array([math.comb(n - 1, c) * others**c * (1 - others) ** (n - 1 - c) for c in range(n)])
    return Experiment(np.stack([weights @ rows[:-1], weights @ rows[1:]]))
