"""The error of a mechanism as a function of the number of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._html import columns_table
from dpcore._spread import check_confidence
from dpcore._validation import check_choice, check_integer, check_positive, check_real
from dpcore.distributions._boxes import Reals
from dpcore.distributions.distances import Density, Distribution, kl_divergence, ks_distance, squared_l2_distance
from dpcore.errors import ParameterError

Distance = Literal["ks", "l2", "kl"]
NAMES: dict[Distance, str] = {"ks": "Kolmogorov-Smirnov distance", "l2": "Squared L2 distance", "kl": "Kullback-Leibler divergence"}


@dataclass(frozen=True, slots=True, eq=False)
class Consistency:
    """Distances of released distributions from the true one, at several numbers of records.

    Attributes
    ----------
    sizes : tuple of int
        Numbers n of records.
    distances : ndarray of float64, shape (len(sizes), repeats)
        Distances of the repeated releases; a divergence may be inf.
    distance : {"ks", "l2", "kl"}
        Which distance.
    """

    sizes: tuple[int, ...]
    distances: Reals
    distance: Distance = "ks"

    @property
    def mean(self) -> Reals:
        """Mean distance at each size."""
        return np.asarray(self.distances.mean(axis=1))

    @property
    def stderr(self) -> Reals:
        """Standard error of each mean."""
        repeats = self.distances.shape[1]
        return np.asarray(self.distances.std(axis=1, ddof=1) / math.sqrt(repeats)) if repeats > 1 else np.full(len(self.sizes), np.inf)

    def exceeding(self, distance: float) -> Reals:
        """Return the share of the releases at each size that are farther away than a distance.

        Parameters
        ----------
        distance : float
            The distance.

        Returns
        -------
        ndarray of float64, shape (len(sizes),)
            Shares in [0, 1]. If the mechanism is consistent, they go to 0 for every distance > 0.
        """
        return np.asarray((self.distances > distance).mean(axis=1))

    def informative(self, rates: Sequence[float], *, beta: float = 0.1, confidence: float = 0.95) -> Informative:
        """Measure whether the mechanism is ε_n-informative: whether ρ = O_P(ε_n).

        Parameters
        ----------
        rates : sequence of float
            ε_n at each size, positive and finite.
        beta : float, default 0.1
            Share of the releases that may be farther away, in (0, 1).
        confidence : float, default 0.95
            Coverage of the interval at each size, in (0, 1).

        Returns
        -------
        Informative
            The factors M_n with P(ρ > M_n·ε_n) = β, with intervals; they stay bounded if the mechanism is ε_n-informative.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is out of range or of the wrong type.

        Notes
        -----
        ρ = O_P(ε_n) says that for every β there is an M with P(ρ > M·ε_n) ≤ β for all n. The intervals are those of order statistics:
        their ends are the i-th and j-th smallest of the repeated distances, and binomial probabilities say how often the quantile is
        between them. An end that would need more repeats is 0 or inf.
        Cost: one sort a size.

        References
        ----------
        Wasserman & Zhou (2010), Definition 3.1.

        Examples
        --------
        >>> import numpy as np
        >>> falls = Consistency((100, 10_000), np.outer([0.1, 0.01], np.linspace(1, 2, 40)))
        >>> falls.informative([0.1, 0.01]).grows, falls.informative([0.1, 0.001]).grows
        (False, True)
        """
        from scipy import stats

        factors = np.array([check_positive("rates", each) for each in rates])
        if factors.shape != (len(self.sizes),):
            raise ParameterError(f"rates must hold one number for each of {len(self.sizes)} sizes, got {len(factors)}")
        beta = check_real("beta", beta, low=0.0, high=1.0, include_low=False, include_high=False)
        confidence = check_confidence(confidence)
        ordered, repeats = np.sort(self.distances, axis=1) / factors[:, None], self.distances.shape[1]
        padded = np.concatenate([np.zeros((len(ordered), 1)), ordered, np.full((len(ordered), 1), np.inf)], axis=1)
        # with B ~ Bin(repeats, 1 − β) distances at most the quantile q: q < the i-th smallest if B < i, and q > the j-th if B ≥ j
        tail, below = (1 - confidence) / 2, stats.binom(repeats, 1 - beta)
        low = max((i for i in range(repeats + 1) if below.cdf(i - 1) <= tail), default=0)
        high = min(j for j in range(repeats + 2) if below.sf(j - 1) <= tail)
        middle = min(repeats, math.floor((1 - beta) * repeats) + 1)
        return Informative(self.sizes, padded[:, middle], padded[:, [low, high]], beta, confidence)

    def _repr_html_(self) -> str:
        columns = {"records n": list(self.sizes), "mean distance": self.mean.tolist(), "standard error": self.stderr.tolist()}
        return columns_table(NAMES[self.distance], columns)


@dataclass(frozen=True, slots=True, eq=False)
class Informative:
    """How many times ε_n a release is off, at several numbers of records.

    Attributes
    ----------
    sizes : tuple of int
        Numbers n of records.
    factors : ndarray of float64, shape (len(sizes),)
        M_n, the (1 − β)-quantile of ρ/ε_n among the repeated releases.
    intervals : ndarray of float64, shape (len(sizes), 2)
        Intervals of the quantile of ρ/ε_n, each with coverage `confidence`.
    beta, confidence : float
        As asked.
    """

    sizes: tuple[int, ...]
    factors: Reals
    intervals: Reals
    beta: float
    confidence: float

    @property
    def grows(self) -> bool:
        """Whether the factor at the largest size is above that at the smallest, beyond both intervals: then ρ is no O_P(ε_n) so far."""
        first, last = int(np.argmin(self.sizes)), int(np.argmax(self.sizes))
        return bool(self.intervals[last, 0] > self.intervals[first, 1])

    def _repr_html_(self) -> str:
        columns = {
            "records n": list(self.sizes),
            "distance / rate": self.factors.tolist(),
            "from": self.intervals[:, 0].tolist(),
            "to": self.intervals[:, 1].tolist(),
        }
        return columns_table(f"Distances over ε_n: the quantiles that a share {self.beta:g} exceeds", columns)


def consistency(
    mechanism: Callable[[Any], Any],
    draw: Callable[[int], npt.ArrayLike],
    cdf: Distribution | None = None,
    *,
    sizes: Sequence[int],
    repeats: int = 20,
    distance: Distance = "ks",
    density: Density | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Consistency:
    r"""Measure how far releases are from the distribution that their records come from, as the number of records grows.

    Parameters
    ----------
    mechanism : callable
        Takes n records; gives a release, or draws.
    draw : callable
        Takes n; gives n records of the distribution.
    cdf : callable, Release or array_like, optional
        Distribution function F of the records, for the distance "ks".
    sizes : sequence of int
        Numbers n of records, ≥ 1 each.
    repeats : int, default 20
        Number of releases at each n, each from separate records; ≥ 1.
    distance : {"ks", "l2", "kl"}, default "ks"
        Kolmogorov-Smirnov distance, squared L2 distance, or Kullback-Leibler divergence of the release from the truth.
    density : callable or Release, optional
        Density of the records, for "l2" and "kl". The mechanism then gives a release or a density.
    progress : callable, optional
        Called as ``progress(done, total)`` after each release.

    Returns
    -------
    Consistency
        Distances ρ(F, F_Z), their means, and how many exceed a number.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    A mechanism is consistent (Wasserman & Zhou, 2010, Definition 3.1) if ρ(F, F_Z) → 0 in probability, and ε_n-informative if
    ρ(F, F_Z) = O_P(ε_n): see `Consistency.informative`. By Theorem 3.2 no private mechanism
    is consistent at a point mass: its draws hit no point with positive probability unless the point was known before.
    Cost: len(sizes)·repeats calls of the mechanism and of `ks_distance`, `squared_l2_distance` or `kl_divergence`.

    References
    ----------
    Wasserman & Zhou (2010), Definition 3.1 and Theorem 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.distributions import smoothed_histogram
    >>> curve = consistency(
    ...     lambda x: smoothed_histogram(x, 1.0, (0, 1), draws=20, bins=10),
    ...     lambda n: np.full(n, 0.5),
    ...     lambda x: np.where(x >= 0.5, 1.0, 0.0),
    ...     sizes=[100, 10_000],
    ... )
    >>> bool((curve.mean > 0.2).all())
    True
    """
    sizes = tuple(check_integer("sizes", n, low=1) for n in sizes)
    if not sizes:
        raise ParameterError("sizes must hold at least one number of records, got none")
    repeats = check_integer("repeats", repeats, low=1)
    measure = _measure(distance, cdf, density)
    distances = np.empty((len(sizes), repeats))
    for row, n in enumerate(sizes):
        for column in range(repeats):
            distances[row, column] = measure(mechanism(draw(n)))
            if progress is not None:
                progress(row * repeats + column + 1, distances.size)
    return Consistency(sizes, distances, distance)


def _measure(distance: str, cdf: Distribution | None, density: Density | None) -> Callable[[Any], float]:
    """The distance of a release from the truth, as a function of the release."""
    if check_choice("distance", distance, tuple(NAMES)) == "ks":
        if cdf is None or density is not None:
            raise ParameterError('cdf must be given, and density must be None, for the distance "ks"')
        return lambda released: ks_distance(released, cdf)
    if density is None or cdf is not None:
        raise ParameterError(f'density must be given, and cdf must be None, for the distance "{distance}"')
    of = squared_l2_distance if distance == "l2" else kl_divergence
    return lambda released: of(density, released)
