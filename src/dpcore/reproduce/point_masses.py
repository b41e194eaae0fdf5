"""Distances of releases from a point mass (Wasserman & Zhou, 2010, Theorem 3.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpcore.distributions._choices import unit_floats
from dpcore.distributions._results import DrawsRelease
from dpcore.distributions.distances import ks_distance
from dpcore.distributions.ks import ks_exponential
from dpcore.distributions.perturbed import perturbed_histogram
from dpcore.distributions.smoothed import smoothed_histogram
from dpcore.distributions.tuning import ks_exponential_draws, perturbed_histogram_bins, smoothed_histogram_ks
from dpcore.reproduce.rate_curves import EPSILON
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

Array = npt.NDArray[np.float64]
# of each release, for each number of records: sup |F − F̂| in many runs
Distances = dict[str, dict[int, Array]]


def distances(setting: Setting) -> Distances:
    """Return distances of releases of n equal records, whose value is uniform in [0, 1]."""
    sizes = setting.sized((100, 316, 1000, 3162, 10_000), (100, 1000))
    # A band around a point mass is wide: the exponential mechanism takes a second where n = 10^4.
    plans: dict[str, tuple[Callable[[int, float, Stream], float], int, int]] = {
        "smoothed histogram": (_smoothed, setting.sized(100, 30), sizes[-1]),
        "perturbed histogram": (_perturbed, setting.sized(100, 30), sizes[-1]),
        "exponential mechanism": (_exponential, setting.sized(30, 10), 1000),
    }
    return {
        name: {n: _runs(distance, n, runs, setting.stream("point mass", name, n)) for n in sizes if n <= last}
        for name, (distance, runs, last) in plans.items()
    }


def _runs(distance: Callable[[int, float, Stream], float], n: int, runs: int, stream: Stream) -> Array:
    return np.array([distance(n, point, stream) for point in unit_floats((runs,), rng=stream).tolist()])


def _perturbed(n: int, point: float, stream: Stream) -> float:
    bins = perturbed_histogram_bins(n=n).bins or 1
    below = float(perturbed_histogram(np.full(n, point), EPSILON, (0, 1), bins=bins, rng=stream).cdf(point))
    return max(below, 1 - below)


def _smoothed(n: int, point: float, stream: Stream) -> float:
    tuned = smoothed_histogram_ks(EPSILON, n=n)
    records, draws, bins = np.full(n, point), tuned.draws or 1, tuned.bins or 1
    return _from_point(smoothed_histogram(records, EPSILON, (0, 1), draws=draws, bins=bins, rng=stream), point)


def _exponential(n: int, point: float, stream: Stream) -> float:
    tuned = ks_exponential_draws(EPSILON, n=n)
    records, draws, bins = np.full(n, point), tuned.draws or 1, tuned.bins or 1
    return _from_point(ks_exponential(records, EPSILON, (0, 1), draws=draws, bins=bins, rng=stream), point)


def _from_point(draws: DrawsRelease, point: float) -> float:
    return ks_distance(draws, lambda x: x >= point)
