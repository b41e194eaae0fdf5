"""The error of a mechanism as a function of the number of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._html import columns_table
from dpcore._validation import check_integer
from dpcore.distributions._boxes import Reals
from dpcore.distributions.distances import Distribution, ks_distance
from dpcore.errors import ParameterError


@dataclass(frozen=True, slots=True, eq=False)
class Consistency:
    """Distances of released distributions from the true one, at several numbers of records.

    Attributes
    ----------
    sizes : tuple of int
        Numbers n of records.
    distances : ndarray of float64, shape (len(sizes), repeats)
        KS distances of the repeated releases.
    """

    sizes: tuple[int, ...]
    distances: Reals

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

    def _repr_html_(self) -> str:
        columns = {"records n": list(self.sizes), "mean distance": self.mean.tolist(), "standard error": self.stderr.tolist()}
        return columns_table("Kolmogorov-Smirnov distance", columns)


def consistency(
    mechanism: Callable[[Any], Distribution],
    draw: Callable[[int], npt.ArrayLike],
    cdf: Distribution,
    *,
    sizes: Sequence[int],
    repeats: int = 20,
    progress: Callable[[int, int], object] | None = None,
) -> Consistency:
    r"""Measure how far releases are from the distribution that their records come from, as the number of records grows.

    Parameters
    ----------
    mechanism : callable
        Takes n records; gives a release, or draws.
    draw : callable
        Takes n; gives n records of the distribution.
    cdf : callable, Release or array_like
        Distribution function F of the records.
    sizes : sequence of int
        Numbers n of records, ≥ 1 each.
    repeats : int, default 20
        Number of releases at each n, each from separate records; ≥ 1.
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
    A mechanism is consistent (Wasserman & Zhou, 2010, Definition 3.1) if ρ(F, F_Z) → 0 in probability. By Theorem 3.2 no private mechanism
    is consistent at a point mass: its draws hit no point with positive probability unless the point was known before.
    Cost: len(sizes)·repeats calls of the mechanism and of `ks_distance`.

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
    distances = np.empty((len(sizes), repeats))
    for row, n in enumerate(sizes):
        for column in range(repeats):
            distances[row, column] = ks_distance(mechanism(draw(n)), cdf)
            if progress is not None:
                progress(row * repeats + column + 1, distances.size)
    return Consistency(sizes, distances)
