"""A density at a point whose smoothness is not known: Lepski's method; docs/adaptive-estimators.md has the proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._html import columns_table
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_positive, check_real
from dpcore.errors import ParameterError
from dpcore.local import Aggregate
from dpcore.local._mechanism import open_stream
from dpcore.local._parameters import check_epsilon
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.adaptive.location import check_no_nan
from dpcore.minimax.linear import weights
from dpcore.minimax.linear.estimator import LinearEstimator
from dpcore.minimax.linear.ready_made import SMOOTHEST, hoelder_slope
from dpcore.privacy import LocallyGuaranteed, Privacy

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import Stream

MOST_BANDWIDTHS = 64
_UP = 1 + 2.0**-40
"""Outweighs the roundings of a bound, some twenty of 2^-53."""


@dataclass(frozen=True)
class AdaptiveDensity(LocallyGuaranteed):
    r"""Estimate a density, or a derivative, at a point by Lepski's method: the reports are split over bandwidths and choose one.

    Parameters
    ----------
    x0 : float
        The point.
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    n : int
        Number of reports, in [J, 2^40].
    bandwidths : sequence of float
        J ≥ 1 bandwidths h, distinct and in [2^−100, 2^100], at most 64. Choose them by what you know about the subject, never from the
        data.
    smoothest : float, default 2.0
        Largest smoothness β that the kernel uses, in (m, 16].
    m : int, default 0
        Order of the derivative.
    beta : float, default 0.05
        Probability, in (0, 1), with which the bounds below may fail.

    Attributes
    ----------
    bandwidths : tuple of float
        In descending order.
    estimators : tuple of LinearEstimator
        Those of the groups, in the order of the bandwidths.
    sizes : tuple of int
        Reports of each group.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: each record makes one report, for one bandwidth, and it is ε-DP.

    The reports are cut into J groups, one for each h, whose mean θ̂_h is that of `density_at`. By Hoeffding's inequality all θ̂_h are
    within e_h of their expectations, except with probability beta. From the smallest h on, the intervals θ̂_h ± 2e_h are intersected as
    long as they have a point in common; the estimate is the middle of the last intersection. Let B_h be the largest bias among the
    bandwidths up to h. Then, for every density, except with probability beta,

        \|estimate − θ\| ≤ `oracle_factor`·min over h of (B_h + e_h).

    The factor is 4 times the largest ratio of the e of neighbouring bandwidths: 8 for halvings and m = 0. So the estimate is as good, up to
    this factor and the price of splitting, √J and √ln J in e_h, as the best bandwidth, which depends on the unknown density. This is an
    oracle inequality with a probability, not a bound of the mean square. `error_bound` says what it gives for a Hölder class. No interval
    adapts to the smoothness as the estimate does, so there is none.
    Cost: 5 ns a record.
    Source: Lepski (1991); Goldenshluger & Nemirovski (1997), for intersections of intervals; Steinberger (2019), Beispiel 3.8.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import AdaptiveDensity
    >>> density = AdaptiveDensity(0.0, 2.0, n=400_000, bandwidths=[1.6, 0.8, 0.4, 0.2])
    >>> found = density.estimate(density.privatize(np.random.default_rng(1).normal(0.0, 1.0, 400_000)))
    >>> bool(abs(found.value - 0.3989) < 0.06), found.bandwidth in density.bandwidths
    (True, True)
    """

    x0: float
    epsilon: float
    n: int = field(kw_only=True)
    bandwidths: Sequence[float] = field(kw_only=True)
    smoothest: float = field(default=2.0, kw_only=True)
    m: int = field(default=0, kw_only=True)
    beta: float = field(default=0.05, kw_only=True)
    estimators: tuple[LinearEstimator, ...] = field(init=False, repr=False, compare=False)
    sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        x0 = check_real("x0", self.x0, low=-(2.0**512), high=2.0**512)
        epsilon, bandwidths = check_epsilon(self.epsilon), _bandwidths(self.bandwidths)
        smoothest = check_real("smoothest", self.smoothest, low=0.0, high=SMOOTHEST, include_low=False)
        m = check_integer("m", self.m, low=0, high=math.ceil(smoothest) - 1)
        n = check_integer("n", self.n, low=len(bandwidths), high=MOST_REPORTS)
        beta = check_real("beta", self.beta, low=0.0, high=1.0, include_low=False, include_high=False)
        kernel = weights.kernel(smoothest, m)
        windows = [weights.Window(kernel, x0, h) for h in bandwidths]
        settled = {
            "x0": x0,
            "epsilon": epsilon,
            "n": n,
            "bandwidths": bandwidths,
            "smoothest": smoothest,
            "m": m,
            "beta": beta,
            "estimators": tuple(LinearEstimator(w, epsilon, bound=w.norm, center=w.middle, h=w.h) for w in windows),
            "sizes": tuple((n + place) // len(bandwidths) for place in range(len(bandwidths))),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def deviations(self) -> tuple[float, ...]:
        """e_h = z0·√(2 ln(2J/beta)/⌊n/J⌋): all estimates are within it of their expectations, except with probability `beta`."""
        logarithm = 2 * math.log(2 * len(self.sizes) / self.beta)
        return tuple(each.channel.z0 * math.sqrt(logarithm / self.sizes[0]) * _UP for each in self.estimators)

    @property
    def privacy(self) -> Privacy:
        """Guarantee of each record: (ε, 0)."""
        return Privacy(self.epsilon)

    @property
    def oracle_factor(self) -> float:
        """4 times the largest ratio of the deviations of neighbouring bandwidths, at least 4."""
        e = self.deviations
        return 4 * max([1.0, *(smaller / larger for larger, smaller in pairwise(e))]) * _UP

    def error_bound(self, *, smoothness: float, C: float) -> float:
        r"""Bound the error for every density of a Hölder class, except with probability `beta`.

        Parameters
        ----------
        smoothness : float
            β of the class, in (m, smoothest].
        C : float
            Hölder constant, positive.

        Returns
        -------
        float
            With the bound B_h = c·h^(β − m) of the bias, as in `density_at`: B_h + 3e_h for the largest h with B_h ≤ e_h; for the smallest
            h if there is none.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.
        """
        smoothness = check_real("smoothness", smoothness, low=float(self.m), high=self.smoothest, include_low=False)
        slope = hoelder_slope(weights.kernel(self.smoothest, self.m), smoothness, self.m, check_positive("C", C))
        return self.bound_for([slope * h ** (smoothness - self.m) * _UP for h in self.bandwidths])

    def bound_for(self, biases: Sequence[float]) -> float:
        """Bound the error for a density with these biases, except with probability `beta`.

        Parameters
        ----------
        biases : sequence of float, shape (J,)
            Bounds of the bias of each bandwidth, in their order. A bound counts as at least those of smaller bandwidths.

        Returns
        -------
        float
            B_h + 3e_h for the largest h with B_h ≤ e_h; for the smallest h if there is none.

        Raises
        ------
        ParameterError, ParameterTypeError
            If they are not J numbers of at least 0.
        """
        given = check_array("biases", biases, REAL_DTYPES).astype(np.float64)
        if given.shape != (len(self.sizes),) or not (given >= 0).all():
            raise ParameterError(f"biases must be {len(self.sizes)} numbers of at least 0, got shape {given.shape}")
        rising = np.maximum.accumulate(given[::-1]).tolist()  # from the smallest h on
        deviations = self.deviations[::-1]
        fit = sum(bias <= deviation for bias, deviation in zip(rising, deviations, strict=True))
        place = max(fit - 1, 0)
        return float(rising[place] + 3 * deviations[place]) * _UP

    def privatize(self, records: Any, *, rng: Stream | None = None, threads: int | None = None) -> npt.NDArray[np.bool_]:
        """Report one bit about each record.

        Parameters
        ----------
        records : array_like of float, shape (n,)
            Their order decides which bandwidth asks them, the first group the largest; it must not depend on their values.
        rng : Stream, optional
            None is the secure source.
        threads : int, optional
            Number of threads.

        Returns
        -------
        ndarray of bool, shape (n,)
            The reports, in the order of the records.

        Raises
        ------
        ParameterError, ParameterTypeError
            If there are not n records.
        DataError
            If a record is NaN.
        """
        values = check_array("records", records, REAL_DTYPES)
        if values.shape != (self.n,):
            raise ParameterError(f"records must be a vector of n = {self.n}, got shape {values.shape}")
        check_no_nan(values)
        stream = open_stream(rng, threads)
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        return np.concatenate(
            [each.privatize(part, rng=stream, threads=threads) for each, part in zip(self.estimators, parts, strict=True)]
        )

    def estimate(self, reports: Any) -> AdaptiveDensityEstimate:
        """Estimate from all reports.

        Parameters
        ----------
        reports : array_like of bool, shape (n,), or sequence of J Aggregates
            What `privatize` made, in order; or what the channels of `estimators` counted, in the order of the bandwidths.

        Returns
        -------
        AdaptiveDensityEstimate
            The estimate, and the bandwidth that was chosen.

        Raises
        ------
        ParameterError, ParameterTypeError
            If they are not n bools, or counts of other channels or sizes.
        """
        counted = self._counted(reports)
        found = [float(each.estimate(aggregate).value) for each, aggregate in zip(self.estimators, counted, strict=True)]
        low, high, chosen = -math.inf, math.inf, len(found) - 1
        for place in range(len(found) - 1, -1, -1):
            reach = 2 * self.deviations[place]
            within = max(low, found[place] - reach), min(high, found[place] + reach)
            if within[0] > within[1]:
                break
            (low, high), chosen = within, place
        return AdaptiveDensityEstimate(low + (high - low) / 2, self.bandwidths[chosen], tuple(found), self)

    def _counted(self, reports: Any) -> list[Aggregate]:
        if isinstance(reports, list | tuple) and reports and all(isinstance(each, Aggregate) for each in reports):
            sizes = tuple(aggregate.n for aggregate in reports)
            if sizes != self.sizes:
                raise ParameterError(f"reports must be counts of {list(self.sizes)} reports, got {list(sizes)}")
            return list(reports)
        bits = check_array("reports", reports, ("bool",))
        if bits.shape != (self.n,):
            raise ParameterError(f"reports must be a vector of n = {self.n}, got shape {bits.shape}")
        parts = np.split(bits, np.cumsum(self.sizes)[:-1])
        return [each.channel.aggregate(part) for each, part in zip(self.estimators, parts, strict=True)]


def _bandwidths(given: object) -> tuple[float, ...]:
    values = check_array("bandwidths", given, REAL_DTYPES).reshape(-1).tolist()
    if not 1 <= len(values) <= MOST_BANDWIDTHS or len(set(values)) != len(values):
        raise ParameterError(f"bandwidths must be between 1 and {MOST_BANDWIDTHS} distinct numbers, got {len(values)}")
    return tuple(sorted((check_real("bandwidths", h, low=2.0**-100, high=2.0**100) for h in values), reverse=True))


@dataclass(frozen=True, eq=False)
class AdaptiveDensityEstimate(LocallyGuaranteed):
    """A density at a point, whose bandwidth was chosen by the reports.

    Attributes
    ----------
    value : float
        The estimate, not cut to possible values.
    bandwidth : float
        The largest h whose interval still has a point in common with those of all smaller ones.
    candidates : tuple of float
        The estimates of all bandwidths, in descending order of h.
    estimator : AdaptiveDensity
        The estimator.
    """

    value: float
    bandwidth: float
    candidates: tuple[float, ...]
    estimator: AdaptiveDensity = field(repr=False)

    @property
    def privacy(self) -> Privacy:
        """Guarantee of each report: (ε, 0)."""
        return self.estimator.privacy

    def _repr_html_(self) -> str:
        columns: dict[str, list[Any]] = {
            "bandwidth": list(self.estimator.bandwidths),
            "estimate": list(self.candidates),
            "deviation": list(self.estimator.deviations),
            "chosen": ["yes" if h == self.bandwidth else "" for h in self.estimator.bandwidths],
        }
        return columns_table(f"Density at {self.estimator.x0:g}: {self.value:.6g}, from {self.estimator.n:,} reports", columns)
